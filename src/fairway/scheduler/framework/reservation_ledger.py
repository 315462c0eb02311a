"""Reservations that stand: what a cycle found to wait for capacity, as it did before, is left alone by the next ones.

A job whose reservations stand is not read, ordered or tried again until something changes that could alter its answer:

| what changes | what is looked at again |
|---|---|
| the job, its group, its Reservation | the job |
| what is free on a node, its labels, taints or pods | the jobs with a reservation there |
| a job with pods on a node (when it will end) | the same |
| a node takes a pod of its kind now | the job, for it may be placed elsewhere |
| so many nodes may carry reservations, and one more does | all of them |
| its reservation times out | the job |
| nodes come, go, change size or readiness; queues; the policy | all of them |

Only what is simple stands: all that the job waits for is reserved, nothing of it is allocated yet, and no rules between
pods, host ports, devices or external plugins have a say. What asks for all reservations of a session wakes them.

Reservations and nominations in a session: those that stand, begin, end or turn into bindings.

    RESERVED    waits on its node for free capacity; no new pod may use the node
    ALLOCATED   has its capacity, and keeps it until its gang is ready
    PIPELINED   nominated: waits for the capacity of pods that were evicted for it

What a reserved task requests counts for its queue, namespace and job already. Reservations that the state carries are
looked at once per cycle, before anything is placed: see `resuming`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from fairway.clock import Micros
from fairway.resources.columns import IntColumn
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.decisions import Decisions, PlannedStart
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.plan import Released, Reservation
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations
from fairway.state.jobs import History, Job, Task, TaskState, next_history
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot
from fairway.state.waiting import GangTemplate, PendingJob


class StandingJob(NamedTuple):
    """`places` are tasks, rows and since when; `entries` what plans say of them."""

    shapes: frozenset[Shape]
    places: tuple[tuple[Task, int, Micros], ...]
    entries: tuple[Reservation, ...]
    until: Micros | None
    """When one of them times out."""
    timed: bool
    """Whether it is known that nothing can be said of when their capacity will be free."""


class StandingReservations(
    DerivedValue,
    name="standing-reservations",
    holds="jobs whose reservations the last cycle left unchanged",
    inputs=("snapshot", "jobs", "queues", "policy", "time"),
    saves="reading, ordering and trying every job with a reservation",
):
    """What one state keeps of its last cycle."""

    def __init__(self, state: ClusterState, snapshot: Snapshot) -> None:
        super().__init__(state.changed_jobs, snapshot.touched, snapshot.reshaped)
        self._jobs: dict[Job, StandingJob] = {}
        self._on: dict[int, set[Job]] = {}
        self._rest_on: Generations = ()

    @classmethod
    def make(cls, state: ClusterState) -> StandingReservations:
        return cls(state, state.derived.get(Snapshot))

    def at(self, basis: Generations, now: Micros, *, explains: bool) -> dict[Job, StandingJob]:
        """The jobs that stand as a session begins; `basis` is all that they rest on together. One that `explains` says
        when capacity will be free.
        """
        self._rest_on = basis
        self.sync()
        for job in [job for job, known in self._jobs.items() if known.until is not None and known.until <= now]:
            self.discard(job)
        return {job: known for job, known in self._jobs.items() if known.timed or not explains}

    def generations(self) -> Generations:
        return self._rest_on

    def rebuild(self) -> None:
        """None stands: the cycle that begins will find out."""
        self._jobs, self._on = {}, {}

    def update(self, changed: list[Job], touched: IntColumn, reshaped: IntColumn) -> None:
        if not self._jobs:
            return
        rows = {*touched.tolist(), *reshaped.tolist()}
        for job in dict.fromkeys(changed):
            self.discard(job)
            rows.update(task.node for task in job.tasks)
        for row in self._on.keys() & rows:
            for job in list(self._on.get(row, ())):
                self.discard(job)

    def add(self, job: Job, found: StandingJob) -> None:
        self.discard(job)
        self._jobs[job] = found
        for _, row, _ in found.places:
            self._on.setdefault(row, set()).add(job)

    def discard(self, job: Job) -> None:
        known = self._jobs.pop(job, None)
        for _, row, _ in () if known is None else known.places:
            jobs = self._on.get(row, set())
            jobs.discard(job)
            if not jobs:
                self._on.pop(row, None)


def standing_reservations(state: ClusterState) -> StandingReservations:
    return state.derived.get(StandingReservations)


def shapes_of(standing: Iterable[StandingJob]) -> set[Shape]:
    return {shape for known in standing for shape in known.shapes}


class TaskReservation:
    """A task's reservation on a row."""

    __slots__ = ("history", "job", "open", "planned_start", "row", "since", "state", "task")

    def __init__(self, job: JobRun, task: Task, row: int, state: TaskState, since: Micros) -> None:
        self.job = job
        self.task = task
        self.row = row
        self.state = state
        self.history: History = (state,)
        self.since = since
        self.planned_start: PlannedStart | None = None
        self.open = False
        """Whether others may use the node for now, as long as they keep the planned start."""

    def become(self, state: TaskState) -> None:
        """Move to another state, as its task will once the plan is carried out; an illegal move raises."""
        self.history = next_history(self.task.key, self.history, state)
        self.state = state

    def __repr__(self) -> str:
        return f"<Hold {self.task.key} {self.state.name} row={self.row}>"


class Reservations:
    """All reservations of a session, by task."""

    def __init__(
        self, state: ClusterState, now: Micros, nodes: WorkingNodes, accounts: SessionAccounts, decisions: Decisions
    ) -> None:
        self._state = state
        self._now = now
        self._nodes = nodes
        self._accounts = accounts
        self._decisions = decisions
        self._jobs: dict[Job, JobRun] = {}
        """Jobs of which a task has a reservation or a nomination, but for those that stand."""
        self.standing: Mapping[Job, StandingJob] = {}
        """Jobs whose reservations are as they were, and are not read unless asked for."""
        self._job_run: Callable[[PendingJob, GangTemplate], JobRun] | None = None
        self.resumed = False
        """Whether those that the state carries were looked at."""
        self._by_task: dict[Task, TaskReservation] = {}
        self._by_job: dict[JobRun, list[TaskReservation]] = {}
        self.released: list[Released] = []
        self.given_up: dict[JobRun, set[int]] = {}
        """Rows whose reservation timed out in this cycle: the job should look elsewhere first."""
        self._reserved = np.zeros(nodes.snapshot.size, dtype=np.int64)
        self.too_large: set[GangTemplate] = set()
        """Templates of jobs that starve, of which a task requests more than any node has left to reserve."""
        self.repairing: list[Task] = []
        """Terminating pods whose capacity is kept for the broken gangs that lose them."""
        self.moves = 0
        """Counts reservations that have ended, have got their capacity or have lost it."""
        self._nominated: dict[int, list[int]] = {}
        """By row, what nominations still claim there of those that the state carries."""

    def __iter__(self) -> Iterator[TaskReservation]:
        self.wake()
        return iter(list(self._by_task.values()))

    def awake(self) -> list[TaskReservation]:
        """All but those of standing jobs."""
        return list(self._by_task.values())

    @property
    def awake_jobs(self) -> Mapping[Job, JobRun]:
        return self._jobs

    @property
    def reserving_jobs(self) -> Mapping[Job, JobRun]:
        """Jobs of which a task has a reservation or a nomination."""
        self.wake()
        return self._jobs

    def is_reserving(self, job: Job) -> bool:
        return job in self._jobs or job in self.standing

    def begin(self, job: JobRun) -> None:
        """It has reservations from now on, or is about to."""
        self._jobs[job.job] = job

    def of(self, job: JobRun) -> list[TaskReservation]:
        return list(self._by_job.get(job, ())) if self._by_job else []

    def has(self, job: JobRun) -> bool:
        """Whether there is any reservation of the job."""
        return bool(self._by_job) and bool(self._by_job.get(job))

    def is_nominated(self, job: JobRun) -> bool:
        """Whether pods are evicted for the job."""
        return any(reservation.state is TaskState.PIPELINED for reservation in self._by_job.get(job, ()))

    def rows(self) -> set[int]:
        """Rows that carry a reservation."""
        rows = {
            reservation.row for reservation in self._by_task.values() if reservation.state is not TaskState.PIPELINED
        }
        rows.update([row for known in self.standing.values() for _, row, _ in known.places])
        return rows

    def nominated_rows(self) -> set[int]:
        """Rows that carry a nomination."""
        return {reservation.row for reservation in self._by_task.values() if reservation.state is TaskState.PIPELINED}

    def set_aside(self) -> dict[QueueAccount | NamespaceAccount, Amounts]:
        """By queue, with those above it, and by namespace: what is reserved or nominated and not allocated yet."""
        found: dict[QueueAccount | NamespaceAccount, Amounts] = {}
        for reservation in self:
            if reservation.state is not TaskState.ALLOCATED:
                accounts: list[QueueAccount | NamespaceAccount] = [
                    *reservation.job.queue.ancestry,
                    reservation.job.account,
                ]
                for account in accounts:
                    add(found.setdefault(account, []), reservation.task.shape.vector)
        return found

    def set_aside_for(self, queue: QueueAccount, dimension: int) -> int:
        """The same of one queue in one dimension."""
        reservations = [reservation for reservation in self if reservation.state is not TaskState.ALLOCATED]
        vectors = (
            reservation.task.shape.vector for reservation in reservations if queue in reservation.job.queue.ancestry
        )
        return sum(amount for vector in vectors for row, amount in vector if row == dimension)

    # -- changes: each keeps capacity, flags and counts together --------------------------------------------------

    def add(self, job: JobRun, task: Task, row: int, state: TaskState) -> TaskReservation:
        """A new reservation. The capacity of a nomination is kept by its maker."""
        reservation = TaskReservation(job, task, row, state, self._now)
        self._insert(reservation)
        job.count_reserved(task, 1)
        if state is TaskState.ALLOCATED:
            self._take(reservation, 1)
            job.count_ready(task, 1)
        elif state is TaskState.RESERVED:
            self._flag(row, 1)
        return reservation

    def nominate(self, job: JobRun, places: list[tuple[Task, int]]) -> None:
        """Capacity is being freed for these tasks on these rows; it is theirs."""
        self.begin(job)
        job.job_class = None
        for task, row in places:
            self.add(job, task, row, TaskState.PIPELINED)

    def waiting_on_nodes(self, job: JobRun) -> list[TaskReservation]:
        """Those of its reservations that wait for capacity; none if pods are being evicted for it already."""
        if self.is_nominated(job):
            return []
        return [reservation for reservation in self.of(job) if reservation.state is TaskState.RESERVED]

    @contextmanager
    def without(self, reserved: list[TaskReservation]) -> Iterator[None]:
        """As if these, which wait for capacity, had not been made. They are back at the end, unless their tasks were
        nominated meanwhile: then they have ended.
        """
        before = self._by_task
        self._by_task = {task: each for task, each in before.items() if each not in reserved}
        for reservation in reserved:
            self._by_job[reservation.job].remove(reservation)
            self._unflag(reservation)
            reservation.job.count_reserved(reservation.task, -1)
        try:
            yield
        finally:
            if not reserved or reserved[0].task in self._by_task:
                self._end(reserved, "pods are evicted for the job")
            else:
                self._by_task = before
                for reservation in reserved:
                    self._by_job[reservation.job].append(reservation)
                    reservation.job.count_reserved(reservation.task, 1)
                    if not reservation.open:
                        self._flag(reservation.row, 1)

    def _end(self, reserved: list[TaskReservation], reason: str) -> None:
        """What was reserved in this session only was never there."""
        names = self._nodes.snapshot.names
        carried = [reservation for reservation in reserved if reservation.task.state is TaskState.RESERVED]
        self.released += [Released(reservation.task.key, names[reservation.row], reason) for reservation in carried]
        self.moves += len(reserved)

    def cancel(self, reservation: TaskReservation) -> None:
        """Undo `add`: the reservation never was."""
        self._drop(reservation)
        reservation.job.count_reserved(reservation.task, -1)
        if reservation.state is TaskState.ALLOCATED:
            self._take(reservation, -1)
            reservation.job.count_ready(reservation.task, -1)
        elif reservation.state is TaskState.RESERVED:
            self._flag(reservation.row, -1)

    def allocate(self, reservation: TaskReservation, is_there: Callable[[TaskReservation], bool]) -> bool:
        """RESERVED or PIPELINED becomes ALLOCATED, if its capacity is there once its own claim is put aside."""
        waits = reservation.state
        if waits is TaskState.PIPELINED:
            self._lift(reservation, 1)
        if not is_there(reservation):
            if waits is TaskState.PIPELINED:
                self._lift(reservation, -1)
            return False
        if waits is TaskState.RESERVED:
            self._unflag(reservation)
        reservation.become(TaskState.ALLOCATED)
        self._take(reservation, 1)
        reservation.job.count_ready(reservation.task, 1)
        return True

    def revert(self, reservation: TaskReservation, state: TaskState) -> None:
        """An ALLOCATED reservation goes back to being nominated, or to being reserved because its capacity is gone."""
        reservation.job.count_ready(reservation.task, -1)
        self._take(reservation, -1)
        reservation.become(state)
        if state is TaskState.RESERVED:
            self._flag(reservation.row, 1)
        else:
            self._lift(reservation, -1)

    def release(self, reservation: TaskReservation, reason: str) -> None:
        """The claim ends; the task waits like any other."""
        self._drop(reservation)
        if reservation.state is TaskState.ALLOCATED:
            self._take(reservation, -1)
            reservation.job.count_ready(reservation.task, -1)
        elif reservation.state is TaskState.RESERVED:
            self._unflag(reservation)
        else:
            self._lift(reservation, 1)
        reservation.job.count_reserved(reservation.task, -1)
        self.released.append(Released(reservation.task.key, self._nodes.snapshot.names[reservation.row], reason))

    def bind(self, job: JobRun) -> None:
        """The job is ready: tasks with capacity are bound, and reservations without are no longer needed. Capacity
        that others make for a task is still its own.
        """
        if job not in self._by_job:
            return
        for reservation in self.of(job):
            if reservation.state is TaskState.ALLOCATED:
                self._drop(reservation)
                self._decisions.bind(job, [reservation.task], [reservation.row])
        for reservation in self.of(job):
            if reservation.state is TaskState.RESERVED:
                self.release(reservation, "the job is ready without it")

    def move(self, task: Task) -> None:
        """A reserved task was placed elsewhere by a statement that is being committed: the claim ends, the charge
        stays.
        """
        reservation = self._by_task[task]
        self._drop(reservation)
        if reservation.state is TaskState.RESERVED:
            self._unflag(reservation)
        else:
            self._lift(reservation, 1)
        reason = "the job became ready elsewhere"
        self.released.append(Released(reservation.task.key, self._nodes.snapshot.names[reservation.row], reason))

    def open(self, reservations: list[TaskReservation], planned_start: PlannedStart) -> None:
        """It is known when the capacity will be there: jobs that keep the planned start may use the nodes."""
        for reservation in reservations:
            reservation.planned_start, reservation.open = planned_start, True
            self._flag(reservation.row, -1)

    def close(self) -> None:
        """Jobs that come now do not look at planned starts: the nodes are reserved as before."""
        for reservation in self._by_task.values():
            if reservation.open:
                reservation.open = False
                self._flag(reservation.row, 1)

    # -- plumbing -----------------------------------------------------------------------------------------------

    def read(self, job_run: Callable[[PendingJob, GangTemplate], JobRun], standing: Mapping[Job, StandingJob]) -> None:
        """The reservations that the state carries, as a session begins."""
        self._job_run = job_run
        self.standing = standing
        carried = self._state.waiting.with_reservations
        for job in sorted([job for job in carried if job not in standing], key=lambda job: job.order):
            for reservation in self._read_job(job):
                if reservation.state is TaskState.RESERVED:
                    self._reserved[reservation.row] += 1
                elif reservation.state is TaskState.PIPELINED:
                    self._nodes.stand_in(reservation.task, reservation.row, 1)
        for known in standing.values():
            for _, row, _ in known.places:
                self._reserved[row] += 1
        if carried:
            self._publish()
        self.resumed = not carried and not standing and not self._state.broken_gangs

    def wake(self, jobs: Collection[Job] | None = None) -> None:
        """Standing jobs are there like any others from now on: these, or all."""
        woken = list(self.standing if jobs is None else jobs)
        if not woken:
            return
        self.standing = {job: known for job, known in self.standing.items() if jobs is not None and job not in jobs}
        for job in woken:
            self._read_job(job)
        carried = self._state.waiting.with_reservations
        ordered = sorted(self._jobs.items(), key=lambda item: (0, item[0].order) if item[0] in carried else (1,))
        self._jobs = dict(ordered)
        self._by_task = {
            reservation.task: reservation for _, run in ordered for reservation in self._by_job.get(run, ())
        }

    def _read_job(self, job: Job) -> list[TaskReservation]:
        assert self._job_run is not None
        state, found = self._state, []
        template, pending_job = state.waiting.started[job]
        run = self._jobs[job] = self._job_run(pending_job, template)
        for task in job.reserved_tasks():
            record = state.reservation_of(task)
            since = self._now if record is None or record.since is None else min(record.since, self._now)
            reservation = TaskReservation(run, task, task.node, task.state, since)
            self._insert(reservation)
            found.append(reservation)
        return found

    def _insert(self, reservation: TaskReservation) -> None:
        self._by_task[reservation.task] = reservation
        self._by_job.setdefault(reservation.job, []).append(reservation)

    def _drop(self, reservation: TaskReservation) -> None:
        self.moves += 1
        del self._by_task[reservation.task]
        self._by_job[reservation.job].remove(reservation)

    def _take(self, reservation: TaskReservation, sign: int) -> None:
        self.moves += 1
        if sign < 0:
            self._accounts.charge_kinds(reservation.job, [reservation.task], -1)
        self._nodes.occupy(reservation.task.shape, [reservation.task], [reservation.row], sign)
        if sign > 0:
            self._accounts.charge_kinds(reservation.job, [reservation.task], 1)

    def _flag(self, row: int, by: int) -> None:
        """One reservation more or less waits on a row; others may use it only if there is none."""
        self._reserved[row] += by
        self._nodes.snapshot.write(row)
        self._publish()

    def _unflag(self, reservation: TaskReservation) -> None:
        if not reservation.open:
            self._flag(reservation.row, -1)

    def _publish(self) -> None:
        kernel = self._nodes.kernel
        kernel.reserved = self._reserved > 0 if self._reserved.any() else None
        kernel.reserved_slots = self._reserved

    def _lift(self, reservation: TaskReservation, sign: int) -> None:
        """Take a nomination off its node (or put it back): what it claims beyond what is being released is free.

        One made in this session is not counted on the node, and its capacity stays its own until the session ends.
        """
        if reservation.task.state is not TaskState.PIPELINED:
            return
        snapshot, row = self._nodes.snapshot, reservation.row
        snapshot.write(row)
        claims = self._claims(row)
        for dimension, amount in reservation.task.shape.vector:
            before = self._owed(row, dimension)
            claims[dimension] -= sign * amount
            snapshot.idle[dimension, row] += before - self._owed(row, dimension)
        self._nodes.stand_in(reservation.task, reservation.row, -sign)

    def _owed(self, row: int, dimension: int) -> int:
        """What nominations claim on a row beyond what is being released there."""
        return max(0, self._claims(row)[dimension] - int(self._state.nodes.releasing.data[dimension, row]))

    def _claims(self, row: int) -> list[int]:
        if row not in self._nominated:
            self._nominated[row] = self._state.nodes.pipelined.data[:, row].tolist()
        return self._nominated[row]
