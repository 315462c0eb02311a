"""A report as data: everything that the terminal, `report.json` and the page show, and nothing that a clock measured.

The same run gives the same bytes. The cost of the run on this machine (seconds, memory) is kept apart, in `Speed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairway.sim.metrics import Metrics
from fairway.sim.node_timeline import Bar, Outage, ReservationSpan


class NamespaceSeries(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace over time: its dominant share, and the share it was entitled to."""

    share: Sequence[float]
    entitled: Sequence[float]


class Charts(msgspec.Struct, frozen=True, rename="camel"):
    """Means over the intervals that end at `times` (seconds since the start)."""

    times: Sequence[float]
    queues: Mapping[str, Sequence[float]]
    """Dominant share of each queue."""
    used: Mapping[str, Sequence[float]]
    """Utilisation of each resource."""
    namespaces: Mapping[str, NamespaceSeries]
    """By queue/namespace, for the namespaces with the most service."""
    more_namespaces: int
    waiting: Sequence[float]
    starving: Sequence[float]
    reserved: Sequence[float]
    """Nodes with a reservation."""
    evictions: Sequence[float]
    """Evictions in each interval."""
    fragmentation: Sequence[float]
    """Idle part of the most used resource while jobs were waiting, else 0."""
    bars: Sequence[Bar]
    """Pods on nodes; empty where the run is too large to draw."""
    reservations: Sequence[ReservationSpan]
    outages: Sequence[Outage]


class FleetCluster(msgspec.Struct, frozen=True, rename="camel"):
    """A cluster of a fleet over the run."""

    name: str
    nodes: int
    """At the start."""
    finished: int
    running: int
    waiting: int
    """At the end."""
    mean_wait: float
    """Seconds from submission to the fleet until the start, for jobs that finished here."""
    longest_wait: float
    moved_in: int
    """Pending jobs that moved here from another cluster."""
    moved_out: int
    evictions: int
    utilisation: Mapping[str, float]
    """Utilisation of each resource over the whole run."""
    times: Sequence[float]
    used: Sequence[float]
    """Utilisation of the most used resource: means over the intervals that end at `times`."""


class FleetTeam(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace of a fleet."""

    name: str
    unplaced_mean: float
    """Seconds until a cluster was first chosen, averaged over its jobs."""
    unplaced_longest: float
    moves: int
    clusters: Mapping[str, int]
    """Finished jobs by cluster."""


class FleetView(msgspec.Struct, frozen=True, rename="camel"):
    clusters: Sequence[FleetCluster]
    teams: Sequence[FleetTeam]
    moves: int
    """Moves of pending jobs between clusters."""
    unplaced: int
    """Jobs without a cluster at the end."""
    decisions: int
    """Placement decisions, including those that changed nothing."""


class RunReport(msgspec.Struct, frozen=True, rename="camel"):
    """One run of a scenario under one policy."""

    scenario: str
    policy: str
    seed: int
    start: str
    end: str
    partial: bool
    """The run was interrupted: the report covers the time until then."""
    metrics: Metrics
    charts: Charts
    nodes: int
    order: str = "ends, arrivals, changes, then the scheduler; equals in the order they were planned"
    """How simultaneous events are ordered."""
    ties: str = "creation, then namespace/name; nodes by name"
    warnings: Sequence[str] = ()
    breaches: Sequence[str] = ()
    passed: Sequence[str] = ()
    """Assertions that hold."""
    fleet: FleetView | msgspec.UnsetType = msgspec.UNSET
    """Results by cluster, for a fleet."""


class Speed(msgspec.Struct, frozen=True, rename="camel"):
    """Cost of the run on this machine."""

    seconds: float
    events: int
    cycles: int
    decisions: int
    decide_seconds: float
    cycle_p99: float
    peak_memory: int
    """Bytes."""

    @property
    def decisions_per_second(self) -> float:
        return self.decisions / self.decide_seconds if self.decide_seconds else 0.0


def to_json(report: RunReport) -> bytes:
    """Indented, keys in a fixed order, so that two reports can be compared line by line."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
