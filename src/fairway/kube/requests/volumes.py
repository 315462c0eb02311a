"""Requests about volumes, before the pod is bound: a volume is kept for a claim, or a node is selected for it.

Each write names the version that was read. After a conflict, or no answer, the object itself says what became of it: it
is as it should be, another has changed it in a way that does no harm, or it is no longer what the plan counted on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from fairway.api.core import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from fairway.drive import Change, PreBindVolume, SelectNode
from fairway.kube.http.exchange import (
    MERGE_PATCH,
    ApiAnswer,
    ApiRequest,
    Ending,
    Script,
    WriteResult,
    again,
    done_as,
    encoded,
    is_unsure,
    plain_ending,
    refused,
)

_ROUNDS = 5

V = TypeVar("V", PersistentVolume, PersistentVolumeClaim)


def pre_bind_volume(change: PreBindVolume) -> Script:
    """The controller binds the claim to the volume that names it."""

    def body(volume: PersistentVolume) -> dict[str, Any] | Ending:
        named = volume.spec.claim_ref
        if change.keeps(volume):
            return _done(volume)
        if named is not None and (named.namespace, named.name) != (change.claim.namespace, change.claim.name):
            return refused(f"volume {change.key[2]} is kept for claim {named.namespace}/{named.name}")
        if volume.metadata.deletion_timestamp is not None:
            return refused(f"volume {change.key[2]} is being deleted")
        notes = {BOUND_BY_CONTROLLER: "yes"} if named is None else {}
        return {"metadata": {"annotations": notes}, "spec": {"claimRef": change.claim}}

    return _write(change, f"/api/v1/persistentvolumes/{change.key[2]}", PersistentVolume, body)


def select_node(change: SelectNode) -> Script:
    """The provisioner of the claim's class makes a volume for that node, or takes the annotation off again."""

    def body(claim: PersistentVolumeClaim) -> dict[str, Any] | Ending:
        selected = claim.metadata.annotations.get(SELECTED_NODE, "")
        if selected == change.node:
            return _done(claim)
        if claim.spec.volume_name:
            return refused(f"claim {change.key[2]} got volume {claim.spec.volume_name} meanwhile")
        if selected:
            return refused(f"node {selected} was selected for claim {change.key[2]} meanwhile")
        if claim.metadata.deletion_timestamp is not None:
            return refused(f"claim {change.key[2]} is being deleted")
        return {"metadata": {"annotations": {SELECTED_NODE: change.node}}}

    _, namespace, name = change.key
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
    return _write(change, path, PersistentVolumeClaim, body)


def _write(change: Change, path: str, kind: type[V], body: Callable[[V], dict[str, Any] | Ending]) -> Script:
    """Read, and write on what was read, until nothing came in between."""
    for _ in range(_ROUNDS):
        look = yield ApiRequest("GET", path)
        found = _read(change, look, kind)
        if isinstance(found, Ending):
            return found
        wanted = body(found)
        if isinstance(wanted, Ending):
            return wanted
        meta = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        patch = {**wanted, "metadata": {**wanted["metadata"], **meta}}
        answer = yield ApiRequest("PATCH", path, encoded(patch), MERGE_PATCH)
        if answer.ok:
            return done_as(answer)
        if answer.status != 409 and not is_unsure(answer):
            return plain_ending(answer)
    return again(answer)


def _read(change: Change, look: ApiAnswer, kind: type[V]) -> V | Ending:
    title = f"{change.key[0]} {change.key[2]}"
    if look.status == 404:
        return refused(f"{title} is gone")
    if not look.ok:
        return again(look)
    try:
        found = msgspec.json.decode(look.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(look)
    if change.uid and found.metadata.uid != change.uid:
        return refused(f"{title} is gone, another has its name")
    return found


def _done(found: PersistentVolume | PersistentVolumeClaim) -> Ending:
    return Ending(WriteResult.DONE, version=found.metadata.resource_version)
