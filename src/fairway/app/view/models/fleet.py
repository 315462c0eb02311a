"""The fleet, where a hub is connected."""

from __future__ import annotations

from fairway.app.view.models.common import Amounts, PageStruct


class FittingPods(PageStruct, frozen=True):
    request: dict[str, str]
    fits: int
    node_selector: dict[str, str]
    """Labels of the nodes that such pods select; empty for pods that select none."""


class FleetClusterRow(PageStruct, frozen=True):
    name: str
    available: bool
    taints: list[str]
    free: Amounts | None
    """null: not reported, or the report has ended."""
    shapes: list[FittingPods]
    """How many more pods of each size fit."""
    placements: int
    report_age: int | None
    """Seconds."""
    report_ended: bool
    problems: list[str]


class PlacedCluster(PageStruct, frozen=True):
    cluster: str
    score: float
    scores: dict[str, float]
    """By prioritizer."""
    reason: str


class LeftOutCluster(PageStruct, frozen=True):
    cluster: str
    filter: str
    reason: str


class FleetCondition(PageStruct, frozen=True):
    """Of a placement's status."""

    type: str
    status: str
    reason: str
    message: str


class FleetPlacement(PageStruct, frozen=True):
    placement: str
    """`namespace/name`."""
    decisions: list[PlacedCluster]
    filtered: list[LeftOutCluster]
    conditions: list[FleetCondition]
    warnings: list[str]


class FleetPage(PageStruct, frozen=True):
    """GET /fleet."""

    connected: bool
    now: str
    clusters: list[FleetClusterRow]
    placements: list[FleetPlacement]
