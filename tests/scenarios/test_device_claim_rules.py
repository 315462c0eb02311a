"""Rules of Kubernetes for claims that are easy to get nearly right: lists, partitions, pools, limits, counters."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.api.kinds import ApiObject
from fairway.devices.track.ledger import check_ledger, device_ledger
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import Deleted, Upserted
from support.claims import allocated, claim, claiming, device_class, exactly, gpu, template
from support.devices import DRIVER, asking, device_node, kind_class, resource_slice, standings
from support.engine import bound, decided, reasons, state_of, waiting
from support.engine import policy as make_policy
from support.objects import made

POLICY = make_policy(devices={})
ROOTS = f"{DRIVER}/roots"


def plan(*objects: Any) -> ExplainedPlan:
    state = state_of(device_class(), *objects)
    found = decided(state, POLICY)
    check_ledger(state)
    return found


def given(found: Plan) -> dict[str, list[str]]:
    return {b.pod.removeprefix("default/"): [d.device for d in b.devices] for b in found.bindings}


def on_node(*devices: dict[str, Any], **rest: Any) -> list[ApiObject]:
    return [device_node("n1"), resource_slice("s1", "n1", *devices, **rest)]


def rooted(name: str, *roots: str, **rest: Any) -> dict[str, Any]:
    return gpu(name, roots={"strings": list(roots)}, **rest)


# -- list attributes ---------------------------------------------------------------------------------------


def pair(rule: str, count: int = 2) -> list[ApiObject]:
    return [claim("c", exactly(count=count), constraints=[{rule: ROOTS}]), claiming("p", "c")]


def test_devices_match_whose_lists_have_a_value_in_common() -> None:
    devices = [rooted("a", "r1", "r2"), rooted("b", "r3"), rooted("c", "r2", "r3")]
    assert given(plan(on_node(*devices), pair("matchAttribute"))) == {"p": ["a", "c"]}


def test_one_value_has_to_be_common_to_all_of_them_not_one_to_each_pair() -> None:
    devices = [rooted("a", "r1", "r2"), rooted("b", "r2", "r3"), rooted("c", "r3", "r1")]
    assert reasons(plan(on_node(*devices), pair("matchAttribute", 3))) == {"p": "DeviceUnavailable"}


def test_a_single_value_matches_a_list_that_has_it() -> None:
    devices = [gpu("a", roots="r1"), rooted("b", "r2", "r1"), gpu("c", roots={"int": 1})]
    assert given(plan(on_node(*devices), pair("matchAttribute"))) == {"p": ["a", "b"]}


def test_values_of_different_types_never_match() -> None:
    devices = [gpu("a", roots="1"), gpu("b", roots={"ints": [1]}), gpu("c", roots={"versions": ["1.0.0"]})]
    assert reasons(plan(on_node(*devices), pair("matchAttribute"))) == {"p": "DeviceUnavailable"}
    assert given(plan(on_node(*devices), pair("distinctAttribute", 3))) == {"p": ["a", "b", "c"]}


def test_distinct_lists_have_no_value_in_common_at_all() -> None:
    devices = [rooted("a", "r1", "r2"), rooted("b", "r2", "r3"), rooted("c", "r3"), rooted("d", "r4")]
    assert given(plan(on_node(*devices), pair("distinctAttribute"))) == {"p": ["a", "c"]}
    assert given(plan(on_node(*devices), pair("distinctAttribute", 3))) == {"p": ["a", "c", "d"]}
    assert reasons(plan(on_node(*devices), pair("distinctAttribute", 4))) == {"p": "DeviceUnavailable"}


def test_a_device_without_the_attribute_is_not_taken_by_either_rule() -> None:
    devices = [gpu("a"), gpu("b"), rooted("c", "r1"), rooted("d", "r1")]
    assert given(plan(on_node(*devices), pair("matchAttribute"))) == {"p": ["c", "d"]}
    assert reasons(plan(on_node(*devices), pair("distinctAttribute"))) == {"p": "DeviceUnavailable"}


def test_a_capacity_of_that_name_is_not_the_attribute() -> None:
    same = claim("c", exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/memory"}])
    assert reasons(plan(on_node(gpu("a"), gpu("b")), same, claiming("p", "c"))) == {"p": "DeviceUnavailable"}


# -- partitions and their compatibility groups -------------------------------------------------------------


def partition(name: str, *groups: str, slices: int = 1, board: str = "board") -> dict[str, Any]:
    use = {"counterSet": board, "counters": {"slices": {"value": str(slices)}}, "compatibilityGroups": list(groups)}
    return {**gpu(name), "consumesCounters": [use]}


BOARD = {"board": {"slices": 8}}


def test_partitions_of_one_board_have_a_group_in_common() -> None:
    devices = [partition("a", "mig"), partition("b", "vgpu"), partition("c", "mig", "vgpu")]
    assert given(plan(on_node(*devices, counters=BOARD), claim("c", exactly(count=2)), claiming("p", "c"))) == {
        "p": ["a", "c"]
    }
    three = claim("c", exactly(count=3))
    assert reasons(plan(on_node(*devices, counters=BOARD), three, claiming("p", "c"))) == {"p": "DeviceUnavailable"}


def test_a_partition_without_groups_goes_only_with_others_without() -> None:
    devices = [partition("a"), partition("b", "mig"), partition("c")]
    two = [claim("c", exactly(count=2)), claiming("p", "c")]
    assert given(plan(on_node(*devices, counters=BOARD), two)) == {"p": ["a", "c"]}


def test_boards_are_judged_apart() -> None:
    devices = [partition("a", "mig"), partition("b", "vgpu", board="other")]
    counters = {**BOARD, "other": {"slices": 8}}
    two = [claim("c", exactly(count=2)), claiming("p", "c")]
    assert given(plan(on_node(*devices, counters=counters), two)) == {"p": ["a", "b"]}


def test_what_is_allocated_already_decides_for_those_that_come_later() -> None:
    devices = [partition("a", "mig"), partition("b", "vgpu"), partition("c", "mig")]
    taken = claim("held", exactly(), status=allocated("held", "n1", "a"))
    later = [template("t", exactly()), [claiming(f"p{i}", template="t", created=i) for i in range(2)]]
    found = plan(on_node(*devices, counters=BOARD), taken, later)
    assert given(found) == {"p0": ["c"]}
    assert reasons(found) == {"p1": "DeviceUnavailable"}


def test_a_board_is_free_for_another_group_when_its_last_partition_is_given_back() -> None:
    devices = [partition("a", "mig"), partition("b", "vgpu", slices=0)]
    taken = claim("held", exactly(), status=allocated("held", "n1", "a"))
    b_only = exactly(selectors=['device.attributes["gpu.example.com"].mode == "vgpu"'])
    devices[1]["attributes"]["mode"] = {"string": "vgpu"}
    state = state_of(device_class(), on_node(*devices, counters=BOARD), taken, claim("c", b_only), claiming("p", "c"))
    assert reasons(decided(state, POLICY)) == {"p": "DeviceUnavailable"}
    state.apply(Deleted(taken))
    assert given(decided(state, POLICY)) == {"p": ["b"]}


def test_asking_by_class_honours_groups_too() -> None:
    devices = [partition("a", "mig"), partition("b", "vgpu"), partition("c", "mig")]
    pods = [asking(f"p{i}", classes={"any": 1}, created=i) for i in range(3)]
    found = plan(kind_class("any", "gpu"), on_node(*devices, counters=BOARD), pods)
    assert given(found) == {"p0": ["a"], "p1": ["c"]}


def kinded(name: str, kind: str, slices: int, *groups: str) -> dict[str, Any]:
    return {**partition(name, *groups, slices=slices), "attributes": {"kind": {"string": kind}}}


PREEMPT = make_policy(actions="enqueue, allocate, preempt", devices={}, drf={"priorityFirst": True})


@pytest.mark.parametrize(
    "devices",
    [
        [kinded("whole", "whole", 7), kinded("b", "half", 4), kinded("c", "half", 3)],
        [kinded("whole", "whole", 1, "x"), kinded("b", "half", 1, "y"), kinded("c", "half", 1, "y")],
    ],
)
@pytest.mark.parametrize("users", [1, 2])
def test_pods_whose_partitions_are_in_the_way_are_evicted_for_the_whole(
    devices: list[dict[str, Any]], users: int
) -> None:
    """By counters, and by compatibility groups: none of them holds a device of the class that is asked for."""
    classes = [kind_class("whole", "whole"), kind_class("half", "half")]
    held = [asking(f"u{d}", node="n1", classes={"half": 1}, record={f"half_{d}": 1}) for d in "bc"[:users]]
    urgent = [
        made("PriorityClass", "urgent", value=9),
        asking("p", classes={"whole": 1}, spec={"priorityClassName": "urgent"}),
    ]
    world = [classes, on_node(*devices, counters={"board": {"slices": 7}}), held, urgent]
    found = decided(state_of(*world), PREEMPT)
    assert sorted(eviction.pod for eviction in found.evictions) == [f"default/u{d}" for d in "bc"[:users]]
    assert [nomination.pod for nomination in found.nominations] == ["default/p"]


# -- pools that contradict themselves -------------------------------------------------------------------------


def test_a_pool_with_a_device_name_twice_is_not_used_and_says_so() -> None:
    slices = [
        resource_slice("s1", "n1", gpu("a"), pool="bad", count=2),
        resource_slice("s2", "n1", gpu("a"), pool="bad", count=2),
        resource_slice("s3", "n1", gpu("z"), pool="good"),
    ]
    pods = [claiming(f"p{i}", template="t", created=i) for i in range(2)]
    found = plan(kind_class("any", "gpu"), device_node("n1"), slices, template("t", exactly()), pods)
    assert given(found) == {"p0": ["z"]}
    assert any("pool bad" in text and "'a'" in text and "not used" in text for text in found.warnings)
    assert [(c.allocatable, c.requested) for c in found.resource_classes] == [(1, 1)]


def test_a_pool_is_used_again_when_the_second_of_the_name_is_gone() -> None:
    twice = resource_slice("s2", "n1", gpu("a"), pool="n1", count=1)
    state = state_of(kind_class("any", "gpu"), on_node(gpu("a")), twice)
    assert standings(state) == {"any": (0, 0)}
    state.apply(Deleted(twice))
    assert standings(state) == {"any": (1, 0)}
    check_ledger(state)


@pytest.mark.parametrize(
    ("devices", "counters", "text"),
    [
        ([partition("a", board="gone"), gpu("b")], BOARD, "counter set 'gone'"),
        ([partition("a"), gpu("b")], {"board": {"other": 1}}, "counter 'slices'"),
    ],
)
def test_a_pool_whose_devices_take_counters_that_it_does_not_have_is_not_used(
    devices: list[dict[str, Any]], counters: dict[str, Any], text: str
) -> None:
    found = plan(on_node(*devices, counters=counters), claim("c", exactly()), claiming("p", "c"))
    assert reasons(found) == {"p": "DeviceUnavailable"}
    assert any(text in warning for warning in found.warnings)


def test_a_counter_set_published_twice_is_not_used() -> None:
    slices = [resource_slice(f"s{i}", "n1", pool="n1", count=3, counters=BOARD) for i in range(2)]
    slices.append(resource_slice("s9", "n1", partition("a"), pool="n1", count=3))
    found = plan(device_node("n1"), slices, claim("c", exactly()), claiming("p", "c"))
    assert reasons(found) == {"p": "DeviceUnavailable"}
    assert any("counter set 'board'" in warning for warning in found.warnings)


# -- All ---------------------------------------------------------------------------------------------------


EVERYTHING = exactly(allocationMode="All")


def test_all_means_all_that_have_the_capacity_asked_for() -> None:
    some = exactly(allocationMode="All", capacity={"requests": {"memory": "60Gi"}})
    devices = [gpu("a", "40Gi"), gpu("b", "80Gi"), gpu("c", "80Gi")]
    assert given(plan(on_node(*devices), claim("c", some), claiming("p", "c"))) == {"p": ["b", "c"]}
    assert reasons(plan(on_node(devices[0]), claim("c", some), claiming("p", "c"))) == {"p": "DeviceUnavailable"}


def test_all_leaves_out_shared_devices_with_too_little_left() -> None:
    shared = [{**gpu(name, "40Gi"), "allowMultipleAllocations": True} for name in ("a", "b")]
    part = exactly(allocationMode="All", capacity={"requests": {"memory": "30Gi"}})
    status = allocated("held", "n1", "a")
    status["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"memory": "20Gi"}
    held = claim("held", exactly(), status=status)
    assert given(plan(on_node(*shared), held, claim("c", part), claiming("p", "c"))) == {"p": ["b"]}


def test_all_is_not_known_while_a_pool_of_the_node_is_incomplete_or_wrong() -> None:
    half = resource_slice("s2", "n1", gpu("z"), pool="half", count=2)
    wrong = [resource_slice(f"s3{i}", "n1", gpu("z"), pool="wrong", count=2) for i in range(2)]
    elsewhere = [device_node("n2"), resource_slice("s4", "n2", gpu("z"), pool="half", count=2)]
    for bad in (half, wrong):
        found = plan(on_node(gpu("a")), bad, claim("c", EVERYTHING), claiming("p", "c"))
        assert reasons(found) == {"p": "DeviceUnavailable"}
        found = plan(on_node(gpu("a")), bad, claim("c", exactly()), claiming("p", "c"))
        assert given(found) == {"p": ["a"]}, "one device of another pool is no question"
    assert given(plan(on_node(gpu("a")), elsewhere, claim("c", EVERYTHING), claiming("p", "c"))) == {"p": ["a"]}


def test_a_request_takes_a_shared_device_once() -> None:
    shared = {**gpu("a", "40Gi"), "allowMultipleAllocations": True}
    two = exactly(count=2, capacity={"requests": {"memory": "10Gi"}})
    assert reasons(plan(on_node(shared), claim("c", two), claiming("p", "c"))) == {"p": "DeviceUnavailable"}
    one = {"capacity": {"requests": {"memory": "10Gi"}}}
    both = claim("c", exactly("r", **one), exactly("s", **one))
    assert given(plan(on_node(shared), both, claiming("p", "c"))) == {"p": ["a", "a"]}


# -- the most that a claim can have ------------------------------------------------------------------------


MANY = [gpu(f"d{i:02}") for i in range(40)]


@pytest.mark.parametrize(
    "requests",
    [
        [exactly(count=33)],
        [exactly("r", count=20), exactly("s", count=13)],
        [exactly(count=2**31 - 1)],
        [{"name": "r", "firstAvailable": [{"name": f"o{i}", "deviceClassName": "gpu", "count": 40} for i in range(2)]}],
    ],
)
def test_a_claim_of_more_than_32_devices_is_refused_and_others_are_not(requests: list[dict[str, Any]]) -> None:
    others = [template("t", exactly(count=32)), claiming("q", template="t")]
    found = plan(on_node(*MANY), claim("c", *requests), claiming("p", "c"), others)
    assert sorted(bound(found)) == ["q"]
    waits = waiting(found)["p"]
    assert waits.reason == "DeviceUnavailable"
    assert "at most 32" in waits.message
    assert "default/c" in waits.message


def test_an_alternative_that_is_small_enough_is_taken() -> None:
    options = [{"name": f"o{n}", "deviceClassName": "gpu", "count": n} for n in (33, 2)]
    found = plan(on_node(*MANY), claim("c", {"name": "r", "firstAvailable": options}), claiming("p", "c"))
    assert given(found) == {"p": ["d00", "d01"]}
    both = claim("c", {"name": "r", "firstAvailable": options[1:]}, exactly("s", count=31))
    assert reasons(plan(on_node(*MANY), both, claiming("p", "c"))) == {"p": "DeviceUnavailable"}


def test_all_of_more_than_32_is_refused() -> None:
    assert reasons(plan(on_node(*MANY), claim("c", EVERYTHING), claiming("p", "c"))) == {"p": "DeviceUnavailable"}
    assert len(given(plan(on_node(*MANY[:32]), claim("c", EVERYTHING), claiming("p", "c")))["p"]) == 32


def test_the_limit_is_per_claim_not_per_pod() -> None:
    entries = [{"name": name, "resourceClaimName": name} for name in ("a", "b")]
    both = [claim("a", exactly(count=20)), claim("b", exactly(count=20))]
    pod = claiming("p", "a", spec={"resourceClaims": entries})
    assert len(given(plan(on_node(*MANY), both, pod))["p"]) == 40


# -- amounts that are no amounts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("-40Gi", {"q0": ["a"]}), ("40Gi", {}), ("1e300", {}), ("much", {}), ("9223372036854775807Ei", {})],
)
def test_a_wrong_amount_in_an_allocation_never_becomes_capacity(amount: str, expected: dict[str, list[str]]) -> None:
    shared = {**gpu("a", "40Gi"), "allowMultipleAllocations": True}
    part = template("t", exactly(capacity={"requests": {"memory": "30Gi"}}))
    pods = [claiming(f"q{i}", template="t", created=1 + i) for i in range(2)]
    status = allocated("held", "n1", "a")
    status["allocation"]["devices"]["results"][0]["consumedCapacity"] = {"memory": amount}
    held = claim("held", exactly(), status=status)
    assert given(plan(on_node(shared), held, part, pods)) == expected


def test_a_negative_default_or_step_of_a_request_policy_never_becomes_capacity() -> None:
    policies: list[dict[str, Any]] = [
        {"default": "-30Gi"},
        {"default": "1Gi", "validRange": {"min": "1Gi", "step": "-8Gi", "max": "-1Gi"}},
    ]
    for policy in policies:
        shared = {**gpu("a"), "allowMultipleAllocations": True}
        shared["capacity"] = {"memory": {"value": "40Gi", "requestPolicy": policy}}
        plain, part = exactly(), exactly(capacity={"requests": {"memory": "30Gi"}})
        pods = [claiming("p", template="plain", created=0)]
        pods += [claiming(f"q{i}", template="part", created=1 + i) for i in range(3)]
        found = plan(on_node(shared), template("plain", plain), template("part", part), pods)
        assert sum(name.startswith("q") for name in given(found)) <= 1, policy


# -- counters that span nodes ------------------------------------------------------------------------------


def spanning(total: int, *uses: tuple[str, str, int], groups: tuple[str, ...] = ()) -> list[ApiObject]:
    """Devices (name, node, slices) of one pool whose counter is shared by all of them."""
    devices = [{**partition(name, *groups, slices=n), "nodeName": on} for name, on, n in uses]
    pool = {"name": "rack", "generation": 1, "resourceSliceCount": 2}
    shared = [{"name": "board", "counters": {"slices": {"value": str(total)}}}]
    spec = {"driver": DRIVER, "pool": pool}
    return [
        made("ResourceSlice", "counters", spec={**spec, "allNodes": True, "sharedCounters": shared}),
        made("ResourceSlice", "devices", spec={**spec, "perDeviceNodeSelection": True, "devices": devices}),
    ]


NODES = [device_node("n1"), device_node("n2"), device_node("n3")]
RACK = spanning(3, ("a", "n1", 2), ("b", "n1", 1), ("c", "n2", 2), ("d", "n2", 1))


def rows(found: Plan) -> dict[str, tuple[str, list[str]]]:
    return {b.pod.removeprefix("default/"): (b.node, [d.device for d in b.devices]) for b in found.bindings}


@pytest.mark.parametrize("by_class", [False, True])
def test_devices_of_different_nodes_share_counters_and_never_exceed_them(by_class: bool) -> None:
    world = [kind_class("any", "gpu"), NODES, RACK, template("t", exactly())]
    pods = [
        asking(f"p{i}", classes={"any": 1}, created=i) if by_class else claiming(f"p{i}", template="t", created=i)
        for i in range(3)
    ]
    found = plan(world, pods)
    assert rows(found) == {"p0": ("n1", ["a"]), "p1": ("n2", ["d"])}, "3 slices of 3 are taken"
    assert reasons(found) == {"p2": "DeviceUnavailable"}
    assert found.warnings == ()


def test_what_is_held_on_one_node_is_missing_on_the_other_and_comes_back() -> None:
    held = claim("held", exactly(), status=allocated("held", "rack", "a"))
    state = state_of(device_class(), kind_class("any", "gpu"), NODES, RACK, held)
    assert standings(state) == {"any": (4, 1)}
    two = [template("t", exactly(count=2)), claiming("p", template="t")]
    for thing in two:
        state.apply(Upserted(thing))
    assert reasons(decided(state, POLICY)) == {"p": "DeviceUnavailable"}
    state.apply(Deleted(held))
    assert rows(decided(state, POLICY)) == {"p": ("n1", ["a", "b"])}
    check_ledger(state)


def test_a_record_on_one_node_counts_on_the_other() -> None:
    user = asking("user", node="n2", classes={"any": 1}, record={"any_c": 1})
    state = state_of(kind_class("any", "gpu"), NODES, RACK, user, asking("p", classes={"any": 2}, created=1))
    assert standings(state) == {"any": (4, 1)}
    assert reasons(decided(state, POLICY)) == {"p": "DeviceUnavailable"}
    state.apply(Deleted(user))
    assert rows(decided(state, POLICY)) == {"p": ("n1", ["a", "b"])}
    check_ledger(state)


def test_compatibility_groups_reach_across_nodes() -> None:
    counters, _ = spanning(8)
    devices = [{**partition("a", "mig"), "nodeName": "n1"}, {**partition("b", "vgpu"), "nodeName": "n2"}]
    pool = {"name": "rack", "generation": 1, "resourceSliceCount": 2}
    spec = {"driver": DRIVER, "pool": pool, "perDeviceNodeSelection": True, "devices": devices}
    pods = [claiming(f"p{i}", template="t", created=i) for i in range(2)]
    found = plan(NODES, counters, made("ResourceSlice", "devices", spec=spec), template("t", exactly()), pods)
    assert rows(found) == {"p0": ("n1", ["a"])}


def test_a_node_that_goes_takes_its_devices_along_and_no_more() -> None:
    state = state_of(kind_class("any", "gpu"), NODES, RACK)
    state.apply(Deleted(NODES[0]))
    assert standings(state) == {"any": (2, 0)}
    state.apply(Upserted(NODES[0]))
    assert standings(state) == {"any": (4, 0)}
    check_ledger(state)
    assert device_ledger(state).warnings() == []
