"""Evictions, reservations and planned starts."""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct


class EvictionEntry(PageStruct, frozen=True):
    """A pod that was evicted: whom, for whom, by which rule, and what was lost."""

    id: int
    """Grows; later is larger."""
    at: str
    pod: str
    job: str
    queue: str
    node: str
    for_job: str
    for_queue: str
    rule: str
    """The action: preempt, reclaim, or overrun of backfill."""
    reason: str
    lost_seconds: float | None = None
    """For how long the pod had run; null if unknown."""
    cycle: int | None = None


class EvictionsPage(PageStruct, frozen=True):
    """GET /evictions: the newest first."""

    revision: int
    now: str
    total: int
    lost_pod_seconds: float
    """Over all evictions that are known."""
    by_rule: dict[str, int]
    rows: list[EvictionEntry]


class ReservationEntry(PageStruct, frozen=True):
    """A node that is kept for a pod that waits, or a planned start."""

    job: str
    queue: str
    pod: str
    node: str
    state: Literal["reserved", "allocated", "nominated", "planned"]
    """reserved waits for free capacity; allocated has it and keeps it until its gang is ready; nominated waits for
    pods that are evicted; planned is a start of backfill, which keeps no node yet."""
    since: str | None = None
    planned_start: str | None = None
    hard: bool = False
    """The planned start is never missed."""


class ReservationsPage(PageStruct, frozen=True):
    """GET /reservations."""

    revision: int
    now: str
    rows: list[ReservationEntry]


class FeedEntry(PageStruct, frozen=True, omit_defaults=True):
    """Something that happened."""

    id: int
    at: str
    kind: Literal[
        "submitted", "placed", "evicted", "lost", "finished", "deleted", "reserved", "released", "changed", "refused"
    ]
    text: str
    job: str = ""
    queue: str = ""


class FeedPage(PageStruct, frozen=True):
    """GET /feed: the newest first; `before=ID` for older ones."""

    revision: int
    now: str
    rows: list[FeedEntry]
    more: bool


class TimelineSpan(PageStruct, frozen=True):
    """Pods of one job on one node, from a time to a time."""

    kind: Literal["running", "reserved", "planned", "evicted", "away"]
    """evicted ran until its eviction, and away is an outage of the node: both only in reports of simulations."""
    job: str
    queue: str
    pods: int
    start: float
    """Seconds since 1970."""
    end: float | None
    """null: no end is known."""
    is_estimate: bool = False
    """The end rests on an estimate or on a run time that is not enforced."""
    fill: float = 0.0
    """The part of the node's dominant resource that it takes, from 0 to 1: how high the bar is."""


class TimelineNode(PageStruct, frozen=True):
    name: str
    state: str
    spans: list[TimelineSpan]


class NodesTimeline(PageStruct, frozen=True):
    """GET /timeline: nodes with what ran, runs, is reserved and is planned."""

    revision: int
    now: str
    start: float
    """Seconds since 1970: the left edge."""
    end: float
    total: int
    """Nodes that pass the filters; `offset` and `limit` page through them."""
    nodes: list[TimelineNode]
