"""What happened and what is planned: evictions, reservations, the feed, nodes over time, series, the scheduler."""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct, TimeSeries


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


class WaitGroup(PageStruct, frozen=True):
    """Waits of jobs that started, in seconds."""

    group: str
    """A class of sizes such as `2-8 pods`, or a namespace."""
    jobs: int
    mean: float
    median: float
    p90: float
    longest: float


class HistoryRange(PageStruct, frozen=True):
    """What the ring keeps: the oldest entries go when it is full."""

    first: str | None
    last: str | None
    samples: int
    bytes: int
    most_bytes: int


class HistoryPage(PageStruct, frozen=True):
    """GET /history: `from` and `to` (RFC 3339) limit it; series have at most `points` times (default 300)."""

    revision: int
    now: str
    kept: HistoryRange
    utilisation: TimeSeries
    """Allocated part of the cluster, a line for each resource."""
    queues: TimeSeries
    """Dominant share of each queue."""
    namespaces: TimeSeries
    """Dominant share of each namespace, over all queues."""
    jobs: TimeSeries
    """Jobs that wait and that run."""
    evictions: TimeSeries
    """Pods evicted since the time before, a line for each rule."""
    waits_by_size: list[WaitGroup]
    waits_by_namespace: list[WaitGroup]


class QueueHistory(PageStruct, frozen=True):
    """GET /queues/{name}/history: what a queue had and deserved over time."""

    revision: int
    queue: str
    allocated: TimeSeries
    """As a part of the cluster, a line for each resource."""
    deserved: TimeSeries
    namespaces: TimeSeries
    """Weighted share of each namespace in the queue."""


class CycleTimes(PageStruct, frozen=True):
    count: int
    last: float
    """Milliseconds, as the others."""
    median: float
    p99: float
    longest: float
    over_time: TimeSeries


class SchedulerBacklog(PageStruct, frozen=True):
    waiting_jobs: int
    waiting_pods: int
    unanswered: int | None = None
    """Changes that the API server has not answered yet; null where there is none."""


class ApiLatency(PageStruct, frozen=True):
    """Requests that write, in seconds."""

    requests: int
    failed: int
    mean: float
    p99: float
    """The bound of the bucket that it is in."""


class SchedulerProblem(PageStruct, frozen=True):
    at: str
    level: str
    """warning or error."""
    text: str
    count: int = 1


class PolicyInForce(PageStruct, frozen=True):
    source: str
    actions: list[str]
    plugins: list[list[str]]
    """By tier."""
    text: str
    """The whole policy, as it is in force."""
    since: str | None = None


class ShadowDifference(PageStruct, frozen=True):
    cycle: int
    at: str
    bindings: list[str]
    """Pods that the shadow policy would bind otherwise."""
    evictions: list[str]


class SchedulerPage(PageStruct, frozen=True):
    """GET /scheduler."""

    revision: int
    now: str
    leads: bool | None
    """null where there is no election."""
    cycles: CycleTimes
    backlog: SchedulerBacklog
    api: ApiLatency | None
    problems: list[SchedulerProblem]
    """The newest first."""
    policy: PolicyInForce
    shadow_policy: str | None
    shadow: list[ShadowDifference]
    objects: dict[str, int]
    """How many objects there are, by kind."""
    viewers: int
    """Clients of GET /events."""
