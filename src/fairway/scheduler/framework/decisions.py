"""What a session has decided so far, and why the rest waits. The plan is made from it when all actions have run."""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.plan import Eviction
from fairway.scheduler.verdict import Verdict
from fairway.state.jobs import Job, Task
from fairway.state.waiting import EquivalenceClass, GangTemplate


class Step(Enum):
    """How an attempt to place a job's next step ended."""

    PLACED = auto()
    NOT_ALLOWED = auto()
    NO_CAPACITY = auto()
    PUT_OFF = auto()
    """Its namespace has cost enough in this cycle."""


Places = tuple[tuple[Task, int], ...]


class PlannedStart(NamedTuple):
    """Tasks of a job and the rows they have from `start` on. A hard one is never missed; a soft one may move."""

    job: JobRun
    places: Places
    start: Micros
    hard: bool
    estimated: bool
    """Whether it rests on an estimate."""


class Decisions:
    """Bindings, evictions and planned starts, in the order decided; `reservations` has reservations and nominations."""

    def __init__(self) -> None:
        self.bindings: list[tuple[JobRun, list[Task], list[int]]] = []
        self.evictions: list[Eviction] = []
        self.evicted: set[Task] = set()
        self.settled: list[object] = []
        """Claims whose victims go in this cycle, in the order decided."""
        self.settled_rows: dict[int, NDArray[np.int64]] = {}
        """By row, how much less is free because it is nominated in this cycle."""
        self.overruns: dict[Job, Job] = {}
        """Jobs evicted in this cycle for outliving their expected run time, and for which job each."""
        self.planned: dict[JobRun, PlannedStart] = {}
        """Planned starts of jobs that have no reservation."""
        self.runs_on_nodes: int | None = None
        """How many pods are on nodes after this cycle, where planned starts are carried by that."""
        self.rechecks: list[Micros] = []
        """Moments at which an action wants to be asked again."""
        self.warnings: list[str] = []
        self._bound: set[Job] = set()
        self._bound_seen = 0

    def bind(self, job: JobRun, tasks: list[Task], rows: list[int]) -> None:
        """What a committed statement has placed."""
        self.bindings.append((job, tasks, rows))

    def bound_jobs(self) -> set[Job]:
        """Jobs of which something was placed in this cycle."""
        if self._bound_seen != len(self.bindings):
            self._bound |= {job.job for job, _, _ in self.bindings[self._bound_seen :]}
            self._bound_seen = len(self.bindings)
        return self._bound

    def rows_bound(self, job: Job) -> list[int]:
        """Where tasks of a job were placed in this cycle."""
        return [row for run, _, rows in self.bindings if run.job is job for row in rows]

    def evicted_jobs(self) -> set[Job]:
        """Jobs of which something is evicted in this cycle."""
        return {task.job for task in self.evicted}

    def note_settled(self, row: int, amounts: NDArray[np.int64]) -> None:
        """So much of what a row has free is nominated from now on."""
        known = self.settled_rows.get(row)
        self.settled_rows[row] = amounts if known is None else known + amounts


class Outcomes:
    """Why jobs wait: kept for a whole equivalence class or gang template where that is enough. Jobs that started
    before, or in this session, stand for themselves.
    """

    def __init__(self) -> None:
        self.queue_verdicts: dict[str, Verdict] = {}
        """Whether jobs of a queue may be placed, once asked for."""
        self.namespace_verdicts: dict[tuple[str, str], Verdict] = {}
        """Whether jobs of a queue and a namespace may be placed there, once asked for."""
        self.refused: dict[Job | EquivalenceClass, Verdict] = {}
        """Groups that enqueue did not let in, where they are alike the whole class."""
        self.no_capacity: set[GangTemplate] = set()
        self.parked: Container[GangTemplate] = ()
        """The same, of templates that were not looked at in this cycle, and of their started jobs."""
        self.classes: dict[EquivalenceClass, Verdict] = {}
        self.jobs: dict[JobRun, Verdict | None] = {}
        """Started jobs that still wait; None means that no node has free capacity."""
        self.put_off: dict[Job, GangTemplate] = {}
        """Started jobs that wait for a later cycle, with what is to be placed of them."""
        self.notes: dict[Job, str] = {}
        """What is to be said of a waiting job besides its reason."""
        self.notes_to_make: dict[Job, Callable[[], str]] = {}
        """The same, of jobs of which it is only worked out if it is asked for."""

    def record_wait_reason(self, job: JobRun, verdict: Verdict) -> None:
        """Why a job waits, in an action's own words."""
        if job.job_class is None:
            self.jobs[job] = verdict
        else:
            self.classes[job.job_class] = verdict
