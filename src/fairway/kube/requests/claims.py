"""Requests about ResourceClaims: devices are allocated before the pod is bound, and released if it never is.

**The claim for a pod's limits** names the devices that a pod has by class to the kubelet. It is created, allocated and
named in the pod's status, in this order; then the pod is bound:

    POST claim -> PATCH its status -> PATCH the pod's status

Its name follows from the pod, so that a claim of an earlier attempt is found again. That one may have other devices on
another node: an allocation cannot be changed, so it is released first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from fairway.api.devices import Allocation, ResourceClaim, ResourceClaimStatus
from fairway.drive import AllocateClaim, Bind, MakeClassClaim, ReleaseClaim, failed_condition, is_ready
from fairway.kube.http.exchange import (
    DONE,
    LONG_PAUSE,
    MERGE_PATCH,
    ApiAnswer,
    ApiRequest,
    Ending,
    ReadMetadata,
    Script,
    WriteResult,
    again,
    done_as,
    encoded,
    is_unsure,
    plain_ending,
    refused,
)
from fairway.kube.http.paths import DEVICES, collection_path, object_path, pod_path

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim from being deleted under its pods; the claim controller removes it."""

PLURAL = "resourceclaims"
_ROUNDS = 5
_LOOK_AGAIN = 1.0
"""Seconds between two reads while devices are not ready."""


def allocate_claim(change: AllocateClaim) -> Script:
    """Protects the claim from deletion, then allocates and reserves it. Both steps name the version that was read."""
    claim = change.claim
    if not change.uid:
        return refused("the claim does not exist yet: the claim controller creates it")
    path = object_path(DEVICES, PLURAL, change.key)
    for _ in range(_ROUNDS):
        if FINALIZER not in claim.metadata.finalizers:
            answer = yield ApiRequest("PATCH", path, _protection_body(claim), MERGE_PATCH)
            if answer.ok:
                found = _with_version(claim, answer)
                if isinstance(found, Ending):
                    return found
                claim = found
        else:
            answer = yield ApiRequest("PATCH", f"{path}/status", _allocation_body(claim), MERGE_PATCH)
            if answer.ok:
                return done_as(answer)
        if answer.ok:
            continue
        if answer.status != 409:
            return plain_ending(answer)
        look = yield ApiRequest("GET", path)
        found = _merged(change, look)
        if isinstance(found, Ending):
            return found
        claim = found
    return again(answer)


def release_claim(change: ReleaseClaim) -> Script:
    """Frees the devices, if the claim is still as it was at the decision."""
    meta = {"uid": change.uid, "resourceVersion": change.claim.metadata.resource_version}
    status = {"allocation": None, "reservedFor": None, "devices": None}
    path = object_path(DEVICES, PLURAL, change.key)
    answer = yield ApiRequest("PATCH", f"{path}/status", encoded({"metadata": meta, "status": status}), MERGE_PATCH)
    return DONE if answer.status == 404 else plain_ending(answer)


def devices_ready(change: Bind, expired: Callable[[], bool]) -> Script:
    """Done when the drivers have set all binding conditions of the pod's devices; refused if a device failed, or if it
    took too long. Then the claims are to be released.
    """
    for key in change.awaits:
        look = yield ApiRequest("GET", object_path(DEVICES, PLURAL, key))
        if look.status == 404:
            return refused(f"claim {key[2]} is gone")
        claim = _read_claim(look)
        if claim is None:
            return again(look)
        if claim.status.allocation is None:
            return refused(f"claim {key[2]} is no longer allocated")
        for result in claim.status.allocation.devices.results:
            if problem := failed_condition(claim, result):
                return refused(f"device {result.device} of claim {key[2]} cannot be used: {problem}", LONG_PAUSE)
            if not is_ready(claim, result):
                why = f"device {result.device} of claim {key[2]} is not ready: {', '.join(result.binding_conditions)}"
                return refused(why, LONG_PAUSE) if expired() else Ending(WriteResult.AGAIN, why, _LOOK_AGAIN)
    return DONE


def _read_claim(look: ApiAnswer) -> ResourceClaim | None:
    if not look.ok:
        return None
    try:
        return msgspec.json.decode(look.body, type=ResourceClaim)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _protection_body(claim: ResourceClaim) -> bytes:
    meta = {**_preconditions(claim), "finalizers": [*claim.metadata.finalizers, FINALIZER]}
    return encoded({"metadata": meta})


def _allocation_body(claim: ResourceClaim) -> bytes:
    status = {"allocation": claim.status.allocation, "reservedFor": claim.status.reserved_for}
    return encoded({"metadata": _preconditions(claim), "status": status})


def _preconditions(claim: ResourceClaim) -> dict[str, Any]:
    meta = claim.metadata
    return {"uid": meta.uid, **({"resourceVersion": meta.resource_version} if meta.resource_version else {})}


def _with_version(claim: ResourceClaim, answer: ApiAnswer) -> ResourceClaim | Ending:
    """Our wanted claim with the metadata of the server's current version."""
    try:
        now = msgspec.json.decode(answer.body, type=ReadMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(answer)  # truncated
    return replace(claim, metadata=now.metadata)


def _merged(change: AllocateClaim, look: ApiAnswer) -> ResourceClaim | Ending:
    """The current claim with our pod among its users; an ending if that is no longer possible."""
    if look.status == 404:
        return refused("the claim is gone")
    if not look.ok:
        return again(look)
    try:
        now = msgspec.json.decode(look.body, type=ResourceClaim)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(look)
    if now.metadata.uid != change.uid:
        return refused("the claim is gone; another one has its name")
    wanted = change.claim.status
    if now.status.allocation is not None and not _same_devices(now.status.allocation, wanted.allocation):
        return refused("other devices were allocated to the claim")
    users = (*now.status.reserved_for, *(user for user in wanted.reserved_for if user not in now.status.reserved_for))
    return replace(now, status=ResourceClaimStatus(now.status.allocation or wanted.allocation, users))


def _same_devices(one: Allocation, other: Allocation | None) -> bool:
    return (
        other is not None and one.devices.results == other.devices.results and one.node_selector == other.node_selector
    )


# -- the claim for a pod's limits --------------------------------------------------------------------------------------


def make_class_claim(change: MakeClassClaim) -> Script:
    path = object_path(DEVICES, PLURAL, change.key)
    answer = yield ApiRequest("POST", collection_path(DEVICES, PLURAL, change.key[1]), _creation_body(change.claim))
    if not answer.ok:
        if answer.status != 409 and not is_unsure(answer):
            return plain_ending(answer)
        answer = yield ApiRequest("GET", path)
        if answer.status == 404:
            return again(answer)  # the request may still arrive
    claim = _read_claim(answer)
    if claim is None:
        return again(answer)
    if not _is_for_pod(change, claim):
        return refused("another claim has the name of the pod's own")
    if not _has_devices(change, claim):
        if _requested(claim) != _requested(change.claim) or claim.status.allocation is not None:
            ending = yield from _released(path, claim)
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


def _released(path: str, claim: ResourceClaim) -> Script:
    """Releases and deletes the claim of an earlier choice; the next attempt creates it again."""
    meta = {**_version(claim), "finalizers": None}
    freed = {"metadata": _version(claim), "status": {"allocation": None, "reservedFor": None, "devices": None}}
    answer = yield ApiRequest("PATCH", f"{path}/status", encoded(freed), MERGE_PATCH)
    if answer.ok:
        now = _read_claim(answer)
        meta["resourceVersion"] = now.metadata.resource_version if now is not None else ""
        answer = yield ApiRequest("PATCH", path, encoded({"metadata": meta}), MERGE_PATCH)
    if answer.ok:
        body = {"preconditions": {"uid": claim.metadata.uid}}
        answer = yield ApiRequest("DELETE", path, encoded(body))
    return Ending(again(answer).result, "the claim of an earlier choice was released") if answer.ok else again(answer)


def _creation_body(claim: ResourceClaim) -> bytes:
    return encoded({"apiVersion": DEVICES, "kind": "ResourceClaim", "metadata": claim.metadata, "spec": claim.spec})


def _version(claim: ResourceClaim) -> dict[str, object]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _is_for_pod(change: MakeClassClaim, claim: ResourceClaim) -> bool:
    """Whether it was created for this very pod."""
    return any(owner.uid == change.pod_uid and owner.controller for owner in claim.metadata.owner_references)


def _requested(claim: ResourceClaim) -> list[tuple[str, str, int | None]]:
    """The requests without defaults that a server fills in."""
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
