"""Requests against a node's devices: what fits, and which devices are chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.slow_matching import Choice, first
from fairway.devices.match.capacity import Portion, Room
from fairway.devices.match.matching import Apart, MatchLine, Pick, assign
from fairway.devices.model.device import CounterUse, Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.select.flow import can_serve
from fairway.resources.quantity import Quantity

NANO = 10**9


def device(name: str, quantity: int = 1, **more: Any) -> Device:
    return Device("n1", "", "", name, "gpu", quantity=quantity, **more)


def choice_of(picks: tuple[Pick, ...] | None, lines: list[MatchLine]) -> Choice | None:
    if picks is None:
        return None
    slots: list[list[int]] = [[] for _ in lines]
    for pick in picks:
        slots[pick.line] += [pick.slot] * (pick.portion.units or 1)
    return tuple(tuple(sorted(found)) for found in slots)


def test_one_device_that_serves_the_whole_count_is_preferred() -> None:
    room = Room(Inventory([device("a", 2), device("b", 4), device("c", 4)]))
    assert assign(room, [MatchLine((0, 1, 2), 3)]) == (Pick(0, 1, Portion(3)),)
    assert assign(room, [MatchLine((0, 1, 2), 6)]) == (Pick(0, 0, Portion(2)), Pick(0, 1, Portion(4)))


def test_first_fit_leaves_the_scarce_device_to_the_line_that_needs_it() -> None:
    room = Room(Inventory([device("a"), device("b")]))
    assert choice_of(assign(room, [MatchLine((0, 1)), MatchLine((0,))]), [MatchLine(()), MatchLine(())]) == ((1,), (0,))


def test_devices_are_in_stable_order_whatever_the_order_of_the_input() -> None:
    devices = [Device("n", driver, pool, name, "gpu") for driver in "ab" for pool in "pq" for name in "xy"]
    there = [slot.device.id for slot in Inventory(devices).slots]
    assert there == [slot.device.id for slot in Inventory(reversed(devices)).slots] == sorted(there)


PAIR = [device("g0"), device("g1"), device("pair", members=("g0", "g1"))]


def test_a_group_that_is_taken_takes_its_members() -> None:
    room = Room(Inventory(PAIR))
    room.take(2, Portion(1))
    assert [room.units(slot) for slot in range(3)] == [0, 0, 0]
    room.give(2, Portion(1))
    assert [room.units(slot) for slot in range(3)] == [1, 1, 1]


def test_a_member_that_is_taken_leaves_the_other_member_but_not_the_group() -> None:
    room = Room(Inventory(PAIR))
    room.take(0, Portion(1))
    assert [room.units(slot) for slot in range(3)] == [0, 1, 0]


def test_a_group_within_a_group() -> None:
    devices = [*PAIR, device("quad", members=("pair", "z2")), device("z2")]
    inventory = Inventory(devices)
    names = [slot.device.name for slot in inventory.slots]
    room = Room(inventory)
    room.take(names.index("quad"), Portion(1))
    assert [room.units(slot) for slot in range(5)] == [0] * 5
    room = Room(inventory)
    room.take(names.index("g1"), Portion(1))
    free = {name: room.units(slot) for slot, name in enumerate(names)}
    assert free == {"g0": 1, "g1": 0, "pair": 0, "quad": 0, "z2": 1}


@pytest.mark.parametrize(
    "groups",
    [
        [device("a", members=("gone",))],
        [device("a", members=("b",)), device("b", members=("a",))],
    ],
)
def test_a_group_that_cannot_be_is_never_taken(groups: list[Device]) -> None:
    inventory = Inventory([*groups, device("z")])
    assert [Room(inventory).units(slot) for slot in range(len(inventory))] == [*[0] * len(groups), 1]


def test_a_fraction_leaves_the_rest_and_no_whole() -> None:
    room = Room(Inventory([device("a", shareable=True)]))
    half = MatchLine((0,), milli=500)
    assert assign(room, [half, half]) is not None
    assert assign(room, [half, half, half]) is None
    room.take(0, Portion(milli=500))
    assert assign(room, [half]) is not None
    assert assign(room, [MatchLine((0,), milli=501)]) is None
    assert assign(room, [MatchLine((0,))]) is None


def test_a_fraction_needs_a_device_that_allows_it() -> None:
    assert assign(Room(Inventory([device("a")])), [MatchLine((0,), milli=500)]) is None


def test_each_unit_of_a_shareable_device_is_cut_by_itself() -> None:
    room = Room(Inventory([device("a", 2, shareable=True)]))
    part = MatchLine((0, 1), milli=600)
    assert assign(room, [part, part]) is not None
    assert assign(room, [part, part, part]) is None
    assert assign(room, [part, part, MatchLine((0, 1), milli=400)]) is not None


def test_capacity_is_consumed_and_never_exceeded() -> None:
    capacity = {"memory": Quantity(40 * NANO)}
    room = Room(Inventory([device("a", shareable=True, capacity=capacity)]))
    thirty = MatchLine((0,), portions={0: Portion(capacity=(30 * NANO,))})
    ten = MatchLine((0,), portions={0: Portion(capacity=(10 * NANO,))})
    assert assign(room, [thirty, ten]) is not None
    assert assign(room, [thirty, thirty]) is None
    assert assign(room, [thirty, MatchLine((0,), milli=250)]) is not None, "a quarter takes a quarter of the memory"
    assert assign(room, [thirty, MatchLine((0,), milli=251)]) is None


def counted(name: str, amount: int) -> Device:
    return device(name, consumes=(CounterUse("board", "slices", Quantity(amount * NANO)),))


BOARD = {("", "", "board", "slices"): 7 * NANO}


def test_shared_counters_are_never_exceeded() -> None:
    room = Room(Inventory([counted("big", 4), counted("mid", 3), counted("tiny", 1)], BOARD))
    assert assign(room, [MatchLine((0,)), MatchLine((1,))]) is not None
    assert assign(room, [MatchLine((0,)), MatchLine((1,)), MatchLine((2,))]) is None
    assert assign(room, [MatchLine((0, 1)), MatchLine((2,))]) is not None


def test_more_of_like_devices_than_there_are_costs_no_more_than_all_of_them() -> None:
    """A search through subsets would not come back: there are 2^40 of them."""
    inventory = Inventory([device(f"g{i:02}") for i in range(40)])
    lines = [MatchLine(tuple(range(40)), 20), MatchLine(tuple(range(40)), 21)]
    assert assign(Room(inventory), lines) is None
    partitions = Inventory([counted(f"g{i:02}", 1) for i in range(40)], BOARD)
    assert assign(Room(partitions), [MatchLine(tuple(range(40)), 8)]) is None
    assert assign(Room(partitions), [MatchLine(tuple(range(40)), 7)]) is not None


def test_units_of_a_giant_group_are_found_by_bisection() -> None:
    room = Room(Inventory([device("a", 10**9), device("b", 10**9)]))
    lines = [MatchLine((0, 1), 10**9 + 5), MatchLine((0,), 7)]
    assert assign(room, lines) == (
        Pick(0, 0, Portion(10**9 - 7)),
        Pick(0, 1, Portion(12)),
        Pick(1, 0, Portion(7)),
    )


def test_apart_lines_take_different_values() -> None:
    room = Room(Inventory([device(name) for name in "abcd"]))
    numa = {slot: frozenset({value}) for slot, value in ((0, "0"), (1, "0"), (2, "1"))}
    rule = Apart(frozenset({0}), numa)
    lines = [MatchLine((0, 1, 2, 3), 2)]
    assert choice_of(assign(room, lines, [rule]), lines) == ((0, 2),)
    assert assign(room, [MatchLine((0, 1, 2, 3), 3)], [rule]) is None


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Inventory, dict[int, int]]:
    leaves = draw(st.integers(1, 4))
    devices = []
    for i in range(leaves):
        shareable = draw(st.booleans())
        uses = draw(st.integers(0, 2)) if draw(st.integers(0, 3)) == 0 else 0
        devices.append(
            device(
                f"d{i}",
                1 if shareable else draw(st.integers(0, 2)),
                shareable=shareable,
                consumes=(CounterUse("board", "slices", Quantity(uses * NANO)),) if uses else (),
            )
        )
    for i in range(draw(st.integers(0, 2))):
        members = draw(st.sets(st.integers(0, leaves - 1), min_size=1))
        devices.append(device(f"g{i}", members=tuple(f"d{m}" for m in sorted(members))))
    inventory = Inventory(draw(st.permutations(devices)), {("", "", "board", "slices"): 3 * NANO})
    held = {}
    room = Room(inventory)
    for slot in range(len(inventory)):
        if room.units(slot) and draw(st.integers(0, 3)) == 0:
            room.take(slot, Portion(1))
            held[slot] = 1
    return inventory, held


@given(nodes(), st.data())
@settings(max_examples=300, deadline=None)
def test_feasible_exactly_when_trying_everything_finds_an_assignment_and_then_the_first(
    node: tuple[Inventory, dict[int, int]], data: st.DataObject
) -> None:
    inventory, held = node
    slots = range(len(inventory))
    lines = []
    for _ in range(data.draw(st.integers(1, 3))):
        candidates = tuple(sorted(data.draw(st.sets(st.sampled_from(slots)))))
        milli = data.draw(st.sampled_from([0, 0, 0, 400, 600]))
        lines.append(MatchLine(candidates, 1 if milli else data.draw(st.integers(1, 3)), milli))
    apart = []
    if data.draw(st.integers(0, 3)) == 0:
        values = data.draw(st.dictionaries(st.sampled_from(slots), st.frozensets(st.sampled_from("xyz"), min_size=1)))
        chosen = data.draw(st.sets(st.sampled_from(range(len(lines))), min_size=1))
        apart.append(Apart(frozenset(chosen), values))
    room = Room(inventory)
    for slot in held:
        room.take(slot, Portion(1))
    before = room.key()
    found = assign(room, lines, apart)
    assert room.key() == before, "looking changes nothing"
    assert choice_of(found, lines) == first(inventory, lines, apart, held)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.dictionaries(st.integers(0, 15), st.integers(0, 5)))
def test_the_flow_is_halls_condition(demands: list[int], buckets: dict[int, int]) -> None:
    def enough(subset: int) -> bool:
        wanted = sum(demand for line, demand in enumerate(demands) if subset >> line & 1)
        return sum(units for mask, units in buckets.items() if mask & subset) >= wanted

    assert can_serve(demands, buckets) is all(enough(subset) for subset in range(1 << len(demands)))
