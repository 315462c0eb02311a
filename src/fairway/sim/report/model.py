"""A report as data: everything that the table, the JSON file and the page show, and nothing that a clock measured.

The same run gives the same bytes. What the machine needed (seconds, memory) is kept apart, in `Speed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairway.sim.metrics import Metrics
from fairway.sim.node_timeline import Bar, Outage, ReservationSpan
from fairway.sim.report.fleet import FleetView


class NamespaceSeries(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace over time: what it had, and what it was entitled to."""

    share: Sequence[float]
    entitled: Sequence[float]


class Charts(msgspec.Struct, frozen=True, rename="camel"):
    """Means over the spans that end at `times` (seconds since the start)."""

    times: Sequence[float]
    queues: Mapping[str, Sequence[float]]
    """The dominant share that each queue had."""
    used: Mapping[str, Sequence[float]]
    """The part of each resource that was in use."""
    namespaces: Mapping[str, NamespaceSeries]
    """By queue/namespace, those with the most service."""
    more_namespaces: int
    waiting: Sequence[float]
    starving: Sequence[float]
    reserved: Sequence[float]
    """Nodes that carried a reservation."""
    evictions: Sequence[float]
    """Evictions in each span."""
    fragmentation: Sequence[float]
    """The idle part of the most used resource while jobs waited; 0 where none did."""
    bars: Sequence[Bar]
    """Pods on nodes; empty where the run is too large to draw."""
    reservations: Sequence[ReservationSpan]
    outages: Sequence[Outage]


class RunReport(msgspec.Struct, frozen=True, rename="camel"):
    """One run of a scenario under one policy."""

    scenario: str
    policy: str
    seed: int
    start: str
    end: str
    partial: bool
    """The run was cut short: what follows is what is known of it."""
    metrics: Metrics
    charts: Charts
    nodes: int
    order: str = "ends, arrivals, changes, then the scheduler; equals in the order they were planned"
    """How things at one instant follow each other."""
    ties: str = "creation, then namespace/name; nodes by name"
    warnings: Sequence[str] = ()
    breaches: Sequence[str] = ()
    passed: Sequence[str] = ()
    """Assertions that hold."""
    fleet: FleetView | msgspec.UnsetType = msgspec.UNSET
    """Of a fleet: cluster by cluster."""


class Speed(msgspec.Struct, frozen=True, rename="camel"):
    """What the run cost the machine."""

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
