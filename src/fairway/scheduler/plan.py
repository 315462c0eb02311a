"""`Plan`: the only output of a cycle. What to do, in order; an `ExplainedPlan` adds why everything else waits.

Both are plain, frozen data: nothing in them refers to the session or the state that they were made from, so they say
the same whatever happens afterwards. There are two types because explaining costs more than deciding (with 1,000 pods
that fit nowhere 27 ms against 1), and a driver that only carries plans out does not pay for it. Code that reads reasons
takes an `ExplainedPlan`, and the type checker rejects a plan that was never explained.

The structs here are the JSON contract (spec S10.7): fields may be added, never changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairway.api.meta import OwnerReference
from fairway.api.scheduling import StoppedPod
from fairway.clock import Micros, format_rfc3339


class PlanStruct(msgspec.Struct, rename="camel", frozen=True):
    """The base of all parts of a plan."""


class DeviceChoice(PlanStruct, frozen=True, omit_defaults=True):
    """`claim`, `request` and `consumed` are there only for devices that were claimed, `driver` and `pool` for those
    that a driver publishes: what an allocation has to say. `resource` is the extended resource that was requested,
    where `class` is the DeviceClass that serves it. Of a `shared` device others may have other parts; the pod is bound
    when the driver has set the binding conditions.
    """

    class_: str = msgspec.field(name="class")
    device: str
    quantity: int | float
    claim: str = ""
    request: str = ""
    driver: str = ""
    pool: str = ""
    consumed: dict[str, str] = {}
    admin_access: bool = False
    resource: str = ""
    shared: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class VolumeChoice(PlanStruct, frozen=True, omit_defaults=True):
    """What an unbound claim of the pod gets before the pod is bound: `volume` is pre-bound to it, or `selectedNode` is
    written on it, so that a volume is provisioned for that node.
    """

    claim: str
    volume: str = ""
    selected_node: str = ""


class Binding(PlanStruct, frozen=True):
    pod: str
    node: str
    devices: tuple[DeviceChoice, ...] = ()
    annotations: dict[str, str] = {}
    job: str = ""
    volumes: tuple[VolumeChoice, ...] = ()


class Eviction(PlanStruct, frozen=True):
    pod: str
    node: str
    for_: str = msgspec.field(name="for")
    action: str
    reason: str


class Reservation(PlanStruct, frozen=True):
    pod: str
    job: str
    node: str
    state: str
    since: str = ""
    job_kind: str = "PodGroup"
    """PodGroup, or Pod for a lone pod."""
    job_uid: str = ""
    soft: bool = False
    """The planned start rests on what is not sure, and may move."""
    estimated: bool = False
    """It rests on an estimate."""
    anew: bool = False
    """A planned start of backfill, which keeps no node: carried in the status of the job's Reservation."""
    planned_start: str | None = None
    hard: bool = False
    """The planned start is never missed."""
    runs: int | None = None
    """On one entry: how many pods are on nodes after the plan."""


class Overrun(PlanStruct, frozen=True):
    """A job that was evicted for outliving its expected run time, and the job that it was evicted for."""

    job: str
    job_kind: str
    job_uid: str
    for_: str = msgspec.field(name="for", default="")
    """Nothing any more once that job has started."""
    for_kind: str = ""


class StopEntry(PlanStruct, frozen=True):
    """What the EvictionRecord of a job is to say: how often it was stopped, and since when it runs again. Written
    before its pods are evicted. Without stops the record is deleted.
    """

    job: str
    """Namespace and name of what the count belongs to: a PodGroup, or kind and name of a controller."""
    job_kind: str
    job_uid: str
    stops: int
    stopped_at: str = ""
    restarted_at: str | None = None
    victims: tuple[StoppedPod, ...] = ()
    """The pods of the last stop."""
    owner: OwnerReference | None = None
    """The object that the record goes with."""


class Nomination(PlanStruct, frozen=True):
    pod: str
    node: str
    since: str = ""


class Released(PlanStruct, frozen=True):
    pod: str
    node: str
    reason: str


class Pending(PlanStruct, frozen=True):
    """A job that waits: the reason that stops it, and where it stands. `nodes` counts causes over all nodes."""

    job: str
    reason: str
    message: str
    nodes: dict[str, int]
    queue: str
    namespace: str
    position: int
    waiting: int
    ready: int
    minimum: int
    priority: int = 0
    starving: bool = False
    job_kind: str = "PodGroup"
    """PodGroup, Controller (the pods of one), or Pod for a lone pod."""


class QueueStanding(PlanStruct, frozen=True):
    name: str
    weight: int
    deserved: dict[str, str]
    allocated: dict[str, str]
    share: float
    requested: dict[str, str] = {}
    parent: str = ""
    state: str = "Open"
    reserved: dict[str, str] = {}
    """Set aside by reservations and nominations, not allocated yet. It counts in `share`."""
    dominant_share: float = 0.0
    """The largest part of the cluster that the queue has allocated."""


class NamespaceStanding(PlanStruct, frozen=True):
    queue: str
    namespace: str
    weight: int
    allocated: dict[str, str]
    share: float
    weighted_share: float
    reserved: dict[str, str] = {}
    """As for queues. It counts in both shares."""


class ClassStanding(PlanStruct, frozen=True):
    name: str
    allocatable: int | float
    requested: int | float


class GroupStatus(PlanStruct, frozen=True):
    """What a PodGroup's status should say after the plan."""

    name: str
    phase: str
    running: int
    succeeded: int
    failed: int
    scheduled: int
    conditions: tuple[dict[str, str], ...] = ()


class QueueStatus(PlanStruct, frozen=True):
    name: str
    state: str
    pending: int
    running: int
    inqueue: int


class Status(PlanStruct, frozen=True):
    pod_groups: tuple[GroupStatus, ...]
    queues: tuple[QueueStatus, ...]


class Plan(PlanStruct, frozen=True):
    """What to do."""

    bindings: tuple[Binding, ...] = ()
    """In the order in which they were decided."""
    evictions: tuple[Eviction, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    nominations: tuple[Nomination, ...] = ()
    released: tuple[Released, ...] = ()
    overruns: tuple[Overrun, ...] = ()
    stops: tuple[StopEntry, ...] = ()
    """EvictionRecords that change."""
    recheck_at: Micros | None = None
    """When the answer may change by itself: the next cycle is due then at the latest."""

    @property
    def placed(self) -> int:
        return len(self.bindings)


class ExplainedPlan(Plan, frozen=True, kw_only=True):
    """What to do, why everything else waits, and what queues, namespaces and classes have after the plan."""

    pending: tuple[Pending, ...]
    """Every job that waits, by queue and then by queue position."""
    queues: tuple[QueueStanding, ...]
    namespaces: tuple[NamespaceStanding, ...]
    resource_classes: tuple[ClassStanding, ...]
    status: Status
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The plan as plain data: what `-o json` prints."""
        parts = {
            "bindings": self.bindings,
            "evictions": self.evictions,
            "reservations": self.reservations,
            "nominations": self.nominations,
            "released": self.released,
            "overruns": self.overruns,
            "stops": self.stops,
            "recheckAt": None if self.recheck_at is None else format_rfc3339(self.recheck_at),
            "pending": self.pending,
            "queues": self.queues,
            "namespaces": self.namespaces,
            "resourceClasses": self.resource_classes,
            "status": self.status,
            "warnings": self.warnings,
        }
        document: dict[str, Any] = msgspec.to_builtins(
            {name: list(part) if isinstance(part, tuple) else part for name, part in parts.items()}
        )
        return document
