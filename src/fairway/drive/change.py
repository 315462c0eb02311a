"""One write to one object, as a value: which object it is for, and what the object becomes.

    Change
    ├── AllocateClaim        a ResourceClaim gets its devices and its pod, before the pod is bound
    ├── MakeClassClaim       a pod gets the claim that names its devices by class to the kubelet, before it is bound
    ├── ReleaseClaim         a ResourceClaim gives its devices back; its pod was never bound
    ├── PreBindVolume        a PersistentVolume is kept for a claim; before the pod of the claim is bound
    ├── SelectNode           a claim gets the node for which its volume is provisioned; before its pod is bound
    ├── Bind                 a pod gets its node, and the record of its devices
    ├── WriteStops           a job's EvictionRecord is created or changed, before its pods are evicted
    ├── DeleteStops          an EvictionRecord is no longer needed
    ├── Evict                a pod is evicted from its node
    ├── WriteReservation     a job's Reservation is created or changed
    ├── DeleteReservation
    └── Nominate             a pod gets the node that is being freed for it; "" withdraws that

A change has what every world needs: the object once it is made (`onto`), whether a version that was seen already
shows it (`shown_by`), and which object it must be (`uid`; "" where none is known, as in files). Objects are never
changed in place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from fairway.api.core import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from fairway.api.devices import ResourceClaim, ResourceClaimStatus
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import Condition
from fairway.api.pods import ExtendedClaimStatus, Pod, PodClaimStatus
from fairway.api.scheduling import EvictionRecord, Reservation
from fairway.clock import Micros, format_rfc3339, from_datetime, to_datetime
from fairway.scheduler.plan import Binding, Eviction
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.device_requests import RECORD_PREFIX

SCHEDULED = "PodScheduled"
"""The pod condition that says whether a pod has a node."""


@dataclass(frozen=True, slots=True)
class Change(ABC):
    """One write to one object."""

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
    """The claim that names the devices for the pod's limits."""
    awaits: tuple[ObjectKey, ...] = ()
    """Claims whose devices their drivers have to prepare first."""
    awaits_volumes: int = 0
    """How many pods of its job the plan binds, if one of them has claims that have to be bound first; else 0."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, Pod):
            return thing
        return bound(thing, self.binding.node, self.at, self.binding.annotations, self.claims, self.limits_claim)

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, Pod) and bool(thing.spec.node_name)


@dataclass(frozen=True, slots=True)
class Evict(Change):
    eviction: Eviction
    until: Micros
    """When the pod's grace period ends, as far as is known."""
    record: ObjectKey | None = None
    """The EvictionRecord that counts the eviction, if the same plan changes it: it is written first."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        return terminating(thing, self.until) if isinstance(thing, Pod) else thing

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
        return nominated(thing, self.node, self.at) if isinstance(thing, Pod) else thing

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, Pod) and (thing.status.nominated_node_name == self.node or bool(thing.spec.node_name))


@dataclass(frozen=True, slots=True)
class AllocateClaim(Change):
    claim: ResourceClaim
    pod: str
    """The pod for which it is allocated, as `namespace/name`."""

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
    """`uid` is empty: there is no claim yet, or one of an earlier attempt, which the server names."""

    claim: ResourceClaim
    pod: str
    """The pod for which it is made, as `namespace/name`."""
    pod_uid: str
    named: ExtendedClaimStatus
    """The entry for it in the pod's status."""

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
class PreBindVolume(Change):
    claim: ClaimReference
    pod: str
    """The pod that it is done for, as `namespace/name`."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, PersistentVolume):
            return thing
        spec, notes = replace(thing.spec, claim_ref=self.claim), thing.metadata.annotations
        if thing.spec.claim_ref is None:  # else a user has pre-bound it, and it stays the user's
            notes = {**notes, BOUND_BY_CONTROLLER: "yes"}
        return replace(thing, spec=spec, metadata=replace(thing.metadata, annotations=notes))

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, PersistentVolume) and thing.spec.claim_ref is not None and self.keeps(thing)

    def keeps(self, volume: PersistentVolume) -> bool:
        """Whether a volume is kept for this very claim."""
        named = volume.spec.claim_ref
        wanted = (self.claim.namespace, self.claim.name, self.claim.uid)
        return named is not None and (named.namespace, named.name, named.uid) == wanted


@dataclass(frozen=True, slots=True)
class SelectNode(Change):
    node: str
    pod: str
    """The pod that it is done for, as `namespace/name`."""

    def onto(self, thing: ApiObject | None) -> ApiObject | None:
        if not isinstance(thing, PersistentVolumeClaim):
            return thing
        notes = {**thing.metadata.annotations, SELECTED_NODE: self.node}
        return replace(thing, metadata=replace(thing.metadata, annotations=notes))

    def shown_by(self, thing: ApiObject) -> bool:
        return isinstance(thing, PersistentVolumeClaim) and (
            thing.metadata.annotations.get(SELECTED_NODE) == self.node or bool(thing.spec.volume_name)
        )


@dataclass(frozen=True, slots=True)
class ReleaseClaim(Change):
    claim: ResourceClaim
    """As it was at the decision."""

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


# -- what changes make of a pod ------------------------------------------------------------------------------------


def bound(
    pod: Pod,
    node: str,
    at: Micros,
    notes: Mapping[str, str],
    claims: tuple[PodClaimStatus, ...] = (),
    limits_claim: ExtendedClaimStatus | None = None,
) -> Pod:
    """The pod on its node, not running yet; `notes` record its devices."""
    scheduled = Condition(type=SCHEDULED, status="True", last_transition_time=to_datetime(at))
    others = tuple(condition for condition in pod.status.conditions if condition.type != SCHEDULED)
    status = replace(
        pod.status,
        conditions=(*others, scheduled),
        nominated_node_name="",
        resource_claim_statuses=claims or pod.status.resource_claim_statuses,
        extended_resource_claim_status=limits_claim or pod.status.extended_resource_claim_status,
    )
    pod = annotated(pod, notes) if notes else pod
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def bound_at(pod: Pod) -> Micros | None:
    """Since when a pod has its node, from its condition; None where it has none."""
    times = [c.last_transition_time for c in pod.status.conditions if c.type == SCHEDULED and c.status == "True"]
    return next((from_datetime(time) for time in times if time is not None), None)


def terminating(pod: Pod, until: Micros) -> Pod:
    """The pod being deleted: as in Kubernetes, its deletion timestamp is the end of its grace period."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=to_datetime(until)))


def nominated(pod: Pod, node: str, at: Micros) -> Pod:
    """The pod with a nomination; "" withdraws it."""
    notes = {name: text for name, text in pod.metadata.annotations.items() if name != NOMINATED_SINCE}
    if node:
        notes[NOMINATED_SINCE] = format_rfc3339(at)
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=notes),
        status=replace(pod.status, nominated_node_name=node),
    )


def annotated(pod: Pod, notes: Mapping[str, str]) -> Pod:
    """The pod with the annotations of a binding in place of earlier records of its devices."""
    return replace(pod, metadata=replace(pod.metadata, annotations={**unrecorded(pod), **notes}))


def unrecorded(pod: Pod) -> dict[str, str]:
    """A pod's annotations without the record of its devices."""
    return {name: text for name, text in pod.metadata.annotations.items() if not name.startswith(RECORD_PREFIX)}
