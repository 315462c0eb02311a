"""How often a live scheduler decides (spec K6), on a real API server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from fairway.clock import SECOND, Micros
from fairway.drive.change import Change
from fairway.drive.scheduler_loop import Cycle
from fairway.state.cluster import Event
from kube.cluster import Cluster, eventually
from kube.intercepted import is_settled
from kube.live import Live


class BindingTimes:
    """When cycles were that bound something, by the time that each was decided at: how long it took to come this far is
    the machine's affair.
    """

    def __init__(self) -> None:
        self.found: list[Micros] = []

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        if cycle.changes:
            self.found.append(cycle.now)


def test_K6_cycles_keep_the_least_interval_and_there_is_none_without_a_change(cluster: Cluster) -> None:
    cluster.node("n", cpu=100)
    with Live(cluster, min_interval=1.0) as live:
        times = BindingTimes()
        live.on_loop(lambda: live.scheduler._scheduler.listeners.append(times))
        for number in range(12):
            cluster.pod(f"p{number}")
            time.sleep(0.25)
        eventually(lambda: all(cluster.places().values()))
        assert len(times.found) >= 2
        assert all(later - sooner > 0.99 * SECOND for sooner, later in itertools.pairwise(times.found))
        eventually(lambda: is_settled(live))
        # What people read is worked out once more; then no cycle is planned.
        before = eventually(lambda: live.on_loop(lambda: _cycles_if_at_rest(live)))
        time.sleep(2.5)
        assert live.cycles == before


def _cycles_if_at_rest(live: Live) -> int:
    """Groups that other tests have left wait too, and may have a moment of their own: that is minutes ahead."""
    loop = live.scheduler._scheduler
    soon = live.scheduler._thread.now() + 10 * SECOND
    return loop.cycles if loop.next_cycle is None or loop.next_cycle > soon else 0
