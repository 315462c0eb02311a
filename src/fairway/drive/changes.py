"""From a plan to the writes that make it true: pure, and in the order in which they are sent (spec K16).

Only what differs from the effective objects becomes a change, so that a plan that was carried out already makes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.devices import MAX_USERS, DeviceClass, ResourceClaim, ResourceClaimTemplate
from fairway.api.kinds import ObjectKey
from fairway.api.pods import Pod
from fairway.api.scheduling import EvictionRecord, Reservation
from fairway.clock import SECOND, Micros
from fairway.drive.change import (
    AllocateClaim,
    Bind,
    Change,
    DeleteReservation,
    DeleteStops,
    Evict,
    MakeClassClaim,
    Nominate,
    WriteReservation,
    WriteStops,
)
from fairway.drive.claims import allocate
from fairway.drive.class_claims import class_claim
from fairway.drive.device_results import awaits_devices
from fairway.drive.stop_records import eviction_record, record_key
from fairway.drive.store import ObjectStore
from fairway.scheduler.plan import Plan
from fairway.scheduler.reservations.objects import ReservationWriter

RESERVATION = "Reservation"

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
    """What has to be written for the plan, claims before their pods. A driver that carries out one plan after the
    other gives its `writer`, so that reservations which stay as they are are not made again. Without `makes_claims`
    another controller makes the claims that pods have from templates: a job waits until they are there. With
    `class_claims` devices chosen by class are given to the kubelet by a claim too, as those for extended resources
    always are. Without `writes_reservations` the server refuses them: none is written, nor deleted.
    """
    found: list[Change] = []
    if plan.placed:
        found += _bindings(plan, _DeviceObjects(store, makes_claims), store, now, class_claims)
    found += _stops(plan, store)
    if plan.evictions:
        found += _evictions(plan, store, now)
    if writes_reservations:
        found += _reservations(plan, store, ReservationWriter() if writer is None else writer)
    found += _nominations(plan, store, now)
    return found


def pod_key(name: str) -> ObjectKey:
    namespace, _, pod = name.partition("/")
    return "Pod", namespace, pod


def _pod(store: ObjectStore, name: str) -> Pod | None:
    found = store.get(pod_key(name))
    return found if isinstance(found, Pod) else None


class _Lookup(Generic[T]):
    """The effective objects of one kind, by the names that pods use, with what the plan itself makes."""

    def __init__(self, store: ObjectStore, kind: type[T]) -> None:
        self._store = store
        self._kind: type[T] = kind
        self._made: dict[str, T] = {}

    def get(self, name: str, /) -> T | None:
        made = self._made.get(name)
        if made is not None:
            return made
        namespace, slash, rest = name.partition("/")
        key = (self._kind.__name__, namespace, rest) if slash else (self._kind.__name__, "", name)
        found = self._store.get(key)
        return found if isinstance(found, self._kind) else None

    def add(self, name: str, thing: T) -> None:
        self._made[name] = thing


class _DeviceObjects:
    def __init__(self, store: ObjectStore, makes_claims: bool) -> None:
        self.makes_claims = makes_claims
        self.claims = _Lookup(store, ResourceClaim)
        self.templates = _Lookup(store, ResourceClaimTemplate)
        self.device_classes = _Lookup(store, DeviceClass)


def _bindings(plan: Plan, known: _DeviceObjects, store: ObjectStore, now: Micros, class_claims: bool) -> list[Change]:
    """A job of which one pod cannot be bound after all is left out whole: the next plan knows more."""
    found: list[Change] = []
    blocked: set[str] = set()
    for binding in plan.bindings:
        pod = _pod(store, binding.pod)
        if pod is None or pod.spec.node_name:
            continue
        statuses, claims = pod.status.resource_claim_statuses, list[ResourceClaim]()
        if pod.spec.resource_claims:
            allocated = allocate(pod, binding, known, now)
            if allocated is None or any(len(one.status.reserved_for) > MAX_USERS for one in allocated[1]):
                blocked.add(
                    binding.job
                )  # a claim went while the plan was made, is not there yet, or has too many users
                continue
            statuses, claims = allocated[0].status.resource_claim_statuses, allocated[1]
            for claim in claims:
                known.claims.add(f"{claim.metadata.namespace}/{claim.metadata.name}", claim)
                key = ("ResourceClaim", claim.metadata.namespace, claim.metadata.name)
                if store.get(key) != claim:
                    found.append(AllocateClaim(key, claim.metadata.uid, claim, binding.pod))
        own = class_claim(pod, binding, now, classes=class_claims) if binding.devices else None
        if own is not None:
            key = ("ResourceClaim", pod.metadata.namespace, own[0].metadata.name)
            claims = [*claims, own[0]]
            found.append(MakeClassClaim(key, "", own[0], binding.pod, pod.metadata.uid, own[1]))
        named = None if own is None else own[1]
        found.append(Bind(pod_key(binding.pod), pod.metadata.uid, binding, now, statuses, named, _awaited(claims)))
    return _without(found, blocked, plan) if blocked else found


def _awaited(claims: Sequence[ResourceClaim]) -> tuple[ObjectKey, ...]:
    return tuple(kinds.key(claim) for claim in claims if awaits_devices(claim))


def _without(changes: list[Change], jobs: set[str], plan: Plan) -> list[Change]:
    pods = {binding.pod for binding in plan.bindings if binding.job in jobs}
    return [
        change
        for change in changes
        if not (isinstance(change, AllocateClaim | MakeClassClaim) and change.pod in pods)
        and not (isinstance(change, Bind) and change.binding.pod in pods)
    ]


def _stops(plan: Plan, store: ObjectStore) -> Iterator[Change]:
    for entry in plan.stops:
        key = record_key(entry)
        there = store.get(key)
        uid = "" if there is None else there.metadata.uid
        if not entry.stops:
            if there is not None:
                yield DeleteStops(key, uid)
            continue
        record = eviction_record(entry)
        if not isinstance(there, EvictionRecord):
            yield WriteStops(key, uid, record)
        elif (there.spec, there.status) != (record.spec, record.status):
            meta = replace(there.metadata, owner_references=record.metadata.owner_references)
            yield WriteStops(key, uid, replace(record, metadata=meta))


def _evictions(plan: Plan, store: ObjectStore, now: Micros) -> Iterator[Change]:
    counted = {victim.uid: record_key(entry) for entry in plan.stops for victim in entry.victims}
    for eviction in plan.evictions:
        pod = _pod(store, eviction.pod)
        if pod is not None and pod.metadata.deletion_timestamp is None:
            until = now + pod.spec.termination_grace_period_seconds * SECOND
            record = counted.get(pod.metadata.uid)
            yield Evict(pod_key(eviction.pod), pod.metadata.uid, eviction, until, record)


def _reservations(plan: Plan, store: ObjectStore, writer: ReservationWriter) -> Iterator[Change]:
    """Those of the plan, and no others, whatever wrote them."""
    if not plan.reservations and not plan.overruns and not store.has_kind(RESERVATION):
        return
    known = {key: thing for key, thing in store.of_kind(RESERVATION) if isinstance(thing, Reservation)}
    if not known and not plan.reservations and not plan.overruns:
        return
    made = writer.objects(plan.reservations, plan.overruns)
    wanted = {(RESERVATION, *key): thing for key, thing in made.items()}
    for key, thing in known.items():
        if key not in wanted:
            yield DeleteReservation(key, thing.metadata.uid)
    for key, thing in wanted.items():
        there = known.get(key)
        if there is None:
            yield WriteReservation(key, "", thing)
        elif (there.spec, there.status) != (thing.spec, thing.status):
            yield WriteReservation(key, there.metadata.uid, replace(thing, metadata=there.metadata))


def _nominations(plan: Plan, store: ObjectStore, now: Micros) -> Iterator[Change]:
    wanted = {pod_key(entry.pod): entry.node for entry in plan.nominations}
    if not wanted and not store.nominated:
        return
    for key in [key for key in store.nominated if key not in wanted] + list(wanted):
        pod, node = store.get(key), wanted.get(key, "")
        if isinstance(pod, Pod) and not pod.spec.node_name and pod.status.nominated_node_name != node:
            yield Nominate(key, pod.metadata.uid, node, now)
