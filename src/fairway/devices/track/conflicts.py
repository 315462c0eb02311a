"""Devices of a node that were given out more than once: another allocator wrote its claim in the same moment.

The API server does not check that a device is free. What is allocated together is more than there is where a device
has two users, where parts exceed its capacity, where counters are overdrawn, where a group and a member of it are both
in use, or where devices of one counter set do not go together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairway.devices.match.capacity import FreeSlots
from fairway.devices.model.device import WHOLE, Device
from fairway.devices.track.node import NodeDevices, SlotAllocation


class DeviceConflict(NamedTuple):
    """Allocations to at least two users that cannot all be had, at least one of them by a claim."""

    devices: tuple[Device, ...]
    allocations: tuple[SlotAllocation, ...]

    @property
    def names(self) -> str:
        return ", ".join(dict.fromkeys(f"{device.name} of pool {device.pool}" for device in self.devices))

    @property
    def users(self) -> frozenset[str]:
        return frozenset(map(user_of, self.allocations))


def user_of(allocation: SlotAllocation) -> str:
    """The claim that has it (`namespace/name`), or the pod where no claim says so."""
    return allocation.claim or allocation.holder


def conflicts(node: NodeDevices) -> Iterator[DeviceConflict]:
    """Each place where more is allocated than there is. Costs nothing but a look at what is allocated."""
    taken: dict[int, list[SlotAllocation]] = {}
    for allocation in node.allocations:
        if not allocation.portion.looks:
            taken.setdefault(allocation.slot, []).append(allocation)
    found = dict.fromkeys(tuple(sorted(slots)) for slots in _exceeded(node.free, taken))
    for slots in found:
        devices = tuple(node.inventory.slots[slot].device for slot in slots)
        conflict = DeviceConflict(devices, tuple(allocation for slot in slots for allocation in taken[slot]))
        if len(conflict.users) > 1 and any(allocation.claim for allocation in conflict.allocations):
            yield conflict


def _exceeded(free: FreeSlots, taken: Iterable[int]) -> Iterator[set[int]]:
    """Sets of slots that cannot all be taken as they are."""
    inventory, taken = free.inventory, set(taken)
    for slot in sorted(taken):
        facts = inventory.slots[slot]
        if free.used[slot] > facts.quantity or _shared_too_far(free, slot):
            yield {slot}
        if facts.group and free.used[slot]:
            others = {slot, *facts.leaves, *(group for leaf in facts.leaves for group in inventory.groups_of[leaf])}
            if len(others & taken) > 1:
                yield others & taken
        if facts.boards and not free.goes_with_others(slot):
            yield {other for board, _ in facts.boards for other, _ in inventory.boards[board]} & taken
    for counter, left in enumerate(free.counters):
        if left < 0:
            yield {slot for slot in taken if any(index == counter for index, _ in inventory.slots[slot].counters)}


def _shared_too_far(free: FreeSlots, slot: int) -> bool:
    share = free.shares.get(slot)
    if share is None:
        return False
    totals = (total for _, total in free.inventory.slots[slot].capacity)
    return (
        free.used[slot] > 0
        or share.milli > WHOLE
        or any(part > total for part, total in zip(share.capacity, totals, strict=True))
    )
