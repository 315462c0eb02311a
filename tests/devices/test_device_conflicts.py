"""Devices that claims have together and that cannot be had together, against obvious code; and what is said of them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.devices.track.occupancy import conflicts
from support.claims import claim, device_class, exactly
from support.devices import DRIVER, device_node, published, resource_slice
from support.devices import book_of as ledger_of
from support.effort import examples
from support.engine import state_of

BOARD = 4
MEMORY = 8
PLAIN, PARTS, SHARED = ("a", "b", "c"), {"x": 1, "y": 2, "z": 3}, "s"
GROUPS = {"ab": {"a", "b"}, "bc": {"b", "c"}}
DEVICES = [*PLAIN, *PARTS, SHARED, *GROUPS]


def slice_of_all() -> Any:
    parts = [
        published(name, consumesCounters=[{"counterSet": "board", "counters": {"slices": {"value": str(amount)}}}])
        for name, amount in PARTS.items()
    ]
    shared = published(SHARED, allowMultipleAllocations=True, capacity={"memory": {"value": str(MEMORY)}})
    groups = [
        published(name, attributes={"members": {"string": ",".join(sorted(members))}})
        for name, members in GROUPS.items()
    ]
    devices = [*map(published, PLAIN), *parts, shared, *groups]
    return resource_slice("s1", "n1", *devices, counters={"board": {"slices": BOARD}})


def allocated_claim(name: str, taken: list[tuple[str, int]]) -> Any:
    results = []
    for place, (device, memory) in enumerate(taken):
        result: dict[str, Any] = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device}
        if device == SHARED:
            share = f"00000000-0000-0000-0000-{int(name[1:]):06}{place:06}"
            result |= {"consumedCapacity": {"memory": str(memory)}, "shareID": share}
        results.append(result)
    return claim(name, exactly(), status={"allocation": {"devices": {"results": results}}})


def clash(held: Counter[str], memory: int) -> bool:
    """Whether what is held, by device, is more than there is. Nothing of the scheduler is used."""
    if any(held[name] > 1 for name in (*PLAIN, *PARTS, *GROUPS)) or memory > MEMORY:
        return True
    if sum(amount * held[name] for name, amount in PARTS.items()) > BOARD:
        return True
    hardware = Counter(member for group, members in GROUPS.items() for member in members for _ in range(held[group]))
    return any(hardware[name] + held[name] > 1 for name in PLAIN)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(DEVICES), st.integers(1, 6)), min_size=1, max_size=2, unique_by=lambda t: t[0]
        ),
        min_size=1,
        max_size=4,
    )
)
def test_conflicts_are_where_more_is_allocated_than_there_is(claims: list[list[tuple[str, int]]]) -> None:
    objects = [allocated_claim(f"c{number}", taken) for number, taken in enumerate(claims)]
    (node,) = ledger_of(state_of(device_class(), device_node("n1"), slice_of_all(), objects)).nodes.values()
    found = list(conflicts(node))
    held = Counter(device for taken in claims for device, _ in taken)
    memory = sum(amount for taken in claims for device, amount in taken if device == SHARED)
    alone = [clash(Counter(device for device, _ in taken), sum(n for d, n in taken if d == SHARED)) for taken in claims]
    if not any(alone):
        assert bool(found) == clash(held, memory)
    for conflict in found:
        assert len(conflict.users) > 1
    pairs = [
        {f"default/c{first}", f"default/c{second}"}
        for first, second in combinations(range(len(claims)), 2)
        if {device for device, _ in claims[first]} & {device for device, _ in claims[second]} - {SHARED}
    ]
    for pair in pairs:
        assert any(pair <= conflict.users for conflict in found), "two users of one device are named together"
