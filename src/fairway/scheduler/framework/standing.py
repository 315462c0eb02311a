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
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fairway.clock import Micros
from fairway.scheduler.plan import Reservation
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy


class StandingJob(NamedTuple):
    """`places` are tasks, rows and since when; `entries` what plans say of them."""

    shapes: frozenset[Shape]
    places: tuple[tuple[Task, int, Micros], ...]
    entries: tuple[Reservation, ...]
    until: Micros | None
    """When one of them times out."""
    timed: bool
    """Whether it is known that nothing can be said of when their capacity will be free."""


class StandingReservations:
    """What one state keeps of its last cycle."""

    def __init__(self) -> None:
        self._jobs: dict[Job, StandingJob] = {}
        self._on: dict[int, set[Job]] = {}
        self._basis: tuple[object, ...] = ()
        self._read = (-1, -1, -1)

    def sync(
        self, state: ClusterState, snapshot: WorkingCopy, basis: tuple[object, ...], now: Micros, *, explains: bool
    ) -> dict[Job, StandingJob]:
        """The jobs that stand as a session begins; `basis` is all that they rest on together. One that `explains` says
        when capacity will be free.
        """
        jobs_log, touched_log, reshaped_log = state.changed_jobs, snapshot.touched, snapshot.reshaped
        if basis != self._basis:
            self._basis = basis
            self._forget()
        elif self._jobs:
            changed = jobs_log.since(self._read[0])
            touched, reshaped = touched_log.since(self._read[1]), reshaped_log.since(self._read[2])
            if changed is None or touched is None or reshaped is None:
                self._forget()
            else:
                rows = {*touched.tolist(), *reshaped.tolist()}
                for job in dict.fromkeys(changed):
                    self.discard(job)
                    rows.update(task.node for task in job.tasks)
                for row in self._on.keys() & rows:
                    for job in list(self._on.get(row, ())):
                        self.discard(job)
            for job in [job for job, known in self._jobs.items() if known.until is not None and known.until <= now]:
                self.discard(job)
        self._read = jobs_log.end, touched_log.end, reshaped_log.end
        return {job: known for job, known in self._jobs.items() if known.timed or not explains}

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

    def _forget(self) -> None:
        self._jobs, self._on = {}, {}


def standing_reservations(state: ClusterState) -> StandingReservations:
    return state.derived.of(StandingReservations, StandingReservations)


def shapes_of(standing: Iterable[StandingJob]) -> set[Shape]:
    return {shape for known in standing for shape in known.shapes}
