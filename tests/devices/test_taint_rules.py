"""Taints by DeviceTaintRule count as if the driver had published them, and a group is as sick as its members."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from fairway.state.cluster import ClusterState
from fairway.state.events import Deleted, Upserted
from support.claims import claim, claiming, device_class, exactly
from support.devices import (
    DRIVER,
    book_of,
    device_node,
    gpu,
    kind_class,
    published,
    resource_slice,
    standings,
)
from support.engine import bound, plan, policy, state_of
from support.objects import made

KIND = {"kind": {"string": "nvidia-gpu"}}


def rule(name: str, effect: str = "NoSchedule", selector: dict[str, str] | None = None, key: str = "sick") -> ApiObject:
    taint = {"key": key, "effect": effect}
    return made("DeviceTaintRule", name, spec={"taint": taint, "deviceSelector": selector})


def tainted(state: ClusterState) -> dict[str, list[str]]:
    """By device (`node/name`): the keys of its taints."""
    return {
        f"{state.nodes.names[row]}/{slot.device.name}": [taint.key for taint in slot.device.taints]
        for row, there in sorted(book_of(state).nodes.items())
        for slot in there.inventory.slots
    }


def two_nodes() -> list[ApiObject]:
    devices = [published("g0", attributes=KIND), published("g1", attributes=KIND)]
    return [
        device_node("n0"),
        device_node("n1"),
        kind_class("gpu", "nvidia-gpu"),
        resource_slice("s0", "n0", *devices),
        resource_slice("s1", "n1", *devices, driver="other.example.com"),
    ]


@pytest.mark.parametrize(
    ("selector", "sick"),
    [
        (None, ""),
        ({}, "n0/g0 n0/g1 n1/g0 n1/g1"),
        ({"driver": DRIVER}, "n0/g0 n0/g1"),
        ({"pool": "n1"}, "n1/g0 n1/g1"),
        ({"device": "g1"}, "n0/g1 n1/g1"),
        ({"driver": DRIVER, "pool": "n0", "device": "g0"}, "n0/g0"),
        ({"driver": DRIVER, "pool": "n1"}, ""),
    ],
)
def test_a_rule_means_what_its_selector_names(selector: dict[str, str] | None, sick: str) -> None:
    state = state_of(*two_nodes(), rule("r", selector=selector))
    assert [name for name, keys in tainted(state).items() if keys] == sick.split()


@pytest.mark.parametrize(("effect", "left"), [("NoSchedule", 3), ("NoExecute", 3), ("None", 4)])
def test_a_tainted_device_is_not_allocatable(effect: str, left: int) -> None:
    state = state_of(*two_nodes())
    assert standings(state) == {"gpu": (4, 0)}
    added = rule("r", effect, {"pool": "n0", "device": "g0"})
    state.apply(Upserted(added))
    assert standings(state) == {"gpu": (left, 0)}
    state.apply(Deleted(added))
    assert standings(state) == {"gpu": (4, 0)}


def test_a_rule_that_moves_frees_what_it_meant_before() -> None:
    state = state_of(*two_nodes(), rule("r", selector={"device": "g0"}))
    assert standings(state) == {"gpu": (2, 0)}
    state.apply(Upserted(rule("r", selector={"pool": "n1"})))
    assert [name for name, keys in tainted(state).items() if keys] == ["n1/g0", "n1/g1"]
    state.apply(Upserted(rule("r")))
    assert not any(tainted(state).values())


def test_rules_and_the_driver_taint_together() -> None:
    own = published("g0", attributes=KIND, taints=[{"key": "own", "effect": "NoSchedule"}])
    state = state_of(
        device_node("n0"),
        kind_class("gpu", "nvidia-gpu"),
        rule("b", selector={}, key="second"),
        rule("a", selector={"device": "g0"}, key="first"),
        resource_slice("s0", "n0", own),
    )
    assert tainted(state) == {"n0/g0": ["own", "second", "first"]}


@pytest.mark.parametrize("what", [{"taints": [{"key": "sick", "effect": "NoSchedule"}]}, {"healthy": False}])
def test_a_group_is_as_sick_as_its_members(what: dict[str, Any]) -> None:
    """Through groups of groups, too."""
    quad = gpu("quad", kind="quad", members=["p0", "p1"])
    pairs = [gpu("p0", kind="pair", members=["g0", "g1"]), gpu("p1", kind="pair", members=["g2", "g3"])]
    singles = [gpu("g0", **what), *(gpu(name) for name in ("g1", "g2", "g3"))]
    state = state_of(
        device_node("n0", quad, *pairs, *singles),
        *(kind_class(name, name) for name in ("quad", "pair")),
        kind_class("gpu", "nvidia-gpu"),
    )
    assert standings(state) == {"quad": (0, 0), "pair": (1, 0), "gpu": (3, 0)}


def test_after_any_history_the_devices_are_those_of_a_new_state() -> None:
    random = Random(5)
    for _ in range(30):
        known: dict[tuple[str, str], ApiObject] = {}
        state = state_of()
        for _ in range(25):
            thing = random_thing(random)
            key = type(thing).__name__, thing.metadata.name
            if key in known and random.random() < 0.4:
                state.apply(Deleted(known.pop(key)))
            else:
                state.apply(Upserted(thing))
                known[key] = thing
            if random.random() < 0.5:
                new = state_of(*sorted(known.values(), key=lambda one: one.metadata.name))
                assert by_name(state) == by_name(new)
                assert standings(state) == standings(new)


def random_thing(random: Random) -> ApiObject:
    number = random.randrange(3)
    match random.randrange(5):
        case 0:
            return device_node(f"n{number}")
        case 1:
            return kind_class("gpu", "nvidia-gpu")
        case 2:
            devices = [published(f"g{place}", attributes=KIND) for place in range(random.randrange(3))]
            return resource_slice(f"s{number}", f"n{number}", *devices, generation=random.randrange(2))
        case _:
            names = {"driver": DRIVER, "pool": f"n{random.randrange(3)}", "device": f"g{random.randrange(2)}"}
            selector = {name: text for name, text in names.items() if random.random() < 0.5}
            effect = random.choice(["NoSchedule", "NoExecute", "None"])
            return rule(f"r{number}", effect, selector if random.random() < 0.8 else None, key=f"key{number}")


def by_name(state: ClusterState) -> dict[str, list[str]]:
    return {name: sorted(keys) for name, keys in sorted(tainted(state).items())}


def test_only_a_claim_that_tolerates_the_rule_is_served() -> None:
    tolerations = [{"key": "sick", "operator": "Exists"}]
    found = plan(
        device_node("n0"),
        device_class("gpu", "true"),
        resource_slice("s0", "n0", published("g0", attributes=KIND)),
        rule("r", "NoExecute", {}),
        claim("strict", exactly()),
        claiming("strict", "strict"),
        claim("tolerant", exactly(tolerations=tolerations)),
        claiming("tolerant", "tolerant"),
        policy=policy(devices={}),
    )
    assert bound(found) == {"tolerant": "n0"}
