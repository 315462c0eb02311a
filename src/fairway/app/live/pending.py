"""How many pods wait, by kube-scheduler's queues: `active`, `unschedulable` and `gated`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from prometheus_client import Gauge

from fairway.api.kinds import ObjectKey
from fairway.api.pods import Pod
from fairway.drive import Change, Cycle
from fairway.state.events import Deleted, Event
from fairway.state.reader import gates_of_pod

ACTIVE, UNSCHEDULABLE, GATED = "active", "unschedulable", "gated"


class PendingPods:
    """A listener of the loop. A pod is active until a cycle has considered it."""

    def __init__(self, scheduler_names: Collection[str]) -> None:
        self._names = frozenset(scheduler_names)
        self._waiting: dict[ObjectKey, str] = {}
        self._active: set[ObjectKey] = set()

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            pod = event.object
            if not isinstance(pod, Pod):
                continue
            key = "Pod", pod.metadata.namespace, pod.metadata.name
            if isinstance(event, Deleted) or not self._waits(pod):
                if self._waiting.pop(key, None) is not None:
                    self._active.discard(key)
            elif gates_of_pod(pod):
                self._waiting[key] = GATED
                self._active.discard(key)
            elif self._waiting.get(key) != UNSCHEDULABLE:
                self._waiting[key] = ACTIVE
                self._active.add(key)

    def decided(self, cycle: Cycle) -> None:
        for key in self._active:
            self._waiting[key] = UNSCHEDULABLE
        self._active.clear()

    def refused(self, change: Change, why: str) -> None:
        """Its pod is reported as pending again."""

    def show(self, gauge: Gauge) -> None:
        """From any thread: what is counted while the loop goes on is a count of some moment between."""
        active, waiting = len(self._active), len(self._waiting)
        gated = sum(queue == GATED for queue in list(self._waiting.values()))
        gauge.labels(ACTIVE).set(active)
        gauge.labels(GATED).set(gated)
        gauge.labels(UNSCHEDULABLE).set(max(0, waiting - active - gated))

    def _waits(self, pod: Pod) -> bool:
        return (
            not pod.spec.node_name
            and pod.spec.scheduler_name in self._names
            and pod.status.phase in ("", "Pending")
            and pod.metadata.deletion_timestamp is None
        )
