"""How many jobs of each queue are in which phase, as Volcano's queues say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.scheduler.plan import GroupStatus
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job


class PhaseCounts(NamedTuple):
    """Jobs by phase, under the names that a Queue's status has."""

    pending: int = 0
    inqueue: int = 0
    running: int = 0
    unknown: int = 0
    completed: int = 0


NO_JOBS = PhaseCounts()
_FIELDS = {name.capitalize(): place for place, name in enumerate(PhaseCounts._fields)}


class QueueCounts:
    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}

    def add(self, queue: str, phase: str) -> None:
        self._counts.setdefault(queue, [0] * len(_FIELDS))[_FIELDS[phase]] += 1

    def get(self, queue: str) -> PhaseCounts:
        found = self._counts.get(queue)
        return NO_JOBS if found is None else PhaseCounts(*found)


def count_jobs(state: ClusterState, groups: Mapping[str, GroupStatus]) -> QueueCounts:
    """All jobs, PodGroups or not; `groups` is what the last plan says of groups. It walks all jobs: a driver asks now
    and then, not in every cycle.
    """
    said = {f"PodGroup {name}": status.phase for name, status in groups.items()}
    counts = QueueCounts()
    for job in state.jobs():
        if job.is_made:
            counts.add(job.queue, said.get(job.identity) or _phase(job))
    return counts


def _phase(job: Job) -> str:
    if job.ready >= max(job.minimum, 1):
        return "Running"
    if not job.tasks:
        return job.phase or "Pending"
    return "Unknown" if job.ready else "Inqueue"
