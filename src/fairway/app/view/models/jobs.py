"""Jobs: the table of all of them, one in full, why it waits and when it starts, and actions on it."""

from __future__ import annotations

from typing import Literal

from fairway.app.explain.model import Explanation, Forecast, StopHistory
from fairway.app.view.job_order import JobOrder
from fairway.app.view.models.common import Amounts, PageStruct
from fairway.app.view.models.history import EvictionEntry, ReservationEntry

JobState = Literal["waiting", "starting", "running", "finished"]


class JobSummary(PageStruct, frozen=True, omit_defaults=True, gc=False):
    """One row. A job that has its minimum and waits for more pods is running, with the reason why the rest waits."""

    job: str
    """`namespace/name`."""
    namespace: str
    queue: str
    state: JobState
    kind: str
    """PodGroup, Controller (the pods of one), or Pod for a lone pod."""
    pods: int
    created: str | None
    """null where its objects do not say."""
    placed: int = 0
    """Pods that are on nodes."""
    minimum: int = 1
    priority: int = 0
    position: int = 0
    """Queue position from 1; 0 where it does not wait."""
    reason: str = ""
    """The dominant reason as one word, for grouping; as NotEnoughResources."""
    message: str = ""
    """The dominant reason as a sentence."""
    starving: bool = False
    held: bool = False
    """Its pods are gated: a user or a controller holds it."""
    started: str | None = None
    ended: str | None = None
    outcome: str = ""
    """Of a finished job: succeeded, failed, deleted or evicted."""
    planned_start: str | None = None
    """A start that backfill protects."""
    estimated_start: str | None = None
    """A forecast without a guarantee; absent until it is known."""
    starts_after: str | None = None
    """Where the forecast ended before this job started."""
    no_start: bool = False
    """The forecast has seen all that is known to happen, and the job still waits."""


class JobGroupCount(PageStruct, frozen=True):
    """Jobs that have the same value in the column that is grouped by."""

    value: str
    count: int
    pods: int
    waiting: int
    starting: int
    running: int
    finished: int


class FacetCount(PageStruct, frozen=True):
    value: str
    count: int


class JobFacets(PageStruct, frozen=True):
    """How many jobs there are with each value, under all filters but the facet's own: what filter menus show."""

    state: list[FacetCount]
    queue: list[FacetCount]
    namespace: list[FacetCount]
    reason: list[FacetCount]
    labels: list[str]
    """Keys of labels that jobs have, for `label=` and `group=label:KEY`; the most frequent first, at most 50."""


class JobsPage(PageStruct, frozen=True):
    """GET /jobs. Filters are repeatable: within one they are alternatives, between them all must hold."""

    revision: int
    now: str
    total: int
    """Jobs that pass the filters."""
    offset: int
    limit: int
    rows: list[JobSummary]
    groups: list[JobGroupCount] | None = None
    """With `group=`: the largest first."""
    facets: JobFacets | None = None
    """With `facets=true`."""


JobAction = Literal["cancel", "reprioritise", "hold", "release"]


class PodShape(PageStruct, frozen=True):
    """Pods of a job that request the same and may go to the same nodes."""

    pods: int
    requests: Amounts
    devices: dict[str, float] = {}
    """Device classes that it requests, with the number of units."""
    selector: str = ""
    """What restricts its nodes besides resources, in words; "" if nothing does."""


class DeviceShare(PageStruct, frozen=True):
    device: str
    quantity: float
    class_name: str = ""


class PodPlace(PageStruct, frozen=True):
    """A pod and where it is."""

    pod: str
    state: Literal["waiting", "gated", "reserved", "starting", "running", "terminating", "succeeded", "failed"]
    node: str = ""
    since: str | None = None
    """When it got its node."""
    devices: list[DeviceShare] = []


class NodeCause(PageStruct, frozen=True):
    """Why nodes do not fit, grouped: each node counts once, under its first cause."""

    cause: str
    nodes: int
    examples: list[str] = []
    """Names of some of them."""


class JobStateChange(PageStruct, frozen=True):
    at: str
    state: str
    """submitted, placed, evicted, lost, reserved, released, finished, deleted or changed."""
    text: str


class JobDetail(PageStruct, frozen=True):
    """GET /jobs/{namespace}/{name}: what is known at once. Explanation and order are asked for separately."""

    revision: int
    now: str
    job: JobSummary
    sentence: str
    """Where it stands and why, in one sentence."""
    queue_waiting: int
    """Jobs that wait in its queue."""
    shapes: list[PodShape]
    pods: list[PodPlace]
    """At most 1,000, by name."""
    pods_total: int
    causes: list[NodeCause]
    """Empty where it does not wait, or no node was looked at."""
    history: list[JobStateChange]
    """Oldest first, as far as is known."""
    reservations: list[ReservationEntry]
    victims: list[EvictionEntry]
    """Pods that were evicted for this job."""
    evicted_by: list[EvictionEntry]
    """Pods of this job that were evicted for others."""
    stopped: StopHistory | None
    """How often preempt and reclaim stopped it, and until when it is protected; null if never."""
    labels: dict[str, str]
    allowed: list[JobAction]
    """Actions that this user may take on this job now."""


class StartInterval(PageStruct, frozen=True):
    """When a waiting job starts if nothing else arrives."""

    text: str
    start: str | None = None
    """By the run times that are known or estimated."""
    earliest: str | None = None
    """If each run that may end early ended now."""
    latest: str | None = None
    """If each run takes the longest that it may; null where that is not bounded."""
    is_estimate: bool = False


class JobExplanation(PageStruct, frozen=True):
    """GET /explanations/{namespace}/{name}: why it waits, and what would start it now."""

    revision: int
    explanation: Explanation
    """`counterfactual.changes` are what would start it now, the smallest first; `forecast` is asked for by itself."""


class JobStart(PageStruct, frozen=True):
    """GET /starts/{namespace}/{name}: when it starts."""

    revision: int
    forecast: Forecast | None = None
    """null where it does not wait."""
    interval: StartInterval | None = None
    """With `bounds=true`: between which times."""


class JobPlaceInOrder(PageStruct, frozen=True):
    """GET /orders/{namespace}/{name}: key by key beside the jobs before and after it, as `fairway order`."""

    revision: int
    order: JobOrder


class JobManifest(PageStruct, frozen=True):
    """GET /manifests/{namespace}/{name}."""

    yaml: str
    """The group and its pods as YAML documents; free-text annotations are left out."""


class JobActionRequest(PageStruct, frozen=True, forbid_unknown_fields=True):
    """POST /actions/{namespace}/{name}."""

    action: JobAction
    priority_class: str | None = None
    """For reprioritise: the name of a PriorityClass."""


class JobActionAnswer(PageStruct, frozen=True):
    text: str
    """What was done, in one sentence."""
