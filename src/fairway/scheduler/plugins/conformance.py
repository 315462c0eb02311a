"""System pods are never victims: those of kube-system and those of a system-critical priority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.api.settings import Arguments
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.victims.units import is_system
from fairway.state.tasks import Task


class Conformance:
    name = "conformance"

    def __init__(self, arguments: Arguments) -> None: ...

    def preemptable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]:
        return [task for task in candidates if not is_system(task)]

    def reclaimable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]:
        return self.preemptable(claimant, candidates)
