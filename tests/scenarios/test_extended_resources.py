"""Limits of an extended resource that a DeviceClass serves: `example.com/gpu: 1` by devices of a driver."""

from __future__ import annotations

from itertools import chain
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.devices.track.ledger import check_ledger, device_ledger
from fairway.drive.change import MakeClassClaim
from fairway.drive.claims import is_made_for, released
from fairway.drive.planned_changes import changes_of
from fairway.drive.store import ObjectStore
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.claims import gpu
from support.devices import DRIVER, asking, device_node, held, kind_class, resource_slice, standings
from support.effort import examples
from support.engine import bound, decided, reasons, state_of
from support.engine import policy as make_policy
from support.objects import made, pod

POLICY = make_policy(devices={})
GPU = "example.com/gpu"


def serving(name: str = "gpu", resource: str | None = GPU, created: int = 0, expression: str = "") -> ApiObject:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]} if expression else {}
    meta = {"creationTimestamp": f"2026-01-01T00:00:0{created}Z"}
    return made(
        "DeviceClass", name, metadata=meta, spec={**spec, **({"extendedResourceName": resource} if resource else {})}
    )


def plan(*objects: Any) -> ExplainedPlan:
    return decided(state_of(*objects), POLICY)


def devices(plan: Plan) -> dict[str, list[str]]:
    return {found.pod.removeprefix("default/"): [one.device for one in found.devices] for found in plan.bindings}


NODE = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b", "80Gi"), gpu("c"))]
LISTING = device_node("listing", **{GPU: 2})


def wanting(name: str, count: int = 1, resource: str = GPU, **rest: Any) -> ApiObject:
    return pod(name, **{"cpu": 1, resource: count, **rest})


def test_devices_of_a_driver_serve_the_limit_and_the_binding_says_which() -> None:
    found = plan(serving(), NODE, wanting("p", 2))
    (binding,) = found.bindings
    assert msgspec.to_builtins(list(binding.devices)) == [
        {"class": "gpu", "device": name, "quantity": 1, "driver": DRIVER, "pool": "n1", "resource": GPU}
        for name in ("a", "b")
    ]
    assert binding.annotations == {}, "the claim is the record"


def test_a_node_that_lists_the_resource_serves_it_by_its_plugin() -> None:
    found = plan(serving(), LISTING, wanting("p", 2))
    assert bound(found) == {"p": "listing"}
    assert devices(found) == {"p": []}
    both = plan(serving(), NODE, LISTING, [wanting(f"p{number}") for number in range(6)])
    assert sorted(bound(both).values()) == ["listing"] * 2 + ["n1"] * 3
    assert sorted(chain.from_iterable(devices(both).values())) == ["a", "b", "c"]


def test_a_driver_whose_node_lists_the_resource_too_is_not_counted_twice() -> None:
    node = [device_node("n1", **{GPU: 1}), resource_slice("s1", "n1", gpu("a"), gpu("b"))]
    assert len(bound(plan(serving(), node, [wanting(f"p{number}") for number in range(3)]))) == 1


def test_the_limit_a_class_and_a_claim_share_one_ledger() -> None:
    world = [serving(), kind_class("any", "gpu"), NODE]
    first = [asking("c", classes={"any": 2}, created=0), wanting("x", created=1), wanting("y", created=2)]
    found = plan(*world, first)
    assert devices(found) == {"c": ["a", "b"], "x": ["c"]}
    assert {one.name: (one.allocatable, one.requested) for one in found.resource_classes} == {"any": (3, 3)}
    found = plan(*world, wanting("x", 2, created=0), asking("c", classes={"any": 2}, created=1))
    assert devices(found) == {"x": ["a", "b"]}
    assert reasons(found) == {"c": "DeviceUnavailable"}


def test_selectors_of_the_class_and_taints_of_devices_count() -> None:
    large = serving(expression='device.capacity["gpu.example.com"].memory.compareTo(quantity("60Gi")) >= 0')
    assert devices(plan(large, NODE, [wanting("p"), wanting("q")])) == {"p": ["b"]}
    tainted = gpu("a") | {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
    node = [device_node("n1"), resource_slice("s1", "n1", tainted, gpu("b"))]
    assert devices(plan(serving(), node, [wanting("p"), wanting("q")])) == {"p": ["b"]}


def test_of_several_classes_the_newest_serves_and_of_equally_old_ones_the_first() -> None:
    old, new, same = serving("old", created=1), serving("zz", created=2), serving("yy", created=2)
    (binding,) = plan(old, new, same, NODE, wanting("p")).bindings
    assert binding.devices[0].class_ == "yy"


def test_every_class_has_its_implicit_name() -> None:
    found = plan(serving(resource=None), NODE, wanting("p", 1, "deviceclass.resource.kubernetes.io/gpu"))
    assert devices(found) == {"p": ["a"]}
    assert bound(plan(serving(resource=None), NODE, wanting("p", 1, "deviceclass.resource.kubernetes.io/x"))) == {}


@pytest.mark.parametrize("count", [32, 33])
def test_a_claim_names_32_devices_and_no_more(count: int) -> None:
    node = [device_node("n1"), resource_slice("s1", "n1", *(gpu(f"g{number:02}") for number in range(40)))]
    assert len(bound(plan(serving(), node, wanting("p", count)))) == (count == 32)
    listing = device_node("listing", **{GPU: 64})
    assert bound(plan(serving(), node, listing, wanting("p", 33))) == {"p": "listing"}


def test_where_kubelets_do_not_know_such_claims_it_is_not_served_and_said_so() -> None:
    state = state_of(serving(), NODE, kind_class("any", "gpu"), wanting("p"))
    assert bound(decided(state, POLICY)) == {"p": "n1"}
    state.devices.serve_extended(False)
    assert bound(decided(state, POLICY)) == {}
    (warning,) = device_ledger(state).warnings()
    assert f"extendedResourceName {GPU}" in warning
    state.devices.serve_extended(True)
    assert bound(decided(state, POLICY)) == {"p": "n1"}


def special(changes: list[Any]) -> MakeClassClaim:
    (found,) = (change for change in changes if isinstance(change, MakeClassClaim))
    return found


def carried_out(*objects: Any) -> tuple[ObjectStore, list[Any], ExplainedPlan]:
    state, store = state_of(*objects), ObjectStore()
    for thing in (one for part in objects for one in (part if isinstance(part, list) else [part])):
        store.seen(thing)
    found = decided(state, POLICY)
    return store, changes_of(found, store, 0), found


def test_the_claim_is_made_also_where_classes_are_told_by_records_only() -> None:
    asked = pod("p", **{"cpu": 1, GPU: 1, "resourceclass.fairway.dev/any": 1})
    store, changes, _ = carried_out(serving(), kind_class("any", "gpu"), NODE, asked)
    change = special(changes)
    assert change.claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [mapping.resource_name for mapping in change.named.request_mappings] == [GPU]
    allocation = change.claim.status.allocation
    assert allocation is not None
    assert [one.device for one in allocation.devices.results] == ["a"]
    exactly = change.claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert exactly.device_class_name == "gpu"
    store.sent(changes)
    pod_now = store.get(("Pod", "default", "p"))
    assert isinstance(pod_now, Pod)
    assert pod_now.status.extended_resource_claim_status == change.named
    (claim,) = released(pod_now, {f"default/{change.key[2]}": change.claim})
    assert is_made_for(claim, pod_now)


@pytest.mark.parametrize("claim_first", [False, True])
def test_what_the_claim_says_is_in_use_once_and_by_its_pod(claim_first: bool) -> None:
    world = [serving(), kind_class("any", "gpu"), NODE]
    store, changes, _ = carried_out(*world, [wanting("blocker", 1, created=0), wanting("p", 1, created=1)])
    store.sent(changes)
    claim = store.get(special([change for change in changes if getattr(change, "pod", "") == "default/p"]).key)
    running = store.get(("Pod", "default", "p"))
    assert isinstance(claim, ResourceClaim)
    assert isinstance(running, Pod)
    state = state_of(*world)
    for thing in (claim, running) if claim_first else (running, claim):
        state.apply(Upserted(thing))
        standings(state)
    assert held(state) == {"n1/b": [("p", 1)]}
    assert standings(state) == {"any": (3, 1)}
    check_ledger(state)
    again = decided(state_of(*world, claim, running, [wanting(f"q{number}") for number in range(3)]), POLICY)
    assert sorted(chain.from_iterable(devices(again).values())) == ["a", "c"]


OBJECTS: list[Any] = [
    serving("gpu", created=1),
    serving("gpu", created=1, expression='device.attributes["gpu.example.com"].kind == "gpu"'),
    serving("other", created=2),
    serving("other", None),
    kind_class("any", "gpu"),
    device_node("n1"),
    device_node("n1", **{GPU: 2}),
    device_node("n2"),
    resource_slice("s1", "n1", gpu("a"), gpu("b")),
    resource_slice("s1", "n1", gpu("a"), gpu("b"), gpu("c"), generation=2),
    resource_slice("s2", "n2", gpu("a"), gpu("d") | {"taints": [{"key": "broken", "effect": "NoSchedule"}]}),
    wanting("p"),
    wanting("p", node="n1"),
    wanting("q", 2),
    wanting("q", 2, node="n2"),
    asking("c", classes={"any": 1}),
    asking("c", classes={"any": 1}, record={"any_a": 1}, node="n2"),
]


FREED_AND_TAKEN = [*[(0, False)] * 13, (6, False), (5, True), (15, False), (6, False)]
"""The name of the resource goes with its node, the state forgets it, and it comes again in the row that was freed."""


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(range(len(OBJECTS))), st.booleans()), max_size=25))
@example(FREED_AND_TAKEN)
def test_after_any_history_the_ledger_is_what_a_new_one_makes_of_it(history: list[tuple[int, bool]]) -> None:
    state = ClusterState()
    for number, deleted in history:
        state.apply(Deleted(OBJECTS[number]) if deleted else Upserted(OBJECTS[number]))
        found = decided(state, POLICY)
        check_ledger(state)
        taken = [(binding.node, one.device) for binding in found.bindings for one in binding.devices]
        assert len(set(taken)) == len(taken), "no device is given twice in a plan"
        in_use = {name for name, users in held(state).items() if users}
        assert not {f"{node}/{device}" for node, device in taken} & in_use
