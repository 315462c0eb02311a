"""In which order jobs are tried when planning: the policy's, the shortest first behind the head, and exceptions.

Runs that outlive their expected time, where the policy says `overrun: evict`.

They may go on as long as no planned start needs what they have. Where one does they are evicted: one by one, or as a
whole gang that would lose its minimum. Such a job then comes after the job it was evicted for until that one has
started, and states no run time any more: the two cannot evict each other in turns (spec S8.8).

Planning ahead: allocate where the policy's backfill mode is `easy` or `conservative`.

Jobs are placed in the policy's order. The first that cannot start, the *head* (with `conservative` every one), has a
planned start: the earliest time at which its nodes are free, by the ends of what runs there. Those behind it may start
now if they do not make a planned start later: by ending before it, or by using what it does not need.

Planned starts are carried from cycle to cycle. With `easy` a hard one keeps its job the head until it starts.
`conservative` keeps them all; when runs have ended they are compressed: each job in order gives its own up and finds
one again, which is never later, for the old one is still free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Protocol

from fairway.api.arguments import AllocateArguments, BackfillArguments
from fairway.clock import Micros
from fairway.resources.columns import IntColumn
from fairway.scheduler.backfill.planned_starts import CarriedStarts, Hardness
from fairway.scheduler.backfill.run_ends import FOREVER
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.scheduler.backfill.timeline import Starts, Timeline
from fairway.scheduler.eviction.evict import charge_off
from fairway.scheduler.eviction.protections import DisruptionBudgets
from fairway.scheduler.eviction.victims import Unit, units_of, with_surplus_units
from fairway.scheduler.framework.candidates import every_job
from fairway.scheduler.framework.decisions import Places, PlannedStart, Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Keys, Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.jobs.strict_order import Blocks
from fairway.scheduler.placement.kernel import LENDING, PLAIN, Placing
from fairway.scheduler.plan import Eviction
from fairway.scheduler.reservations.reserving import missing_tasks
from fairway.state.jobs import JobOrder, Task, TaskState
from fairway.state.shapes import Shape


class _Jobs(Protocol):
    def __bool__(self) -> bool: ...
    def top(self) -> JobRun: ...
    def replace_top(self, *jobs: JobRun) -> None: ...
    def jobs(self) -> list[JobRun]: ...
    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None: ...


class ShortestFirst:
    """Jobs by estimated run time; those of unknown length last; ties by the tie rule."""

    def __init__(self, runtimes: Runtimes, jobs: list[JobRun]) -> None:
        self._runtimes = runtimes
        self._heap = [self._entry(job) for job in jobs]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def top(self) -> JobRun:
        return self._heap[0][-1]

    def replace_top(self, *jobs: JobRun) -> None:
        heappop(self._heap)
        for job in jobs:
            heappush(self._heap, self._entry(job))

    def jobs(self) -> list[JobRun]:
        return [job for *_, job in self._heap]

    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None:
        self._heap = [entry for entry in self._heap if not is_hopeless(entry[-1])]
        heapify(self._heap)

    def _entry(self, job: JobRun) -> tuple[Micros, JobOrder, str, JobRun]:
        runtime = self._runtimes.of_all(job.waiting)
        return FOREVER if runtime is None else runtime.span, job.job.order, job.job.identity, job


class LineUp:
    """The jobs of one pass. `first` goes before all others; a job that was evicted for overrunning comes after the one
    that it was evicted for."""

    def __init__(
        self, keys: Keys, runtimes: Runtimes, jobs: list[JobRun], first: JobRun | None, *, shortest: bool
    ) -> None:
        self._keys = keys
        self._runtimes = runtimes
        self._shortest = shortest
        self._first = first if first in jobs else None
        there = {(job.job.kind, job.key) for job in jobs}
        self._after: dict[tuple[str, str], list[JobRun]] = {}
        free = []
        for job in jobs:
            before = None if job.job.overrun is None else job.job.overrun.after
            if job is not self._first and before is not None and before in there:
                self._after.setdefault(before, []).append(job)
            elif job is not self._first:
                free.append(job)
        self._jobs: _Jobs = Order(keys, free)
        self._keep_every_job()

    def __bool__(self) -> bool:
        return self._first is not None or bool(self._jobs)

    def top(self) -> JobRun:
        return self._jobs.top() if self._first is None else self._first

    def replace_top(self, *jobs: JobRun) -> None:
        """The turn of the last `top` is over; these (itself, or none) stand in the queue now."""
        over = self._remove_top(*jobs)
        self._add(self._after.pop((over.job.kind, over.key), []))
        self._keep_every_job()

    def put_off_top(self) -> list[JobRun]:
        """The last `top` has its turn in a later pass: it, and those that come after it, too."""
        later = [self._remove_top()]
        for job in later:
            later += self._after.pop((job.job.kind, job.key), [])
        self._keep_every_job()
        return later

    def _remove_top(self, *jobs: JobRun) -> JobRun:
        over = self.top()
        if self._first is None:
            self._jobs.replace_top(*jobs)
        else:
            self._first = None
            self._add(list(jobs))
        return over

    def head_is_found(self) -> None:
        """Those behind the head may be tried in another order."""
        if self._shortest and not isinstance(self._jobs, ShortestFirst):
            self._jobs = ShortestFirst(self._runtimes, self._jobs.jobs())

    def leave_out(self, is_hopeless: Callable[[JobRun], bool]) -> None:
        """Jobs that cannot start whatever becomes of the others are not tried, where that changes no order."""
        if self._first is None and not self._after:
            self._jobs.leave_out(is_hopeless)

    def _keep_every_job(self) -> None:
        """Jobs that are said to come after each other, which only objects from elsewhere can say, are tried too."""
        if self._after and self._first is None and not self._jobs:
            left = [job for jobs in self._after.values() for job in jobs]
            self._after = {}
            self._add(left)

    def _add(self, jobs: list[JobRun]) -> None:
        if not jobs:
            return
        together = [*self._jobs.jobs(), *jobs]
        if isinstance(self._jobs, ShortestFirst):
            self._jobs = ShortestFirst(self._runtimes, together)
        else:
            self._jobs = Order(self._keys, together)


REASON = "it has exceeded its expected run time, and a planned start needs its resources"


def evict_overdue(session: Session, runtimes: Runtimes, timeline: Timeline) -> None:
    budgets, bound = DisruptionBudgets(session.state), session.decisions.bound_jobs()
    for planned in timeline.planned:
        for task in _in_the_way(session, runtimes, timeline, planned):
            unit = _unit_of(task)
            if unit is None or unit.protected or task.job in bound:
                continue
            going = [each for each in with_surplus_units([unit]) if each.tasks[0] not in session.decisions.evicted]
            tasks = [task for each in going for task in each.tasks]
            if budgets.allow(tasks):
                budgets.spend(tasks)
                session.decisions.overruns.setdefault(task.job, planned.job.job)
                for each in going:
                    _evict(session, each, planned)


def _in_the_way(session: Session, runtimes: Runtimes, timeline: Timeline, planned: PlannedStart) -> Iterator[Task]:
    """Runs of other jobs whose capacity the planned start needs: what is spare is left to the most important, then the
    longest.
    """
    for row in sorted({row for _, row in planned.places}):
        overdue = [task for task in session.state.nodes.tasks[row] if _is_overdue(session, runtimes, task)]
        spare = timeline.spare(row, planned.start) if overdue else []
        for task in sorted(overdue, key=lambda task: (-task.priority, task.started or 0, task.key)):
            if task in session.decisions.evicted or task.job is planned.job.job:
                continue
            if all(spare[dimension] >= amount for dimension, amount in task.shape.vector):
                for dimension, amount in task.shape.vector:
                    spare[dimension] -= amount
            else:
                yield task


def _is_overdue(session: Session, runtimes: Runtimes, task: Task) -> bool:
    if task.state is not TaskState.RUNNING or task.started is None or not runtimes.may_evict(task):
        return False
    expected = runtimes.expected(task)
    return expected is not None and task.started + expected <= session.now


def _unit_of(task: Task) -> Unit | None:
    """The unit that the task goes with."""
    return next((unit for unit in units_of(task.job) if task in unit.tasks), None)


def _evict(session: Session, unit: Unit, planned: PlannedStart) -> None:
    names = session.nodes.snapshot.names
    charge_off(session, unit)
    for task in sorted(unit.tasks, key=lambda task: task.key):
        session.decisions.evicted.add(task)
        session.decisions.evictions.append(Eviction(task.key, names[task.node], planned.job.key, "backfill", REASON))


def allocate_ahead(session: Session, arguments: BackfillArguments, allocate: AllocateArguments) -> None:
    planner = Planner(session, arguments, allocate)
    planner.open_reserved_nodes()
    jobs = every_job(session)
    planner.take_up(jobs)
    deferred = planner.run(jobs, PLAIN)
    if session.rules.lends():
        deferred = planner.run(deferred, LENDING)
    planner.finish(deferred)


def drop_satisfied(session: Session) -> None:
    """A job that got places of its own after it had a planned start needs that no more."""
    session.decisions.planned = {
        job: planned for job, planned in session.decisions.planned.items() if not _has_places(session, job)
    }


def plan_reservations(session: Session) -> None:
    """Say when the capacity of reservations will be free, where that is known: whatever the mode, for all to see."""
    waiting = [
        reservation
        for reservation in session.reservations.awake()
        if reservation.state is TaskState.RESERVED and reservation.planned_start is None
    ]
    if not waiting:
        return
    runtimes = Runtimes(session.state, session.policy.backfill or BackfillArguments())
    timeline = Timeline(session, runtimes)
    for job in sorted({reservation.job for reservation in waiting}, key=lambda job: job.job.identity):
        mine = [reservation for reservation in waiting if reservation.job is job]
        places = tuple((reservation.task, reservation.row) for reservation in mine)
        start = timeline.when(places)
        planned = None if start is None else timeline.keep(job, places, start, None)
        for reservation in mine:
            reservation.planned_start = planned


def _has_places(session: Session, job: JobRun) -> bool:
    holder = session.reservations.reserving_jobs.get(job.job)
    return holder is not None and bool(session.reservations.of(holder))


@dataclass(frozen=True, slots=True)
class _Caps:
    """What planned starts leave; equal ones leave the same."""

    timeline: Timeline
    met: Starts | None
    before: int | None

    def __call__(self, shape: Shape) -> IntColumn | None:
        return self.timeline.caps(shape, self.met, self.before)


class Planner:
    def __init__(self, session: Session, arguments: BackfillArguments, allocate: AllocateArguments) -> None:
        self._session = session
        self._arguments = arguments
        self._blocks = Blocks(allocate)
        self._runtimes = Runtimes(session.state, arguments)
        self._timeline = Timeline(session, self._runtimes)
        self._placer = Placer(session, remembers=False)
        self._hardness = Hardness(session, arguments)
        self._every = arguments.mode == "conservative"
        self._carried = CarriedStarts(session, self._timeline, self._runtimes, self._hardness, every=self._every)
        self._passes_over = (
            not (session.explains or self._every or allocate.blocked == "wait")
            and not session.plugins.has_external
            and all(session.policy.action(name) is None for name in ("preempt", "reclaim"))
        )
        self._turns: dict[JobRun, int] = {}
        """Of jobs that could not start: how many had been tried before them."""
        self._known: dict[JobRun, Runtime | None] = {}
        session.nodes.caps_for = self._caps_for

    def open_reserved_nodes(self) -> None:
        """A reservation whose nodes have known ends gets a planned start, past which short jobs may run."""
        for job in sorted(self._session.reservations.reserving_jobs.values(), key=lambda job: job.job.identity):
            waiting = [
                reservation
                for reservation in self._session.reservations.of(job)
                if reservation.state is TaskState.RESERVED
            ]
            if waiting:
                places = tuple((reservation.task, reservation.row) for reservation in waiting)
                start = self._timeline.when(places)
                if start is not None:
                    self._session.reservations.open(waiting, self._timeline.keep(job, places, start, None))

    def take_up(self, jobs: list[JobRun]) -> None:
        self._carried.take_up(jobs)

    def run(self, jobs: list[JobRun], placing: Placing) -> list[JobRun]:
        """One pass; returns the jobs that were not allowed."""
        deferred: list[JobRun] = []
        shortest = self._arguments.order == "shortest"
        line = LineUp(self._session.order, self._runtimes, jobs, self._carried.head, shortest=shortest)
        if self._session.decisions.planned:
            self._head_is_found(line, placing)
        while line:
            job = line.top()
            by = self._blocks.before(job)
            if by is not None:
                line.replace_top()
                self._session.outcomes.record_wait_reason(job, self._blocks.verdict(by))
                self._timeline.drop(job)
                continue
            if self._carried.stands(job):
                line.replace_top()
                self._wait(job)
                self._keep(job, *self._carried.places(job))
                self._head_is_found(line, placing)
                continue
            if not self._session.reservations.has(job):
                self._timeline.drop(job)
            step = Step.NO_CAPACITY if self._placer.is_too_large(job, placing) else self._step(job, placing)
            if step is Step.PLACED:
                self._timeline.drop(job)
                line.replace_top(*self._placer.followers(job))
                continue
            if step is Step.NOT_ALLOWED and self._may_start_later(job, placing):
                self._carried.restore(job)
                if self._is_lent_later(placing):
                    deferred += line.put_off_top()
                else:
                    deferred.append(job)
                    line.replace_top()
                continue
            line.replace_top()
            self._wait(job)
            self._plan(job)
            self._blocks.block(job)
            if job in self._session.decisions.planned:
                self._head_is_found(line, placing)
        return deferred

    def _head_is_found(self, line: LineUp, placing: Placing) -> None:
        """Of those behind the head, what is too large for any node is too large when its turn comes. Where it need not
        be said what waits, and no job is evicted for another, that is all there is to know of it.
        """
        line.head_is_found()
        if self._passes_over and not self._session.reservations.reserving_jobs:
            line.leave_out(lambda job: self._carried.find(job) is None and self._placer.is_too_large(job, placing))

    def _step(self, job: JobRun, placing: Placing) -> Step:
        session, before = self._session, len(self._session.decisions.bindings)
        step = self._placer.step(job, placing)
        if step is Step.NO_CAPACITY and self._carried.is_due(job) and self._starts_as_planned(job):
            step = Step.PLACED
        for _, tasks, rows in session.decisions.bindings[before:]:
            self._timeline.start_now(tasks, rows)
        return step

    def _starts_as_planned(self, job: JobRun) -> bool:
        """Scores may send the tasks of a job where not all of them fit: its planned places are there for all."""
        session, statement = self._session, self._session.statement()
        rows = dict(self._carried.places(job)[0])
        for run in job.runs:
            planned = [rows[task] for task in run.tasks[run.placed :] if task in rows]
            for row in planned:
                if session.nodes.kernel.fits_now(run.shape, row):
                    statement.put(job, run, [row])
        if not statement.checkpoint() or not session.rules.job_ready(job):
            statement.rollback()
            return False  # not all of its minimum, or nothing at all of a job that is ready
        statement.commit()
        return True

    def _may_start_later(self, job: JobRun, placing: Placing) -> bool:
        """Whether a job that is not allowed may still start in this cycle, on what is lent. One that has no free
        capacity even then cannot start: it must have its planned start before those behind it are placed.
        """
        return not self._is_lent_later(placing) or self._placer.would_fit_if_lent(job)

    def _is_lent_later(self, placing: Placing) -> bool:
        """Whether a pass follows in which what is idle is lent."""
        return not placing.lending and self._session.rules.lends()

    def finish(self, deferred: list[JobRun]) -> None:
        for job in deferred:
            self._timeline.drop(job)
            self._placer.give_up(job, Step.NOT_ALLOWED)
        self._session.reservations.close()
        if self._runtimes.evicts:
            evict_overdue(self._session, self._runtimes, self._timeline)
        if self._every:
            self._session.decisions.runs_on_nodes = self._timeline.runs

    def _wait(self, job: JobRun) -> None:
        self._placer.give_up(job, Step.NO_CAPACITY)
        self._turns.setdefault(job, len(self._turns) + 1)

    def _plan(self, job: JobRun) -> None:
        """A job that cannot start; the first for which a start is in sight is the head of the queue."""
        session = self._session
        if (session.decisions.planned and not self._every) or session.reservations.has(job):
            return
        if job.job.topology is not None and job.job.topology.hard:
            return  # when the nodes of one domain are free together is not planned
        tasks = missing_tasks(session.reservations, job)
        if not tasks:
            return
        found = self._timeline.earliest(tasks, self._runtime(job))
        old = self._carried.find(job)
        if old is not None and (found is None or found[1] > old[1]):
            found = old
        if found is not None:
            self._keep(job, *found)

    def _keep(self, job: JobRun, places: Places, start: int) -> None:
        timeline, runtime = self._timeline, self._runtime(job)
        timeline.drop(job)
        hard = None if self._hardness.possible(job, places) else False
        if hard is None and self._carried.was_hard(job):
            hard = True
        self._session.decisions.planned[job] = timeline.keep(
            job, places, start, runtime, turn=self._turns[job], hard=hard
        )

    # -- what planned starts leave --------------------------------------------------------------------------------

    def _caps_for(self, job: JobRun) -> _Caps:
        """While jobs are being tried every planned start counts, but its own; afterwards, when it is said what a job
        waits for, those of jobs behind it do not."""
        has_places = self._carried.find(job) is not None
        met = self._timeline.met_by(self._runtime(job), has_places=has_places)
        return _Caps(self._timeline, met, self._turns.get(job))

    def _runtime(self, job: JobRun) -> Runtime | None:
        if job not in self._known:
            self._known[job] = self._runtimes.of_all(job.waiting)
        return self._known[job]


__all__ = ["PlannedStart", "Planner", "allocate_ahead", "drop_satisfied", "plan_reservations"]
