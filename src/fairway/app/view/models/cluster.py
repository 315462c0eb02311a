"""What a cluster consists of: nodes with their devices, queues as a tree, and the clusters of a fleet."""

from __future__ import annotations

from fairway.app.view.models.common import Amounts, PageStruct
from fairway.app.view.models.history import ReservationEntry
from fairway.app.view.models.jobs import DeviceShare


class NodeColumn(PageStruct, frozen=True):
    """One resource over all nodes, in the order of `names`, in base units."""

    resource: str
    allocatable: list[float]
    used: list[float]
    reserved: list[float]


class NodesMap(PageStruct, frozen=True):
    """GET /nodes: a heat map of any size in one answer. All lists have one entry per node."""

    revision: int
    now: str
    names: list[str]
    states: list[int]
    """Indices into `stateNames`."""
    state_names: list[str]
    """Ready, NotReady, SchedulingDisabled (cordoned)."""
    pods: list[int]
    reserved: list[int]
    """Number of pods for which it is reserved or nominated; 0 if none."""
    pools: list[int]
    """Indices into `poolNames`: nodes of equal size and equal selectable labels form a pool."""
    pool_names: list[str]
    columns: list[NodeColumn]


class NodePod(PageStruct, frozen=True):
    pod: str
    job: str
    queue: str
    state: str
    requests: Amounts
    since: str | None = None
    devices: list[DeviceShare] = []


class NodeDevice(PageStruct, frozen=True):
    """A device of a node, with the pods that have it."""

    node: str
    device: str
    kind: str
    quantity: float
    used: float
    classes: list[str]
    """Device classes that select it."""
    holders: dict[str, float]
    """Number of units by pod."""
    attributes: dict[str, str]
    unusable: str = ""
    """Why it cannot be allocated; "" if it can."""


class NodeDetail(PageStruct, frozen=True):
    """GET /nodes/{name}."""

    revision: int
    now: str
    name: str
    state: str
    allocatable: Amounts
    used: Amounts
    reserved_amounts: Amounts
    labels: dict[str, str]
    taints: list[str]
    pods: list[NodePod]
    devices: list[NodeDevice]
    reservations: list[ReservationEntry]


class FitAnswer(PageStruct, frozen=True):
    """GET /nodes/fit: how many gangs of `pods` pods of one shape fit now, judged by free capacity alone."""

    revision: int
    pods: int
    requests: Amounts
    total_pods: int
    """Pods of this shape that fit, over all nodes."""
    gangs: int
    """Whole gangs that fit: totalPods divided by pods."""
    nodes: int
    """Nodes on which at least one such pod fits."""
    per_node: dict[str, int]
    """Number of nodes by the number of such pods that fit: `{"0": 3, "8": 2}`."""
    stranded: Amounts
    """Free capacity on nodes where no such pod fits: unusable for this shape."""
    free: Amounts
    """Free capacity of all schedulable nodes."""


class DeviceClassUse(PageStruct, frozen=True):
    name: str
    allocatable: float
    requested: float
    selector: str
    """Its selector as text."""
    problems: list[str] = []


class DevicesPage(PageStruct, frozen=True):
    """GET /devices: filters `class`, `node`, `kind`, `holder`; `offset` and `limit`."""

    revision: int
    now: str
    classes: list[DeviceClassUse]
    total: int
    devices: list[NodeDevice]


class QueueAmount(PageStruct, frozen=True):
    """One resource of a queue, in base units."""

    resource: str
    allocated: float
    """To pods on nodes."""
    reserved: float
    """Set aside by reservations and nominations, not allocated yet."""
    deserved: float
    """Its fair share as an amount, limited by what it has allocated and requests."""
    entitled: float
    """Its fair share if every queue requested as much as it may have: the amount it can always reclaim."""
    requested: float
    """By pending pods."""
    guarantee: float
    capability: float | None
    """null if unlimited."""
    borrowed: float
    """Allocated beyond its entitlement."""
    lent: float
    """Part of its entitlement that other queues have allocated."""


class NamespaceUse(PageStruct, frozen=True):
    """A namespace in one queue."""

    namespace: str
    weight: int
    share: float
    """Its dominant share: the largest fraction of a resource allocated to it."""
    weighted_share: float
    """The dominant share divided by the weight; the smallest is served first."""
    allocated: dict[str, float]
    waiting_jobs: int
    running_jobs: int


class QueueNode(PageStruct, frozen=True):
    name: str
    parent: str
    """"" for one at the top."""
    depth: int
    state: str
    """Open or Closed."""
    weight: int
    share: float
    """Allocated relative to deserved, for the resource where it is largest; above 1 it borrows."""
    dominant_share: float
    """Largest fraction of a resource of the cluster allocated to it."""
    reclaimable: bool
    waiting_jobs: int
    """Including the queues below it."""
    running_jobs: int
    amounts: list[QueueAmount]
    namespaces: list[NamespaceUse]


class LentAmount(PageStruct, frozen=True):
    """Capacity that one queue is entitled to and another uses, matched in proportion: no single unit has a lender."""

    resource: str
    lender: str
    borrower: str
    amount: float


class QueuesPage(PageStruct, frozen=True):
    """GET /queues: parents before children, siblings by name."""

    revision: int
    now: str
    queues: list[QueueNode]
    loans: list[LentAmount]


class FittingPods(PageStruct, frozen=True):
    request: dict[str, str]
    fits: int
    node_selector: dict[str, str]
    """Node selector of such pods; empty if they have none."""


class FleetClusterRow(PageStruct, frozen=True):
    name: str
    available: bool
    taints: list[str]
    free: Amounts | None
    """null if not reported, or if the report has expired."""
    shapes: list[FittingPods]
    """Number of additional pods of each size that fit."""
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
    """A condition of a placement's status."""

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
