"""What preempt and reclaim have in common: claimants in the one order, victims, nominations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from fairway.api.arguments import EvictionArguments
from fairway.clock import SECOND
from fairway.resources.columns import BoolColumn
from fairway.scheduler.admission import admission
from fairway.scheduler.books import UNLIMITED
from fairway.scheduler.candidates import in_line, is_for_backfill
from fairway.scheduler.jobrun import JobRun, TaskRun, grouped
from fairway.scheduler.missing import missing_tasks
from fairway.scheduler.order import Order
from fairway.scheduler.plan import Eviction
from fairway.scheduler.resuming import resume
from fairway.scheduler.session import Session
from fairway.scheduler.verdict import Reason, Verdict
from fairway.scheduler.victims.budgets import DisruptionBudgets
from fairway.scheduler.victims.choice import Hunt, Rooms
from fairway.scheduler.victims.entitlement import Entitlement
from fairway.scheduler.victims.index import VictimIndex, victim_index
from fairway.scheduler.victims.scratch import Scratch
from fairway.scheduler.victims.units import Taken, Unit
from fairway.state.queues import Amounts, add
from fairway.state.tasks import Task
from fairway.state.waiting import Line

EntitlementFor = Callable[[JobRun, Amounts], Entitlement | None]
"""The claimant's entitlement, None if it may not act at all."""


def evict_for_claimants(session: Session, arguments: EvictionArguments, entitlement: EntitlementFor) -> None:
    """Let every waiting job, in order, make the room that it is entitled to."""
    session.divide()
    resume(session)
    hunters = _Evictor(session, arguments, entitlement)
    order = Order(session, list(_claimants(session, arguments)))
    while order:
        job = order.top()
        line, place = job.line, job.place
        if not hunters.evict_for(job):
            order.replace_top()
            continue
        following = None if line is None else _first(session, line, place + 1)
        order.replace_top(*([] if following is None else [following]))


def _claimants(session: Session, arguments: EvictionArguments) -> Iterator[JobRun]:
    """Jobs that still wait, one of each line, and may evict."""
    delay = arguments.preemption_delay * SECOND
    for job in _waiting(session):
        since = job.job.waits_since
        if not job.waiting or not all(task.traits.preempts for task in job.waiting):
            continue
        if since is not None and session.now - since < delay:
            session.rechecks.append(since + delay)
        elif admission(session, job).ok:
            yield job


def _waiting(session: Session) -> Iterator[JobRun]:
    for signature in session.state.waiting.signatures():
        for line in signature.lines.values():
            job = None if is_for_backfill(line) else _first(session, line, 0)
            if job is not None:
                yield job
    yield from (job for job in session.outcomes.jobs if job.left() and not session.holds.of(job))


def _first(session: Session, line: Line, place: int) -> JobRun | None:
    """The first of a line that was not placed in this cycle, and does not stand for itself."""
    bound, single = session.bound_jobs(), {job.job for job in session.outcomes.jobs}
    while True:
        job = in_line(session, line, place)
        if job is None or (job.job not in bound and job.job not in single):
            return job
        place = job.place + 1


class _Evictor:
    """Makes room for one claimant after the other."""

    def __init__(self, session: Session, arguments: EvictionArguments, entitlement: EntitlementFor) -> None:
        self._session = session
        self._arguments = arguments
        self._entitlement = entitlement
        self._budgets = DisruptionBudgets(session.state)
        self._index: VictimIndex | None = None

    def evict_for(self, job: JobRun) -> bool:
        """Evict for a job and nominate it; False if that is not possible or not allowed."""
        tasks = _missing(self._session, job)
        if not tasks:
            return False
        gang = [0] * len(job.queue.held)
        for task in tasks:
            add(gang, task.shape.vector)
        entitlement = self._entitlement(job, gang)
        if entitlement is None:
            return False
        eligible = self._eligible(job, entitlement)
        if eligible is None:
            return False
        return self._hunt(job, tasks, gang, eligible, entitlement)

    def _eligible(self, job: JobRun, entitlement: Entitlement) -> BoolColumn | None:
        """Units that protections leave and the claimant may be entitled to; None if there are none."""
        if self._index is None:
            self._index = victim_index(self._session.state)
        index = self._index
        eligible = entitlement.candidates(index).copy()
        count = len(eligible)
        ours = {"preempt": "preemptable", "reclaim": "reclaimable"}[entitlement.action]
        if any(getattr(plugin, "name", "") == "conformance" for plugin in self._session.protectors(ours)):
            eligible &= ~index.system[:count]
        if self._arguments.min_runtime:
            eligible &= index.started[:count] <= self._session.now - self._arguments.min_runtime * SECOND
        for number in np.flatnonzero(eligible) if self._session.evicted else ():
            unit = index.units[number]
            if unit is None or any(task in self._session.evicted for task in unit.tasks):
                eligible[number] = False
        self._ask_strangers(job, ours, eligible, index)
        return eligible if eligible.any() else None

    def _ask_strangers(self, job: JobRun, hook: str, eligible: BoolColumn, index: VictimIndex) -> None:
        for protects in self._session.strangers(hook):
            numbers = [int(number) for number in np.flatnonzero(eligible)]
            tasks = [task for number in numbers for task in _tasks(index, number)]
            allowed = set(protects(job, tasks))
            for number in numbers:
                eligible[number] = all(task in allowed for task in _tasks(index, number))

    def _hunt(
        self, job: JobRun, tasks: list[Task], gang: Amounts, eligible: BoolColumn, entitlement: Entitlement
    ) -> bool:
        session = self._session
        assert self._index is not None
        taken, scratch = Taken(), Scratch(session)
        hunt = Hunt(session, self._index, eligible, entitlement, self._budgets, taken, scratch)
        found = self._make_room(job, tasks, gang, hunt, taken, scratch)
        most = self._arguments.max_evictions_per_cycle
        if found is not None and most is not None and len(session.evictions) + taken.pods > most:
            detail = f"needs {taken.pods} evictions, {most - len(session.evictions)} are left in this cycle"
            session.say(job, Verdict(False, Reason.PREEMPTION_LIMITED, detail=detail))
            found = None
        if found is None or not taken.units:
            for unit in taken.units:
                self._budgets.spend(unit.tasks, -1)
            scratch.give_up()
            return False
        self._commit(job, taken, found, entitlement, scratch)
        return True

    def _make_room(
        self, job: JobRun, tasks: list[Task], gang: Amounts, hunt: Hunt, taken: Taken, scratch: Scratch
    ) -> list[tuple[Task, int]] | None:
        """Rows for all tasks, with the fewest units gone; None if there is no way."""
        missing = self._over_limits(job, gang, taken)
        if missing and not hunt.free(missing):
            return None
        for run in _by_shape(tasks):
            if not hunt.make_room(run.shape, len(run.tasks)):
                return None
        still_fits = self._fit_test(tasks)
        for unit in reversed(taken.units.copy()):
            scratch.restore(unit)
            taken.add(unit, -1)
            if not self._over_limits(job, gang, taken) and still_fits(unit):
                self._budgets.spend(unit.tasks, -1)
            else:
                scratch.evict(unit)
                taken.add(unit)
                still_fits(unit)
        taken.units.sort(key=lambda unit: unit.order)
        return self._place(tasks)

    def _fit_test(self, tasks: list[Task]) -> Callable[[Unit], bool]:
        """Whether the gang places after a unit came or went. Of like tasks it is enough to count the room."""
        runs = _by_shape(tasks)
        if len(runs) > 1 or self._session.kernel.column(runs[0].shape).around:
            return lambda _: self._place(tasks) is not None
        rooms = Rooms(self._session, runs[0].shape)

        def counted(unit: Unit) -> bool:
            for row in {task.node for task in unit.tasks}:
                rooms.update(row)
            return rooms.total >= len(tasks)

        return counted

    def _over_limits(self, job: JobRun, gang: Amounts, taken: Taken) -> dict[int, int]:
        """What the claimant's queues would hold above their limits, with what is taken off."""
        over: dict[int, int] = {}
        for book in job.queue.line:
            limits = [book.capability] if self._session.lends() else [book.capability, book.deserved or book.capability]
            lost = [taken.of_queue(name) for name in taken.queues() if book in self._session.queues[name].line]
            for row, amount in enumerate(gang):
                given = sum(amounts[row] for amounts in lost if row < len(amounts))
                limit = min(limit[row] for limit in limits)
                if amount and limit < UNLIMITED and book.held[row] - given + amount > limit:
                    over[row] = max(over.get(row, 0), book.held[row] - given + amount - limit)
        return over

    def _place(self, tasks: list[Task]) -> list[tuple[Task, int]] | None:
        """Where the gang goes, if it goes; what was written for it is taken back."""
        session = self._session
        placed: list[tuple[Task, int]] = []
        for run in _by_shape(tasks):
            left = list(run.tasks)
            while left:
                rows = session.kernel.choose(run.shape, len(left))
                if not rows:
                    break
                session.write(run.shape, left[: len(rows)], rows, 1)
                placed += zip(left, rows, strict=False)
                left = left[len(rows) :]
        for task, row in reversed(placed):
            session.write(task.shape, [task], [row], -1)
        return placed if len(placed) == len(tasks) else None

    def _commit(
        self, job: JobRun, taken: Taken, found: list[tuple[Task, int]], entitlement: Entitlement, scratch: Scratch
    ) -> None:
        session, names = self._session, self._session.snapshot.names
        for unit in taken.units:
            reason = entitlement.reason(unit)
            charge_off(session, unit)
            for task in sorted(unit.tasks, key=lambda task: task.key):
                session.evicted.add(task)
                session.evictions.append(Eviction(task.key, names[task.node], job.key, entitlement.action, reason))
        for task, row in found:
            scratch.watch(row)
            session.write(task.shape, [task], [row], 1)
        scratch.settle([task for task, _ in found])
        session.nominate(job, found)


def charge_off(session: Session, unit: Unit) -> None:
    """Evicted pods no longer count as held."""
    queue = session.queues[unit.job.queue]
    account = session.account(queue, unit.job.namespace)
    for task in unit.tasks:
        for vector in (task.shape.vector, session.devices.kinds(task)):
            queue.charge(vector, -1)
            add(account.held, vector, -1)


def _missing(session: Session, job: JobRun) -> list[Task]:
    """What has to be placed: the rest of the minimum, or one task of a job that is ready."""
    if session.job_ready(job):
        return [run.tasks[run.placed] for run in job.runs if run.left][:1]
    return missing_tasks(session, job)


def _by_shape(tasks: list[Task]) -> list[TaskRun]:
    """Runs of like tasks, one for each shape."""
    order = {task.shape: place for place, task in reversed(list(enumerate(tasks)))}
    return grouped(sorted(tasks, key=lambda task: order[task.shape]))


def _tasks(index: VictimIndex, number: int) -> list[Task]:
    unit = index.units[number]
    return [] if unit is None else unit.tasks
