"""Where a session's placements leave the devices of each node, as steps from one room to the next.

Rooms are not changed here: taking devices leads to another room. Rows whose nodes are alike share rooms, so what a
task is given in a room, and what that means to the columns, is worked out once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.devices.match.capacity import ONE, Portion, Room
from fairway.devices.match.solving import TakenSlot, solve
from fairway.devices.match.strategies import DEFAULT_CHAIN, Chain
from fairway.devices.select.requests import Need
from fairway.devices.select.selector_requests import ByClass
from fairway.devices.track.holders import counts, holding_of
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import Holding, NodeDevices, portion_milli
from fairway.devices.track.slotbits import first_slots
from fairway.resources.columns import Vector
from fairway.scheduler.devices.loss import Losses
from fairway.scheduler.devices.requests import Asked

_NO_ROOM = object()


Prefer = Callable[[Asked, int, NodeDevices, Room], int | None]


class Moved(NamedTuple):
    """What changes in the columns of a row: at these places by these amounts."""

    places: NDArray[np.int64]
    amounts: NDArray[np.int64]


class CapacityStep(NamedTuple):
    """From a room to the next, by taking holdings or by giving them back. `kinds` is what they are by kind, beyond what
    was asked for by name.
    """

    before: Room
    after: Room
    holdings: tuple[Holding, ...]
    taken: bool
    moved: Moved
    kinds: Vector


class DeviceRooms:
    """The rooms of one session, by row."""

    def __init__(self, book: DeviceLedger, losses: Losses, chain: Chain = DEFAULT_CHAIN) -> None:
        self._book = book
        self._losses = losses
        self._chain = chain
        self._at: dict[int, Room] = {}
        self._known: dict[tuple[int, Hashable], Room] = {}
        self._steps: dict[tuple[int, Room], CapacityStep | None] = {}
        self._moved: dict[Hashable, Moved] = {}
        self._holdings: dict[tuple[int, int], tuple[Holding, ...]] = {}
        self._meanings: dict[Hashable, tuple[Moved, Vector]] = {}
        self._parts: dict[tuple[int, Room, int], CapacityStep] = {}
        self._first_fits: dict[int, bool] = {}
        self.prefer: Prefer | None = None
        """Who chooses the device of which to take a part, if not the strategies."""
        self._bits = book.columns.bits
        self.free = self._bits.free.copy()
        """For the rows of `SlotBits`: the slots of which nothing is taken."""

    def at(self, row: int) -> Room:
        """What is free on a row that has devices."""
        room = self._at.get(row)
        if room is None:
            node = self._book.nodes[row]
            room = self._at[row] = self._interned(node, node.room)
        return room

    def empty(self, row: int) -> Room:
        """A row that has devices, with nothing taken."""
        node = self._book.nodes[row]
        return self._interned(node, Room(node.inventory))

    def go(self, row: int, room: Room) -> None:
        self._at[row] = room
        if self._bits.here[row]:
            self.free[row] = room.free_slots()

    def step(self, asked: Asked, row: int, room: Room | None = None) -> CapacityStep | None:
        """What a task is given on a row (or in a room that its row may come to); None if it cannot be served."""
        node = self._book.nodes[row]
        where = self.at(row) if room is None else room
        if asked.local:
            return self._step(asked, node, where)
        if self.prefer is not None and asked.part:
            slot = self.prefer(asked, row, node, where)
            return None if slot is None else self.part(asked, node, where, slot)
        key = (asked.number, where)
        found = self._steps.get(key, _NO_ROOM)
        if found is _NO_ROOM:
            found = self._steps[key] = self._step(asked, node, where)
        return found  # type: ignore[return-value]

    def serves(self, asked: Asked, row: int) -> bool:
        """Whether a task could be given what it asks for, whichever devices that would be."""
        if self.prefer is None or asked.local or not asked.part:
            return self.step(asked, row) is not None
        node, room, portion = self._book.nodes[row], self.at(row), Portion(milli=asked.part)
        return any(room.fits(slot, portion) for slot in node.candidates(asked.needs.needs[0].options[0].wish))

    def part(self, asked: Asked, node: NodeDevices, room: Room, slot: int) -> CapacityStep:
        """A part of a certain device, for those who ask for no more than that."""
        key = (asked.number, room, slot)
        found = self._parts.get(key)
        if found is None:
            taken = TakenSlot(0, 0, slot, Portion(milli=asked.part))
            found = self._parts[key] = self._made(
                node, room, (holding_of(asked.needs.needs[0], taken),), asked.named, 1
            )
        return found

    def held(self, row: int, holdings: tuple[Holding, ...], vector: Vector, sign: int) -> CapacityStep:
        """What it means to a row that something is taken (or given back) which was not chosen here."""
        node = self._book.nodes[row]
        return self._made(node, self.at(row), holdings, vector, sign)

    def changed(self) -> list[tuple[NodeDevices, Room, Room]]:
        """Nodes, with the room that they had and the one that they have."""
        return [(self._book.nodes[row], self._book.nodes[row].room, room) for row, room in self._at.items()]

    # -- working out --------------------------------------------------------------------------------------------

    def _step(self, asked: Asked, node: NodeDevices, room: Room) -> CapacityStep | None:
        if not node.needs_matching and self._is_first_fit(asked):
            if asked.simple and (step := self._first_fit(asked, node, room)) is not None:
                return step
            if asked.classes and node.inventory.singles:
                return self._first_together(asked, node, room)
        where = room.of(node.inventory) if asked.local else room
        taken = solve(where, asked.needs, node.candidates, self._chain, self._losses.on(node))
        if taken is None:
            return None
        needs = asked.needs.needs
        holdings = tuple(holding_of(needs[choice.need], choice) for choice in taken)
        return self._made(node, room, holdings, asked.named, 1)

    def _first_fit(self, asked: Asked, node: NodeDevices, room: Room) -> CapacityStep | None:
        """The first device that serves the whole of one line, where devices are independent: no search is needed."""
        line = asked.needs.needs[0] if asked.needs.needs else None
        if line is None:
            return None
        wish, units = line.options[0].wish, line.options[0].units
        if not isinstance(wish, ByClass):
            return None
        name, used = wish.class_name, room.used
        for slot, (names, facts) in enumerate(zip(node.takes, node.inventory.slots, strict=True)):
            if name in names and facts.quantity - used[slot] >= units:
                after = self._interned(node, room.taking(slot, units))
                return self._first_step(asked, line, node, room, after, slot)
        return None

    def _first_together(self, asked: Asked, node: NodeDevices, room: Room) -> CapacityStep | None:
        """The first way to serve several lines of single devices."""
        needs = asked.needs.needs
        masks = [node.mask(need.options[0].wish) for need in needs]
        slots = first_slots(room.free_slots(), masks, [need.options[0].units for need in needs])
        if slots is None:
            return None
        taken = ((need, TakenSlot(0, 0, slot, ONE)) for need, own in zip(needs, slots, strict=True) for slot in own)
        return self._made(node, room, tuple(holding_of(need, choice) for need, choice in taken), asked.named, 1)

    def _is_first_fit(self, asked: Asked) -> bool:
        known = self._first_fits.get(asked.number)
        if known is None:
            chains = (need.strategy or self._chain for need in asked.needs.needs)
            known = self._first_fits[asked.number] = all(chain == DEFAULT_CHAIN for chain in chains)
        return known

    def _first_step(
        self, asked: Asked, line: Need, node: NodeDevices, room: Room, after: Room, slot: int
    ) -> CapacityStep:
        holdings = self._holdings.get((asked.number, slot))
        if holdings is None:
            taken = TakenSlot(0, 0, slot, Portion(line.options[0].units))
            holdings = self._holdings[asked.number, slot] = (holding_of(line, taken),)
        kind = node.inventory.slots[slot].device.kind
        key = (asked.number, node.takes[slot], kind, node.is_plain(slot))
        known = self._meanings.get(key)
        if known is None:
            moved = self._moves(node, room, after, holdings, asked.named, 1)
            known = self._meanings[key] = (moved, self.kinds(node, holdings))
        return CapacityStep(room, after, holdings, True, *known)

    def _made(
        self, node: NodeDevices, room: Room, holdings: tuple[Holding, ...], vector: Vector, sign: int
    ) -> CapacityStep:
        after = room.copy()
        for holding in holdings:
            (after.take if sign > 0 else after.give)(holding.slot, holding.portion)
        after = self._interned(node, after)
        moved = self._moves(node, room, after, holdings, vector, sign)
        return CapacityStep(room, after, holdings, sign > 0, moved, self.kinds(node, holdings))

    def _interned(self, node: NodeDevices, room: Room) -> Room:
        return self._known.setdefault((self._book.layout(node), room.key()), room)

    def _moves(
        self, node: NodeDevices, before: Room, after: Room, holdings: tuple[Holding, ...], vector: Vector, sign: int
    ) -> Moved:
        """What is left of each slot tells; `vector` was written to the columns already."""
        slots = range(len(node.inventory)) if node.needs_matching else sorted({holding.slot for holding in holdings})
        gained = tuple((node.takes[slot], change) for slot in slots if (change := after.left(slot) - before.left(slot)))
        drawn = tuple(
            ((facts := node.inventory.slots[holding.slot]).device.kind, sign * portion_milli(facts, holding.portion))
            for holding in holdings
            if node.is_plain(holding.slot) and not holding.plain
        )
        key = (gained, drawn, vector, sign)
        found = self._moved.get(key)
        if found is None:
            found = self._moved[key] = self._sum(gained, drawn, vector, sign)
        return found

    def _sum(
        self,
        gained: tuple[tuple[frozenset[str], int], ...],
        drawn: tuple[tuple[str, int], ...],
        vector: Vector,
        sign: int,
    ) -> Moved:
        places = self._book.columns.places
        moved: dict[int, int] = {}
        for names, change in gained:
            for place in places.of(names):
                moved[place] = moved.get(place, 0) + change
        for place, amount in vector:
            moved[place] = moved.get(place, 0) + sign * amount
        for kind, milli in drawn:
            place = self._book.axis.row(kind)
            moved[place] = moved.get(place, 0) - milli
        kept = sorted((place, amount) for place, amount in moved.items() if amount)
        return Moved(np.array([p for p, _ in kept], dtype=np.int64), np.array([a for _, a in kept], dtype=np.int64))

    def kinds(self, node: NodeDevices, holdings: Iterable[Holding]) -> Vector:
        return tuple(sorted(counts(self._book.axis, node, holdings).items()))
