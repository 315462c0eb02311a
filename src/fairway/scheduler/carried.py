"""What a plan reserves, as the `Reservation` objects that carry it to the next cycle (semantics 6.8)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.reservations import (
    JobKind,
    JobReference,
    PlaceState,
    Reservation,
    ReservationSpec,
    ReservedPlace,
    reservation_name,
)
from fairway.clock import parse_rfc3339, to_datetime
from fairway.scheduler.plan import Reservation as PlannedPlace

ReservationKey = tuple[str, str]
"""Namespace and name."""

_VERSIONS: dict[str, str] = {"PodGroup": "scheduling.volcano.sh/v1beta1", "Pod": "v1"}


def reservation_objects(entries: Iterable[PlannedPlace]) -> dict[ReservationKey, Reservation]:
    """One object for each job that a plan keeps nodes for."""
    by_job: dict[tuple[str, str], list[PlannedPlace]] = {}
    for entry in entries:
        if not entry.anew:
            by_job.setdefault((entry.job, entry.job_kind), []).append(entry)
    made = map(_reservation, by_job.values())
    return {(thing.metadata.namespace, thing.metadata.name): thing for thing in made}


def _reservation(entries: list[PlannedPlace]) -> Reservation:
    first = entries[0]
    namespace, _, name = first.job.partition("/")
    kind: JobKind = msgspec.convert(first.job_kind, JobKind)
    places = tuple(_place(entry) for entry in sorted(entries, key=lambda entry: entry.pod))
    starts = [_time(entry.promised_start) for entry in entries if entry.promised_start is not None]
    owners = (
        (OwnerReference(api_version=_VERSIONS[kind], kind=kind, name=name, uid=first.job_uid),)
        if kind in _VERSIONS
        else ()
    )
    return Reservation(
        metadata=ObjectMeta(
            name=reservation_name(kind, name),
            namespace=namespace,
            creation_timestamp=min(place.since for place in places if place.since is not None),
            owner_references=owners,
        ),
        spec=ReservationSpec(
            job_ref=JobReference(kind, name, first.job_uid),
            places=places,
            planned_start=max(starts, default=None),
            hard=bool(starts) and not any(entry.soft or entry.estimated for entry in entries),
        ),
    )


def _place(entry: PlannedPlace) -> ReservedPlace:
    state: PlaceState = "allocated" if entry.state == "allocated" else "reserved"
    return ReservedPlace(pod=entry.pod.partition("/")[2], node=entry.node, state=state, since=_time(entry.since))


def _time(text: str) -> datetime:
    return to_datetime(parse_rfc3339(text))
