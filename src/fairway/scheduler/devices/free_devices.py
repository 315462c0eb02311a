"""What it costs the other classes that a device is used, for the strategy least-loss.

The loss of a device is the sum, over the classes that could take it, of what is asked of the class over what is free
of it. With nothing asked of any of them it is the number of those classes. Asked and free are those of the beginning of
the cycle, so that the order of choices does not change what they cost.

Where a session's placements leave the devices of each node, as steps from one set of free slots to the next.

Free slots are not changed here: taking devices leads to other ones. Rows whose nodes are alike share them, so what a
task is given, and what that means to the columns, is worked out once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.match.solving import DEFAULT_CHAIN, Chain, Loss, TakenSlot, solve
from fairway.devices.model.device import WHOLE
from fairway.devices.select.requests import label
from fairway.devices.track.class_columns import first_slots
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import ClassNames, NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.occupancy import allocation_of, counts
from fairway.resources.columns import Vector
from fairway.scheduler.devices.requests import PreparedRequest
from fairway.state.cluster import ClusterState


class Losses:
    """Worked out when it is needed: most policies never need it."""

    def __init__(self, ledger: DeviceLedger, state: ClusterState) -> None:
        self._ledger = ledger
        self._state = state
        self._known: dict[frozenset[str], tuple[Fraction, int]] = {}

    def on(self, node: NodeDevices) -> Loss:
        return lambda slot: self._loss(node.selectable_by[slot])

    def _loss(self, names: frozenset[str]) -> tuple[Fraction, int]:
        found = self._known.get(names)
        if found is None:
            cost = sum((self._per_class.get(name, Fraction(0)) for name in names), Fraction(0))
            found = self._known[names] = (cost, 0 if cost else len(names))
        return found

    @cached_property
    def _per_class(self) -> dict[str, Fraction]:
        asked: dict[str, int] = {}
        for template in self._state.waiting.templates():
            jobs = sum(len(job_class.jobs) for job_class in template.classes.values())
            for run in template.runs:
                requests = self._ledger.resolve(run.shape.devices).requests if run.shape.devices else ()
                for option in (request.options[0] for request in requests):
                    known = self._ledger.class_of(option.selector)
                    if known is not None and not option.admin:
                        amount = option.milli or option.units * WHOLE
                        asked[known.name] = asked.get(known.name, 0) + jobs * run.size * amount
        standings = ((name, self._ledger.standing(name)) for name in asked)
        return {
            name: Fraction(asked[name], max(WHOLE, standing.allocatable - standing.requested))
            for name, standing in standings
        }


_NO_ROOM = object()


Prefer = Callable[[PreparedRequest, int, NodeDevices, FreeSlots], int | None]


Moved = NDArray[np.int64]
"""What changes in the columns of a row, by place: one add for a row, however many classes could take a device."""


class CapacityStep(NamedTuple):
    """From free slots to the next, by taking allocations or by giving them back. `kinds` is what they are by kind,
    beyond what was asked for by name.
    """

    before: FreeSlots
    after: FreeSlots
    allocations: tuple[SlotAllocation, ...]
    taken: bool
    moved: Moved
    kinds: Vector


class FreeDevices:
    """The free slots of one session, by row."""

    def __init__(self, ledger: DeviceLedger, losses: Losses, chain: Chain = DEFAULT_CHAIN) -> None:
        self._ledger = ledger
        self._losses = losses
        self._chain = chain
        self._at: dict[int, FreeSlots] = {}
        self._known: dict[tuple[int, Hashable], FreeSlots] = {}
        self._steps: dict[tuple[int, FreeSlots], CapacityStep | None] = {}
        self._class_columns: dict[ClassNames, NDArray[np.int64]] = {}
        self._vectors: dict[tuple[Vector, int], Moved] = {}
        self._allocations: dict[tuple[int, int, int, bool], SlotAllocation] = {}
        self._meanings: dict[Hashable, tuple[Moved, Vector]] = {}
        self._by_kind: dict[Hashable, Vector] = {}
        self._parts: dict[tuple[int, FreeSlots, int], CapacityStep] = {}
        self._first_fits: dict[int, bool] = {}
        self.prefer: Prefer | None = None
        """What chooses the device of which to take a part, if not the strategies."""
        self._bits = ledger.columns.bits
        self.free = self._bits.free.copy()
        """For the rows of `SlotBits`: the slots of which nothing is taken."""

    def at(self, row: int) -> FreeSlots:
        """What is free on a row that has devices."""
        free = self._at.get(row)
        if free is None:
            node = self._ledger.nodes[row]
            free = self._at[row] = self._interned(node, node.free)
        return free

    def empty(self, row: int) -> FreeSlots:
        """A row that has devices, with nothing taken."""
        node = self._ledger.nodes[row]
        return self._interned(node, FreeSlots(node.inventory))

    def go(self, row: int, free: FreeSlots) -> None:
        self._at[row] = free
        if self._bits.here[row]:
            self.free[row] = free.free_slots()

    def step(self, prepared: PreparedRequest, row: int, free: FreeSlots | None = None) -> CapacityStep | None:
        """What a task is given on a row (or with free slots that its row may come to); None if it cannot be served."""
        node = self._ledger.nodes[row]
        where = self.at(row) if free is None else free
        if prepared.local:
            return self._step(prepared, row, node, where)
        if self.prefer is not None and prepared.part:
            slot = self.prefer(prepared, row, node, where)
            return None if slot is None else self.part(prepared, node, where, slot)
        key = (prepared.number, where)
        found = self._steps.get(key, _NO_ROOM)
        if found is _NO_ROOM:
            found = self._steps[key] = self._step(prepared, row, node, where)
        return found  # type: ignore[return-value]

    def serves(self, prepared: PreparedRequest, row: int) -> bool:
        """Whether a task could be given what it asks for, whichever devices that would be."""
        if self.prefer is None or prepared.local or not prepared.part:
            return self.step(prepared, row) is not None
        node, free, portion = self._ledger.nodes[row], self.at(row), Portion(milli=prepared.part)
        return any(
            free.fits(slot, portion) for slot in node.candidates(prepared.resolved.requests[0].options[0].selector)
        )

    def part(self, prepared: PreparedRequest, node: NodeDevices, free: FreeSlots, slot: int) -> CapacityStep:
        """A part of a certain device, for requests of no more than that."""
        key = (prepared.number, free, slot)
        found = self._parts.get(key)
        if found is None:
            taken = TakenSlot(0, 0, slot, Portion(milli=prepared.part))
            found = self._parts[key] = self._made(
                node, free, (allocation_of(node, prepared.resolved.requests[0], taken),), prepared.named, 1
            )
        return found

    def allocated(self, row: int, allocations: tuple[SlotAllocation, ...], vector: Vector, sign: int) -> CapacityStep:
        """What it means to a row that something is taken (or given back) which was not chosen here."""
        node = self._ledger.nodes[row]
        return self._made(node, self.at(row), allocations, vector, sign)

    def changed(self) -> list[tuple[NodeDevices, FreeSlots, FreeSlots]]:
        """Nodes, with the free slots that they had and those that they have."""
        return [(self._ledger.nodes[row], self._ledger.nodes[row].free, free) for row, free in self._at.items()]

    # -- working out --------------------------------------------------------------------------------------------

    def _step(self, prepared: PreparedRequest, row: int, node: NodeDevices, free: FreeSlots) -> CapacityStep | None:
        if not node.needs_matching and self._is_first_fit(prepared):
            if prepared.line is not None and (step := self._first_fit(prepared, row, node, free)) is not None:
                return step
            if prepared.classes and node.inventory.singles:
                return self._first_together(prepared, row, node, free)
        where = free.of(node.inventory) if prepared.local else free
        taken = solve(where, prepared.resolved, node.candidates, self._chain, self._losses.on(node))
        if taken is None:
            return None
        requests = prepared.resolved.requests
        allocations = tuple(allocation_of(node, requests[choice.request], choice) for choice in taken)
        return self._made(node, free, allocations, prepared.named, 1)

    def _first_fit(
        self, prepared: PreparedRequest, row: int, node: NodeDevices, free: FreeSlots
    ) -> CapacityStep | None:
        """The first device that serves the whole of one line, where devices are independent: no search is needed."""
        assert prepared.line is not None
        name, units, is_class = prepared.line
        if not is_class and name not in node.extended:
            return None
        if self._bits.here[row]:
            open_ = int(self._bits.mask(name)[row]) & free.free_slots() if units == 1 else 0
            slot = (open_ & -open_).bit_length() - 1
        else:
            slots = enumerate(zip(node.selectable_by, node.inventory.slots, strict=True))
            used = free.used
            served = (slot for slot, (names, facts) in slots if name in names and facts.quantity - used[slot] >= units)
            slot = next(served, -1)
        if slot < 0:
            return None
        after = self._interned(node, free.taking(slot, units))
        device = node.inventory.slots[slot].device
        unit_of = node.is_plain(slot) and device.unit_of
        allocations = (self._allocation(prepared, 0, node, slot, units),)
        key = (prepared.number, node.selectable_by[slot], device.kind, unit_of)
        known = self._meanings.get(key)
        if known is None:
            moved = self._moves(node, free, after, allocations, prepared.named, 1)
            known = self._meanings[key] = (moved, self.kinds(node, allocations))
        return CapacityStep(free, after, allocations, True, *known)

    def _first_together(
        self, prepared: PreparedRequest, row: int, node: NodeDevices, free: FreeSlots
    ) -> CapacityStep | None:
        """The first way to serve several requests of single devices."""
        requests = prepared.resolved.requests
        if self._bits.here[row]:
            masks = [int(self._bits.mask(label(request.options[0].selector))[row]) for request in requests]
        else:
            masks = [node.mask(request.options[0].selector) for request in requests]
        slots = first_slots(free.free_slots(), masks, [request.options[0].units for request in requests])
        if slots is None:
            return None
        taken = [slot for own in slots for slot in own]
        after = self._interned(node, free.taking_singles(taken))
        allocations = tuple(
            self._allocation(prepared, number, node, slot, 1) for number, own in enumerate(slots) for slot in own
        )
        moved = self._vector(node, prepared.named, 1).copy()
        for slot in taken:
            moved -= WHOLE * self._classes(node.selectable_by[slot])
        if node.plain:
            self._draw(moved, node, allocations, 1)
        devices = [node.inventory.slots[slot].device for slot in taken]
        key = tuple((one.kind, node.is_plain(slot) and one.unit_of) for slot, one in zip(taken, devices, strict=True))
        kinds = self._by_kind.get(key)
        if kinds is None:
            kinds = self._by_kind[key] = self.kinds(node, allocations)
        return CapacityStep(free, after, allocations, True, moved, kinds)

    def _allocation(
        self, prepared: PreparedRequest, number: int, node: NodeDevices, slot: int, units: int
    ) -> SlotAllocation:
        """So many units of a slot for one of the requests; nothing else of the node is in it."""
        key = (prepared.number, number, slot, node.is_plain(slot))
        found = self._allocations.get(key)
        if found is None:
            taken = TakenSlot(number, 0, slot, Portion(units))
            found = self._allocations[key] = allocation_of(node, prepared.resolved.requests[number], taken)
        return found

    def _is_first_fit(self, prepared: PreparedRequest) -> bool:
        known = self._first_fits.get(prepared.number)
        if known is None:
            chains = (request.strategy or self._chain for request in prepared.resolved.requests)
            known = self._first_fits[prepared.number] = all(chain == DEFAULT_CHAIN for chain in chains)
        return known

    def _made(
        self, node: NodeDevices, free: FreeSlots, allocations: tuple[SlotAllocation, ...], vector: Vector, sign: int
    ) -> CapacityStep:
        after = free.copy()
        for allocation in allocations:
            (after.take if sign > 0 else after.give)(allocation.slot, allocation.portion)
        after = self._interned(node, after)
        moved = self._moves(node, free, after, allocations, vector, sign)
        return CapacityStep(free, after, allocations, sign > 0, moved, self.kinds(node, allocations))

    def _interned(self, node: NodeDevices, free: FreeSlots) -> FreeSlots:
        return self._known.setdefault((self._ledger.layout(node), free.key()), free)

    def _moves(
        self,
        node: NodeDevices,
        before: FreeSlots,
        after: FreeSlots,
        allocations: tuple[SlotAllocation, ...],
        vector: Vector,
        sign: int,
    ) -> Moved:
        """What is left of each slot tells; `vector` was written to the columns already. Of an extended resource that
        the node lists itself the columns tell.
        """
        slots = (
            range(len(node.inventory))
            if node.needs_matching
            else sorted({allocation.slot for allocation in allocations})
        )
        moved = self._vector(node, vector, sign).copy()
        for slot in slots:
            if change := after.left(slot) - before.left(slot):
                moved += change * self._classes(node.selectable_by[slot])
        self._draw(moved, node, allocations, sign)
        return moved

    def _draw(self, moved: Moved, node: NodeDevices, allocations: tuple[SlotAllocation, ...], sign: int) -> None:
        """What was asked for by class is units of a plain resource too, where the node lists it."""
        for allocation in allocations:
            if node.is_plain(allocation.slot) and not allocation.plain:
                facts = node.inventory.slots[allocation.slot]
                moved[self._ledger.axis.row(facts.device.unit_of)] -= sign * portion_milli(facts, allocation.portion)

    def _vector(self, node: NodeDevices, vector: Vector, sign: int) -> Moved:
        """A vector that was written to the columns already, as what takes that back."""
        extended = self._ledger.extended.places
        if extended:
            names = self._ledger.axis.names
            vector = tuple(one for one in vector if one[0] not in extended or names[one[0]] in node.extended)
        key = (vector, sign)
        found = self._vectors.get(key)
        if found is None:
            found = self._vectors[key] = np.zeros(len(self._ledger.axis), dtype=np.int64)
            for place, amount in vector:
                found[place] += sign * amount
        return found

    def _classes(self, names: ClassNames) -> NDArray[np.int64]:
        """1 at the place of each of these classes."""
        found = self._class_columns.get(names)
        if found is None:
            found = self._class_columns[names] = np.zeros(len(self._ledger.axis), dtype=np.int64)
            found[self._ledger.columns.places.index(names)] = 1
        return found

    def kinds(self, node: NodeDevices, allocations: Iterable[SlotAllocation]) -> Vector:
        return tuple(sorted(counts(self._ledger.axis, node, allocations).items()))
