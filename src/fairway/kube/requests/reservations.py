"""Requests about Reservations and EvictionRecords, by the rules of `changes`.

Spec and status of either belong together and have one writer: the resources have no status subresource, and both change
in one request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from fairway.api.kinds import ObjectKey
from fairway.api.meta import ApiStruct, ObjectMeta, OwnerReference
from fairway.drive import DeleteReservation, DeleteStops, WriteReservation, WriteStops
from fairway.kube.http.exchange import (
    DONE,
    JSON_PATCH,
    ApiRequest,
    ReadMetadata,
    Script,
    again,
    done_as,
    encoded,
    plain_ending,
)
from fairway.kube.http.paths import FAIRWAY, collection_path, object_path

RESERVATIONS, EVICTION_RECORDS = "reservations", "evictionrecords"

GroupVersions = Mapping[ObjectKey, str]
"""The `apiVersion` of the PodGroups that are not Volcano's."""


class _OwnObject(NamedTuple):
    """An object to write, with its owners."""

    plural: str
    kind: str
    owners: tuple[OwnerReference, ...]
    spec: ApiStruct
    status: ApiStruct


def write_reservation(change: WriteReservation, groups: GroupVersions) -> Script:
    reservation = change.reservation
    owners = _owners(change, groups)
    return _write(
        change.key, change.uid, _OwnObject(RESERVATIONS, "Reservation", owners, reservation.spec, reservation.status)
    )


def write_stops(change: WriteStops, groups: GroupVersions) -> Script:
    record, namespace = change.record, change.key[1]
    owners = tuple(_versioned(owner, namespace, groups) for owner in record.metadata.owner_references)
    return _write(
        change.key, change.uid, _OwnObject(EVICTION_RECORDS, "EvictionRecord", owners, record.spec, record.status)
    )


def _write(key: ObjectKey, uid: str, written: _OwnObject) -> Script:
    """Creates the object if none is known, and replaces it otherwise."""
    path = object_path(FAIRWAY, written.plural, key)
    if not uid:
        collection = collection_path(FAIRWAY, written.plural, key[1])
        answer = yield ApiRequest("POST", collection, _creation_body(key, written))
        if answer.status != 409:
            return done_as(answer) if answer.ok else plain_ending(answer)
        # The name exists: our own object if an answer was lost, or that of an older job.
        look = yield ApiRequest("GET", path)
        if not look.ok:
            return again(look)
        try:
            uid = msgspec.json.decode(look.body, type=ReadMetadata).metadata.uid
        except (msgspec.DecodeError, UnicodeDecodeError):
            return again(look)
    answer = yield ApiRequest("PATCH", path, _replacement_body(uid, written), JSON_PATCH)
    return done_as(answer) if answer.ok else plain_ending(answer)


def delete_reservation(change: DeleteReservation) -> Script:
    return _delete(change.key, change.uid, RESERVATIONS)


def delete_stops(change: DeleteStops) -> Script:
    return _delete(change.key, change.uid, EVICTION_RECORDS)


def _delete(key: ObjectKey, uid: str, plural: str) -> Script:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    body = encoded(options) if uid else None
    answer = yield ApiRequest("DELETE", object_path(FAIRWAY, plural, key), body)
    # 409: another object has the name, so the one that was meant is gone.
    return DONE if answer.status in (404, 409) else plain_ending(answer)


def _creation_body(key: ObjectKey, written: _OwnObject) -> bytes:
    _, namespace, name = key
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=written.owners)
    head = {"apiVersion": FAIRWAY, "kind": written.kind, "metadata": meta}
    return encoded({**head, "spec": written.spec, "status": written.status})


def _replacement_body(uid: str, written: _OwnObject) -> bytes:
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/metadata/ownerReferences", "value": written.owners},
        {"op": "add", "path": "/spec", "value": written.spec},
        {"op": "add", "path": "/status", "value": written.status},
    ]
    return encoded(steps)


def _owners(change: WriteReservation, groups: GroupVersions) -> tuple[OwnerReference, ...]:
    """The job, so that its reservation is deleted with it."""
    job, namespace = change.reservation.spec.job_ref, change.key[1]
    if job.kind == "Controller" or not job.uid:
        return ()
    owner = OwnerReference(api_version="v1", kind=job.kind, name=job.name, uid=job.uid)
    return (_versioned(owner, namespace, groups),)


def _versioned(owner: OwnerReference, namespace: str, groups: GroupVersions) -> OwnerReference:
    """An owner under a wrong API version looks deleted to the garbage collector, which would delete the object."""
    if owner.kind != "PodGroup":
        return owner
    version = groups.get(("PodGroup", namespace, owner.name), "scheduling.volcano.sh/v1beta1")
    return msgspec.structs.replace(owner, api_version=version)
