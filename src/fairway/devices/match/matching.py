"""Which slots of a node serve the requests of a pod, all of them together.

Where slots do not affect each other (no groups, no shared counters, no parts) this is a flow problem, and
polynomial. The rest is a search that places the difficult lines one unit at a time and leaves the others to the
flow; slots that are alike are tried once, what has failed is remembered, and a flow that ignores the difficult rules
cuts off what cannot be. A search that grows beyond `MAX_STEPS` gives up: the request is then said not to fit, which
is safe.

`assign` chooses: line by line the first slot in order of preference with which the rest can still be served. So of all
assignments it finds the first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.model.inventory import Inventory
from fairway.devices.select.flow import can_serve

MAX_STEPS = 20_000
"""Maximum steps of one search; far above what real nodes need."""


class SlotRequest(NamedTuple):
    """`wanted` times the same from any of the candidates: a unit, a fraction, or a portion that differs by slot."""

    candidates: tuple[int, ...]
    wanted: int = 1
    milli: int = 0
    portions: Mapping[int, Portion] | None = None
    spread: bool = False
    """Take unit by unit in order of preference, even if one slot could serve them all."""
    once: bool = False
    """Take no slot twice, even if it has free capacity for that."""

    @property
    def whole(self) -> bool:
        return not self.milli and self.portions is None

    def portion(self, slot: int, count: int = 1) -> Portion:
        if self.portions is not None:
            return self.portions[slot]
        return Portion(milli=self.milli) if self.milli else Portion(units=count)


class Apart(NamedTuple):
    """Among all slots taken for these requests no value occurs twice. A slot may have several; one without any cannot
    be taken.
    """

    numbers: frozenset[int]
    values: Mapping[int, frozenset[Hashable]]


class Pick(NamedTuple):
    """Some units (or one part) of a slot for a request."""

    number: int
    slot: int
    portion: Portion


Preference = Callable[[int, FreeSlots], Sequence[int]]
"""The candidates of a request in order of preference, given the current use of the slots."""


def in_stable_order(requests: Sequence[SlotRequest]) -> Preference:
    return lambda line, free: requests[line].candidates


def assign(
    free: FreeSlots, requests: Sequence[SlotRequest], apart: Sequence[Apart] = (), prefer: Preference | None = None
) -> tuple[Pick, ...] | None:
    """The first assignment in order of preference, or None. `free` is unchanged afterwards."""
    search = Search(free, requests, apart)
    if not search.possible():
        return None
    prefer = prefer or in_stable_order(requests)
    for line in range(len(requests)):
        while search.left[line]:
            if not search.choose(line, prefer(line, free)):
                search.undo()
                return None
    picks = tuple(search.picks)
    search.undo()
    return _merged(picks)


def _merged(picks: tuple[Pick, ...]) -> tuple[Pick, ...]:
    """Units of one slot that were taken for one request at different times are one pick."""
    merged: dict[tuple[int, int], Pick] = {}
    parts: list[Pick] = []
    for pick in picks:
        if not pick.portion.units:
            parts.append(pick)
            continue
        before = merged.get(pick[:2])
        units = pick.portion.units + (before.portion.units if before else 0)
        merged[pick[:2]] = Pick(pick.number, pick.slot, Portion(units=units))
    return tuple(sorted([*merged.values(), *parts]))


class Search:
    """One attempt: what remains to be served, and what was taken for it so far."""

    def __init__(self, free: FreeSlots, requests: Sequence[SlotRequest], apart: Sequence[Apart] = ()) -> None:
        self.free = free
        self.requests = requests
        self.left = [request.wanted for request in requests]
        self.picks: list[Pick] = []
        self._apart = apart
        self._values: list[set[Hashable]] = [set() for _ in apart]
        self._rules: list[list[int]] = [
            [index for index, rule in enumerate(apart) if line in rule.numbers] for line in range(len(requests))
        ]
        self._needs_matching = [self._matching_needed(index) for index in range(len(requests))]
        masks: dict[int, int] = {}
        for index, request in enumerate(requests):
            for slot in request.candidates:
                masks[slot] = masks.get(slot, 0) | 1 << index
        self._masks = masks
        self._failed: set[Hashable] = set()
        self._steps = 0

    def possible(self) -> bool:
        """Whether the rest can be served."""
        if not self._may_be():
            return False
        line = next((i for i, left in enumerate(self.left) if left and self._needs_matching[i]), None)
        if line is None:
            return True
        state = (tuple(self.left), self.free.key(), tuple(map(frozenset, self._values)))
        self._steps += 1
        if state in self._failed or self._steps > MAX_STEPS:
            return False
        tried: set[Hashable] = set()
        for slot in self.requests[line].candidates:
            if not self._can(line, slot) or (alike := self._alike(slot)) in tried:
                continue
            tried.add(alike)
            self._put(line, slot, 1)
            found = self.possible()
            self._take_back()
            if found:
                return True
        self._failed.add(state)
        return False

    def choose(self, line: int, candidates: Sequence[int]) -> bool:
        """Takes the first slot in this order with which the rest can be served, and as much of it as that allows."""
        wanted = self.left[line]
        asked = self.requests[line]
        if asked.whole and not asked.spread and not self._rules[line] and wanted == asked.wanted:
            for slot in candidates:
                if self.free.units(slot) >= wanted and self._try(line, slot, wanted):
                    return True
        most = 1 if asked.spread else wanted
        return any(self._can(line, slot) and self._take_most(line, slot, most) for slot in candidates)

    def undo(self) -> None:
        while self.picks:
            self._take_back()

    def _take_most(self, line: int, slot: int, wanted: int) -> bool:
        if not self.requests[line].whole or self._rules[line]:
            return self._try(line, slot, 1)
        most = min(wanted, self.free.units(slot))
        if any(self._needs_matching):
            return any(self._try(line, slot, units) for units in range(most, 0, -1))
        # Taking less never hurts the other lines, and what this line still needs it finds elsewhere: bisect.
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._try(line, slot, middle):
                self._take_back()
                low = middle
            else:
                high = middle - 1
        return low > 0 and self._try(line, slot, low)

    def _try(self, line: int, slot: int, count: int) -> bool:
        self._put(line, slot, count)
        if self.possible():
            return True
        self._take_back()
        return False

    def _put(self, line: int, slot: int, count: int) -> None:
        asked = self.requests[line]
        portion = asked.portion(slot, count)
        self.free.take(slot, portion)
        self.left[line] -= count
        for rule in self._rules[line]:
            self._values[rule] |= self._apart[rule].values[slot]
        self.picks.append(Pick(line, slot, portion))

    def _take_back(self) -> None:
        line, slot, portion = self.picks.pop()
        self.free.give(slot, portion)
        self.left[line] += portion.units if self.requests[line].whole else 1
        for rule in self._rules[line]:
            self._values[rule] -= self._apart[rule].values[slot]

    def _can(self, line: int, slot: int) -> bool:
        for rule in self._rules[line]:
            values = self._apart[rule].values
            if slot not in values or not self._values[rule].isdisjoint(values[slot]):
                return False
        return self.free.fits(slot, self.requests[line].portion(slot))

    def _may_be(self) -> bool:
        """The flow over whole units, and the other rules of each request alone: necessary, and polynomial."""
        free, demands = self.free, [left if self.requests[i].whole else 0 for i, left in enumerate(self.left)]
        for index, left in enumerate(self.left):
            if left and (demands[index] == 0 or self._rules[index]) and not self._some(index, left):
                return False
        if not any(demands):
            return True
        buckets: dict[int, int] = {}
        for slot, mask in self._masks.items():
            units = free.units(slot)
            if units:
                buckets[mask] = buckets.get(mask, 0) + units
        return can_serve(demands, buckets)

    def _some(self, line: int, left: int) -> bool:
        fitting = [slot for slot in self.requests[line].candidates if self._can(line, slot)]
        if not self._rules[line]:
            return bool(fitting)
        return all(
            len({value for slot in fitting for value in self._apart[rule].values[slot]}) >= left
            for rule in self._rules[line]
        )

    def _matching_needed(self, line: int) -> bool:
        asked = self.requests[line]
        if not asked.whole or self._rules[line]:
            return True
        slots = self.free.inventory.slots
        return any(slots[slot].group or slots[slot].counters or slots[slot].boards for slot in asked.candidates)

    def _alike(self, slot: int) -> Hashable:
        """Slots with equal marks are interchangeable for everything that remains to be placed."""
        inventory: Inventory = self.free.inventory
        facts = inventory.slots[slot]
        if facts.group or inventory.groups_of[slot]:
            return slot
        values = tuple(rule.values.get(slot) for rule in self._apart)
        portions = tuple(request.portions.get(slot) if request.portions else None for request in self.requests)
        share = self.free.shares.get(slot)
        used = self.free.used[slot]
        return (
            *(self._masks[slot], facts.quantity, facts.shareable, used, share, facts.counters, facts.capacity),
            *(values, portions, facts.boards),
        )
