"""Jobs: the table of all of them, one in full, why it waits and when it starts, and actions on it."""

from __future__ import annotations

from typing import Literal

from fairway.app.explain.model import Explanation, Forecast, StopHistory
from fairway.app.view.job_order import JobOrder
from fairway.app.view.models.common import Amounts, PageStruct
from fairway.app.view.models.history import EvictionEntry, ReservationEntry

JobState = Literal["waiting", "starting", "running", "finished"]


class JobSummary(PageStruct, frozen=True, omit_defaults=True, gc=False):
    """One row. A job that runs with its minimum while other pods are pending is running, with their reason."""

    job: str
    """`namespace/name`."""
    namespace: str
    queue: str
    state: JobState
    kind: str
    """PodGroup, Controller (the pods of one controller), or Pod for a lone pod."""
    pods: int
    created: str | None
    """null if its objects carry no creation time."""
    placed: int = 0
    """Pods on nodes."""
    minimum: int = 1
    priority: int = 0
    position: int = 0
    """Queue position from 1; 0 if the job is not pending."""
    reason: str = ""
    """The dominant reason as one word for grouping, such as NotEnoughResources."""
    message: str = ""
    """The dominant reason as a sentence."""
    starving: bool = False
    held: bool = False
    """Its pods are gated: held by a user or a controller."""
    started: str | None = None
    ended: str | None = None
    outcome: str = ""
    """For a finished job: succeeded, failed, deleted or evicted."""
    planned_start: str | None = None
    """A start that backfill protects."""
    estimated_start: str | None = None
    """A forecast without a guarantee; absent until computed."""
    starts_after: str | None = None
    """The end of the forecast, if the job does not start before it."""
    no_start: bool = False
    """The job is still pending at the end of everything that the forecast knows to come."""


class JobGroupCount(PageStruct, frozen=True):
    """Jobs with the same value in the grouped column."""

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
    """Number of jobs for each value, under all filters except the facet's own: the counts of filter menus."""

    state: list[FacetCount]
    queue: list[FacetCount]
    namespace: list[FacetCount]
    reason: list[FacetCount]
    labels: list[str]
    """Label keys of jobs, for `label=` and `group=label:KEY`; the most frequent first, at most 50."""


class JobsPage(PageStruct, frozen=True):
    """GET /jobs. Filters may be repeated: values of one filter are alternatives, different filters must all match."""

    revision: int
    now: str
    total: int
    """Number of jobs that match the filters."""
    offset: int
    limit: int
    rows: list[JobSummary]
    groups: list[JobGroupCount] | None = None
    """With `group=`: the largest first."""
    facets: JobFacets | None = None
    """With `facets=true`."""


JobAction = Literal["cancel", "reprioritise", "hold", "release"]


class PodShape(PageStruct, frozen=True):
    """Pods of a job with equal requests and equal constraints."""

    pods: int
    requests: Amounts
    devices: dict[str, float] = {}
    """Requested device classes, with the number of units."""
    selector: str = ""
    """Node constraints other than resources, in words; "" if there are none."""


class DeviceShare(PageStruct, frozen=True):
    device: str
    quantity: float
    class_name: str = ""


class PodPlace(PageStruct, frozen=True):
    """A pod and its node."""

    pod: str
    state: Literal["waiting", "gated", "reserved", "starting", "running", "terminating", "succeeded", "failed"]
    node: str = ""
    since: str | None = None
    """Time of the binding."""
    devices: list[DeviceShare] = []


class NodeCause(PageStruct, frozen=True):
    """Why nodes do not fit, grouped by cause: each node counts once, under its first cause."""

    cause: str
    nodes: int
    examples: list[str] = []
    """Names of some of these nodes."""


class JobStateChange(PageStruct, frozen=True):
    at: str
    state: str
    """submitted, placed, evicted, lost, reserved, released, finished, deleted or changed."""
    text: str


class JobDetail(PageStruct, frozen=True):
    """GET /jobs/{namespace}/{name}: what is available at once. Explanation and order are separate requests."""

    revision: int
    now: str
    job: JobSummary
    sentence: str
    """Its state and the reason, in one sentence."""
    queue_waiting: int
    """Pending jobs in its queue."""
    shapes: list[PodShape]
    pods: list[PodPlace]
    """At most 1,000, by name."""
    pods_total: int
    causes: list[NodeCause]
    """Empty if the job is not pending, or no node was considered."""
    history: list[JobStateChange]
    """Oldest first, as far as recorded."""
    reservations: list[ReservationEntry]
    victims: list[EvictionEntry]
    """Pods evicted for this job."""
    evicted_by: list[EvictionEntry]
    """Pods of this job evicted for others."""
    stopped: StopHistory | None
    """How often preempt and reclaim stopped the job, and until when it is protected; null if never."""
    labels: dict[str, str]
    allowed: list[JobAction]
    """Actions that this user may take on this job now."""


class StartInterval(PageStruct, frozen=True):
    """When a pending job starts if nothing else arrives."""

    text: str
    start: str | None = None
    """With the known or estimated run times."""
    earliest: str | None = None
    """If every run that may end early ended now."""
    latest: str | None = None
    """If every run takes as long as it may; null if that is unbounded."""
    is_estimate: bool = False


class JobExplanation(PageStruct, frozen=True):
    """GET /explanations/{namespace}/{name}: why it waits, and what would start it now."""

    revision: int
    explanation: Explanation
    """`counterfactual.changes` would start it now, the smallest first; the forecast is a request of its own."""


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
