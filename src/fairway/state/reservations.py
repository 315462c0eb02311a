"""The Reservation objects that are known, and what each means to its job.

A reservation counts only for the job that it names by kind, name and uid, and only under the one name that the
reservation of that job has. So at most one object speaks for a job, whatever else is there, and what pods and groups
say about themselves reserves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairway.api.scheduling import MAX_PLACES, JobKind, JobReference, Reservation, reservation_name
from fairway.clock import from_datetime
from fairway.state.jobs import Job, OverrunRecord, PlannedRecord, ReservationRecord, TaskState

SHOWN = 20
"""Warnings of this kind in one plan; the rest are counted."""

_STATES = {"reserved": TaskState.RESERVED, "allocated": TaskState.ALLOCATED}

FindJob = Callable[[str, str], Job | None]
"""The job of a kind (PodGroup or Pod) and a key, if it is known."""


class ReservationObjects:
    """Reservations by namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Reservation] = {}
        self._overruns: dict[tuple[str, str], Reservation] = {}
        """Those of jobs that were evicted for outliving their expected run time."""
        self._named: dict[tuple[str, str], tuple[JobKind, str, str]] = {}
        """Kind, key and uid of the job of each; no uid where the object means nothing, whatever jobs there are."""

    def __len__(self) -> int:
        return len(self._objects)

    def objects(self) -> Mapping[tuple[str, str], Reservation]:
        return self._objects

    def upsert(self, reservation: Reservation) -> Reservation | None:
        """Returns what it replaces."""
        key = _key(reservation)
        before = self._objects.get(key)
        self._objects[key] = reservation
        job = reservation.spec.job_ref
        means = key[1] == reservation_name(job.kind, job.name)
        self._named[key] = job.kind, f"{key[0]}/{job.name}", job.uid if means else ""
        if not reservation.status.overran:
            self._overruns.pop(key, None)
        else:
            self._overruns[key] = reservation
        return before

    def delete(self, reservation: Reservation) -> Reservation | None:
        """Returns what was known of it."""
        self._overruns.pop(_key(reservation), None)
        self._named.pop(_key(reservation), None)
        return self._objects.pop(_key(reservation), None)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._objects)

    def with_overruns(self) -> list[Reservation]:
        return [self._overruns[key] for key in sorted(self._overruns)]

    def of(self, job: Job) -> Reservation | None:
        """The one that is the job's."""
        if not self._objects or not job.uid:
            return None
        name = job.key.removeprefix(f"{job.namespace}/")
        found = self._objects.get((job.namespace, reservation_name(job.kind, name)))
        if found is None or found.spec.job_ref != JobReference(job.kind, name, job.uid):
            return None
        return found

    def records(self, job: Job) -> dict[str, ReservationRecord]:
        """What the job's reservation keeps, by the key of the pod. Of places for one pod the first counts."""
        found = self.of(job)
        if found is None:
            return {}
        records: dict[str, ReservationRecord] = {}
        for place in found.spec.places[:MAX_PLACES]:
            since = None if place.since is None else from_datetime(place.since)
            records.setdefault(
                f"{job.namespace}/{place.pod}", ReservationRecord(place.node, _STATES[place.state], since)
            )
        return records

    def planned(self, job: Job) -> PlannedRecord | None:
        """The planned start that the job's reservation carries."""
        found = self.of(job)
        start = None if found is None else found.status.planned_start
        if found is None or start is None:
            return None
        status = found.status
        places = status.places[:MAX_PLACES]
        since = [from_datetime(place.since) for place in places if place.since is not None]
        return PlannedRecord(
            start=from_datetime(start),
            hard=status.hard,
            nodes={f"{job.namespace}/{place.pod}": place.node for place in places},
            since=max(since, default=None),
            runs=status.runs,
        )

    def overrun(self, job: Job) -> OverrunRecord | None:
        """Whether the job was evicted because it outlived its expected run time."""
        if not self._overruns:
            return None
        name = job.key.removeprefix(f"{job.namespace}/")
        found = self._overruns.get((job.namespace, reservation_name(job.kind, name)))
        if found is None or (found.spec.job_ref.kind, found.spec.job_ref.name) != (job.kind, name):
            return None
        after = found.status.after
        return OverrunRecord(
            None if after is None else (after.kind, f"{after.namespace or job.namespace}/{after.name}")
        )

    def warnings(self, find: FindJob) -> list[str]:
        """Which reservations mean nothing, and why."""
        doubtful = [
            key
            for key, (kind, name, uid) in self._named.items()
            if not uid or (job := find(kind, name)) is None or job.uid != uid
        ]
        ignored = [(key, why) for key in sorted(doubtful) if (why := _ignored(key, self._objects[key], find))]
        found = [f"reservation {namespace}/{name}: {why}: ignored" for (namespace, name), why in ignored[:SHOWN]]
        if len(ignored) > SHOWN:
            found.append(f"{len(ignored) - SHOWN} more reservations are ignored")
        return found


def _ignored(key: tuple[str, str], reservation: Reservation, find: FindJob) -> str:
    namespace, name = key
    job = reservation.spec.job_ref
    if name != reservation_name(job.kind, job.name):
        return f"the reservation of {job.kind} {job.name} is named {reservation_name(job.kind, job.name)}"
    known = find(job.kind, f"{namespace}/{job.name}")
    if known is None:
        return f"there is no {job.kind} {namespace}/{job.name}"
    if not job.uid or known.uid != job.uid:
        return f"its uid {job.uid!r} is not that of {job.kind} {namespace}/{job.name}"
    return ""


def _key(reservation: Reservation) -> tuple[str, str]:
    return reservation.metadata.namespace, reservation.metadata.name
