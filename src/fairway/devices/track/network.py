"""Devices that several nodes reach, over a network or a fabric: taken once, wherever they are used.

Such a device is a slot of every node that reaches it. A pod that has it from one node has it from all: what the pods of
one row have is *mirrored* on the others. It counts in sums on one row only, its primary node's, the first that reaches
it. No pod is presumed to have one: a record or a claim has to say so.

Devices of one node whose counters are shared with devices of others are kept in the same way: each is a slot also of
the nodes that do not reach it but share its counters, where it can be taken by no request of that node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairway.devices.track.claimed import DeviceKey
from fairway.devices.track.node import NodeDevices, SlotAllocation


class NetworkSlot(NamedTuple):
    """A slot of a row that is a device of several rows. On some it is only known for the counters that it takes."""

    slot: int
    reachable: bool


class NetworkDevices:
    """Where each is, and what the pods of each row have of them."""

    def __init__(self) -> None:
        self._places: dict[DeviceKey, dict[int, NetworkSlot]] = {}
        self._keys: dict[int, dict[DeviceKey, NetworkSlot]] = {}
        self._allocated: dict[int, dict[DeviceKey, tuple[SlotAllocation, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def place(self, row: int, node: NodeDevices | None) -> set[int]:
        """The devices of a row are others now. Returns the rows to which that makes a difference."""
        old, new = self._keys.get(row, {}), {} if node is None else _network_slots(node)
        if old == new:
            return set()
        touched = self._rows(old)
        for key in old:
            del self._places[key][row]
            if not self._places[key]:
                del self._places[key]
        for key, place in new.items():
            self._places.setdefault(key, {})[row] = place
        self._keys[row] = new
        if not new:
            del self._keys[row]
            self._allocated.pop(row, None)
        return touched | self._rows(new)

    def counted_elsewhere(self, row: int) -> frozenset[int]:
        """The slots of a row that count elsewhere."""
        keys = self._keys.get(row, {})
        return frozenset(place.slot for key, place in keys.items() if self._primary_node(key) != row)

    def note(self, row: int, node: NodeDevices) -> set[int]:
        """What the pods of a row have, by their records. Returns the other rows where that is new."""
        if row not in self._keys:
            return set()
        held = {key: found for key, place in self._keys[row].items() if (found := _recorded(node, place.slot))}
        before = self._allocated.get(row, {})
        self._allocated[row] = held
        return self._rows(key for key in {*held, *before} if held.get(key) != before.get(key)) - {row}

    def mirror(self, row: int, node: NodeDevices) -> None:
        """Take on a row what the pods of others have."""
        for key, (slot, _) in self._keys.get(row, {}).items():
            for other in sorted(self._places[key]):
                if other != row:
                    for allocation in self._allocated.get(other, {}).get(key, ()):
                        node.take(allocation._replace(slot=slot))

    def elsewhere(self, row: int, slot: int) -> Iterator[tuple[int, int]]:
        """The rows and slots besides this one that are the same device."""
        key = next((key for key, own in self._keys.get(row, {}).items() if own.slot == slot), None)
        if key is not None:
            yield from ((other, place.slot) for other, place in sorted(self._places[key].items()) if other != row)

    def homes(self) -> Iterator[tuple[int, int]]:
        """Every device once, as row and slot."""
        for key in sorted(self._places):
            home = self._primary_node(key)
            if home is not None:
                yield home, self._places[key][home].slot

    def _primary_node(self, key: DeviceKey) -> int | None:
        """The row on which a device counts; None while no node that reaches it is there."""
        return min((row for row, place in self._places[key].items() if place.reachable), default=None)

    def _rows(self, keys: Iterable[DeviceKey]) -> set[int]:
        return {row for key in keys for row in self._places.get(key, ())}


def _network_slots(node: NodeDevices) -> dict[DeviceKey, NetworkSlot]:
    devices = ((node.inventory.slots[slot].device, slot) for slot in sorted(node.network_slots))
    return {(device.driver, device.pool, device.name): NetworkSlot(slot, device.reachable) for device, slot in devices}


def _recorded(node: NodeDevices, slot: int) -> tuple[SlotAllocation, ...]:
    """A claim's devices are taken on every row by its allocation, and need no echo."""
    return tuple(allocation for allocation in node.allocations if allocation.slot == slot and not allocation.claim)
