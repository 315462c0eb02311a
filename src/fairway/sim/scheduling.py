"""The scheduler's loop on a virtual cluster, and what a run wants to know of its cycles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from fairway.api.policy import Policy
from fairway.clock import Micros, parse_rfc3339
from fairway.drive import Change, Cycle, EventSink, Listener, Rhythm, SchedulerLoop, Stopwatch
from fairway.scheduler.plan import Plan, Reservation
from fairway.sim.loop import EventLoop, VirtualTimer
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.virtual_cluster import RunObserver, VirtualCluster
from fairway.state.cluster import ClusterState, Event

IDLE_CYCLES = 3
"""When no other event is planned, this many cycles without a change end a run."""


def rhythm_of(mode: Literal["events", "interval", "both"], interval: Micros, *, reasons: bool) -> Rhythm:
    """Virtual time costs nothing: a cycle follows the changes of its instant at once."""
    return Rhythm(
        min_interval=0,
        every=None if mode == "events" else interval,
        and_every=mode == "both",
        reasons_interval=0 if reasons else -1,
    )


def schedule(
    cluster: VirtualCluster,
    policy: Policy,
    rhythm: Rhythm,
    listeners: Iterable[Listener] = (),
    *,
    state: ClusterState | None = None,
    through: Callable[[EventSink], EventSink] | None = None,
    stopwatch: Stopwatch = time.perf_counter_ns,
) -> SchedulerLoop:
    """A scheduler for a virtual cluster; it gets all events from now on, through `through` if that is given."""
    timer = VirtualTimer(cluster.loop)
    loop = SchedulerLoop(cluster, timer, policy, state=state, rhythm=rhythm, listeners=listeners, stopwatch=stopwatch)
    cluster.report_to(loop if through is None else through(loop))
    return loop


class CycleMeter:
    """Counts cycles and their effects, and passes reservations to the metrics of a run."""

    def __init__(
        self,
        loop: EventLoop,
        recorder: RunObserver,
        timeline: NodeTimeline,
        on_planned: Callable[[str, Micros, bool], None] = lambda job, at, hard: None,
    ) -> None:
        """`on_planned` gets each planned start: the job, when, and whether it is hard."""
        self.decisions = 0
        self.spent = Distribution()
        """Nanoseconds of each cycle, to the microsecond."""
        self.idle = 0
        """Cycles in a row that changed nothing while no other event was planned."""
        self._loop = loop
        self._recorder = recorder
        self._timeline = timeline
        self._reservations: tuple[Reservation, ...] = ()
        self._on_planned = on_planned
        self._starts: dict[str, tuple[str, bool]] = {}
        """The planned starts of the last plan."""

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self.spent.add(cycle.nanoseconds // 1000 * 1000)
        self.decisions += cycle.plan.placed
        self.idle = 0 if cycle.changes or not self._loop.only_passes else self.idle + 1
        planned = cycle.plan.reservations
        if planned or self._starts:
            self._tell_planned(cycle.plan)
        reservations = tuple([entry for entry in planned if not entry.anew]) if planned else ()
        if reservations != self._reservations:
            self._reservations = reservations
            self._record(cycle.now, reservations)

    def _tell_planned(self, plan: Plan) -> None:
        """Planned starts that the last plan did not have."""
        starts = {entry.job: (entry.planned_start, entry.hard) for entry in plan.reservations}
        found = {job: (start, hard) for job, (start, hard) in starts.items() if start is not None}
        for job, (start, hard) in found.items():
            if self._starts.get(job) != (start, hard):
                self._on_planned(job, parse_rfc3339(start), hard)
        self._starts = found

    def _record(self, now: Micros, reservations: tuple[Reservation, ...]) -> None:
        nodes: dict[str, set[str]] = {}
        for entry in reservations:
            nodes.setdefault(entry.job, set()).add(entry.node)
        self._recorder.reservations(now, len(nodes), len({entry.node for entry in reservations}))
        self._timeline.reserved(now, {job: len(names) for job, names in nodes.items()})
