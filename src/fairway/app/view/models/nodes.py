"""Nodes: all of them as columns, and one in full."""

from __future__ import annotations

from fairway.app.view.models.common import Amounts, PageStruct
from fairway.app.view.models.job import DeviceShare
from fairway.app.view.models.moves import ReservationEntry


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
    """Places in `stateNames`."""
    state_names: list[str]
    """Ready, NotReady, SchedulingDisabled (cordoned)."""
    pods: list[int]
    reserved: list[int]
    """Pods that it is reserved or nominated for; 0 if it is not reserved."""
    pools: list[int]
    """Places in `poolNames`: nodes of equal size and equal selectable labels are one pool."""
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
    """A device of a node and which pods have it."""

    node: str
    device: str
    kind: str
    quantity: float
    used: float
    classes: list[str]
    """Device classes that select it."""
    holders: dict[str, float]
    """Pods, with the number of units."""
    attributes: dict[str, str]
    unusable: str = ""
    """Why it is not given to pods; "" if it is."""


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
    """GET /nodes/fit: how many gangs of `pods` pods of one shape fit now, by free capacity alone."""

    revision: int
    pods: int
    requests: Amounts
    total_pods: int
    """Pods of the shape that fit over all nodes."""
    gangs: int
    """Whole gangs that fit: totalPods divided by pods."""
    nodes: int
    """Nodes on which at least one such pod fits."""
    per_node: dict[str, int]
    """How many nodes take how many such pods: `{"0": 3, "8": 2}`."""
    stranded: Amounts
    """Free capacity on nodes that take no such pod: there, and of no use for this shape."""
    free: Amounts
    """Free capacity over all nodes that take pods."""


class DeviceClassUse(PageStruct, frozen=True):
    name: str
    allocatable: float
    requested: float
    selector: str
    """What it selects by, as text."""
    problems: list[str] = []


class DevicesPage(PageStruct, frozen=True):
    """GET /devices: filters `class`, `node`, `kind`, `holder`; `offset` and `limit`."""

    revision: int
    now: str
    classes: list[DeviceClassUse]
    total: int
    devices: list[NodeDevice]
