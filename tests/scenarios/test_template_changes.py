"""Templates that change or go after claims were made from them: a claim asks for what it says itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.pods import PodClaimStatus
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.claims import claim, claiming, device_class, exactly, gpu, template
from support.devices import device_node, resource_slice
from support.effort import examples
from support.engine import decided, policy, reasons, state_of

NODE = [device_class(), device_node("n1"), resource_slice("s1", "n1", *(gpu(f"g{number}") for number in range(4)))]
RULES = policy(devices={})


def made(name: str, claim_name: str) -> Any:
    pod: Any = claiming(name, template="tpl")
    return replace(pod, status=replace(pod.status, resource_claim_statuses=(PodClaimStatus("c", claim_name),)))


def chosen(state: ClusterState) -> dict[str, list[tuple[str, str]]]:
    return {b.pod: [(d.claim, d.request) for d in b.devices] for b in decided(state, RULES).bindings}


def test_while_the_template_says_the_same_pods_are_alike() -> None:
    pods = [made(f"p{number}", f"p{number}-c") for number in range(3)]
    claims = [claim(f"p{number}-c", exactly()) for number in range(3)]
    state = state_of(NODE, template("tpl", exactly()), claims, pods)
    assert len({task.shape for task in state.tasks.values()}) == 1
    assert len(chosen(state)) == 3


@pytest.mark.parametrize("first", ["template", "claim"])
def test_a_template_that_was_replaced_says_nothing_of_a_claim(first: str) -> None:
    """The claim has one request of one device; by the template of today it would be given two, for another request."""
    other, own = template("tpl", exactly("other", count=2)), claim("p-c", exactly("r"))
    state = state_of(NODE, template("tpl", exactly("r")), made("p", "p-c"))
    for thing in (other, own) if first == "template" else (own, other):
        state.apply(Upserted(thing))
    assert chosen(state) == {"default/p": [("default/p-c", "r")]}


def test_a_template_that_is_gone_keeps_no_pod_waiting_whose_claim_was_made() -> None:
    tpl = template("tpl", exactly())
    state = state_of(NODE, tpl, claim("p-c", exactly()), made("p", "p-c"), claiming("late", template="tpl"))
    state.apply(Deleted(tpl))
    assert chosen(state) == {"default/p": [("default/p-c", "r")]}
    assert reasons(decided(state, RULES)) == {"late": "DeviceUnavailable"}


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["template", "claim", "gone", "pod"]), st.integers(1, 3)), max_size=12))
def test_in_any_order_a_pod_is_given_what_its_claim_says(steps: list[tuple[str, int]]) -> None:
    state, tpl, own = state_of(NODE), None, None
    for step, count in steps:
        match step:
            case "template":
                tpl = template("tpl", exactly(count=count))
                state.apply(Upserted(tpl))
            case "gone" if tpl is not None:
                state.apply(Deleted(tpl))
                tpl = None
            case "claim" if own is None:
                own = count
                state.apply(Upserted(claim("p-c", exactly(count=count))))
            case "pod":
                state.apply(Upserted(made("p", "p-c")))
    state.apply(Upserted(made("p", "p-c")))
    if own is not None:
        assert [len(devices) for devices in chosen(state).values()] == [own]
