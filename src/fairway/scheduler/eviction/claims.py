"""Jobs for which nothing can be gained by evicting: they request more than any node has when it is empty.

Where all that waits is of that kind preempt and reclaim have nothing to do, however many jobs and queues there are.
Answers are exact: what is not sure to be without effect takes its ordinary course. A claimant that finds no victims
may still say when it is worth to look again (pods that are too young, or cooling), and external plugins may fail.

Which jobs may evict: those that still wait, each equivalence class represented by the first that may.

A claim: a job that needs capacity, what it may take for it, and what is found for it.

Capacity that pods are just leaving, and that no nomination claims yet.

A job that will fit there waits for it, and evicts no pod: those that leave already are enough. It is lent to a claimant
while its victims are chosen, so that a gang evicts only for what is still missing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import EvictionArguments
from fairway.clock import SECOND
from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.entitlement import Entitlement
from fairway.scheduler.eviction.protections import DisruptionBudgets
from fairway.scheduler.eviction.victims import Taken, Unit, VictimIndex, victim_index
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.candidates import admission, comes_after, is_for_backfill, next_in_class
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.job_run import JobRun, TaskRun, grouped
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.kernel import PLAIN, Placing
from fairway.scheduler.reservations.reserving import missing_tasks
from fairway.scheduler.reservations.starvation import condition_ready
from fairway.state.jobs import Job, Task, TaskState
from fairway.state.queues import Amounts
from fairway.state.shapes import Shape
from fairway.state.waiting import EquivalenceClass, GangTemplate


class Hopeless:
    """Asked in one cycle, by one action."""

    def __init__(self, session: Session, arguments: EvictionArguments) -> None:
        self._session = session
        self._arguments = arguments

    def is_all(self) -> bool:
        """Whether no job that waits after this cycle's placements can gain anything."""
        session = self._session
        if self._arguments.preemption_delay or not session.reservations.resumed:
            return False
        parking = session.nodes.kernel.parking
        bound = session.decisions.bound_jobs()
        looked = session.outcomes.parked is parking.parked()
        templates: Iterable[GangTemplate] = parking.active if looked else session.state.waiting.templates_in_use()
        if any(not self._exceeds(template) and _waits(template, bound) for template in templates):
            return False
        if any(
            job.left() and not session.reservations.has(job) and not self._exceeds(job.template)
            for job in session.outcomes.jobs
        ):
            return False
        if any(session.reservations.waiting_on_nodes(job) for job in session.reservations.reserving_jobs.values()):
            return False
        if looked and not parking.parked():
            return True
        return (not looked or parking.all_exceed(self._whole)) and self.are_silent

    @cached_property
    def are_silent(self) -> bool:
        """Whether claimants that can gain nothing leave nothing behind."""
        session = self._session
        if self._arguments.min_runtime or session.plugins.has_external:
            return False
        return not (victim_index(session.state).cooled > session.now).any()

    @cached_property
    def _whole(self) -> list[int]:
        """Of each resource, the most that any node has in all."""
        allocatable = self._session.nodes.snapshot.allocatable
        most: list[int] = allocatable.max(axis=1, initial=0).tolist()
        return most

    def exceeds(self, shape: Shape) -> bool:
        """Whether it requests more of something than any node has in all."""
        if self._session.nodes.devices.uses_devices(shape):
            return False
        return any(amount > self._whole[row] for row, amount in shape.vector)

    def _exceeds(self, template: GangTemplate) -> bool:
        """Whether each of its tasks does: which of them are claimed for does not matter then."""
        return bool(template.runs) and all(self.exceeds(run.shape) for run in template.runs)


def _waits(template: GangTemplate, bound: set[Job]) -> bool:
    """Whether some job of the template was not placed in this cycle."""
    return any(job not in bound for job in template.started) or any(
        each.job not in bound
        for job_class in template.classes.values()
        if not is_for_backfill(job_class)
        for each in job_class.jobs
    )


class Claimants:
    """Jobs with pods that wait, and that have waited long enough to evict. A job that has reserved nodes may evict too:
    it need not wait until pods of lower priority end by themselves.
    """

    def __init__(self, session: Session, arguments: EvictionArguments, queues: Container[str] | None = None) -> None:
        """With `queues`, only jobs of these."""
        self._session = session
        self._queues = queues
        self._delay = arguments.preemption_delay * SECOND
        self._single = {job.job for job in session.outcomes.jobs}

    def __iter__(self) -> Iterator[JobRun]:
        for job in self._waiting():
            if admission(self._session, job).ok:
                yield job

    def behind(self, job_class: EquivalenceClass, position: int) -> JobRun | None:
        """The first of a line, from a place on, that was not placed in this cycle and may evict."""
        bound = self._session.decisions.bound_jobs()
        while True:
            job = next_in_class(self._session, job_class, position)
            if job is None:
                return None
            if job.job not in bound and job.job not in self._single and self._may_evict(job):
                return job
            position = job.position + 1

    def _waiting(self) -> Iterator[JobRun]:
        session = self._session
        for template in session.state.waiting.templates():
            if session.effort is not None and not session.effort.admits(template):
                continue
            for job_class in template.classes.values():
                if not self._may_claim(job_class.key.queue) or is_for_backfill(job_class):
                    continue
                job = self.behind(job_class, 0)
                if job is not None:
                    yield job
        for job in [*session.outcomes.jobs, *self._untried()]:
            if (
                self._may_claim(job.queue.name)
                and job.left()
                and not session.reservations.of(job)
                and self._may_evict(job)
            ):
                yield job
        for job in list(session.reservations.reserving_jobs.values()):
            if (
                self._may_claim(job.queue.name)
                and job.job not in session.decisions.bound_jobs()
                and (session.reservations.waiting_on_nodes(job) or self._lost_a_nomination(job))
                and self._may_evict(job)
            ):
                yield job

    def _lost_a_nomination(self, job: JobRun) -> bool:
        """Whether pods were evicted for the job, and one of its places has gone since: it claims another."""
        session = self._session
        return session.reservations.is_nominated(job) and not (
            session.rules.job_ready(job) or condition_ready(session, job)
        )

    def _may_claim(self, queue: str) -> bool:
        return self._queues is None or queue in self._queues

    def _untried(self) -> Iterator[JobRun]:
        """Started jobs that no action before this one has tried to place."""
        tried = self._single | self._session.decisions.bound_jobs() | self._session.reservations.reserving_jobs.keys()
        for job, (template, pending_job) in self._session.state.waiting.started.items():
            if job not in tried:
                yield self._session.job_run(pending_job, template)

    def _may_evict(self, job: JobRun) -> bool:
        tasks = job.waiting or [each.task for each in self._session.reservations.of(job)]
        if not tasks or not all(_preempts(self._session, task) for task in tasks):
            return False
        if comes_after(self._session, job.job) is not None:
            return False  # it has just made way for a job that still waits
        if self._session.policy.compatible and self._session.rules.job_ready(job):
            return False  # in Volcano nothing is evicted for pods above the minimum
        since = job.job.waits_since
        if since is None or self._session.now - since >= self._delay:
            return True
        self._session.decisions.rechecks.append(since + self._delay)
        return False


def claimed_tasks(session: Session, job: JobRun) -> list[Task]:
    """What has to be placed: the rest of the minimum, or one task of a job that is ready. Of a job that has reserved
    nodes, what waits there for capacity.
    """
    reserved = session.reservations.waiting_on_nodes(job)
    if reserved:
        return [reservation.task for reservation in reserved]
    if session.rules.job_ready(job):
        return [run.tasks[run.placed] for run in job.runs if run.left][:1]
    return missing_tasks(session.reservations, job)


def _preempts(session: Session, task: Task) -> bool:
    return task.traits.preempts and not session.state.priorities.never_preempts(task.traits.priority_class)


Place = tuple[Task, int]


@dataclass(frozen=True)
class EvictionClaim:
    """`tasks` are what has to be placed, all of them; `gang` is what they ask for together. `eligible` are, by number,
    the units that protections leave and that the claimant may be entitled to.
    """

    session: Session
    job: JobRun
    tasks: list[Task]
    gang: Amounts
    entitlement: Entitlement
    index: VictimIndex
    eligible: BoolColumn
    budgets: DisruptionBudgets
    placing: Placing = PLAIN
    """Where its tasks may go: anywhere, or in one domain of its topology."""

    def entitled(self, entitlement: Entitlement) -> EvictionClaim:
        """The same with an entitlement to fewer units."""
        return replace(self, entitlement=entitlement, eligible=self.eligible & entitlement.candidates(self.index))

    def within(self, domain: BoolColumn) -> EvictionClaim:
        return replace(self, placing=self.placing.within(domain))

    def nothing_taken(self) -> Taken:
        devices = self.session.nodes.devices
        return Taken(devices.kinds if devices.ledger.enabled else None)

    def allows(self, unit: Unit, taken: Taken) -> bool:
        return self.entitlement.allows(unit, taken) and self.budgets.allow(unit.tasks)

    def over_limits(self, taken: Taken) -> dict[int, int]:
        """What the claimant's queues would have above their limits, with what is taken off, by dimension."""
        over: dict[int, int] = {}
        lends = self.session.rules.lends()
        for account in self.job.queue.ancestry:
            limits = [account.capability] if lends else [account.capability, account.deserved or account.capability]
            lost = [
                taken.of_queue(name)
                for name in taken.queues()
                if account in self.session.accounts.queues[name].ancestry
            ]
            for row, amount in enumerate(self.gang):
                given = sum(amounts[row] for amounts in lost if row < len(amounts))
                limit = min(limit[row] for limit in limits)
                if amount and limit < UNLIMITED and account.allocated[row] - given + amount > limit:
                    over[row] = max(over.get(row, 0), account.allocated[row] - given + amount - limit)
        return over

    def limit(self, taken: Taken) -> str:
        """The limit of its queues that the claimant would exceed, with what is taken off; "" if none."""
        name_of = self.session.state.axis.names.__getitem__
        for row in sorted(self.over_limits(taken), key=name_of):
            for account in self.job.queue.ancestry:
                lost = sum(
                    _at(taken.of_queue(n), row)
                    for n in taken.queues()
                    if account in self.session.accounts.queues[n].ancestry
                )
                allocated = account.allocated[row] - lost + self.gang[row]
                if allocated > account.capability[row]:
                    return f"queue {account.name} would exceed its capability of {name_of(row)}"
                if (
                    not self.session.rules.lends()
                    and account.deserved is not None
                    and allocated > account.deserved[row]
                ):
                    return f"queue {account.name} would exceed the {name_of(row)} that it deserves"
        return ""

    def runs(self) -> list[TaskRun]:
        """The tasks in runs of like ones, one run for each shape."""
        order = {task.shape: place for place, task in reversed(list(enumerate(self.tasks)))}
        return grouped(sorted(self.tasks, key=lambda task: order[task.shape]))


class Found(NamedTuple):
    """Which units have to go, in the order in which units go, and where the claimant's tasks will be.

    `limits` names, for units that go only because a queue would exceed a limit otherwise, that limit. `placing` has the
    domain that a topology confines the claimant to.
    """

    units: list[Unit]
    places: list[Place]
    limits: dict[Unit, str]
    placing: Placing


@dataclass(eq=False)
class Settled:
    """A claim whose victims go, with the units that go for it, and the domain that its topology confines it to."""

    claim: EvictionClaim
    units: list[Unit]
    placing: Placing


def _at(amounts: Amounts, row: int) -> int:
    return amounts[row] if row < len(amounts) else 0


class TerminatingCapacity:
    """What nodes will have free beyond what is free now, once terminating and evicted pods are gone and nominated pods
    are there; by resource and row. As things are when it is made.
    """

    def __init__(
        self, nodes: WorkingNodes, reservations: Reservations, decisions: Decisions, tasks: list[Task]
    ) -> None:
        """Devices are not lent: which of them will be free is known when they are."""
        self._reservations = reservations
        self._decisions = decisions
        self._freed: NDArray[np.int64] | None = None
        self.rows: list[int] = []
        released = nodes.snapshot.state.nodes.releasing.data[:, : nodes.snapshot.size]
        uses_devices = nodes.devices.uses_devices
        if (decisions.evicted or released.any()) and not any(uses_devices(task.shape) for task in tasks):
            self._freed = np.maximum(self._unclaimed(released), 0)
            self.rows = np.flatnonzero(self._freed.any(axis=0)).tolist()

    def lend(self, statement: Statement) -> None:
        """As if they were gone."""
        if self._freed is not None:
            rows = np.array(self.rows, dtype=np.int64)
            statement.assume_free(rows, self._freed[:, rows])

    def _unclaimed(self, released: NDArray[np.int64]) -> NDArray[np.int64]:
        """Free capacity is less already by what nominations claim beyond what is released for them: in the snapshot for
        those of earlier cycles, in `settled_rows` for those of this one. That part is not taken off a second time.
        """
        freed = released.copy()
        nominated = [reservation for reservation in self._reservations if reservation.state is TaskState.PIPELINED]
        for reservation in nominated:
            if reservation.task.state is TaskState.PIPELINED:
                for dimension, amount in reservation.task.shape.vector:
                    freed[dimension, reservation.row] -= amount
        np.maximum(freed, 0, out=freed)
        for row, amounts in self._decisions.settled_rows.items():
            freed[:, row] += amounts
        for task in self._decisions.evicted:
            for dimension, amount in task.shape.vector:
                freed[dimension, task.node] += amount
        for task in self._reservations.repairing:
            for dimension, amount in task.shape.vector:
                freed[dimension, task.node] -= amount
        for reservation in nominated:
            if reservation.task.state is not TaskState.PIPELINED:
                for dimension, amount in reservation.task.shape.vector:
                    freed[dimension, reservation.row] -= amount
        return freed
