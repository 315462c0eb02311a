"""Requests about Reservations. See `changes` for the rules they follow.

Spec and status of a Reservation are one fact, written by one writer: the resource has no status subresource, and both
change in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairway.api.kinds import ObjectKey
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.drive.change import DeleteReservation, WriteReservation
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
from fairway.kube.requests.paths import FAIRWAY, collection_path, object_path

PLURAL = "reservations"

GroupVersions = Mapping[ObjectKey, str]
"""The `apiVersion` of the PodGroups that are not Volcano's."""


def write_reservation(change: WriteReservation, groups: GroupVersions) -> Script:
    """Created where none is known, else replaced whole."""
    path = object_path(FAIRWAY, PLURAL, change.key)
    uid = change.uid
    if not uid:
        collection = collection_path(FAIRWAY, PLURAL, change.key[1])
        answer = yield ApiRequest("POST", collection, _creation_body(change, groups))
        if answer.status != 409:
            return done_as(answer) if answer.ok else plain_ending(answer)
        # One of that name is there: our own, if an answer was lost, or that of an older job.
        look = yield ApiRequest("GET", path)
        if not look.ok:
            return again(look)
        try:
            uid = msgspec.json.decode(look.body, type=ReadMetadata).metadata.uid
        except (msgspec.DecodeError, UnicodeDecodeError):
            return again(look)
    answer = yield ApiRequest("PATCH", path, _replacement_body(change, uid, groups), JSON_PATCH)
    return done_as(answer) if answer.ok else plain_ending(answer)


def delete_reservation(change: DeleteReservation) -> Script:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": change.uid}}
    body = encoded(options) if change.uid else None
    answer = yield ApiRequest("DELETE", object_path(FAIRWAY, PLURAL, change.key), body)
    # 409: it is another one by now, so the one that was meant is gone.
    return DONE if answer.status in (404, 409) else plain_ending(answer)


def _creation_body(change: WriteReservation, groups: GroupVersions) -> bytes:
    _, namespace, name = change.key
    owners = _owners(change, groups)
    meta = ObjectMeta(name=name, namespace=namespace, owner_references=owners)
    head = {"apiVersion": FAIRWAY, "kind": "Reservation", "metadata": meta}
    return encoded({**head, "spec": change.reservation.spec, "status": change.reservation.status})


def _replacement_body(change: WriteReservation, uid: str, groups: GroupVersions) -> bytes:
    steps: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/metadata/ownerReferences", "value": _owners(change, groups)},
        {"op": "add", "path": "/spec", "value": change.reservation.spec},
        {"op": "add", "path": "/status", "value": change.reservation.status},
    ]
    return encoded(steps)


def _owners(change: WriteReservation, groups: GroupVersions) -> tuple[OwnerReference, ...]:
    """The job, so that its reservation goes with it. An owner under an API that it does not have would be taken for
    one that is gone: the garbage collector would delete what is still needed.
    """
    job, namespace = change.reservation.spec.job_ref, change.key[1]
    if job.kind == "Controller" or not job.uid:
        return ()
    if job.kind == "Pod":
        version = "v1"
    else:
        version = groups.get(("PodGroup", namespace, job.name), "scheduling.volcano.sh/v1beta1")
    return (OwnerReference(api_version=version, kind=job.kind, name=job.name, uid=job.uid),)
