"""Several classes on all nodes at once: the bits say what the flow says, node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairway.devices.match.free_slots import Portion
from fairway.devices.match.matching import SlotRequest, assign
from fairway.devices.model.device import Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.select.classes import ClassTable
from fairway.devices.select.flow import can_serve
from fairway.devices.select.requests import ByClass, ClaimMatcher
from fairway.devices.track.class_columns import SlotBits, first_slots, serves
from fairway.devices.track.node import NodeDevices

NAMES = ["a", "b", "c"]
MATCHER = ClaimMatcher({}, ClassTable())
sets = st.lists(st.frozensets(st.sampled_from(NAMES)), min_size=1, max_size=10)


def node_of(selected: list[frozenset[str]], taken: set[int], quantity: int = 1) -> NodeDevices:
    devices = [Device("n", "", "", f"d{i:02}", "gpu", quantity=quantity) for i in range(len(selected))]
    node = NodeDevices(Inventory(devices), selected, MATCHER)
    for slot in taken:
        if slot < len(selected):
            node.free.take(slot, Portion(1))
    return node


@given(
    st.lists(st.tuples(sets, st.sets(st.integers(0, 9))), min_size=1, max_size=4),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.data(),
)
def test_bits_and_flow_agree(
    rows: list[tuple[list[frozenset[str]], set[int]]], names: list[str], data: st.DataObject
) -> None:
    bits = SlotBits()
    nodes = [node_of(*row) for row in rows]
    for row, node in enumerate(nodes):
        bits.put(row, node)
    lines = tuple((name, data.draw(st.integers(1, 3))) for name in names)
    everywhere = np.arange(len(nodes))
    found = serves(bits, bits.free[everywhere], everywhere, lines)
    for row, node in enumerate(nodes):
        buckets: dict[int, int] = {}
        for slot, taking in enumerate(node.selectable_by):
            mask = sum(1 << line for line, (name, _) in enumerate(lines) if name in taking)
            buckets[mask] = buckets.get(mask, 0) + node.free.units(slot)
        assert bool(found[row]) is can_serve([units for _, units in lines], buckets)


@given(sets, st.sets(st.integers(0, 9)), st.lists(st.sampled_from(NAMES), min_size=1, unique=True), st.data())
def test_the_first_way_by_bits_is_the_first_way_by_search(
    selected: list[frozenset[str]], taken: set[int], names: list[str], data: st.DataObject
) -> None:
    node = node_of(selected, taken)
    units = [data.draw(st.integers(1, 3)) for _ in names]
    found = first_slots(node.free.free_slots(), [node.mask(ByClass(name)) for name in names], units)
    requests = [SlotRequest(node.candidates(ByClass(name)), wanted) for name, wanted in zip(names, units, strict=True)]
    picks = assign(node.free, requests)
    assert (found is None) == (picks is None)
    if found is not None and picks is not None:
        assert [(line, slot) for line, own in enumerate(found) for slot in own] == [p[:2] for p in picks]


def test_a_row_that_changes_is_seen_to_have_changed() -> None:
    bits = SlotBits()
    bits.put(0, node_of([frozenset("a"), frozenset("b")], set()))
    assert bits.mask("a").tolist()[0] == 1
    bits.put(0, node_of([frozenset("b"), frozenset("a"), frozenset("ab")], {1}))
    assert (bits.mask("a").tolist()[0], bits.free.tolist()[0]) == (0b110, 0b101)
    bits.put(3, node_of([frozenset("a")] * 9, set()))
    assert bits.mask("a").tolist()[3] == 0b111111111
    bits.put(0, None)
    assert bits.here.tolist()[:4] == [False, False, False, True]


def test_nodes_with_devices_of_several_units_or_too_many_of_them_are_asked_one_by_one() -> None:
    bits = SlotBits()
    bits.put(0, node_of([frozenset("a")], set(), quantity=2))
    bits.put(1, node_of([frozenset("a")] * 70, set()))
    assert not bits.here.any()
