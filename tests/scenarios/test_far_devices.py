"""Devices that several nodes reach: given once, wherever they are used, and counted once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.devices.track.ledger import check_ledger
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support.devices import asking, device_node, held, kind_class, published, resource_slice, standings
from support.effort import examples
from support.engine import bound, decided, reasons, state_of
from support.engine import policy as make_policy
from support.objects import made, queue

POLICY = make_policy(devices={})
FPGA = kind_class("fpga", "fpga")


def far_slice(*names: str, rack: str = "", devices: list[Any] | None = None, **spec: Any) -> ApiObject:
    where: dict[str, Any] = {"allNodes": True}
    if rack:
        term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
        where = {"nodeSelector": {"nodeSelectorTerms": [term]}}
    if devices is not None:
        where = {"perDeviceNodeSelection": True}
    found = [fpga(name) for name in names] if devices is None else devices
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    return made(
        "ResourceSlice", "fabric", spec={"driver": "net.example.com", "pool": pool, "devices": found, **where, **spec}
    )


def fpga(name: str, **rest: Any) -> dict[str, Any]:
    return published(name, attributes={"kind": {"string": "fpga"}}, **rest)


def rack(name: str, rack: str, **rest: Any) -> ApiObject:
    plain = device_node(name, **rest)
    labels = {"rack": rack}
    return made("Node", name, metadata={"labels": labels}, status={"allocatable": dict(plain.allocatable)})


def granted(plan: Plan) -> dict[str, tuple[str, list[str]]]:
    return {b.pod.removeprefix("default/"): (b.node, [d.device for d in b.devices]) for b in plan.bindings}


def plan(*objects: Any, policy: Policy = POLICY) -> ExplainedPlan:
    state = state_of(*objects)
    found = decided(state, policy)
    check_ledger(state)
    return found


NODES = [rack("n1", "a"), rack("n2", "a"), rack("n3", "b")]


def test_a_device_that_all_nodes_reach_is_given_once() -> None:
    pods = [asking(f"p{i}", classes={"fpga": 1}, cpu=40, created=i) for i in range(3)]
    found = plan(FPGA, NODES, far_slice("x", "y"), pods)
    assert granted(found) == {"p0": ("n1", ["x"]), "p1": ("n2", ["y"])}
    assert reasons(found) == {"p2": "DeviceUnavailable"}
    assert [(c.allocatable, c.requested) for c in found.resource_classes] == [(2, 2)]
    assert found.bindings[0].annotations == {"scheduler.alpha.kubernetes.io/resClass_fpga_x": "1"}


def test_only_nodes_that_reach_it_are_served() -> None:
    pods = [asking("far", classes={"fpga": 1}, created=0), asking("too", classes={"fpga": 1}, created=1)]
    found = plan(FPGA, NODES, far_slice("x", rack="b"), pods)
    assert granted(found) == {"far": ("n3", ["x"])}
    per_device = [fpga("x", nodeName="n2"), fpga("y", allNodes=True)]
    found = plan(FPGA, NODES, far_slice(devices=per_device), asking("two", classes={"fpga": 2}))
    assert granted(found) == {"two": ("n2", ["x", "y"])}


def test_a_device_selected_for_one_node_by_name_is_one_of_its_own() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    devices = [fpga("own", nodeSelector={"nodeSelectorTerms": [term]}), fpga("shared", allNodes=True)]
    state = state_of(FPGA, NODES, far_slice(devices=devices), asking("user", node="n2", classes={"fpga": 1}))
    assert held(state) == {"n2/own": [("user", 1)]}


def test_what_a_pod_has_is_taken_on_every_node() -> None:
    user = asking("user", node="n1", classes={"fpga": 1}, record={"fpga_x": 1})
    state = state_of(FPGA, NODES, far_slice("x"), user, asking("p", classes={"fpga": 1}, created=1))
    assert standings(state) == {"fpga": (1, 1)}
    assert reasons(decided(state, POLICY)) == {"p": "DeviceUnavailable"}
    state.apply(Deleted(user))
    assert standings(state) == {"fpga": (1, 0)}
    assert list(bound(decided(state, POLICY))) == ["p"]
    check_ledger(state)


def test_a_pod_without_a_record_is_taken_to_have_a_device_of_its_own_node() -> None:
    """What it really has is not known; the device that others can reach stays theirs."""
    devices = [fpga("own", nodeName="n1"), fpga("shared", allNodes=True)]
    state = state_of(FPGA, NODES, far_slice(devices=devices), asking("user", node="n1", classes={"fpga": 1}))
    assert held(state) == {"n1/own": [("user", 1)]}
    state.upsert([asking("p", classes={"fpga": 1}, created=1)])
    assert [devices for _, devices in granted(decided(state, POLICY)).values()] == [["shared"]]


def test_a_claim_has_it_wherever_its_pod_is() -> None:
    device_class = made("DeviceClass", "fpga", spec={})
    results = [{"request": "r", "driver": "net.example.com", "pool": "fabric", "device": "x"}]
    claim = made(
        "ResourceClaim",
        "c",
        "default",
        spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fpga"}}]}},
        status={"allocation": {"devices": {"results": results}}},
    )
    world = [FPGA, device_class, NODES, far_slice("x", "y"), claim]
    found = plan(*world, [asking(f"p{i}", classes={"fpga": 1}, created=i) for i in range(2)])
    assert [devices for _, devices in granted(found).values()] == [["y"]]


def test_a_gang_spread_over_nodes_is_not_promised_one_device_twice() -> None:
    group = made("PodGroup", "g", "default", spec={"minMember": 2, "queue": "default"})
    members = [asking(f"g{i}", group="g", classes={"fpga": 1}, cpu=40) for i in range(2)]
    assert bound(plan(FPGA, NODES, far_slice("x"), group, members)) == {}
    both = plan(FPGA, NODES, far_slice("x", "y"), group, members)
    assert sorted(device for _, devices in granted(both).values() for device in devices) == ["x", "y"]


def test_shares_count_it_once() -> None:
    pods = [asking(f"{q}{i}", queue=q, classes={"fpga": 1}, created=i) for q in ("q1", "q2") for i in range(2)]
    found = plan(FPGA, NODES, far_slice("x", "y"), queue("q1"), queue("q2"), pods)
    assert sorted(bound(found)) == ["q10", "q20"]
    deserved = {s.name: s.deserved.get("devices.fairway.dev/fpga") for s in found.queues}
    assert (deserved["q1"], deserved["q2"]) == ("1", "1")


def test_a_pod_on_a_node_that_is_to_lose_its_devices_is_evicted_for_them() -> None:
    urgent = made("PriorityClass", "urgent", value=100)
    user = asking("user", node="n1", classes={"fpga": 1}, record={"fpga_x": 1})
    claimant = asking("p", classes={"fpga": 1}, spec={"priorityClassName": "urgent"})
    policy = make_policy(actions="enqueue, allocate, preempt", devices={}, drf={"priorityFirst": True})
    found = plan(FPGA, NODES, urgent, far_slice("x"), user, claimant, policy=policy)
    assert [eviction.pod for eviction in found.evictions] == ["default/user"]
    assert [(n.pod, n.node) for n in found.nominations] == [("default/p", "n1")]
    late = [asking(f"late{i}", classes={"fpga": 1}, created=9) for i in range(2)]
    both = [user, asking("other", node="n1", classes={"fpga": 1}, record={"fpga_y": 1})]
    crowd = plan(FPGA, NODES, urgent, far_slice("x", "y"), both, claimant, late, policy=policy)
    assert len(crowd.evictions) == 1
    assert bound(crowd) == {}


def test_nodes_come_and_go_and_change_what_they_reach() -> None:
    state = state_of(FPGA, NODES, far_slice("x", rack="a"))
    assert standings(state) == {"fpga": (1, 0)}
    state.apply(Deleted(NODES[0]))
    assert standings(state) == {"fpga": (1, 0)}
    state.apply(Upserted(rack("n2", "b")))
    assert standings(state) == {"fpga": (0, 0)}
    state.apply(Upserted(rack("n3", "a")))
    assert standings(state) == {"fpga": (1, 0)}
    state.apply(Deleted(far_slice("x", rack="a")))
    assert standings(state) == {"fpga": (0, 0)}
    check_ledger(state)


def test_a_node_with_new_devices_of_its_own_does_not_count_those_of_all_again() -> None:
    state = state_of(FPGA, NODES, far_slice("x"))
    assert standings(state) == {"fpga": (1, 0)}
    own = resource_slice("own", "n2", fpga("own"))
    state.apply(Upserted(own))
    assert standings(state) == {"fpga": (2, 0)}
    check_ledger(state)


def test_counters_are_shared_by_all_nodes_that_reach_their_devices() -> None:
    uses = [{"counterSet": "set", "counters": {"slices": {"value": "1"}}}]
    shared = [{"name": "set", "counters": {"slices": {"value": "1"}}}]
    everywhere = [fpga(name, allNodes=True, consumesCounters=uses) for name in ("x", "y")]
    pods = [asking(f"p{i}", classes={"fpga": 1}, cpu=40, created=i) for i in range(2)]
    found = plan(FPGA, NODES, far_slice(devices=everywhere, sharedCounters=shared), pods)
    assert granted(found) == {"p0": ("n1", ["x"])}


@pytest.mark.parametrize("strategy", ["first-fit", "spread", "least-loss"])
@settings(max_examples=examples(12))
@given(st.data())
def test_nothing_is_given_twice_whatever_comes(strategy: str, data: st.DataObject) -> None:
    """Cycle after cycle on one state, with pods that leave in between: the book stays what a new one would be."""
    policy = make_policy(devices={"strategy": [strategy]})
    any_device = kind_class("any", "fpga", "gpu")
    local = [resource_slice(f"s{n}", n, published("g", attributes={"kind": {"string": "gpu"}})) for n in ("n1", "n2")]
    far = far_slice(*"xyz"[: data.draw(st.integers(1, 3))], rack=data.draw(st.sampled_from(["", "a"])))
    state = state_of(FPGA, any_device, NODES, local, far)
    running: dict[str, tuple[ApiObject, list[str]]] = {}
    for cycle in range(3):
        for i in range(data.draw(st.integers(0, 4))):
            name = data.draw(st.sampled_from(["fpga", "any"]))
            amount = data.draw(st.integers(1, 2))
            cpu = data.draw(st.sampled_from([1, 40]))
            state.apply(Upserted(asking(f"p{cycle}-{i}", classes={name: amount}, cpu=cpu, created=cycle * 10 + i)))
        _carry_out(state, decided(state, policy), running)
        taken = [device for _, devices in running.values() for device in devices]
        assert len(taken) == len(set(taken))
        assert standings(state)["any"][1] == len(taken)
        check_ledger(state)
        for name in sorted(running):
            if data.draw(st.booleans()):
                state.apply(Deleted(running.pop(name)[0]))


def _carry_out(state: ClusterState, plan: Plan, running: dict[str, tuple[ApiObject, list[str]]]) -> None:
    for binding in plan.bindings:
        name = binding.pod.split("/")[1]
        amounts: dict[str, Any] = {}
        for choice in binding.devices:
            amounts[choice.class_] = amounts.get(choice.class_, 0) + choice.quantity
        bound_pod = asking(name, node=binding.node, classes=amounts, annotations=binding.annotations)
        state.apply(Upserted(bound_pod))
        where = [d.device if d.device in "xyz" else f"{binding.node}/{d.device}" for d in binding.devices]
        running[name] = (bound_pod, where)
