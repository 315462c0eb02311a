"""All needs of a pod on one node: options, rules over attributes, shared capacity, strategies."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices.slow_matching import allowed, every_choice
from fairway.api.devices import CapacityRange, CapacityRequestPolicy
from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.match.matching import SlotRequest
from fairway.devices.match.solving import TakenSlot, solve
from fairway.devices.model.device import Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.model.values import Text
from fairway.devices.select.requests import (
    ByClaim,
    ByClass,
    DeviceSelector,
    Option,
    ResolvedRequest,
    ResolvedRequests,
    Rule,
)
from fairway.resources.quantity import Quantity
from support.effort import examples

DRIVER = "gpu.example.com"
NANO = 10**9
ANY = ByClass("any")


def device(name: str, quantity: int = 1, **more: Any) -> Device:
    attributes = {f"{DRIVER}/{key}": Text(value) for key, value in more.pop("attributes", {}).items()}
    return Device("n1", DRIVER, "p", name, "gpu", quantity=quantity, attributes=attributes, **more)


def on(*devices: Device) -> FreeSlots:
    return FreeSlots(Inventory(devices))


def everything(free: FreeSlots) -> Any:
    return lambda wish: tuple(range(len(free.inventory)))


def names(free: FreeSlots, taken: tuple[TakenSlot, ...] | None) -> list[tuple[int, str, int]] | None:
    if taken is None:
        return None
    slots = free.inventory.slots
    return [(t.request, slots[t.slot].device.name, t.portion.units or t.portion.milli) for t in taken]


def need(units: int = 1, wish: DeviceSelector = ANY, strategy: tuple[str, ...] = (), **more: Any) -> ResolvedRequest:
    return ResolvedRequest((Option(wish, units, **more),), strategy)


def test_the_first_option_that_can_be_served_is_taken() -> None:
    free = on(device("a"), device("b"))
    big, small = Option(ByClass("big"), 2), Option(ByClass("small"), 1)
    offers = {ByClass("big"): (0,), ByClass("small"): (0, 1)}
    requests = ResolvedRequests((ResolvedRequest((big, small)),))
    assert solve(free, requests, lambda wish: offers[wish]) == (TakenSlot(0, 1, 0, Portion(1)),)  # type: ignore[index]
    offers[ByClass("big")] = (0, 1)
    taken = solve(free, requests, lambda wish: offers[wish])  # type: ignore[index]
    assert taken == (TakenSlot(0, 0, 0, Portion(1)), TakenSlot(0, 0, 1, Portion(1)))


def test_every_device_means_all_of_them_and_at_least_one() -> None:
    free = on(device("a"), device("b", 2))
    requests = ResolvedRequests((need(every=True),))
    assert names(free, solve(free, requests, everything(free))) == [(0, "a", 1), (0, "b", 2)]
    assert solve(free, requests, lambda wish: ()) is None
    free.take(1, Portion(1))
    assert solve(free, requests, everything(free)) is None


NUMA = [device("a", attributes={"numa": "0"}), device("b", attributes={"numa": "1"})]
NUMA += [device("c", attributes={"numa": "1"}), device("d")]


def test_devices_that_must_have_a_value_in_common() -> None:
    free = on(*NUMA)
    rule = Rule(f"{DRIVER}/numa", True, frozenset({(0, -1)}))
    assert names(free, solve(free, ResolvedRequests((need(2),), (rule,)), everything(free))) == [
        (0, "b", 1),
        (0, "c", 1),
    ]
    assert solve(free, ResolvedRequests((need(3),), (rule,)), everything(free)) is None


def test_devices_that_must_all_differ_in_a_value() -> None:
    free = on(*NUMA)
    rule = Rule(f"{DRIVER}/numa", False, frozenset({(0, -1), (1, -1)}))
    taken = solve(free, ResolvedRequests((need(), need()), (rule,)), everything(free))
    assert names(free, taken) == [(0, "a", 1), (1, "b", 1)]
    assert solve(free, ResolvedRequests((need(2), need()), (rule,)), everything(free)) is None


@pytest.mark.parametrize(
    ("policy", "asked", "part"),
    [
        (None, 10, 10),
        (None, None, 40),
        (CapacityRequestPolicy(default="5"), None, 5),
        (CapacityRequestPolicy(default="5"), 7, 7),
        (CapacityRequestPolicy(valid_values=("20", "8")), 7, 8),
        (CapacityRequestPolicy(valid_values=("20", "8")), 21, None),
        (CapacityRequestPolicy(valid_range=CapacityRange(min="4", step="4")), 1, 4),
        (CapacityRequestPolicy(valid_range=CapacityRange(min="4", step="4")), 9, 12),
        (CapacityRequestPolicy(valid_range=CapacityRange(min="4", max="8", step="4")), 9, None),
        (None, 41, None),
    ],
)
def test_a_claim_takes_of_a_shared_device_what_the_policy_makes_of_it(
    policy: CapacityRequestPolicy | None, asked: int | None, part: int | None
) -> None:
    name = f"{DRIVER}/memory"
    shared = device(
        "a",
        shareable=True,
        capacity={name: Quantity(40 * NANO)},
        policies={name: policy} if policy else {},
    )
    free = on(shared)
    option = Option(ByClaim("c"), capacity=(("memory", asked * NANO),) if asked else ())
    taken = solve(free, ResolvedRequests((ResolvedRequest((option,)),)), everything(free))
    assert taken == (None if part is None else (TakenSlot(0, 0, 0, Portion(capacity=(part * NANO,))),))


def test_a_claim_takes_a_device_that_is_not_shared_whole_if_it_is_large_enough() -> None:
    free = on(device("a", capacity={f"{DRIVER}/memory": Quantity(10 * NANO)}))
    for asked, expected in ((10, (TakenSlot(0, 0, 0, Portion(1)),)), (11, None)):
        option = Option(ByClaim("c"), capacity=(("memory", asked * NANO),))
        assert solve(free, ResolvedRequests((ResolvedRequest((option,)),)), everything(free)) == expected
    unknown = Option(ByClaim("c"), capacity=(("tapes", NANO),))
    assert solve(free, ResolvedRequests((ResolvedRequest((unknown,)),)), everything(free)) is None


def chosen(free: FreeSlots, chain: tuple[str, ...], units: int = 1, **more: Any) -> Any:
    taken = solve(free, ResolvedRequests((need(units, **more),)), everything(free), chain)
    return [(name, amount) for _, name, amount in names(free, taken) or []]


def test_strategies_on_groups_of_units() -> None:
    free = on(device("a", 4), device("b", 2), device("c", 8))
    assert chosen(free, ("first-fit",)) == [("a", 1)]
    assert chosen(free, ("pack",)) == [("b", 1)]
    assert chosen(free, ("pack",), 3) == [("a", 3)]
    assert chosen(free, ("spread",)) == [("c", 1)]
    assert chosen(free, ("spread",), 6) == [("a", 1), ("c", 5)]


def test_packing_fractions_takes_the_tightest() -> None:
    free = on(device("a", shareable=True), device("b", shareable=True))
    free.take(1, Portion(milli=300))
    assert chosen(free, ("pack",), milli=700) == [("b", 700)]
    assert chosen(free, ("pack",), milli=701) == [("a", 701)]


def test_the_next_of_the_chain_breaks_ties() -> None:
    free = on(device("a", 2), device("b", 2, attributes={"numa": "1"}), device("c", 1))
    loss = {0: Fraction(1, 2), 1: Fraction(1, 3), 2: Fraction(1, 3)}
    taken = solve(free, ResolvedRequests((need(),)), everything(free), ("least-loss",), loss.__getitem__)
    assert names(free, taken) == [(0, "c", 1)], "of those that cost least the one with the least left"


def test_numa_stays_on_as_few_nodes_as_possible() -> None:
    devices = [device(f"d{i}", attributes={"numa": str(i % 2)}) for i in range(6)]
    free = on(*devices)
    assert chosen(free, ("numa",), 2) == [("d0", 1), ("d2", 1)]
    free.take(0, Portion(1))
    assert chosen(free, ("numa",), 3) == [("d1", 1), ("d3", 1), ("d5", 1)]
    assert len(chosen(free, ("numa",), 5)) == 5
    assert chosen(free, ("numa",), 6) == []
    on_two = solve(free, ResolvedRequests((need(2), need(1))), everything(free), ("numa",))
    assert names(free, on_two) == [(0, "d1", 1), (0, "d3", 1), (1, "d5", 1)]


def test_a_class_or_a_pod_chooses_for_itself() -> None:
    free = on(device("a", 4), device("b", 2))
    assert chosen(free, ("first-fit",), strategy=("pack",)) == [("b", 1)]


values = st.dictionaries(st.integers(0, 3), st.sampled_from("xyz"))


@given(values, st.lists(st.integers(1, 2), min_size=1, max_size=2), st.sets(st.integers(0, 3)), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_rules_hold_exactly_when_trying_everything_finds_an_assignment(
    numa: dict[int, str], units: list[int], held: set[int], data: st.DataObject
) -> None:
    devices = [device(f"d{i}", attributes={"numa": numa[i]} if i in numa else {}) for i in range(4)]
    free = on(*devices)
    for slot in held:
        free.take(slot, Portion(1))
    concerned = data.draw(st.sets(st.sampled_from(range(len(units))), min_size=1))
    together = data.draw(st.booleans())
    rule = Rule(f"{DRIVER}/numa", together, frozenset((line, -1) for line in concerned))
    taken = solve(free, ResolvedRequests(tuple(map(need, units)), (rule,)), everything(free))

    requests = [SlotRequest((0, 1, 2, 3), count) for count in units]

    def fine(choice: tuple[tuple[int, ...], ...]) -> bool:
        slots = [slot for line in sorted(concerned) for slot in choice[line]]
        found = [numa.get(slot) for slot in slots]
        if None in found or not allowed(free.inventory, requests, (), choice, dict.fromkeys(held, 1)):
            return False
        return len(set(found)) == (1 if together else len(found))

    best = min(filter(fine, every_choice(requests)), default=None)
    assert (taken is None) == (best is None)
    if taken is not None:
        assert best == tuple(tuple(sorted(t.slot for t in taken if t.request == line)) for line in range(len(units)))
