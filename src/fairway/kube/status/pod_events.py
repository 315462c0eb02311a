"""`PodEvents`: which pods of waiting jobs get an event of their own, and when.

A job says why it waits in an event about its PodGroup or controller, but the first thing that a user types is
`kubectl describe pod`. So each pod of a waiting gang gets one event with the reason, once: a little after it came,
because the first reason of a gang is nearly always that its other pods are not there yet. At most `MAX_PER_JOB` pods of
a job get one, and all of them together at most `RATE` a second: a gang of thousands must not crowd out others' events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fairway.api.pods import Pod
from fairway.clock import SECOND, Micros
from fairway.scheduler.plan import Pending
from fairway.state.cluster import ClusterState
from fairway.state.jobs import WAITING

DELAY: Micros = 2 * SECOND
MAX_PER_JOB = 100
RATE = 20
"""Events a second, once `BURST` are spent."""
BURST = 200
MAX_WAITING = 20_000
"""Pods that wait for their event at the same time; more get none."""

_COST = SECOND // RATE


class PodEvents:
    """Driven by the times that it is given alone."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._came: dict[str, None] = {}
        """Pods whose time has not begun."""
        self._due: dict[str, Micros] = {}
        """When pods may get their event, in this order."""
        self._told: dict[str, set[str]] = {}
        """Pods that have theirs, by the identity of their job."""
        self._free_at: Micros | None = None
        """When all that was spent of `BURST` is earned again."""
        self._by_job: dict[str, Pending] | None = None
        self._reasons: Sequence[Pending] = ()

    @property
    def reasons(self) -> Sequence[Pending]:
        """Why jobs wait, by the last plan that has reasons."""
        return self._reasons

    @reasons.setter
    def reasons(self, reasons: Sequence[Pending]) -> None:
        self._reasons, self._by_job = reasons, None

    @property
    def has_news(self) -> bool:
        return bool(self._came)

    def came(self, pod: Pod) -> None:
        """A pod without a node."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if name in self._due or len(self._due) + len(self._came) >= MAX_WAITING:
            return
        task = self._state.tasks.get(name)
        if task is not None and not task.job.alone and name not in self._told.get(task.job.identity, ()):
            self._came[name] = None

    def forget(self, identity: str) -> None:
        """A job was placed or is gone: if it waits again, its pods are told again."""
        self._told.pop(identity, None)

    def next_due(self) -> Micros | None:
        first = next(iter(self._due.values()), None)
        if first is None or self._free_at is None:
            return first
        return max(first, self._free_at - (BURST - 1) * _COST)

    def due(self, now: Micros) -> Iterator[tuple[str, str]]:
        """Names of pods, and why each waits."""
        self._due.update(dict.fromkeys(self._came, now + DELAY))
        self._came.clear()
        while (at := self.next_due()) is not None and at <= now:
            name = next(iter(self._due))
            del self._due[name]
            text = self._reason(name)
            if text:
                self._free_at = max(now, self._free_at or now) + _COST
                yield name, text

    def _reason(self, name: str) -> str:
        task = self._state.tasks.get(name)
        if task is None or task.state not in WAITING or task.job.alone:
            return ""
        identity = task.job.identity
        told = self._told.setdefault(identity, set())
        if len(told) >= MAX_PER_JOB:
            return ""
        entry = self._reason_of(identity)
        if entry is None:
            return ""
        told.add(name)
        return f"{entry.reason}: {entry.message}"

    def _reason_of(self, identity: str) -> Pending | None:
        if self._by_job is None:
            self._by_job = {
                f"{entry.job_kind} {entry.job}": entry for entry in self._reasons if entry.job_kind != "Pod"
            }
        return self._by_job.get(identity)
