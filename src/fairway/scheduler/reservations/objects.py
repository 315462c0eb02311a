"""What a plan reserves, as the `Reservation` objects that carry it to the next cycle (spec S6.8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.scheduling import (
    JobKind,
    JobReference,
    PlaceState,
    Reservation,
    ReservationSpec,
    ReservationStatus,
    ReservedPlace,
    reservation_name,
)
from fairway.clock import parse_rfc3339, to_datetime
from fairway.scheduler.plan import Overrun
from fairway.scheduler.plan import Reservation as PlannedPlace

ReservationKey = tuple[str, str]
"""Namespace and name."""

_JobKey = tuple[str, str]
"""Key and kind."""

_VERSIONS: dict[str, str] = {"PodGroup": "scheduling.volcano.sh/v1beta1", "Pod": "v1"}


def reservation_objects(
    entries: Iterable[PlannedPlace], overruns: Iterable[Overrun] = ()
) -> dict[ReservationKey, Reservation]:
    """One object for each job that a plan keeps nodes for, plans the start of, or remembers an overrun of."""
    return ReservationWriter().objects(entries, overruns)


class ReservationWriter:
    """Makes the objects of one plan after the other; what has not changed is the object that it was."""

    def __init__(self) -> None:
        self._made: dict[_JobKey, tuple[_Parts, Reservation]] = {}

    def objects(
        self, entries: Iterable[PlannedPlace], overruns: Iterable[Overrun] = ()
    ) -> dict[ReservationKey, Reservation]:
        found: dict[_JobKey, _Parts] = {}
        for entry in entries:
            parts = found.setdefault((entry.job, entry.job_kind), _Parts(entry.job_uid))
            (parts.planned if entry.anew else parts.kept).append(entry)
        for overrun in overruns:
            found.setdefault((overrun.job, overrun.job_kind), _Parts(overrun.job_uid)).overrun = overrun
        self._made = {key: self._object(key, parts) for key, parts in found.items()}
        made = (thing for _, thing in self._made.values())
        return {(thing.metadata.namespace, thing.metadata.name): thing for thing in made}

    def _object(self, key: _JobKey, parts: _Parts) -> tuple[_Parts, Reservation]:
        known = self._made.get(key)
        return known if known is not None and known[0] == parts else (parts, _reservation(key, parts))


@dataclass
class _Parts:
    """What a plan says of one job."""

    uid: str
    kept: list[PlannedPlace] = field(default_factory=list)
    planned: list[PlannedPlace] = field(default_factory=list)
    overrun: Overrun | None = None


def _reservation(key: _JobKey, parts: _Parts) -> Reservation:
    namespace, _, name = key[0].partition("/")
    kind = _kind(key[1])
    places = _places(parts.kept)
    start, hard = _start(parts.kept)
    since = [place.since for place in (*places, *_places(parts.planned)) if place.since is not None]
    owner = OwnerReference(api_version=_VERSIONS.get(kind, ""), kind=kind, name=name, uid=parts.uid)
    return Reservation(
        metadata=ObjectMeta(
            name=reservation_name(kind, name),
            namespace=namespace,
            creation_timestamp=min(since, default=None),
            owner_references=(owner,) if kind in _VERSIONS else (),
        ),
        spec=ReservationSpec(
            job_ref=JobReference(kind, name, parts.uid), places=places, planned_start=start, hard=hard
        ),
        status=_status(parts),
    )


def _status(parts: _Parts) -> ReservationStatus:
    start, hard = _start(parts.planned)
    after = None
    if parts.overrun is not None and parts.overrun.for_:
        namespace, _, name = parts.overrun.for_.partition("/")
        after = JobReference(_kind(parts.overrun.for_kind), name, namespace=namespace)
    return ReservationStatus(
        planned_start=start,
        hard=hard,
        places=_places(parts.planned),
        runs=next((entry.runs for entry in parts.planned if entry.runs is not None), None),
        overran=parts.overrun is not None,
        after=after,
    )


def _start(entries: list[PlannedPlace]) -> tuple[datetime | None, bool]:
    starts = [_time(entry.planned_start) for entry in entries if entry.planned_start is not None]
    return max(starts, default=None), bool(starts) and not any(entry.soft or entry.estimated for entry in entries)


def _kind(text: str) -> JobKind:
    kind: JobKind = msgspec.convert(text, JobKind)
    return kind


def _places(entries: list[PlannedPlace]) -> tuple[ReservedPlace, ...]:
    return tuple(_place(entry) for entry in sorted(entries, key=lambda entry: entry.pod))


def _place(entry: PlannedPlace) -> ReservedPlace:
    state: PlaceState = "allocated" if entry.state == "allocated" else "reserved"
    return ReservedPlace(pod=entry.pod.partition("/")[2], node=entry.node, state=state, since=_time(entry.since))


def _time(text: str) -> datetime:
    return to_datetime(parse_rfc3339(text))
