"""From a plan to the writes that carry it out, in the order in which they are sent (spec K16). Pure.

Only differences from the effective objects become changes, so that a plan that was carried out already yields none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import SELECTED_NODE, ClaimReference, PersistentVolume, PersistentVolumeClaim
from fairway.api.devices import MAX_USERS, DeviceClass, ResourceClaim, ResourceClaimTemplate
from fairway.api.kinds import ObjectKey
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod
from fairway.api.scheduling import (
    EvictionRecord,
    EvictionRecordSpec,
    EvictionRecordStatus,
    JobKind,
    JobReference,
    Reservation,
    reservation_name,
)
from fairway.clock import SECOND, Micros, parse_rfc3339, to_datetime
from fairway.drive.change import (
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    DeleteStops,
    Evict,
    MakeClassClaim,
    Nominate,
    PreBindVolume,
    SelectNode,
    WriteReservation,
    WriteStops,
)
from fairway.drive.claims import allocate, awaits_devices, class_claim
from fairway.drive.store import ObjectStore
from fairway.scheduler.plan import Binding, Plan, StopEntry
from fairway.scheduler.reservations.objects import ReservationWriter

RESERVATION = "Reservation"
EVICTION_RECORD = "EvictionRecord"

_FOR_A_POD = (AllocateClaim, MakeClassClaim, PreBindVolume, SelectNode)
"""Changes that are made for a pod before it is bound."""

T = TypeVar("T", ResourceClaim, ResourceClaimTemplate, DeviceClass)


def changes_of(
    plan: Plan,
    store: ObjectStore,
    now: Micros,
    writer: ReservationWriter | None = None,
    *,
    makes_claims: bool = True,
    class_claims: bool = False,
    writes_reservations: bool = True,
) -> list[Change]:
    """The writes for the plan, claims before their pods.

    A driver that carries out one plan after the other passes its `writer`, so that unchanged reservations are not
    built again. Without `makes_claims` another controller creates the claims that pods have from templates: a job waits
    until they exist. With `class_claims` the kubelet is told by a claim of devices chosen by class, as it always is of
    those for extended resources. Without `writes_reservations` (the server refuses them) none is written or deleted.
    """
    changes: list[Change] = []
    if plan.placed:
        changes += _bindings(plan, _DeviceObjects(store, makes_claims), store, now, class_claims)
    changes += _stops(plan, store)
    if plan.evictions:
        changes += _evictions(plan, store, now)
    if writes_reservations:
        changes += _reservations(plan, store, ReservationWriter() if writer is None else writer)
    changes += _nominations(plan, store, now)
    return changes


def pod_key(name: str) -> ObjectKey:
    namespace, _, pod = name.partition("/")
    return "Pod", namespace, pod


def _pod(store: ObjectStore, name: str) -> Pod | None:
    pod = store.get(pod_key(name))
    return pod if isinstance(pod, Pod) else None


class _Lookup(Generic[T]):
    """The effective objects of one kind by the names that pods use, and those that the plan itself creates."""

    def __init__(self, store: ObjectStore, kind: type[T]) -> None:
        self._store = store
        self._kind: type[T] = kind
        self._created: dict[str, T] = {}

    def get(self, name: str, /) -> T | None:
        created = self._created.get(name)
        if created is not None:
            return created
        namespace, slash, rest = name.partition("/")
        key = (self._kind.__name__, namespace, rest) if slash else (self._kind.__name__, "", name)
        stored = self._store.get(key)
        return stored if isinstance(stored, self._kind) else None

    def add(self, name: str, created: T) -> None:
        self._created[name] = created


class _DeviceObjects:
    def __init__(self, store: ObjectStore, makes_claims: bool) -> None:
        self.makes_claims = makes_claims
        self.claims = _Lookup(store, ResourceClaim)
        self.templates = _Lookup(store, ResourceClaimTemplate)
        self.device_classes = _Lookup(store, DeviceClass)


def _bindings(plan: Plan, devices: _DeviceObjects, store: ObjectStore, now: Micros, class_claims: bool) -> list[Change]:
    """A job with a pod that cannot be bound after all is left out whole: the next plan sees why."""
    changes: list[Change] = []
    blocked: set[str] = set()
    volumes = _VolumeChanges(store)
    with_volumes = {binding.job for binding in plan.bindings if binding.volumes}
    members = Counter(binding.job for binding in plan.bindings) if with_volumes else {}
    for binding in plan.bindings:
        pod = _pod(store, binding.pod)
        if pod is None or pod.spec.node_name:
            continue
        if binding.volumes:
            needed = volumes.of(binding)
            if needed is None:
                blocked.add(binding.job)
                continue
            changes += needed
        statuses, claims = pod.status.resource_claim_statuses, list[ResourceClaim]()
        if pod.spec.resource_claims:
            allocated = allocate(pod, binding, devices, now)
            if allocated is None or any(len(claim.status.reserved_for) > MAX_USERS for claim in allocated[1]):
                # A claim was deleted during the cycle, does not exist yet, or has too many users.
                blocked.add(binding.job)
                continue
            statuses, claims = allocated[0].status.resource_claim_statuses, allocated[1]
            for claim in claims:
                devices.claims.add(f"{claim.metadata.namespace}/{claim.metadata.name}", claim)
                key = ("ResourceClaim", claim.metadata.namespace, claim.metadata.name)
                if store.get(key) != claim:
                    changes.append(AllocateClaim(key, claim.metadata.uid, claim, binding.pod))
        own = class_claim(pod, binding, now, classes=class_claims) if binding.devices else None
        if own is not None:
            key = ("ResourceClaim", pod.metadata.namespace, own[0].metadata.name)
            claims = [*claims, own[0]]
            changes.append(MakeClassClaim(key, "", own[0], binding.pod, pod.metadata.uid, own[1]))
        named = None if own is None else own[1]
        key, uid = pod_key(binding.pod), pod.metadata.uid
        awaits_volumes = members[binding.job] if binding.job in with_volumes else 0
        changes.append(Bind(key, uid, binding, now, statuses, named, _awaited(claims), awaits_volumes))
    return _without(changes, blocked, plan) if blocked else changes


class _VolumeChanges:
    """What has to be written so that the claims of pods get their volumes; of a claim that several use, once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._written: set[ObjectKey] = set()

    def of(self, binding: Binding) -> list[Change] | None:
        """None if a claim or a volume is not as it was when the plan was made."""
        found: list[Change] = []
        for choice in binding.volumes:
            namespace, _, name = choice.claim.partition("/")
            claim_key = ("PersistentVolumeClaim", namespace, name)
            claim = self._store.get(claim_key)
            if not isinstance(claim, PersistentVolumeClaim):
                return None
            if not choice.volume:
                if claim.metadata.annotations.get(SELECTED_NODE) != choice.selected_node:
                    found.append(SelectNode(claim_key, claim.metadata.uid, choice.selected_node, binding.pod))
                continue
            volume = self._store.get(("PersistentVolume", "", choice.volume))
            if not isinstance(volume, PersistentVolume):
                return None
            reference = ClaimReference(namespace, name, claim.metadata.uid, "PersistentVolumeClaim", "v1")
            change = PreBindVolume(("PersistentVolume", "", choice.volume), volume.metadata.uid, reference, binding.pod)
            named = volume.spec.claim_ref
            if named is not None and (named.namespace, named.name) != (namespace, name):
                return None
            if not change.keeps(volume):
                found.append(change)
        found = [change for change in found if change.key not in self._written]
        self._written.update(change.key for change in found)
        return found


def _awaited(claims: Sequence[ResourceClaim]) -> tuple[ObjectKey, ...]:
    return tuple(kinds.key(claim) for claim in claims if awaits_devices(claim))


def _without(changes: list[Change], jobs: set[str], plan: Plan) -> list[Change]:
    pods = {binding.pod for binding in plan.bindings if binding.job in jobs}
    return [
        change
        for change in changes
        if not (isinstance(change, _FOR_A_POD) and change.pod in pods)
        and not (isinstance(change, Bind) and change.binding.pod in pods)
    ]


def _stops(plan: Plan, store: ObjectStore) -> Iterator[Change]:
    for entry in plan.stops:
        key = record_key(entry)
        current = store.get(key)
        uid = "" if current is None else current.metadata.uid
        if not entry.stops:
            if current is not None:
                yield DeleteStops(key, uid)
            continue
        record = eviction_record(entry)
        if not isinstance(current, EvictionRecord):
            yield WriteStops(key, uid, record)
        elif (current.spec, current.status) != (record.spec, record.status):
            meta = replace(current.metadata, owner_references=record.metadata.owner_references)
            yield WriteStops(key, uid, replace(record, metadata=meta))


def record_key(entry: StopEntry) -> ObjectKey:
    namespace, _, name = entry.job.partition("/")
    return EVICTION_RECORD, namespace, reservation_name(entry.job_kind, name)


def eviction_record(entry: StopEntry) -> EvictionRecord:
    """What a plan says of a job's stops, as the object that carries it to the next cycle (spec S7.6)."""
    _, namespace, own = record_key(entry)
    kind: JobKind = msgspec.convert(entry.job_kind, JobKind)
    stopped = _time(entry.stopped_at)
    return EvictionRecord(
        metadata=ObjectMeta(
            name=own,
            namespace=namespace,
            creation_timestamp=stopped,
            owner_references=() if entry.owner is None else (msgspec.structs.replace(entry.owner, controller=None),),
        ),
        spec=EvictionRecordSpec(JobReference(kind, entry.job.partition("/")[2], entry.job_uid)),
        status=EvictionRecordStatus(
            stops=entry.stops,
            stopped_at=stopped,
            restarted_at=None if entry.restarted_at is None else _time(entry.restarted_at),
            victims=entry.victims,
        ),
    )


def _time(text: str) -> datetime:
    return to_datetime(parse_rfc3339(text))


def _evictions(plan: Plan, store: ObjectStore, now: Micros) -> Iterator[Change]:
    counted = {victim.uid: record_key(entry) for entry in plan.stops for victim in entry.victims}
    for eviction in plan.evictions:
        pod = _pod(store, eviction.pod)
        if pod is not None and pod.metadata.deletion_timestamp is None:
            until = now + pod.spec.termination_grace_period_seconds * SECOND
            record = counted.get(pod.metadata.uid)
            yield Evict(pod_key(eviction.pod), pod.metadata.uid, eviction, until, record)


def _reservations(plan: Plan, store: ObjectStore, writer: ReservationWriter) -> Iterator[Change]:
    """The plan's reservations are the only ones: any other is deleted, whoever wrote it."""
    if not plan.reservations and not plan.overruns and not store.has_kind(RESERVATION):
        return
    stored = {key: thing for key, thing in store.of_kind(RESERVATION) if isinstance(thing, Reservation)}
    if not stored and not plan.reservations and not plan.overruns:
        return
    objects = writer.objects(plan.reservations, plan.overruns)
    wanted = {(RESERVATION, *key): reservation for key, reservation in objects.items()}
    for key, reservation in stored.items():
        if key not in wanted:
            yield DeleteReservation(key, reservation.metadata.uid)
    for key, reservation in wanted.items():
        current = stored.get(key)
        if current is None:
            yield WriteReservation(key, "", reservation)
        elif (current.spec, current.status) != (reservation.spec, reservation.status):
            yield WriteReservation(key, current.metadata.uid, replace(reservation, metadata=current.metadata))


def _nominations(plan: Plan, store: ObjectStore, now: Micros) -> Iterator[Change]:
    wanted = {pod_key(entry.pod): entry.node for entry in plan.nominations}
    if not wanted and not store.nominated:
        return
    for key in [key for key in store.nominated if key not in wanted] + list(wanted):
        pod, node = store.get(key), wanted.get(key, "")
        if isinstance(pod, Pod) and not pod.spec.node_name and pod.status.nominated_node_name != node:
            yield Nominate(key, pod.metadata.uid, node, now)
