"""System pods are never victims: those of kube-system and those of a system-critical priority."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairway.api.settings import Arguments
from fairway.scheduler.jobrun import JobRun
from fairway.state.reader import SYSTEM_CLASSES
from fairway.state.tasks import Task

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = min(SYSTEM_CLASSES.values())


def is_system(task: Task) -> bool:
    return (
        task.job.namespace == SYSTEM_NAMESPACE
        or task.priority >= SYSTEM_PRIORITY
        or task.traits.priority_class in SYSTEM_CLASSES
    )


class Conformance:
    name = "conformance"
    built_in = True

    def __init__(self, arguments: Arguments) -> None: ...

    def preemptable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]:
        return [task for task in candidates if not is_system(task)]

    def reclaimable(self, claimant: JobRun, candidates: Sequence[Task]) -> Iterable[Task]:
        return self.preemptable(claimant, candidates)
