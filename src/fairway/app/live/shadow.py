"""Decisions that are never carried out.

`ShadowPolicy` decides with a second policy on the same state, and counts and logs where its plans differ. `DryWorld` is
the world of `--dry-run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairway.api.policy import Policy
from fairway.app.live.observing import RunMetrics
from fairway.app.logs import RunLog
from fairway.clock import format_rfc3339
from fairway.drive import Change, Cycle
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Event

SHOWN = 3
"""Differences of one cycle that are logged by name."""


class ShadowPolicy:
    """A listener of the loop. When it is called, the state is still the one that the cycle decided on."""

    def __init__(self, policy: Policy, state: ClusterState, every: int, log: RunLog, metrics: RunMetrics) -> None:
        self._policy = policy
        self.source = policy.source
        self._state = state
        self._every = every
        self._log = log
        self._metrics = metrics
        self.last: dict[str, Any] | None = None
        """The last cycle in which the two plans differed, and how."""

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
            self._log.info("shadow policy differs", cycle=cycle.number, **fields)


def differences(plan: Plan, other: Plan) -> dict[str, list[str]]:
    """Pods that only one of the plans binds or evicts, or that they bind to different nodes, by kind."""
    bound, others = ({entry.pod: entry.node for entry in each.bindings} for each in (plan, other))
    evicted, spared = ({entry.pod for entry in each.evictions} for each in (plan, other))
    found = {
        "bindings": sorted(pod for pod in {**bound, **others} if bound.get(pod) != others.get(pod)),
        "evictions": sorted(evicted ^ spared),
    }
    return {kind: names for kind, names in found.items() if names}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


class DryWorld:
    """Accepts changes and writes nothing. The store counts them as made, so that each is logged once."""

    has_capacity = True
    unanswered = 0

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Nothing to do. What another scheduler really does to the objects arrives as events, and wins."""
