"""Requests about ResourceClaims: devices are allocated before the pod is bound, and freed if it never is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from fairway.api.devices import Allocation, ResourceClaim, ResourceClaimStatus
from fairway.drive import AllocateClaim, Bind, ReleaseClaim, failed_condition, is_ready
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
    plain_ending,
    refused,
)
from fairway.kube.http.paths import DEVICES, object_path

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim that is allocated from being deleted under its pods; the claim controller takes it off."""

PLURAL = "resourceclaims"
_ROUNDS = 5
_LOOK_AGAIN = 1.0
"""Seconds between two looks at devices that are not ready yet."""


def allocate_claim(change: AllocateClaim) -> Script:
    """Protected from deletion, then allocated and reserved for the pod. Both steps name the version that was read."""
    claim = change.claim
    if not change.uid:
        return refused("the claim does not exist yet: the claim controller makes it")
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
    """The devices are free again, if the claim is still as it was when that was decided."""
    meta = {"uid": change.uid, "resourceVersion": change.claim.metadata.resource_version}
    status = {"allocation": None, "reservedFor": None, "devices": None}
    path = object_path(DEVICES, PLURAL, change.key)
    answer = yield ApiRequest("PATCH", f"{path}/status", encoded({"metadata": meta, "status": status}), MERGE_PATCH)
    return DONE if answer.status == 404 else plain_ending(answer)


def devices_ready(change: Bind, expired: Callable[[], bool]) -> Script:
    """Done when the drivers have set all binding conditions of the pod's devices; refused where one cannot be had, or
    when it took too long. Then the claims are to be released.
    """
    for key in change.awaits:
        look = yield ApiRequest("GET", object_path(DEVICES, PLURAL, key))
        if look.status == 404:
            return refused(f"claim {key[2]} is gone")
        claim = _read_claim(look)
        if claim is None:
            return again(look)
        if claim.status.allocation is None:
            return refused(f"claim {key[2]} is not allocated any more")
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
    """What we want of it, on top of the version that the server has now."""
    try:
        now = msgspec.json.decode(answer.body, type=ReadMetadata)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(answer)  # cut off on the way
    return replace(claim, metadata=now.metadata)


def _merged(change: AllocateClaim, look: ApiAnswer) -> ResourceClaim | Ending:
    """The claim as it is now with our pod among its users; an ending if that cannot be any more."""
    if look.status == 404:
        return refused("the claim is gone")
    if not look.ok:
        return again(look)
    try:
        now = msgspec.json.decode(look.body, type=ResourceClaim)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return again(look)
    if now.metadata.uid != change.uid:
        return refused("the claim is gone, another has its name")
    wanted = change.claim.status
    if now.status.allocation is not None and not _same_devices(now.status.allocation, wanted.allocation):
        return refused("other devices were allocated to the claim")
    users = (*now.status.reserved_for, *(user for user in wanted.reserved_for if user not in now.status.reserved_for))
    return replace(now, status=ResourceClaimStatus(now.status.allocation or wanted.allocation, users))


def _same_devices(one: Allocation, other: Allocation | None) -> bool:
    return (
        other is not None and one.devices.results == other.devices.results and one.node_selector == other.node_selector
    )
