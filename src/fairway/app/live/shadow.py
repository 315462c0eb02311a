"""A second policy that is decided on the same state and never carried out: its difference is counted and shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.api.policy import Policy
from fairway.app.live.logs import RunLog
from fairway.app.live.metrics import RunMetrics
from fairway.clock import format_rfc3339
from fairway.drive import Change, Cycle
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Event

SHOWN = 3
"""Differences of one cycle that are logged by name."""


class ShadowPolicy:
    """A listener of the loop: at the time it is called the state is still the one that was decided on."""

    def __init__(self, policy: Policy, state: ClusterState, every: int, log: RunLog, metrics: RunMetrics) -> None:
        self._policy = policy
        self.source = policy.source
        self._state = state
        self._every = every
        self._log = log
        self._metrics = metrics
        self.last: dict[str, Any] | None = None
        """The last cycle in which the two differed, and in what."""

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        if cycle.number % self._every:
            return
        other = decide(self._state, self._policy, cycle.now)
        found = differences(cycle.plan, other)
        for kind, names in found.items():
            self._metrics.shadow.labels(kind).inc(len(names))
        if found:
            self.last = {"cycle": cycle.number, "now": format_rfc3339(cycle.now), "differences": found}
            fields = {kind: _some(names) for kind, names in found.items()}
            self._log.info("the shadow policy would do otherwise", cycle=cycle.number, **fields)


def differences(plan: Plan, other: Plan) -> dict[str, list[str]]:
    """What only one of two plans does, or both do differently, by kind."""
    bound, others = ({entry.pod: entry.node for entry in one.bindings} for one in (plan, other))
    evicted, spared = ({entry.pod for entry in one.evictions} for one in (plan, other))
    found = {
        "bindings": sorted(pod for pod in {**bound, **others} if bound.get(pod) != others.get(pod)),
        "evictions": sorted(evicted ^ spared),
    }
    return {kind: names for kind, names in found.items() if names}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
