"""One write to one object, as a value: which object it is meant for, and what it makes of it.

    Change
    ├── AllocateClaim        a ResourceClaim gets its devices and its pod; before the pod is bound
    ├── MakeClassClaim       a pod gets the claim that tells a kubelet its devices by class; before it is bound
    ├── ReleaseClaim         a ResourceClaim gives its devices back; its pod was never bound
    ├── Bind                 a pod gets its node, and the record of its devices
    ├── WriteStops           a job's EvictionRecord is created or changed; before its pods are evicted
    ├── DeleteStops          an EvictionRecord says nothing any more
    ├── Evict                a pod is asked to leave its node
    ├── WriteReservation     a job's Reservation is created or changed
    ├── DeleteReservation
    └── Nominate             a pod gets the node that is being freed for it; "" takes that back

A change knows what every world needs: how the object looks once it is made (`onto`), whether a version that was seen
already shows it (`shown_by`), and which object it must be (`uid`; "" where none is known, as in files).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from msgspec.structs import replace

from fairway.api.devices import ResourceClaim, ResourceClaimStatus
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import ExtendedClaimStatus, Pod, PodClaimStatus
from fairway.api.scheduling import EvictionRecord, Reservation
from fairway.clock import Micros
from fairway.drive import objects
from fairway.scheduler.plan import Binding, Eviction


@dataclass(frozen=True, slots=True)
class Change(ABC):
    """See the module."""

    key: ObjectKey
    uid: str

    @abstractmethod
    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        """The object with the change made; None: it is gone. `thing` is the newest version that was seen."""

    @abstractmethod
    def shown_by(self, thing: ApiObject) -> bool:
        """Whether a version that was seen has the change in it, or has overtaken it."""


@dataclass(frozen=True, slots=True)
class Bind(Change):
    binding: Binding
    at: Micros
    claims: tuple[PodClaimStatus, ...] = ()
    """Which claims were made for the pod from templates."""
    limits_claim: ExtendedClaimStatus | None = None
    """The claim that says what the pod has for its limits."""
    awaits: tuple[ObjectKey, ...] = ()
    """Claims whose devices have to be made ready by their drivers first."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, Pod):
            return thing
        return objects.bound(
            thing, self.binding.node, self.at, self.binding.annotations, self.claims, self.limits_claim
        )

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, Pod) and bool(thing.spec.node_name)


@dataclass(frozen=True, slots=True)
class Evict(Change):
    eviction: Eviction
    until: Micros
    """When the pod's grace period ends, as far as is known."""
    record: ObjectKey | None = None
    """The EvictionRecord that counts it, where the same plan changes that: it has to be written first."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return objects.terminating(thing, self.until) if isinstance(thing, Pod) else thing

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, Pod) and thing.metadata.deletion_timestamp is not None


@dataclass(frozen=True, slots=True)
class WriteStops(Change):
    record: EvictionRecord

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return self.record

    def shown_by(self, thing: ApiObject) -> bool:
        return (
            isinstance(thing, EvictionRecord) and thing.spec == self.record.spec and thing.status == self.record.status
        )


@dataclass(frozen=True, slots=True)
class DeleteStops(Change):
    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return None

    def shown_by(self, thing: ApiObject) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Nominate(Change):
    node: str
    at: Micros

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return objects.nominated(thing, self.node, self.at) if isinstance(thing, Pod) else thing

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, Pod) and (thing.status.nominated_node_name == self.node or bool(thing.spec.node_name))


@dataclass(frozen=True, slots=True)
class AllocateClaim(Change):
    claim: ResourceClaim
    pod: str
    """The pod that it is allocated for, as `namespace/name`."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return self.claim

    def shown_by(self, thing: ApiObject) -> bool:
        return (
            isinstance(thing, ResourceClaim)
            and thing.status.allocation is not None
            and set(self.claim.status.reserved_for) <= set(thing.status.reserved_for)
        )


@dataclass(frozen=True, slots=True)
class MakeClassClaim(Change):
    """`uid` is that of no claim: there is none yet, or one of an earlier attempt that the server names."""

    claim: ResourceClaim
    pod: str
    """The pod that it is made for, as `namespace/name`."""
    pod_uid: str
    named: ExtendedClaimStatus
    """How the pod's status names it."""

    @property
    def pod_key(self) -> ObjectKey:
        namespace, _, name = self.pod.partition("/")
        return "Pod", namespace, name

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return self.claim

    def shown_by(self, thing: ApiObject) -> bool:
        return (
            isinstance(thing, ResourceClaim)
            and thing.status.allocation is not None
            and self.claim.status.allocation is not None
            and thing.status.allocation.devices.results == self.claim.status.allocation.devices.results
        )


@dataclass(frozen=True, slots=True)
class ReleaseClaim(Change):
    claim: ResourceClaim
    """As it was when that was decided."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return replace(thing, status=ResourceClaimStatus()) if isinstance(thing, ResourceClaim) else thing

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, ResourceClaim) and (
            thing.status.allocation is None or thing.status.reserved_for != self.claim.status.reserved_for
        )


@dataclass(frozen=True, slots=True)
class WriteReservation(Change):
    reservation: Reservation

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return self.reservation

    def shown_by(self, thing: ApiObject) -> bool:
        return (
            isinstance(thing, Reservation)
            and thing.spec == self.reservation.spec
            and thing.status == self.reservation.status
        )


@dataclass(frozen=True, slots=True)
class DeleteReservation(Change):
    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return None

    def shown_by(self, thing: ApiObject) -> bool:
        return False
