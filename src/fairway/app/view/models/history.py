"""What was, from recorded cycles; and how the scheduler itself does."""

from __future__ import annotations

from fairway.app.view.models.common import PageStruct, TimeSeries


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
