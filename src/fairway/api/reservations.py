"""Reservation: the nodes that are kept for one job, and when it is planned to start (spec S6.8).

Only Fairway writes it. It counts for the job whose uid it names and for no other: a job that was deleted and created
again under the same name has no reservation.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from fairway.api.meta import ApiStruct, ObjectMeta, Time

JobKind = Literal["PodGroup", "Pod", "Controller"]
"""A `Controller` is the implicit job of one: its name is kind and name, as in `job/train`."""

PlaceState = Literal["reserved", "allocated"]

MAX_PLACES = 10_000
"""Places of one reservation."""

_LONGEST_NAME = 253
_LONE = "pod-"
_GROUP = "podgroup-"
_CONTROLLER = "controller-"


class JobReference(ApiStruct, frozen=True):
    """The PodGroup, or the lone pod; in the reservation's own namespace, unless it says another."""

    kind: JobKind
    name: str
    uid: str = ""
    namespace: str = ""


class ReservedPlace(ApiStruct, frozen=True):
    """A node for one pod of the job: `allocated` has free capacity there, `reserved` waits for it."""

    pod: str
    node: str
    state: PlaceState
    since: Time | None = None


class ReservationSpec(ApiStruct, frozen=True):
    """`planned_start` is when all places will have free capacity, where that is known; `hard` is never missed."""

    job_ref: JobReference
    places: tuple[ReservedPlace, ...] = ()
    planned_start: Time | None = None
    hard: bool = False


class ReservationStatus(ApiStruct, frozen=True):
    """What backfill carries from cycle to cycle for a job that keeps no node."""

    planned_start: Time | None = None
    hard: bool = False
    places: tuple[ReservedPlace, ...] = ()
    runs: int | None = None
    """On one reservation of all: how many pods were on nodes when planned starts were last looked at."""
    overran: bool = False
    """The job was evicted because it outlived its expected run time. That counts whatever its uid: a pod that is
    created again in the place of the evicted one is the same job."""
    after: JobReference | None = None
    """The job that it was evicted for, as long as that one has not started."""


class Reservation(ApiStruct, frozen=True):
    spec: ReservationSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)


def reservation_name(kind: str, name: str) -> str:
    """The one name that the reservation of a job has: the group's, `pod-` and the lone pod's, or `controller-` and the
    kind and name of the controller.

    No two jobs of a namespace share one: a group whose own name begins like that of another kind's reservation gets
    `podgroup-` before it, and a name that would be too long ends in a digest of the whole.
    """
    if kind == "Pod":
        whole = _LONE + name
    elif kind == "Controller":
        whole = _CONTROLLER + name.replace("/", "-")
    else:
        whole = _GROUP + name if name.startswith((_LONE, _GROUP, _CONTROLLER)) else name
    if len(whole) <= _LONGEST_NAME:
        return whole
    digest = blake2b(whole.encode(), digest_size=8).hexdigest()
    return f"{whole[: _LONGEST_NAME - 1 - len(digest)].rstrip('-.')}-{digest}"
