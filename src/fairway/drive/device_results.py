"""Devices that were allocated: which share of one a claim has, and whether its driver has made it ready."""

from __future__ import annotations

from uuid import UUID, uuid5

from fairway.api.devices import DeviceResult, ResourceClaim

_SHARES = UUID("6f0b2f0e-6c0a-5d0f-9a54-b0a3f3d7c1e2")
"""The namespace of the ids of shares."""


def share_id(owner: str, number: int) -> str:
    """The same again for the same share of the same claim, and no other's."""
    return str(uuid5(_SHARES, f"{owner} {number}"))


def awaits_devices(claim: ResourceClaim) -> bool:
    """Whether drivers have still to say that its devices can be bound to."""
    allocation = claim.status.allocation
    return allocation is not None and any(not is_ready(claim, result) for result in allocation.devices.results)


def is_ready(claim: ResourceClaim, result: DeviceResult) -> bool:
    """Whether all binding conditions of a device are set."""
    return set(result.binding_conditions) <= _set_conditions(claim, result)


def failed_condition(claim: ResourceClaim, result: DeviceResult) -> str:
    """The condition by which its driver says that a device cannot be bound to; "" if none is set."""
    return next((name for name in result.binding_failure_conditions if name in _set_conditions(claim, result)), "")


def _set_conditions(claim: ResourceClaim, result: DeviceResult) -> set[str]:
    return {
        condition.type
        for said in claim.status.devices
        if (said.driver, said.pool, said.device, said.share_id)
        == (result.driver, result.pool, result.device, result.share_id)
        for condition in said.conditions
        if condition.status == "True"
    }
