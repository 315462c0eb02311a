"""What a report says of a fleet, cluster by cluster: which jobs came, how long they waited there, what was in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec


class FleetCluster(msgspec.Struct, frozen=True, rename="camel"):
    """One cluster of a fleet over a run."""

    name: str
    nodes: int
    """At the start."""
    finished: int
    running: int
    waiting: int
    """At the end."""
    mean_wait: float
    """Of the jobs that finished here, since they came to the fleet; seconds."""
    longest_wait: float
    moved_in: int
    """Waiting jobs that came from another cluster."""
    moved_out: int
    evictions: int
    utilisation: Mapping[str, float]
    """The part of each resource that was in use, over the whole run."""
    times: Sequence[float]
    used: Sequence[float]
    """The same over time, of the most used resource: means over the spans that end at `times`."""


class FleetTeam(msgspec.Struct, frozen=True, rename="camel"):
    """A namespace of a fleet."""

    name: str
    unplaced_mean: float
    """How long its jobs were at the hub before a cluster was first chosen; seconds."""
    unplaced_longest: float
    moves: int
    clusters: Mapping[str, int]
    """Finished jobs by cluster."""


class FleetView(msgspec.Struct, frozen=True, rename="camel"):
    clusters: Sequence[FleetCluster]
    teams: Sequence[FleetTeam]
    moves: int
    """Waiting jobs that went from one cluster to another."""
    unplaced: int
    """Jobs for which no cluster was chosen when the run ended."""
    decisions: int
    """Placements decided, also where nothing changed."""
