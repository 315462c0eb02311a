"""The slow and obvious twin of `devices.matching`: try every assignment, keep the first of those that are allowed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement

from fairway.devices.match.matching import Apart, SlotRequest
from fairway.devices.model.inventory import Inventory

Choice = tuple[tuple[int, ...], ...]
"""For each line the slots of its units, in order."""


def every_choice(requests: Sequence[SlotRequest]) -> Iterator[Choice]:
    if not requests:
        yield ()
        return
    *others, last = requests
    for before in every_choice(others):
        for slots in combinations_with_replacement(last.candidates, last.wanted):
            yield (*before, slots)


def allowed(
    inventory: Inventory, requests: Sequence[SlotRequest], apart: Sequence[Apart], choice: Choice, held: dict[int, int]
) -> bool:
    """`held` are whole units taken before."""
    units, milli = dict(held), dict[int, int]()
    for request, slots in zip(requests, choice, strict=True):
        for slot in slots:
            if request.milli:
                milli[slot] = milli.get(slot, 0) + request.milli
            else:
                units[slot] = units.get(slot, 0) + 1
    touched = {slot for slot in (*units, *milli) if units.get(slot) or milli.get(slot)}
    for slot in touched:
        facts = inventory.slots[slot]
        if units.get(slot, 0) > facts.quantity or milli.get(slot, 0) > 1000:
            return False
        if milli.get(slot) and (units.get(slot) or not facts.shareable):
            return False
        if facts.group and any(
            other != slot and set(inventory.slots[other].leaves) & set(facts.leaves) for other in touched
        ):
            return False
    for counter, total in enumerate(inventory.counters):
        used = 0
        for slot in touched:
            per_unit = sum(amount for index, amount in inventory.slots[slot].counters if index == counter)
            used += per_unit * (units.get(slot, 0) or 1)
        if used > total:
            return False
    for rule in apart:
        taken = [slot for line in sorted(rule.numbers) for slot in choice[line]]
        if any(slot not in rule.values for slot in taken):
            return False
        if any(rule.values[one] & rule.values[other] for one, other in combinations(taken, 2)):
            return False
    return True


def first(
    inventory: Inventory,
    requests: Sequence[SlotRequest],
    apart: Sequence[Apart] = (),
    held: dict[int, int] | None = None,
) -> Choice | None:
    """The first allowed choice: for each line one slot that serves it all, if there is one, else the first slots."""

    def order(choice: Choice) -> list[tuple[int, tuple[int, ...]]]:
        return [(len(set(slots)) > 1, slots) for slots in choice]

    found = [choice for choice in every_choice(requests) if allowed(inventory, requests, apart, choice, held or {})]
    return min(found, key=order, default=None)
