"""How much of a node's slots is in use, and what is free.

A device is taken in whole units, or, if it can be shared, in parts: a fraction (in thousandths, which takes the same
part of every capacity), or amounts of its capacity. Parts never add up to more than the whole, and a whole unit is
available only where no part is taken.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from fairway.devices.model.device import WHOLE
from fairway.devices.model.inventory import Inventory, Slot


class Portion(NamedTuple):
    """How much of a slot: whole units, or a fraction, or amounts in the order of the slot's capacity. A request that
    only `looks` (with admin access) takes nothing, whatever others have.
    """

    units: int = 0
    milli: int = 0
    capacity: tuple[int, ...] = ()
    looks: bool = False


ONE = Portion(units=1)
LOOK = Portion(looks=True)


class Share(NamedTuple):
    """The parts taken of a shareable slot."""

    milli: int
    holders: int
    capacity: tuple[int, ...]


class FreeSlots:
    """What is in use of a node's slots. `take` and `give` are inverse and check nothing: call `fits` first."""

    __slots__ = ("_free", "counters", "inventory", "shares", "used")

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.used: list[int] = [0] * len(inventory)
        self.shares: dict[int, Share] = {}
        self.counters: list[int] = list(inventory.counters)
        self._free = -1

    def copy(self) -> FreeSlots:
        other = FreeSlots.__new__(FreeSlots)
        other.inventory = self.inventory
        other.used = self.used.copy()
        other.shares = self.shares.copy()
        other.counters = self.counters.copy()
        other._free = -1
        return other

    def taking(self, index: int, units: int) -> FreeSlots:
        """The slots after whole units of a slot were taken, on a node where slots do not affect each other."""
        other = FreeSlots.__new__(FreeSlots)
        other.inventory, other.shares, other.counters = self.inventory, self.shares, self.counters
        other.used = self.used.copy()
        other.used[index] += units
        other._free = -1 if self._free < 0 else self._free & ~(1 << index)
        return other

    def taking_singles(self, slots: Sequence[int]) -> FreeSlots:
        """The same for several slots of one unit."""
        other = self.taking(slots[0], 1)
        for index in slots[1:]:
            other.used[index] += 1
            other._free = -1 if other._free < 0 else other._free & ~(1 << index)
        return other

    def of(self, inventory: Inventory) -> FreeSlots:
        """The same use of another node's devices, which are equal to these."""
        other = self.copy()
        other.inventory = inventory
        return other

    def key(self) -> Hashable:
        """Equal exactly if the same parts are in use."""
        return tuple(self.used), tuple(sorted(self.shares.items())) if self.shares else ()

    def free_slots(self) -> int:
        """A bit for every slot of which nothing is in use."""
        if self._free < 0:
            self._free = sum(
                1 << index for index, used in enumerate(self.used) if not used and index not in self.shares
            )
        return self._free

    def touched(self, index: int) -> bool:
        return self.used[index] > 0 or index in self.shares

    def units(self, index: int) -> int:
        """Whole units that are available now."""
        inventory = self.inventory
        slot = inventory.slots[index]
        if slot.group:
            free = 0 if self.group_touched(index) else slot.quantity
        elif index in self.shares or any(self.used[group] for group in inventory.groups_of[index]):
            return 0
        else:
            free = slot.quantity - self.used[index]
        for counter, amount in slot.counters:
            free = min(free, self.counters[counter] // amount)
        return free if free > 0 and (not slot.boards or self.goes_with_others(index)) else 0

    def fits(self, index: int, portion: Portion) -> bool:
        if portion.units:
            return self.units(index) >= portion.units
        if portion.looks:
            return True
        slot = self.inventory.slots[index]
        if not slot.shareable or not slot.quantity or self.used[index]:
            return False
        if any(self.used[group] for group in self.inventory.groups_of[index]):
            return False
        share = self.shares.get(index)
        if share is None:
            fits = portion.milli <= WHOLE and self._parts_fit(slot, portion) and self._counters_left(slot)
            return fits and self.goes_with_others(index)
        if share.milli + portion.milli > WHOLE or share.milli >= WHOLE:
            return False
        return self.has_capacity(index, portion)

    def has_capacity(self, index: int, portion: Portion) -> bool:
        """Whether the capacity of a shared slot suffices, regardless of other obstacles."""
        slot, share = self.inventory.slots[index], self.shares.get(index)
        if not slot.shareable or share is None:
            return not slot.shareable or self._parts_fit(slot, portion)
        parts = _parts(slot, portion)
        return all(
            taken + part <= total for taken, part, (_, total) in zip(share.capacity, parts, slot.capacity, strict=True)
        )

    def free_milli(self, index: int) -> int:
        """The largest fraction of a slot that is available."""
        if not self.fits(index, Portion(milli=1)):
            return 0
        share = self.shares.get(index)
        if share is None:
            return WHOLE
        free = WHOLE - share.milli
        for taken, (_, total) in zip(share.capacity, self.inventory.slots[index].capacity, strict=True):
            if total:
                free = min(free, (total - taken) * WHOLE // total)
        return free

    def left(self, index: int) -> int:
        """Thousandths of units that could be taken, whole or in parts."""
        return self.units(index) * WHOLE or self.free_milli(index)

    def take(self, index: int, portion: Portion) -> None:
        self._change(index, portion, 1)

    def give(self, index: int, portion: Portion) -> None:
        self._change(index, portion, -1)

    def _change(self, index: int, portion: Portion, sign: int) -> None:
        self._free = -1
        slot = self.inventory.slots[index]
        if portion.units:
            self.used[index] += sign * portion.units
            self._count(slot, sign * portion.units)
            return
        if portion.looks:
            return
        share = self.shares.get(index) or Share(0, 0, (0,) * len(slot.capacity))
        parts = _parts(slot, portion)
        capacity = tuple(taken + sign * part for taken, part in zip(share.capacity, parts, strict=True))
        changed = Share(share.milli + sign * portion.milli, share.holders + sign, capacity)
        if not share.holders:
            self._count(slot, 1)
        if changed.holders:
            self.shares[index] = changed
        else:
            del self.shares[index]
            self._count(slot, -1)

    def _count(self, slot: Slot, units: int) -> None:
        for counter, amount in slot.counters:
            self.counters[counter] -= units * amount

    def group_touched(self, index: int) -> bool:
        """Whether a group or any of its members is in use."""
        groups_of = self.inventory.groups_of
        return self.used[index] > 0 or any(
            self.touched(leaf) or any(self.used[group] for group in groups_of[leaf])
            for leaf in self.inventory.slots[index].leaves
        )

    def goes_with_others(self, index: int) -> bool:
        """Whether the slot shares a compatibility group with everything in use of its counter sets, or none has one."""
        for board, groups in self.inventory.slots[index].boards:
            common = groups
            for other, theirs in self.inventory.boards[board]:
                if other != index and (groups or theirs) and self.touched(other):
                    common = common & theirs
                    if not common:
                        return False
        return True

    def _parts_fit(self, slot: Slot, portion: Portion) -> bool:
        return all(part <= total for part, (_, total) in zip(_parts(slot, portion), slot.capacity, strict=True))

    def _counters_left(self, slot: Slot) -> bool:
        return all(self.counters[counter] >= amount for counter, amount in slot.counters)


def _parts(slot: Slot, portion: Portion) -> tuple[int, ...]:
    """What a portion takes of each capacity; a fraction takes the same part of all, rounded up."""
    if not portion.milli:
        return portion.capacity
    return tuple(-(-total * portion.milli // WHOLE) for _, total in slot.capacity)
