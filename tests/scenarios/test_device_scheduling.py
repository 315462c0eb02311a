"""Scheduling by class: what is placed where, with which devices, and why the rest waits."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.api.policy import Policy
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import Deleted, Upserted
from support.devices import (
    DRIVER,
    PREFIX,
    asking,
    device_node,
    gpu,
    held,
    kind_class,
    memory_class,
    published,
    resource_class,
    resource_slice,
    standings,
    term,
)
from support.engine import bound, carry_out_bindings, decided, order, reasons, state_of, waiting
from support.engine import policy as make_policy
from support.objects import gang, made, pod, queue

ANY = kind_class("any", "nvidia-gpu")
HIGH = memory_class("high", "30G")


def policy(**arguments: Any) -> Policy:
    return make_policy(**{"devices": {}, **arguments})


def plan(*objects: Any, policy_: Policy | None = None) -> ExplainedPlan:
    return decided(state_of(*objects), policy_ or policy())


def given(plan: Plan) -> dict[str, list[tuple[str, str, float]]]:
    return {
        binding.pod.removeprefix("default/"): [(d.class_, d.device, d.quantity) for d in binding.devices]
        for binding in plan.bindings
    }


def classes(plan: ExplainedPlan) -> dict[str, tuple[float, float]]:
    return {found.name: (found.allocatable, found.requested) for found in plan.resource_classes}


# -- the prototype's faults ------------------------------------------------------------------------------


def test_one_unit_is_needed_and_two_groups_match_exactly_one_is_charged() -> None:
    found = plan(ANY, device_node("n1", gpu("a", 2), gpu("b", 2)), asking("p", classes={"any": 1}))
    assert given(found) == {"p": [("any", "a", 1)]}
    assert classes(found) == {"any": (4, 1)}


def test_two_containers_that_ask_for_one_each_get_two_units() -> None:
    each = {"resources": {"limits": {f"{PREFIX}any": "1"}}}
    two = pod("p", spec={"containers": [{"name": "a", **each}, {"name": "b", **each}]})
    assert given(plan(ANY, device_node("n1", gpu("a"), gpu("b"), gpu("c")), two)) == {
        "p": [("any", "a", 1), ("any", "b", 1)]
    }


def test_a_full_device_is_followed_by_the_next_and_never_over_committed() -> None:
    pods = [asking(f"p{i}", classes={"any": 2}) for i in range(4)]
    found = plan(ANY, device_node("n1", gpu("a", 3), gpu("b", 4)), pods)
    assert given(found) == {
        "p0": [("any", "a", 2)],
        "p1": [("any", "b", 2)],
        "p2": [("any", "b", 2)],
    }
    assert reasons(found) == {"p3": "DeviceUnavailable"}
    assert classes(found) == {"any": (7, 6)}


def test_a_node_without_devices_is_no_trouble() -> None:
    found = plan(ANY, device_node("bare"), device_node("n1", gpu("a")), asking("p", classes={"any": 1}))
    assert bound(found) == {"p": "n1"}


def test_a_dry_run_changes_nothing() -> None:
    state = state_of(ANY, device_node("n1", gpu("a", 2)), asking("p", classes={"any": 1}))
    before = standings(state), held(state)
    first = decided(state, policy())
    assert (standings(state), held(state)) == before
    assert decided(state, policy()).document() == first.document()


def test_an_nvlink_pair_and_its_members() -> None:
    pair = [gpu("g0"), gpu("g1"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])]
    world = [ANY, kind_class("pairs", "nvlink-pair"), device_node("n1", *pair)]
    taken = plan(*world, asking("a", classes={"pairs": 1}), asking("b", classes={"any": 1}))
    assert given(taken) == {"a": [("pairs", "pair", 1)]}
    assert reasons(taken) == {"b": "DeviceUnavailable"}
    member = plan(
        *world, asking("a", classes={"any": 1}), asking("b", classes={"pairs": 1}), asking("c", classes={"any": 1})
    )
    assert given(member) == {"a": [("any", "g0", 1)], "c": [("any", "g1", 1)]}
    assert reasons(member) == {"b": "DeviceUnavailable"}


# -- together --------------------------------------------------------------------------------------------


def test_a_pods_classes_are_served_together() -> None:
    node = device_node("n1", gpu("a", memory="32G"), gpu("b", memory="8G"))
    found = plan(ANY, HIGH, node, asking("p", classes={"any": 1, "high": 1}))
    assert given(found) == {"p": [("any", "b", 1), ("high", "a", 1)]}
    too_much = plan(ANY, HIGH, node, asking("p", classes={"any": 2, "high": 1}))
    assert reasons(too_much) == {"p": "DeviceUnavailable"}
    assert waiting(too_much)["p"].nodes == {"devices that cannot serve all of it together": 1}


def test_a_plain_request_and_a_class_request_lower_each_other() -> None:
    node = device_node("n1", gpu=3)
    world = [kind_class("gpus", "nvidia.com/gpu"), node]
    found = plan(
        *world, pod("a", gpu=1), asking("b", classes={"gpus": 1}), asking("c", classes={"gpus": 1}), pod("d", gpu=1)
    )
    assert order(found) == ["a", "b", "c"]
    assert reasons(found) == {"d": "InsufficientResources"}
    assert classes(found) == {"gpus": (3, 3)}
    assert found.bindings[1].annotations == {"scheduler.alpha.kubernetes.io/resClass_gpus_nvidia.com_x2fgpu": "1"}
    restarted = plan(
        *world,
        pod("a", gpu=1, node="n1"),
        asking("b", node="n1", classes={"gpus": 1}, record={"gpus_nvidia.com_x2fgpu": 1}),
        pod("d", gpu=2),
    )
    assert reasons(restarted) == {"d": "InsufficientResources"}


def test_fractions_share_a_device_and_never_exceed_it() -> None:
    node = device_node("n1", gpu("a", shareable=True), gpu("b", shareable=True))
    pods = [asking(f"p{i}", classes={"any": amount}) for i, amount in enumerate(["600m", "500m", "400m", "1"])]
    found = plan(ANY, node, pods)
    assert given(found) == {"p0": [("any", "a", 0.6)], "p1": [("any", "b", 0.5)], "p2": [("any", "a", 0.4)]}
    assert reasons(found) == {"p3": "DeviceUnavailable"}, "half a device is left, and it needs a whole one"
    assert classes(found) == {"any": (2, 1.5)}
    assert found.bindings[0].annotations == {"scheduler.alpha.kubernetes.io/resClass_any_a": "600m"}


def test_init_containers_leave_their_devices_to_the_others() -> None:
    def container(name: str, units: int) -> dict[str, Any]:
        return {"name": name, "resources": {"limits": {f"{PREFIX}any": str(units)}}}

    both = pod("p", spec={"containers": [container("main", 1)], "initContainers": [container("init", 2)]})
    assert given(plan(ANY, device_node("n1", gpu("a", 2)), both)) == {"p": [("any", "a", 2)]}


def test_a_gang_gets_devices_whole_or_not_at_all() -> None:
    world = [ANY, device_node("n1", gpu("a", 2)), device_node("n2", gpu("a"))]
    asked = {"cpu": 1, f"{PREFIX}any": 1}
    found = plan(*world, gang("big", members=4, created=1, **asked), gang("fits", members=3, created=2, **asked))
    assert sorted(given(found).values()) == [[("any", "a", 1)]] * 3
    assert {name.split("-")[0] for name in given(found)} == {"fits"}
    assert classes(found) == {"any": (3, 3)}


def test_overlapping_classes_on_many_nodes() -> None:
    """The small class is left for those that need it only where first-fit finds it so; nothing is given twice."""
    nodes = [device_node(f"n{i}", gpu("a", memory="8G"), gpu("b", memory="32G")) for i in range(3)]
    pods = [asking(f"any{i}", classes={"any": 1}) for i in range(3)] + [
        asking(f"high{i}", classes={"high": 1}) for i in range(4)
    ]
    found = plan(ANY, HIGH, *nodes, pods)
    taken = [(binding.node, d.device) for binding in found.bindings for d in binding.devices]
    assert len(taken) == len(set(taken)) == 6
    assert reasons(found) == {"high3": "DeviceUnavailable"}


# -- who may, and why not --------------------------------------------------------------------------------


def test_a_class_that_does_not_exist() -> None:
    found = plan(ANY, device_node("n1", gpu("a")), asking("p", classes={"gone": 1}))
    assert (waiting(found)["p"].reason, waiting(found)["p"].message) == (
        "ClassNotFound",
        "resource class gone does not exist",
    )


def test_a_namespace_that_may_not_ask() -> None:
    labs = kind_class("labs", "nvidia-gpu", allowedNamespaces={"matchLabels": {"team": "lab"}})
    spaces = [made("Namespace", "lab", metadata={"labels": {"team": "lab"}}), made("Namespace", "other")]
    found = plan(
        labs,
        spaces,
        device_node("n1", gpu("a", 4)),
        asking("p", "lab", classes={"labs": 1}),
        asking("q", "other", classes={"labs": 1}),
    )
    assert bound(found) == {"lab/p": "n1"}
    assert waiting(found)["other/q"].reason == "NamespaceNotAllowed"


def test_the_reasons_count_nodes_without_devices_and_nodes_whose_devices_are_in_use() -> None:
    user = asking("u", node="n1", classes={"any": 1}, record={"any_a": 1})
    found = plan(
        ANY, device_node("n1", gpu("a")), device_node("n2"), device_node("n3"), user, asking("p", classes={"any": 1})
    )
    assert waiting(found)["p"].reason == "DeviceUnavailable"
    assert waiting(found)["p"].nodes == {"no devices of class any": 2, "devices of class any in use": 1}


@pytest.mark.parametrize("name", ["x" * 60, "pod.alpha.kubernetes.io/opaque-int-resource-" + "y" * 40, "_x2f/é" * 30])
def test_a_device_whose_name_does_not_fit_a_key_is_recorded_by_its_hash_and_read_back(name: str) -> None:
    world = [ANY, device_node("n1", gpu(name, 2), gpu("z", 1, kind="other"))]
    found = plan(world, [asking(f"p{i}", classes={"any": 1}, created=i) for i in range(3)])
    assert given(found) == {"p0": [("any", name, 1)], "p1": [("any", name, 1)]}
    notes = found.bindings[0].annotations
    assert all(len(key.split("/")[1]) <= 63 for key in notes)
    assert f"any_{name}" in notes.values()
    restarted = state_of(world, asking("p0", node="n1", classes={"any": 1}, annotations=notes))
    assert held(restarted) == {f"n1/{name}": [("p0", 1)]}


def test_a_long_class_is_recorded_by_its_hash_too() -> None:
    name = "a" * 63
    world = [kind_class(name, "nvidia-gpu"), device_node("n1", gpu("d"))]
    (binding,) = plan(world, asking("p", classes={name: 1})).bindings
    restarted = state_of(world, asking("p", node="n1", classes={name: 1}, annotations=binding.annotations))
    assert held(restarted) == {"n1/d": [("p", 1)]}


def test_a_record_stays_readable_when_its_device_name_becomes_unique_or_stops_being_so() -> None:
    one, two = (resource_slice(f"s{i}", "n1", published("d"), pool=f"p{i}") for i in range(2))
    both = kind_class("any", DRIVER)
    user = asking("u", node="n1", classes={"any": 1}, record={"any_d": 1})
    assert held(state_of(both, device_node("n1"), one, two, user)) == {"n1/d": [("u", 1)]}
    again = asking("v", classes={"any": 1})
    assert given(plan(both, device_node("n1"), one, two, user, again)) == {"v": [("any", "p1.d", 1)]}
    long = asking("u", node="n1", classes={"any": 1}, record={"any_p0.d": 1})
    assert held(state_of(both, device_node("n1"), one, long)) == {"n1/d": [("u", 1)]}


def test_devices_of_one_name_and_pool_of_two_drivers_are_told_apart() -> None:
    slices = [resource_slice(f"s{i}", "n1", published("d"), pool="p", driver=f"d{i}.example.com") for i in range(2)]
    world = [kind_class("any", "d0.example.com", "d1.example.com"), device_node("n1"), slices]
    found = plan(world, [asking(f"p{i}", classes={"any": 1}, created=i) for i in range(3)])
    assert given(found) == {"p0": [("any", "d0.example.com/p.d", 1)], "p1": [("any", "d1.example.com/p.d", 1)]}
    notes = found.bindings[1].annotations
    user = asking("p1", node="n1", classes={"any": 1}, annotations=notes)
    assert given(plan(world, user, asking("q", classes={"any": 1}))) == {"q": [("any", "d0.example.com/p.d", 1)]}


def test_a_device_name_that_is_not_unique_is_recorded_with_its_pool() -> None:
    slices = [resource_slice(f"s{i}", "n1", published("d"), pool=f"p{i}") for i in range(2)]
    found = plan(kind_class("any", DRIVER), device_node("n1"), slices, asking("p", classes={"any": 1}))
    assert given(found) == {"p": [("any", "p0.d", 1)]}
    read_back = state_of(
        kind_class("any", DRIVER),
        device_node("n1"),
        slices,
        asking("p", node="n1", classes={"any": 1}, record={"any_p1.d": 1}),
    )
    assert held(read_back) == {"n1/d": [("p", 1)]}
    assert given(
        decided(
            state_of(
                kind_class("any", DRIVER),
                device_node("n1"),
                slices,
                asking("p", node="n1", classes={"any": 1}, record={"any_p0.d": 1}),
                asking("q", classes={"any": 1}),
            ),
            policy(),
        )
    ) == {"q": [("any", "p1.d", 1)]}


def test_without_the_plugin_no_pod_is_given_devices() -> None:
    found = plan(ANY, device_node("n1", gpu("a")), asking("p", classes={"any": 1}), policy_=make_policy())
    assert reasons(found) == {"p": "DeviceUnavailable"}


# -- over time -------------------------------------------------------------------------------------------


def test_what_was_chosen_stays_chosen_while_the_binding_is_on_its_way() -> None:
    pod = asking("p", classes={"any": 1})
    state = state_of(ANY, device_node("n1", gpu("a"), gpu("b")), pod)
    carry_out_bindings(state, [pod], decided(state, policy()))
    assert held(state) == {"n1/a": [("p", 1)]}
    state.apply(Upserted(asking("q", classes={"any": 1})))
    assert given(decided(state, policy())) == {"q": [("any", "b", 1)]}


def test_a_class_that_comes_late_and_goes_again() -> None:
    state = state_of(device_node("n1", gpu("a")), asking("p", classes={"any": 1}))
    assert reasons(decided(state, policy())) == {"p": "ClassNotFound"}
    state.apply(Upserted(ANY))
    assert given(decided(state, policy())) == {"p": [("any", "a", 1)]}
    state.apply(Deleted(ANY))
    assert reasons(decided(state, policy())) == {"p": "ClassNotFound"}


def test_a_device_that_appears_on_a_slice_is_used_in_the_next_cycle() -> None:
    state = state_of(kind_class("any", DRIVER), device_node("n1"), asking("p", classes={"any": 1}))
    assert reasons(decided(state, policy())) == {"p": "DeviceUnavailable"}
    state.apply(Upserted(resource_slice("s", "n1", published("d"))))
    assert given(decided(state, policy())) == {"p": [("any", "d", 1)]}


# -- queues and shares -----------------------------------------------------------------------------------


def test_a_queues_capability_counts_by_the_class_that_was_asked_for() -> None:
    world = [ANY, HIGH, device_node("n1", gpu("a", 8, memory="32G")), queue("q", capability={f"{PREFIX}high": 2})]
    pods = [asking(f"h{i}", queue="q", classes={"high": 1}) for i in range(3)] + [
        asking("any", queue="q", classes={"any": 4})
    ]
    found = plan(*world, pods)
    assert sorted(bound(found)) == ["any", "h0", "h1"]
    assert reasons(found) == {"h2": "QueueCapability"}


def test_who_is_over_its_queues_capability_waits_for_that_though_there_is_no_device_either() -> None:
    world = [HIGH, device_node("n1", gpu("a", 1, memory="32G")), queue("q", capability={f"{PREFIX}high": 1})]
    found = plan(*world, asking("two", queue="q", classes={"high": 2}), asking("other", classes={"high": 2}))
    assert reasons(found) == {"two": "QueueCapability", "other": "DeviceUnavailable"}


def test_namespaces_share_devices_by_kind_whatever_class_they_ask_by() -> None:
    node = device_node("n1", gpu("a", 4, memory="32G"))
    pods = [asking(f"p{i}", "one", classes={"any": 1}, created=i) for i in range(4)]
    pods += [asking(f"p{i}", "two", classes={"high": 1}, created=i) for i in range(4)]
    found = plan(ANY, HIGH, node, pods)
    assert [key.split("/")[0] for key in order(found)] == ["one", "two", "one", "two"]
    shares = {standing.namespace: standing.share for standing in found.namespaces}
    assert shares == {"one": 0.5, "two": 0.5}


def test_queues_divide_the_devices_of_a_class() -> None:
    node = device_node("n1", gpu("a", 4, memory="32G"))
    pods = [
        asking(f"{name}-{i}", queue=name, classes={"any" if name == "q1" else "high": 1})
        for name in ("q1", "q2")
        for i in range(4)
    ]
    found = plan(ANY, HIGH, node, queue("q1"), queue("q2"), pods)
    assert sorted(bound(found)) == ["q1-0", "q1-1", "q2-0", "q2-1"]
    assert {standing.name: standing.share for standing in found.queues} == {"default": 0.0, "q1": 1.0, "q2": 1.0}


# -- victims ---------------------------------------------------------------------------------------------


def test_a_claimant_for_a_device_evicts_the_pod_that_holds_one_it_could_take() -> None:
    priority = [made("PriorityClass", "high-priority", value=100)]
    node = device_node("n1", gpu("a", memory="8G"), gpu("b", memory="32G"))
    running = [
        asking("small", node="n1", classes={"any": 1}, record={"any_a": 1}),
        asking("large", node="n1", classes={"any": 1}, record={"any_b": 1}),
    ]
    claimant = asking("p", classes={"high": 1}, spec={"priorityClassName": "high-priority"})
    found = plan(ANY, HIGH, priority, node, running, claimant, policy_=policy_with("enqueue, allocate, preempt"))
    assert [eviction.pod for eviction in found.evictions] == ["default/large"]
    assert [nomination.pod for nomination in found.nominations] == ["default/p"]


def policy_with(actions: str) -> Policy:
    return make_policy(actions=actions, devices={}, drf={"priorityFirst": True})


# -- strategies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "device"), [("first-fit", "a"), ("pack", "b"), ("spread", "c")])
def test_the_policy_chooses_the_strategy(strategy: str, device: str) -> None:
    node = device_node("n1", gpu("a", 4), gpu("b", 2), gpu("c", 8))
    found = plan(ANY, node, asking("p", classes={"any": 1}), policy_=policy(devices={"strategy": [strategy]}))
    assert given(found) == {"p": [("any", device, 1)]}


def test_a_class_has_a_default_strategy_and_a_pod_overrides_it() -> None:
    node = device_node("n1", gpu("a", 4), gpu("b", 2), gpu("c", 8))
    packed = kind_class("any", "nvidia-gpu", strategy=["pack"])
    assert given(plan(packed, node, asking("p", classes={"any": 1}))) == {"p": [("any", "b", 1)]}
    own = asking("p", classes={"any": 1}, annotations={"fairway.dev/device-strategy": "spread"})
    assert given(plan(packed, node, own)) == {"p": [("any", "c", 1)]}


def test_least_loss_keeps_the_devices_that_others_ask_for() -> None:
    node = device_node("n1", gpu("a", memory="32G"), gpu("b", memory="8G"))
    pods = [asking("first", classes={"any": 1}, created=1), asking("second", classes={"high": 1}, created=2)]
    assert reasons(plan(ANY, HIGH, node, pods)) == {"second": "DeviceUnavailable"}
    found = plan(ANY, HIGH, node, pods, policy_=policy(devices={"strategy": ["least-loss"]}))
    assert given(found) == {"first": [("any", "b", 1)], "second": [("high", "a", 1)]}


def test_the_nested_class_of_the_proposal_takes_the_members_along() -> None:
    cores = [gpu(f"core{i}", kind="core") for i in range(4)]
    groups = [gpu(f"numa{i}", kind="numa", members=[f"core{2 * i}", f"core{2 * i + 1}"]) for i in range(2)]
    nested = resource_class(
        "numa-node", term(("Kind", "In", ["numa"])), includes=[{"class": "single-core", "count": 2}]
    )
    world = [kind_class("single-core", "core"), nested, device_node("n1", *cores, *groups)]
    found = plan(
        *world,
        asking("a", classes={"numa-node": 1}),
        asking("b", classes={"single-core": 2}),
        asking("c", classes={"single-core": 1}),
    )
    assert given(found) == {
        "a": [("numa-node", "numa0", 1)],
        "b": [("single-core", "core2", 1), ("single-core", "core3", 1)],
    }
    assert reasons(found) == {"c": "DeviceUnavailable"}
