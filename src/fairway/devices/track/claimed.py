"""What claims have allocated: for each device the claims that have it, and by which of their requests.

A claim whose allocation names a device keeps it, whether or not a pod uses it yet. A request with admin access
holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fairway.api.devices import DeviceResult, ResourceClaim
from fairway.devices.model.inventory import Inventory
from fairway.state.device_requests import SPECIAL_CLAIM, fact_key

DeviceKey = tuple[str, str, str]
"""Driver, pool and device."""


class ClaimedDevice(NamedTuple):
    """A device, or part of it, as a claim's allocation has it. `class_name` is that of the request, or of the
    alternative that was taken.
    """

    claim: str
    class_name: str
    result: DeviceResult
    owner: str = ""
    """The pod that the claim was made for, as `namespace/name`."""
    special: bool = False
    """Whether it tells a kubelet what the pod has for its limits."""


class ClaimedDevices:
    """All allocations known."""

    def __init__(self) -> None:
        self._devices: dict[str, tuple[DeviceKey, ...]] = {}
        self._by_device: dict[DeviceKey, dict[str, list[ClaimedDevice]]] = {}
        self._changed: set[DeviceKey] = set()

    def __bool__(self) -> bool:
        return bool(self._devices)

    def upsert(self, claim: ResourceClaim) -> None:
        key = fact_key(claim)
        self.delete(key)
        allocation = claim.status.allocation
        classes, owner = _classes(claim), _owner(claim)
        special = bool(owner) and claim.metadata.annotations.get(SPECIAL_CLAIM) == "true"
        for result in allocation.devices.results if allocation else ():
            if not result.admin_access:
                device = (result.driver, result.pool, result.device)
                claimed_device = ClaimedDevice(key, classes.get(result.request, ""), result, owner, special)
                self._by_device.setdefault(device, {}).setdefault(key, []).append(claimed_device)
                self._devices[key] = (*self._devices.get(key, ()), device)
                self._changed.add(device)

    def delete(self, key: str) -> None:
        for device in dict.fromkeys(self._devices.pop(key, ())):  # a claim may have a device twice, in parts
            self._by_device[device].pop(key, None)
            if not self._by_device[device]:
                del self._by_device[device]
            self._changed.add(device)

    def take_changed(self) -> set[DeviceKey]:
        """Devices that other claims have than when this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def of(self, inventory: Inventory) -> Iterator[tuple[ClaimedDevice, int]]:
        """What claims have of these slots."""
        if not self._devices:
            return
        for index, slot in enumerate(inventory.slots):
            device = slot.device
            claims = self._by_device.get((device.driver, device.pool, device.name), {})
            yield from ((claimed_device, index) for claim in sorted(claims) for claimed_device in claims[claim])


def _owner(claim: ResourceClaim) -> str:
    for owner in claim.metadata.owner_references:
        if owner.kind == "Pod" and owner.controller:
            return f"{claim.metadata.namespace}/{owner.name}"
    return ""


def _classes(claim: ResourceClaim) -> dict[str, str]:
    """The class of each request, by the name that a result says (`request`, or `request/alternative`)."""
    found: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[request.name] = request.exactly.device_class_name
        for alternative in request.first_available:
            found[f"{request.name}/{alternative.name}"] = alternative.device_class_name
    return found
