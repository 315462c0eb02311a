"""What became of the jobs that a session looked at: kept per signature and line where that is enough."""

from __future__ import annotations

from enum import Enum, auto

from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.verdict import Verdict
from fairway.state.jobs import Job
from fairway.state.waiting import EquivalenceClass, GangTemplate


class Step(Enum):
    """How an attempt to place a job's next step ended."""

    PLACED = auto()
    NOT_ALLOWED = auto()
    NO_CAPACITY = auto()


class Outcomes:
    """Why those who wait wait. Jobs that started before, or in this session, stand for themselves."""

    def __init__(self) -> None:
        self.refused: dict[Job | EquivalenceClass, Verdict] = {}
        """Groups that enqueue did not let in, where they are alike the whole line."""
        self.admitted: set[Job] = set()
        """Groups without pods that enqueue let in: their pods can be made now."""
        self.no_capacity: set[GangTemplate] = set()
        self.classes: dict[EquivalenceClass, Verdict] = {}
        self.jobs: dict[JobRun, Verdict | None] = {}
        """Started jobs that still wait; None means that no node has room."""
