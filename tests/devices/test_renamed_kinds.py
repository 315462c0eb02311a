"""Devices whose kind is not the name of the resource that counts them: each is one unit of hardware all the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.devices import asking, device_node, gpu, held, kind_class, standings
from support.effort import examples
from support.engine import bound, decided, policy, state_of
from support.objects import pod

RESOURCE = "example.com/gpu"
CLASSES = [kind_class("by-kind", "gpu"), kind_class("by-either", "gpu", RESOURCE), kind_class("pairs", "pair")]


def site(count: int, *more: dict[str, object], listed: int | None = None) -> list[object]:
    devices = [{**gpu(f"g{number}", kind="gpu"), "resource": RESOURCE} for number in range(count)]
    amounts = {RESOURCE: count if listed is None else listed}
    return [*CLASSES, device_node("n1", *devices, *more, **amounts)]


def test_a_device_is_counted_once_in_every_class() -> None:
    assert standings(state_of(site(4))) == {"by-kind": (4, 0), "by-either": (4, 0), "pairs": (0, 0)}


def test_units_that_are_not_described_are_devices_of_the_resource() -> None:
    assert standings(state_of(site(2, listed=3))) == {"by-kind": (2, 0), "by-either": (3, 0), "pairs": (0, 0)}


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_plain_requests_and_classes_share_the_devices(count: int, plain: int, by_class: int) -> None:
    pods = [pod(f"plain-{number}", cpu=1, **{RESOURCE: 1}) for number in range(plain)]
    pods += [asking(f"class-{number}", classes={"by-kind": 1}) for number in range(by_class)]
    found = decided(state_of(site(count), pods), policy(devices={}))
    assert len(bound(found)) == min(count, plain + by_class)
    chosen = [choice.device for binding in found.bindings for choice in binding.devices]
    assert len(set(chosen)) == len(chosen)


@pytest.mark.parametrize("first", ["plain", "class", "pair"])
def test_what_is_taken_in_one_way_is_not_to_be_had_in_another(first: str) -> None:
    pair = gpu("p0", kind="pair", members=["g0", "g1"])
    takers = {
        "plain": [pod("plain", cpu=1, node="n1", **{RESOURCE: 2})],
        "class": [asking("class", node="n1", classes={"by-kind": 2}, record={"by-kind_g0": 1, "by-kind_g1": 1})],
        "pair": [asking("pair", node="n1", classes={"pairs": 1}, record={"pairs_p0": 1})],
    }
    wanted = [
        pod("w-plain", cpu=1, **{RESOURCE: 1}),
        asking("w-class", classes={"by-kind": 1}),
        asking("w-pair", classes={"pairs": 1}),
    ]
    state = state_of(site(2, pair), takers[first], wanted)
    assert held(state)
    assert bound(decided(state, policy(devices={}))) == {}
