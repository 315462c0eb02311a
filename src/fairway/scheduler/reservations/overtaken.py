"""Which waiting jobs were overtaken: a job that stands after them was placed since they began to wait (spec S6.1).

A job stands after another by priority, creation, namespace/name. The index of the jobs that have pods on nodes is kept
from cycle to cycle, by priority, with the last of each at hand: most questions are answered by that one.
"""

from __future__ import annotations

from fairway.clock import Micros
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Job, JobOrder, Task, TaskState

JUST_NOW: Micros = 1 << 62
"""When a pod was placed of which only the binding is known."""

_PLACED = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})


class Overtakers:
    """The jobs of a state that have pods on nodes."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._levels: dict[int, _PriorityLevel] = {}
        self._level_of: dict[Job, int] = {}
        self._read = -1

    def sync(self) -> None:
        """Look at the jobs again that have changed since the last time."""
        log = self._state.changed_jobs
        jobs = None if self._read < 0 else log.since(self._read)
        self._read = log.end
        if jobs is None:
            self._levels.clear()
            self._level_of.clear()
            jobs = list(self._state.jobs())
        for job in dict.fromkeys(jobs):
            self._refresh(job)

    def has_overtaken(self, job: Job) -> bool:
        """Whether a job after this one was placed since this one began to wait, and still has pods on nodes."""
        since = job.waits_since
        if since is None:
            return False
        if any(level.last_placed >= since for priority, level in self._levels.items() if priority < job.priority):
            return True
        level = self._levels.get(job.priority)
        return level is not None and level.has_after(job.order, since)

    def _refresh(self, job: Job) -> None:
        known = self._level_of.pop(job, None)
        if known is not None:
            self._levels[known].remove(job)
            if not self._levels[known].jobs:
                del self._levels[known]
        placed = max((_placed_at(task) for task in job.tasks if task.state in _PLACED), default=None)
        if placed is not None:
            self._level_of[job] = job.priority
            self._levels.setdefault(job.priority, _PriorityLevel()).put(job, placed)


class _PriorityLevel:
    """The jobs of one priority, with their order and when the last of their pods was placed."""

    def __init__(self) -> None:
        self.jobs: dict[Job, tuple[JobOrder, Micros]] = {}
        self._last_order: tuple[JobOrder, Micros] | None = None
        self._last_placed: Micros | None = None

    @property
    def last_placed(self) -> Micros:
        if self._last_placed is None:
            self._last_placed = max(placed for _, placed in self.jobs.values())
        return self._last_placed

    def put(self, job: Job, placed: Micros) -> None:
        self.jobs[job] = entry = job.order, placed
        if self._last_order is not None:
            self._last_order = max(self._last_order, entry)
        if self._last_placed is not None:
            self._last_placed = max(self._last_placed, placed)

    def remove(self, job: Job) -> None:
        entry = self.jobs.pop(job)
        if entry == self._last_order:
            self._last_order = None
        if entry[1] == self._last_placed:
            self._last_placed = None

    def has_after(self, order: JobOrder, since: Micros) -> bool:
        """Whether a job behind a place in order was placed at or after a time."""
        if self._last_order is None:
            self._last_order = max(self.jobs.values())
        last, placed = self._last_order
        if last <= order:
            return False
        return placed >= since or any(its > order and at >= since for its, at in self.jobs.values())


def _placed_at(task: Task) -> Micros:
    """A pod that runs was placed before it started; of one that is being bound only that is known."""
    if task.started is not None:
        return task.started
    if task.state is TaskState.BOUND or task.created is None:
        return JUST_NOW
    return task.created


def overtakers(state: ClusterState) -> Overtakers:
    """The state's own index, up to date."""
    found = state.derived.of(Overtakers, lambda: Overtakers(state))
    found.sync()
    return found
