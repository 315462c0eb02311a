"""What happened and what is planned: evictions, reservations, the feed, nodes over time, series, the scheduler."""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct, TimeSeries


class EvictionEntry(PageStruct, frozen=True):
    """An evicted pod: for which job, by which rule, and the work lost."""

    id: int
    """Later entries have larger ids."""
    at: str
    pod: str
    job: str
    queue: str
    node: str
    for_job: str
    for_queue: str
    rule: str
    """The action: preempt, reclaim, or overrun (of backfill)."""
    reason: str
    lost_seconds: float | None = None
    """Seconds that the pod had run; null if unknown."""
    cycle: int | None = None


class EvictionsPage(PageStruct, frozen=True):
    """GET /evictions: the newest first."""

    revision: int
    now: str
    total: int
    lost_pod_seconds: float
    """Over all recorded evictions."""
    by_rule: dict[str, int]
    rows: list[EvictionEntry]


class ReservationEntry(PageStruct, frozen=True):
    """A node reserved for a pending pod, or a planned start."""

    job: str
    queue: str
    pod: str
    node: str
    state: Literal["reserved", "allocated", "nominated", "planned"]
    """reserved waits for free capacity; allocated has it and keeps it until the gang is ready; nominated waits for
    evicted pods to end; planned is a planned start of backfill, which reserves no node yet."""
    since: str | None = None
    planned_start: str | None = None
    hard: bool = False
    """The planned start is guaranteed."""


class ReservationsPage(PageStruct, frozen=True):
    """GET /reservations."""

    revision: int
    now: str
    rows: list[ReservationEntry]


class FeedEntry(PageStruct, frozen=True, omit_defaults=True):
    """An event."""

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
    """Pods of one job on one node, over an interval."""

    kind: Literal["running", "reserved", "planned", "evicted", "away"]
    """evicted ran until its eviction, and away is an outage of the node: both only in reports of simulations."""
    job: str
    queue: str
    pods: int
    start: float
    """Seconds since 1970."""
    end: float | None
    """null if no end is known."""
    is_estimate: bool = False
    """The end is an estimate, or comes from a run time that is not enforced."""
    fill: float = 0.0
    """Part of the node's dominant resource, from 0 to 1: the height of the bar."""


class TimelineNode(PageStruct, frozen=True):
    name: str
    state: str
    spans: list[TimelineSpan]


class NodesTimeline(PageStruct, frozen=True):
    """GET /timeline: past and running pods, reservations and planned starts, by node."""

    revision: int
    now: str
    start: float
    """Seconds since 1970: the left edge."""
    end: float
    total: int
    """Number of nodes that match the filters; `offset` and `limit` page through them."""
    nodes: list[TimelineNode]


class WaitGroup(PageStruct, frozen=True):
    """Waits of jobs that started, in seconds."""

    group: str
    """A size class such as `2-8 pods`, or a namespace."""
    jobs: int
    mean: float
    median: float
    p90: float
    longest: float


class HistoryRange(PageStruct, frozen=True):
    """The recorded range: the oldest samples are deleted when the file is full."""

    first: str | None
    last: str | None
    samples: int
    bytes: int
    most_bytes: int


class HistoryPage(PageStruct, frozen=True):
    """GET /history: `from` and `to` (RFC 3339) limit the range; series have at most `points` times (default 300)."""

    revision: int
    now: str
    kept: HistoryRange
    utilisation: TimeSeries
    """Allocated part of the cluster, one line per resource."""
    queues: TimeSeries
    """Dominant share of each queue."""
    namespaces: TimeSeries
    """Dominant share of each namespace, over all queues."""
    jobs: TimeSeries
    """Pending and running jobs."""
    evictions: TimeSeries
    """Pods evicted since the previous time, one line per rule."""
    waits_by_size: list[WaitGroup]
    waits_by_namespace: list[WaitGroup]


class QueueHistory(PageStruct, frozen=True):
    """GET /queues/{name}/history: allocated and deserved amounts of a queue over time."""

    revision: int
    queue: str
    allocated: TimeSeries
    """As a part of the cluster, one line per resource."""
    deserved: TimeSeries
    namespaces: TimeSeries
    """Weighted share of each namespace in the queue."""


class CycleTimes(PageStruct, frozen=True):
    count: int
    last: float
    """In milliseconds, like the others."""
    median: float
    p99: float
    longest: float
    over_time: TimeSeries


class SchedulerBacklog(PageStruct, frozen=True):
    waiting_jobs: int
    waiting_pods: int
    unanswered: int | None = None
    """Writes that the API server has not answered yet; null without an API server."""


class ApiLatency(PageStruct, frozen=True):
    """Write requests; times in seconds."""

    requests: int
    failed: int
    mean: float
    p99: float
    """The upper bound of its histogram bucket."""


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
    """The whole policy in force."""
    since: str | None = None


class ShadowDifference(PageStruct, frozen=True):
    cycle: int
    at: str
    bindings: list[str]
    """Pods that the shadow policy would bind differently."""
    evictions: list[str]


class SchedulerPage(PageStruct, frozen=True):
    """GET /scheduler."""

    revision: int
    now: str
    leads: bool | None
    """null without a leader election."""
    cycles: CycleTimes
    backlog: SchedulerBacklog
    api: ApiLatency | None
    problems: list[SchedulerProblem]
    """The newest first."""
    policy: PolicyInForce
    shadow_policy: str | None
    shadow: list[ShadowDifference]
    objects: dict[str, int]
    """Number of objects by kind."""
    viewers: int
    """Clients of GET /events."""
