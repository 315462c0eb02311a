"""Requests against a node's devices: what fits, and which devices are chosen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from devices.slow_matching import Choice, first
from fairway.devices.match import matching
from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.match.matching import Apart, Pick, Search, SlotRequest, assign
from fairway.devices.model.device import CounterUse, Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.select.flow import can_serve
from fairway.resources.quantity import Quantity
from support.effort import examples

NANO = 10**9


def device(name: str, quantity: int = 1, **more: Any) -> Device:
    return Device("n1", "", "", name, "gpu", quantity=quantity, **more)


def choice_of(picks: tuple[Pick, ...] | None, requests: list[SlotRequest]) -> Choice | None:
    if picks is None:
        return None
    slots: list[list[int]] = [[] for _ in requests]
    for pick in picks:
        slots[pick.number] += [pick.slot] * (pick.portion.units or 1)
    return tuple(tuple(sorted(found)) for found in slots)


def test_one_device_that_serves_the_whole_count_is_preferred() -> None:
    free = FreeSlots(Inventory([device("a", 2), device("b", 4), device("c", 4)]))
    assert assign(free, [SlotRequest((0, 1, 2), 3)]) == (Pick(0, 1, Portion(3)),)
    assert assign(free, [SlotRequest((0, 1, 2), 6)]) == (Pick(0, 0, Portion(2)), Pick(0, 1, Portion(4)))


def test_first_fit_leaves_the_scarce_device_to_the_line_that_needs_it() -> None:
    free = FreeSlots(Inventory([device("a"), device("b")]))
    assert choice_of(assign(free, [SlotRequest((0, 1)), SlotRequest((0,))]), [SlotRequest(()), SlotRequest(())]) == (
        (1,),
        (0,),
    )


def test_devices_are_in_stable_order_whatever_the_order_of_the_input() -> None:
    devices = [Device("n", driver, pool, name, "gpu") for driver in "ab" for pool in "pq" for name in "xy"]
    there = [slot.device.id for slot in Inventory(devices).slots]
    assert there == [slot.device.id for slot in Inventory(reversed(devices)).slots] == sorted(there)


PAIR = [device("g0"), device("g1"), device("pair", members=("g0", "g1"))]


def test_a_group_that_is_taken_takes_its_members() -> None:
    free = FreeSlots(Inventory(PAIR))
    free.take(2, Portion(1))
    assert [free.units(slot) for slot in range(3)] == [0, 0, 0]
    free.give(2, Portion(1))
    assert [free.units(slot) for slot in range(3)] == [1, 1, 1]


def test_a_member_that_is_taken_leaves_the_other_member_but_not_the_group() -> None:
    free = FreeSlots(Inventory(PAIR))
    free.take(0, Portion(1))
    assert [free.units(slot) for slot in range(3)] == [0, 1, 0]


def test_a_group_within_a_group() -> None:
    devices = [*PAIR, device("quad", members=("pair", "z2")), device("z2")]
    inventory = Inventory(devices)
    names = [slot.device.name for slot in inventory.slots]
    free = FreeSlots(inventory)
    free.take(names.index("quad"), Portion(1))
    assert [free.units(slot) for slot in range(5)] == [0] * 5
    free = FreeSlots(inventory)
    free.take(names.index("g1"), Portion(1))
    units = {name: free.units(slot) for slot, name in enumerate(names)}
    assert units == {"g0": 1, "g1": 0, "pair": 0, "quad": 0, "z2": 1}


@pytest.mark.parametrize(
    "groups",
    [
        [device("a", members=("gone",))],
        [device("a", members=("b",)), device("b", members=("a",))],
    ],
)
def test_a_group_that_cannot_be_is_never_taken(groups: list[Device]) -> None:
    inventory = Inventory([*groups, device("z")])
    assert [FreeSlots(inventory).units(slot) for slot in range(len(inventory))] == [*[0] * len(groups), 1]


def test_a_fraction_leaves_the_rest_and_no_whole() -> None:
    free = FreeSlots(Inventory([device("a", shareable=True)]))
    half = SlotRequest((0,), milli=500)
    assert assign(free, [half, half]) is not None
    assert assign(free, [half, half, half]) is None
    free.take(0, Portion(milli=500))
    assert assign(free, [half]) is not None
    assert assign(free, [SlotRequest((0,), milli=501)]) is None
    assert assign(free, [SlotRequest((0,))]) is None


def test_a_fraction_needs_a_device_that_allows_it() -> None:
    assert assign(FreeSlots(Inventory([device("a")])), [SlotRequest((0,), milli=500)]) is None


def test_each_unit_of_a_shareable_device_is_cut_by_itself() -> None:
    free = FreeSlots(Inventory([device("a", 2, shareable=True)]))
    part = SlotRequest((0, 1), milli=600)
    assert assign(free, [part, part]) is not None
    assert assign(free, [part, part, part]) is None
    assert assign(free, [part, part, SlotRequest((0, 1), milli=400)]) is not None


def test_capacity_is_consumed_and_never_exceeded() -> None:
    capacity = {"memory": Quantity(40 * NANO)}
    free = FreeSlots(Inventory([device("a", shareable=True, capacity=capacity)]))
    thirty = SlotRequest((0,), portions={0: Portion(capacity=(30 * NANO,))})
    ten = SlotRequest((0,), portions={0: Portion(capacity=(10 * NANO,))})
    assert assign(free, [thirty, ten]) is not None
    assert assign(free, [thirty, thirty]) is None
    assert assign(free, [thirty, SlotRequest((0,), milli=250)]) is not None, "a quarter takes a quarter of the memory"
    assert assign(free, [thirty, SlotRequest((0,), milli=251)]) is None


def counted(name: str, amount: int) -> Device:
    return device(name, consumes=(CounterUse("board", "slices", Quantity(amount * NANO)),))


BOARD = {("", "", "board", "slices"): 7 * NANO}


def test_shared_counters_are_never_exceeded() -> None:
    free = FreeSlots(Inventory([counted("big", 4), counted("mid", 3), counted("tiny", 1)], BOARD))
    assert assign(free, [SlotRequest((0,)), SlotRequest((1,))]) is not None
    assert assign(free, [SlotRequest((0,)), SlotRequest((1,)), SlotRequest((2,))]) is None
    assert assign(free, [SlotRequest((0, 1)), SlotRequest((2,))]) is not None


@pytest.mark.parametrize(("limit", "found"), [(0, False), (1, True)])
def test_a_search_beyond_the_limit_gives_up(limit: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "MAX_STEPS", limit)
    free = FreeSlots(Inventory([device("a", shareable=True)]))
    assert Search(free, [SlotRequest((0,), milli=500)]).possible() is found, "one fraction takes one step"


def test_a_device_that_another_request_needs_is_left_and_the_next_ones_are_taken() -> None:
    free = FreeSlots(Inventory([device("a", shareable=True), device("b"), device("c")]))
    requests = [SlotRequest((0, 1, 2), 2), SlotRequest((0,), milli=500)]
    assert choice_of(assign(free, requests), requests) == ((1, 2), (0,))


def test_as_many_units_of_a_device_are_taken_as_others_leave() -> None:
    """Of three units of `a` two may go: one is for the second request. The fraction makes it a search."""
    free = FreeSlots(Inventory([device("a", 3), device("b", 3), device("c", shareable=True)]))
    requests = [SlotRequest((0, 1), 4), SlotRequest((0,)), SlotRequest((2,), milli=500)]
    assert choice_of(assign(free, requests), requests) == ((0, 0, 1, 1), (0,), (2,))


def test_more_of_like_devices_than_there_are_costs_no_more_than_all_of_them() -> None:
    """A search through subsets would not come back: there are 2^40 of them."""
    inventory = Inventory([device(f"g{i:02}") for i in range(40)])
    requests = [SlotRequest(tuple(range(40)), 20), SlotRequest(tuple(range(40)), 21)]
    assert assign(FreeSlots(inventory), requests) is None
    partitions = Inventory([counted(f"g{i:02}", 1) for i in range(40)], BOARD)
    assert assign(FreeSlots(partitions), [SlotRequest(tuple(range(40)), 8)]) is None
    assert assign(FreeSlots(partitions), [SlotRequest(tuple(range(40)), 7)]) is not None


def test_units_of_a_giant_group_are_found_by_bisection() -> None:
    free = FreeSlots(Inventory([device("a", 10**9), device("b", 10**9)]))
    requests = [SlotRequest((0, 1), 10**9 + 5), SlotRequest((0,), 7)]
    assert assign(free, requests) == (
        Pick(0, 0, Portion(10**9 - 7)),
        Pick(0, 1, Portion(12)),
        Pick(1, 0, Portion(7)),
    )


def test_apart_lines_take_different_values() -> None:
    free = FreeSlots(Inventory([device(name) for name in "abcd"]))
    numa = {slot: frozenset({value}) for slot, value in ((0, "0"), (1, "0"), (2, "1"))}
    rule = Apart(frozenset({0}), numa)
    requests = [SlotRequest((0, 1, 2, 3), 2)]
    assert choice_of(assign(free, requests, [rule]), requests) == ((0, 2),)
    assert assign(free, [SlotRequest((0, 1, 2, 3), 3)], [rule]) is None


def test_a_device_that_can_be_shared_is_left_to_the_request_for_a_part() -> None:
    """The whole one may have either of two that are alike but for that; a counter somewhere makes it a search."""
    board = CounterUse("board", "slices", Quantity(2 * NANO))
    devices = [device("a", consumes=(board,)), device("b", shareable=True), device("c")]
    free = FreeSlots(Inventory(devices, {("", "", "board", "slices"): 3 * NANO}))
    free.take(0, Portion(1))
    requests = [SlotRequest((0, 1, 2)), SlotRequest((0, 1, 2), milli=400)]
    assert choice_of(assign(free, requests), requests) == ((2,), (1,))


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
    free = FreeSlots(inventory)
    for slot in range(len(inventory)):
        if free.units(slot) and draw(st.integers(0, 3)) == 0:
            free.take(slot, Portion(1))
            held[slot] = 1
    return inventory, held


@given(nodes(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_feasible_exactly_when_trying_everything_finds_an_assignment_and_then_the_first(
    node: tuple[Inventory, dict[int, int]], data: st.DataObject
) -> None:
    inventory, held = node
    slots = range(len(inventory))
    requests = []
    for _ in range(data.draw(st.integers(1, 3))):
        candidates = tuple(sorted(data.draw(st.sets(st.sampled_from(slots)))))
        milli = data.draw(st.sampled_from([0, 0, 0, 400, 600]))
        requests.append(SlotRequest(candidates, 1 if milli else data.draw(st.integers(1, 3)), milli))
    apart = []
    if data.draw(st.integers(0, 3)) == 0:
        values = data.draw(st.dictionaries(st.sampled_from(slots), st.frozensets(st.sampled_from("xyz"), min_size=1)))
        chosen = data.draw(st.sets(st.sampled_from(range(len(requests))), min_size=1))
        apart.append(Apart(frozenset(chosen), values))
    free = FreeSlots(inventory)
    for slot in held:
        free.take(slot, Portion(1))
    before = free.key()
    found = assign(free, requests, apart)
    assert free.key() == before, "looking changes nothing"
    assert choice_of(found, requests) == first(inventory, requests, apart, held)


@example([1, 1, 1], {0b001: 2, 0b111: 1})
@example([1, 1, 3, 2, 1, 2], {11: 2, 39: 1, 60: 1, 5: 2, 3: 2, 27: 2})
@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.dictionaries(st.integers(0, 63), st.integers(0, 5)))
def test_the_flow_is_halls_condition(demands: list[int], buckets: dict[int, int]) -> None:
    def enough(subset: int) -> bool:
        wanted = sum(demand for line, demand in enumerate(demands) if subset >> line & 1)
        return sum(units for mask, units in buckets.items() if mask & subset) >= wanted

    assert can_serve(demands, buckets) is all(enough(subset) for subset in range(1 << len(demands)))
