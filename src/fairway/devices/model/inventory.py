"""One node's devices as slots, in the stable order in which they are chosen: (driver, pool, name).

A slot is what can be taken on its own: a device with its units, or one unit of a shareable device of several. A *group*
is made of other slots (its leaves, through groups of groups): it can be had only while none of them is touched, and
while it is allocated they cannot. A group whose members are not all there, or that contains itself, is of no use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple

from fairway.devices.model.device import Device

CounterKey = tuple[str, str, str, str]
"""Driver, pool, counter set and counter."""

BoardKey = tuple[str, str, str]
"""Driver, pool and counter set."""

Counters = Mapping[CounterKey, int]
"""The counters of pools, in billionths."""

NO_COUNTERS: Counters = {}


class Slot(NamedTuple):
    """One unit of choice. `counters` are (index of the counter, amount) per unit, `capacity` amounts by name."""

    device: Device
    quantity: int
    shareable: bool
    leaves: tuple[int, ...]
    group: bool
    usable: bool
    """Whether a request without tolerations may use it."""
    counters: tuple[tuple[int, int], ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    boards: tuple[tuple[int, frozenset[str]], ...] = ()
    """Index of a counter set on which compatibility groups matter, and the groups of the slot there."""


class Inventory:
    """The slots of a node; immutable. What is in use of them is in `FreeSlots`.

    It is not `complete` while a pool of the node is not used: its devices are not all known then.
    """

    __slots__ = ("boards", "complete", "counters", "groups_of", "singles", "slots")

    def __init__(self, devices: Iterable[Device], counters: Counters = NO_COUNTERS, *, complete: bool = True) -> None:
        self.complete = complete
        ordered = sorted(devices, key=lambda device: (device.driver, device.pool, device.name))
        keys = sorted(counters)
        places = {key: index for index, key in enumerate(keys)}
        self.counters: tuple[int, ...] = tuple(counters[key] for key in keys)
        units = [device for device in ordered for _ in range(_slots_of(device))]
        leaves = _leaves(units)
        boards = _boards(units)
        self.slots: tuple[Slot, ...] = tuple(
            Slot(
                device,
                _quantity(device, leaves[index]),
                device.shareable and not device.members,
                leaves[index],
                bool(device.members),
                device.usable,
                _consumption(device, places),
                tuple(sorted((name, max(0, amount.nanos)) for name, amount in device.capacity.items())),
                tuple((boards[key], groups) for key, groups in _boards_of(device) if key in boards),
            )
            for index, device in enumerate(units)
        )
        self.boards: tuple[tuple[tuple[int, frozenset[str]], ...], ...] = tuple(
            tuple((slot, groups) for slot, facts in enumerate(self.slots) for on, groups in facts.boards if on == board)
            for board in range(len(boards))
        )
        """For each counter set on which compatibility groups matter, the slots that take from it, with their groups."""
        self.singles = all(slot.quantity == 1 for slot in self.slots)
        """Whether no device has several units."""
        groups: list[list[int]] = [[] for _ in self.slots]
        for index, slot in enumerate(self.slots):
            if slot.group:
                for leaf in slot.leaves:
                    groups[leaf].append(index)
        self.groups_of: tuple[tuple[int, ...], ...] = tuple(map(tuple, groups))

    def __len__(self) -> int:
        return len(self.slots)

    def structure(self) -> Hashable:
        """Equal for nodes whose devices differ only in names and attributes."""
        return tuple(
            (
                slot.device.kind,
                slot.device.unit_of,
                slot.device.numa(),
                slot.quantity,
                slot.shareable,
                slot.leaves,
                slot.counters,
            )
            + ((slot.capacity, above, slot.boards) if slot.capacity or above or slot.boards else ())
            for slot, above in zip(self.slots, self.groups_of, strict=True)
        )


def _slots_of(device: Device) -> int:
    """A shareable device is divided unit by unit, so each of its units is a slot."""
    return device.quantity if device.shareable and not device.members else 1


def _quantity(device: Device, leaves: tuple[int, ...]) -> int:
    if device.members and not leaves:
        return 0
    return 1 if device.shareable else device.quantity


def _key(device: Device, counter_set: str, counter: str) -> CounterKey:
    return device.driver, device.pool, counter_set, counter


def _consumption(device: Device, places: Mapping[CounterKey, int]) -> tuple[tuple[int, int], ...]:
    """A negative amount counts as zero: it must not add capacity for others."""
    found = ((_key(device, use.counter_set, use.counter), use.amount.nanos) for use in device.consumes)
    return tuple((places[key], amount) for key, amount in found if amount > 0)


def _boards_of(device: Device) -> Iterator[tuple[BoardKey, frozenset[str]]]:
    yield from (((device.driver, device.pool, name), device.boards[name]) for name in sorted(device.boards))


def _boards(devices: Iterable[Device]) -> dict[BoardKey, int]:
    """A number for each counter set on which some device has a compatibility group; elsewhere all are compatible."""
    found = {key for device in devices for key, groups in _boards_of(device) if groups}
    return {key: index for index, key in enumerate(sorted(found))}


def _leaves(devices: list[Device]) -> list[tuple[int, ...]]:
    """For each slot its member slots; for a group that is not usable, none."""
    by_name: dict[tuple[str, str, str], list[int]] = {}
    for index, device in enumerate(devices):
        by_name.setdefault((device.driver, device.pool, device.name), []).append(index)

    def gather(index: int, above: tuple[int, ...]) -> tuple[int, ...]:
        device = devices[index]
        if not device.members:
            return (index,)
        found: set[int] = set()
        for name in device.members:
            members = by_name.get((device.driver, device.pool, name), [])
            parts = [gather(member, (*above, index)) for member in members if member not in (*above, index)]
            if not parts or not all(parts):
                return ()
            found.update(*parts)
        return tuple(sorted(found))

    return [gather(index, ()) for index in range(len(devices))]
