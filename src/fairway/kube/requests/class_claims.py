"""Requests for the claim that tells a kubelet which devices a pod has by class: made, allocated, named by the pod.

    POST claim -> PATCH its status -> PATCH the pod's status, in this order; then the pod is bound

The claim's name follows from the pod, so a claim of an earlier attempt is found again. What it was allocated then may
be other devices on another node: an allocation cannot be changed, so it is taken back first.
"""

from __future__ import annotations

import msgspec

from fairway.api.devices import ResourceClaim
from fairway.drive import MakeClassClaim
from fairway.kube.http.exchange import (
    MERGE_PATCH,
    ApiAnswer,
    ApiRequest,
    Ending,
    Script,
    again,
    done_as,
    encoded,
    is_unsure,
    plain_ending,
    refused,
)
from fairway.kube.http.paths import DEVICES, collection_path, object_path, pod_path

PLURAL = "resourceclaims"


def make_class_claim(change: MakeClassClaim) -> Script:
    path = object_path(DEVICES, PLURAL, change.key)
    answer = yield ApiRequest("POST", collection_path(DEVICES, PLURAL, change.key[1]), _body(change.claim))
    if not answer.ok:
        if answer.status != 409 and not is_unsure(answer):
            return plain_ending(answer)
        answer = yield ApiRequest("GET", path)
        if answer.status == 404:
            return again(answer)  # the request may still be on its way
    claim = _read(answer)
    if claim is None:
        return again(answer)
    if not _is_same(change, claim):
        return refused("another claim has the name that the pod's own needs")
    if not _has_devices(change, claim):
        if _asked(claim) != _asked(change.claim) or claim.status.allocation is not None:
            ending = yield from _taken_back(path, claim)
            return ending
        status = {"metadata": _version(claim), "status": change.claim.status}
        answer = yield ApiRequest("PATCH", f"{path}/status", encoded(status), MERGE_PATCH)
        if not answer.ok:
            return again(answer) if answer.status == 409 else plain_ending(answer)
    allocated = done_as(answer)
    named = {
        "metadata": {"uid": change.pod_uid},
        "status": {"extendedResourceClaimStatus": change.named},
    }
    answer = yield ApiRequest("PATCH", f"{pod_path(change.pod_key)}/status", encoded(named), MERGE_PATCH)
    return allocated if answer.ok else plain_ending(answer)


def _taken_back(path: str, claim: ResourceClaim) -> Script:
    """An earlier choice: its devices are freed and the claim goes; the next attempt makes it new."""
    meta = {**_version(claim), "finalizers": None}
    freed = {"metadata": _version(claim), "status": {"allocation": None, "reservedFor": None, "devices": None}}
    answer = yield ApiRequest("PATCH", f"{path}/status", encoded(freed), MERGE_PATCH)
    if answer.ok:
        now = _read(answer)
        meta["resourceVersion"] = now.metadata.resource_version if now is not None else ""
        answer = yield ApiRequest("PATCH", path, encoded({"metadata": meta}), MERGE_PATCH)
    if answer.ok:
        body = {"preconditions": {"uid": claim.metadata.uid}}
        answer = yield ApiRequest("DELETE", path, encoded(body))
    return Ending(again(answer).result, "the claim of an earlier choice was taken back") if answer.ok else again(answer)


def _body(claim: ResourceClaim) -> bytes:
    made = {"apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": claim.metadata, "spec": claim.spec}
    return encoded(made)


def _version(claim: ResourceClaim) -> dict[str, object]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _read(answer: ApiAnswer) -> ResourceClaim | None:
    if not answer.ok:
        return None
    try:
        return msgspec.json.decode(answer.body, type=ResourceClaim)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _is_same(change: MakeClassClaim, claim: ResourceClaim) -> bool:
    """Whether it was made for this very pod."""
    return any(owner.uid == change.pod_uid and owner.controller for owner in claim.metadata.owner_references)


def _asked(claim: ResourceClaim) -> list[tuple[str, str, int | None]]:
    """Without what a server fills in."""
    requests = claim.spec.devices.requests
    return [(one.name, one.exactly.device_class_name, one.exactly.count) for one in requests if one.exactly is not None]


def _has_devices(change: MakeClassClaim, claim: ResourceClaim) -> bool:
    now, wanted = claim.status, change.claim.status
    if now.allocation is None or wanted.allocation is None:
        return False
    return (
        now.allocation.devices.results == wanted.allocation.devices.results
        and now.allocation.node_selector == wanted.allocation.node_selector
        and set(wanted.reserved_for) <= set(now.reserved_for)
    )
