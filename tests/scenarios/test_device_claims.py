"""Asking by ResourceClaim: what is claimed of which device, and where a pod with a claim may go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ApiObject
from fairway.api.meta import OwnerReference
from fairway.api.pods import PodClaimStatus
from fairway.devices.track.ledger import device_ledger
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import Deleted, Upserted
from support.claims import allocated, claim, claiming, device_class, exactly, gpu, template
from support.contention import acting
from support.devices import (
    DRIVER,
    asking,
    device_node,
    held,
    kind_class,
    published,
    resource_class,
    resource_slice,
    standings,
    term,
)
from support.engine import bound, decided, reasons, state_of, waiting
from support.engine import policy as make_policy
from support.objects import group, made, pod, queue

POLICY = make_policy(devices={})


def plan(*objects: Any) -> ExplainedPlan:
    return decided(state_of(device_class(), *objects), POLICY)


def given(plan: Plan) -> dict[str, list[tuple[str, str]]]:
    return {
        binding.pod.removeprefix("default/"): [(d.request, d.device) for d in binding.devices]
        for binding in plan.bindings
    }


NODE = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b", "80Gi"), gpu("c"))]


def test_a_claim_is_served_and_says_all_that_its_allocation_needs() -> None:
    found = plan(NODE, claim("c", exactly(count=2)), claiming("p", "c"))
    (binding,) = found.bindings
    assert msgspec.to_builtins(list(binding.devices)) == [
        {
            "class": "gpu",
            "device": name,
            "quantity": 1,
            "claim": "default/c",
            "request": "r",
            "driver": DRIVER,
            "pool": "n1",
        }
        for name in ("a", "b")
    ]
    assert binding.annotations == {}, "the allocation records it"


def test_pods_of_a_template_get_devices_of_their_own() -> None:
    found = plan(NODE, template("t", exactly()), [claiming(f"p{i}", template="t") for i in range(4)])
    assert given(found) == {"p0": [("r", "a")], "p1": [("r", "b")], "p2": [("r", "c")]}
    assert reasons(found) == {"p3": "DeviceUnavailable"}


@pytest.mark.parametrize(
    ("expression", "device"),
    [
        (f'device.capacity["{DRIVER}"].memory.compareTo(quantity("60Gi")) >= 0', "b"),
        (f'device.attributes["{DRIVER}"].kind == "gpu"', "a"),
        (f'device.driver == "{DRIVER}" && !("tape" in device.attributes["other.example.com"])', "a"),
        (f'device.attributes["{DRIVER}"].absent == 1', ""),
        (f'device.attributes["{DRIVER}"].kind == 3', ""),
    ],
)
def test_selectors_in_cel(expression: str, device: str) -> None:
    found = plan(NODE, claim("c", exactly(selectors=[expression])), claiming("p", "c"))
    assert given(found) == ({"p": [("r", device)]} if device else {})


def test_the_device_classs_own_selectors_count_too() -> None:
    large = device_class("large", f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("60Gi"))')
    found = plan(NODE, large, claim("c", exactly(device_class="large")), claiming("p", "c"))
    assert given(found) == {"p": [("r", "b")]}


@pytest.mark.parametrize(
    ("objects", "reason", "text"),
    [
        ([claim("c", exactly(device_class="gone"))], "ClassNotFound", "device class gone does not exist"),
        ([claim("c", exactly(selectors=["1 +"]))], "ClassNotFound", "does not compile"),
        ([], "DeviceUnavailable", "resource claim default/c does not exist"),
    ],
)
def test_what_is_not_there(objects: list[ApiObject], reason: str, text: str) -> None:
    found = waiting(plan(NODE, objects, claiming("p", "c")))["p"]
    assert found.reason == reason
    assert text in found.message


def test_a_resource_class_stands_in_for_a_device_class() -> None:
    found = plan(NODE, kind_class("by-kind", "gpu"), claim("c", exactly(device_class="by-kind")), claiming("p", "c"))
    assert given(found) == {"p": [("r", "a")]}


def test_first_available_takes_the_first_that_can_be_had() -> None:
    wanted = {
        "name": "r",
        "firstAvailable": [
            {"name": "many", "deviceClassName": "gpu", "count": 4},
            {"name": "two", "deviceClassName": "gpu", "count": 2},
        ],
    }
    found = plan(NODE, claim("c", wanted), claiming("p", "c"))
    assert given(found) == {"p": [("r/two", "a"), ("r/two", "b")]}


def test_all_devices_of_a_node() -> None:
    everything = claim("c", exactly(allocationMode="All"))
    assert given(plan(NODE, everything, claiming("p", "c"))) == {"p": [("r", "a"), ("r", "b"), ("r", "c")]}
    busy = claim("other", exactly(), status=allocated("other", "n1", "b"))
    assert reasons(plan(NODE, everything, busy, claiming("p", "c"))) == {"p": "DeviceUnavailable"}


def test_constraints_over_attributes() -> None:
    numa = [gpu("a", numa="0"), gpu("b", numa="1"), gpu("c", numa="1")]
    node = [device_node("n1"), resource_slice("s1", "n1", *numa)]
    requests = [exactly("x"), exactly("y")]
    same = claim("c", *requests, constraints=[{"matchAttribute": f"{DRIVER}/numa"}])
    assert given(plan(node, same, claiming("p", "c"))) == {"p": [("x", "b"), ("y", "c")]}
    apart = claim("c", *requests, constraints=[{"distinctAttribute": f"{DRIVER}/numa"}])
    assert given(plan(node, apart, claiming("p", "c"))) == {"p": [("x", "a"), ("y", "b")]}


def test_taints_keep_away_those_that_do_not_tolerate_them() -> None:
    tainted = {**gpu("a"), "taints": [{"key": "broken", "value": "fan", "effect": "NoExecute"}]}
    node = [device_node("n1"), resource_slice("s1", "n1", tainted)]
    assert reasons(plan(node, claim("c", exactly()), claiming("p", "c"))) == {"p": "DeviceUnavailable"}
    patient = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert given(plan(node, claim("c", patient), claiming("p", "c"))) == {"p": [("r", "a")]}


def test_an_allocated_claim_holds_its_devices_and_pins_its_pods() -> None:
    nodes = [NODE, device_node("n2"), resource_slice("s2", "n2", gpu("z"))]
    shared = claim("c", exactly(), status=allocated("c", "n1", "a"))
    found = plan(nodes, shared, claiming("p", "c"), claim("own", exactly(count=3)), claiming("q", "own"))
    assert bound(found) == {"p": "n1"}
    assert reasons(found) == {"q": "DeviceUnavailable"}
    assert held(state_of(device_class(), nodes, shared, claiming("p", "c"))) == {"n1/a": [("claim default/c", 1)]}


def test_pods_that_share_a_claim_follow_each_other() -> None:
    nodes = [NODE, device_node("n0"), device_node("n2"), resource_slice("s2", "n2", gpu("z"))]
    pods = [claiming(f"p{i}", "c", created=i) for i in range(3)]
    found = plan(nodes, claim("c", exactly()), pods)
    assert len(set(bound(found).values())) == 1
    assert sorted(map(len, given(found).values())) == [0, 0, 1], "the first allocates it, the others use it"


def test_shared_capacity_is_cut_as_claims_ask() -> None:
    shared = {**gpu("a", "40Gi"), "allowMultipleAllocations": True}
    node = [device_node("n1"), resource_slice("s1", "n1", shared)]
    part = {"capacity": {"requests": {"memory": "15Gi"}}}
    pods = [claiming(f"p{i}", template="t") for i in range(3)]
    found = plan(node, template("t", exactly(**part)), pods)
    assert given(found) == {"p0": [("r", "a")], "p1": [("r", "a")]}
    assert reasons(found) == {"p2": "DeviceUnavailable"}
    assert found.bindings[0].devices[0].consumed == {f"{DRIVER}/memory": "15Gi"}


def test_partitions_never_use_more_than_their_board_has() -> None:
    def partition(name: str, slices: int) -> dict[str, Any]:
        counters = {"slices": {"value": str(slices)}}
        return {**gpu(name), "consumesCounters": [{"counterSet": "board", "counters": counters}]}

    devices = [partition("a-whole", 7), partition("b-half", 4), partition("c-half", 3), partition("d-half", 3)]
    node = [device_node("n1"), resource_slice("s1", "n1", *devices, counters={"board": {"slices": 7}})]
    assert given(plan(node, claim("c", exactly(count=2)), claiming("p", "c"))) == {
        "p": [("r", "b-half"), ("r", "c-half")]
    }
    assert reasons(plan(node, claim("c", exactly(count=3)), claiming("p", "c"))) == {"p": "DeviceUnavailable"}
    first = plan(node, claim("c", exactly()), claiming("p", "c"), claim("d", exactly()), claiming("q", "d"))
    assert given(first) == {"p": [("r", "a-whole")]}


def test_a_claim_and_a_class_never_get_the_same_device() -> None:
    node = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b"))]
    world = [kind_class("any", "gpu"), node, claim("c", exactly())]
    found = plan(
        world,
        claiming("p", "c", created=1),
        asking("q", classes={"any": 1}, created=2),
        asking("r", classes={"any": 1}, created=3),
    )
    assert given(found) == {"p": [("r", "a")], "q": [("", "b")]}
    assert reasons(found) == {"r": "DeviceUnavailable"}
    assert [(c.allocatable, c.requested) for c in found.resource_classes] == [(2, 2)]


def test_a_claim_that_is_allocated_later_is_seen() -> None:
    state = state_of(device_class(), kind_class("any", "gpu"), NODE, claim("c", exactly()), claiming("p", "c"))
    assert given(decided(state, POLICY)) == {"p": [("r", "a")]}
    state.apply(Upserted(claim("c", exactly(), status=allocated("c", "n1", "b"))))
    assert standings(state) == {"any": (3, 1)}
    found = decided(state, POLICY)
    assert (bound(found), given(found)) == ({"p": "n1"}, {"p": []})
    gone = msgspec.structs.replace(claim("c", exactly()), status=ResourceClaim().status)
    state.apply(Upserted(gone))
    assert standings(state) == {"any": (3, 0)}


# -- alternatives: what was taken is what counts --------------------------------------------------------


SMALL_FIRST = {
    "name": "r",
    "firstAvailable": [
        {"name": "small", "deviceClassName": "small"},
        {"name": "big", "deviceClassName": "big"},
    ],
}
SIZES = [
    device_class("small", f'device.capacity["{DRIVER}"].memory.isLessThan(quantity("60Gi"))'),
    device_class("big", f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("60Gi"))'),
]
ONE_OF_EACH = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b", "80Gi"), gpu("c", "80Gi"))]


def test_the_binding_names_the_class_of_the_alternative_that_was_taken() -> None:
    found = plan(ONE_OF_EACH, SIZES, template("t", SMALL_FIRST), [claiming(f"p{i}", template="t") for i in range(2)])
    chosen = [(d.class_, d.request, d.device) for binding in found.bindings for d in binding.devices]
    assert chosen == [("small", "r/small", "a"), ("big", "r/big", "b")]


def test_a_restart_knows_which_alternative_a_claim_has() -> None:
    taken = claim("c", SMALL_FIRST, status=allocated("c", "n1", "b", request="r/big"))
    state = state_of(SIZES, ONE_OF_EACH, taken, claiming("p", "c", node="n1"))
    (allocation,) = device_ledger(state).nodes[0].allocations
    assert (allocation.holder, allocation.label, allocation.claim, allocation.request) == (
        "default/p",
        "big",
        "default/c",
        "r/big",
    )


def test_capability_counts_what_claims_hold_by_the_class_that_was_taken() -> None:
    limited = queue("q", capability={"resourceclass.fairway.dev/big": 1})
    holder = claim("held", SMALL_FIRST, status=allocated("held", "n1", "b", request="r/big"))
    running = claiming("running", "held", node="n1", queue="q")
    world = [ONE_OF_EACH, SIZES, template("t", exactly(device_class="big")), claiming("p", template="t", queue="q")]
    assert sorted(bound(plan(world, limited))) == ["p"]
    assert reasons(plan(world, limited, holder, running)) == {"p": "QueueCapability"}
    as_small = claim("held", SMALL_FIRST, status=allocated("held", "n1", "a", request="r/small"))
    assert sorted(bound(plan(world, limited, as_small, running))) == ["p"]


def test_capability_limits_claims_within_one_plan() -> None:
    limited = queue("q", capability={"resourceclass.fairway.dev/gpu": 2})
    pods = [claiming(f"p{i}", template="t", queue="q") for i in range(3)]
    found = plan(NODE, template("t", exactly()), limited, pods)
    assert sorted(bound(found)) == ["p0", "p1"]
    assert reasons(found) == {"p2": "QueueCapability"}


def test_a_queue_that_claims_devices_deserves_some_of_their_kind() -> None:
    pods = [claiming(f"{name}{i}", template="t", queue=name) for name in ("q1", "q2") for i in range(2)]
    node = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b"))]
    found = plan(node, template("t", exactly()), queue("q1"), queue("q2"), pods)
    assert sorted(bound(found)) == ["q10", "q20"]
    deserved = {standing.name: standing.deserved.get("devices.fairway.dev/gpu") for standing in found.queues}
    assert (deserved["q1"], deserved["q2"]) == ("1", "1")


def test_rules_of_a_claim_hold_though_another_of_the_pods_claims_is_allocated_meanwhile() -> None:
    far = [gpu("a", root="1"), gpu("b", root="2"), gpu("c", root="3")]
    shared = claim("shared", exactly())
    pair = claim("pair", exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    both = [{"name": name, "resourceClaimName": name} for name in ("shared", "pair")]
    second = pod("second", cpu=1, created=2, spec={"resourceClaims": both})
    found = plan(device_node("n1"), resource_slice("s", "n1", *far), shared, pair, claiming("first", "shared"), second)
    assert given(found) == {"first": [("r", "a")]}
    assert reasons(found) == {"second": "DeviceUnavailable"}


def test_a_pod_that_runs_with_an_unallocated_claim_is_taken_to_have_the_first_devices_that_serve_it() -> None:
    state = state_of(device_class(), NODE, template("t", exactly(count=2)), claiming("p", template="t", node="n1"))
    assert held(state) == {"n1/a": [("p", 1)], "n1/b": [("p", 1)]}
    shared = [claim("c", exactly()), claiming("p", "c", node="n1"), claiming("q", "c", node="n1")]
    assert held(state_of(device_class(), NODE, shared)) == {"n1/a": [("p", 1)]}


def test_a_claim_may_have_two_parts_of_one_device() -> None:
    parts = [
        {
            "request": name,
            "driver": DRIVER,
            "pool": "n1",
            "device": "a",
            "shareID": name,
            "consumedCapacity": {"memory": size},
        }
        for name, size in (("r", "10Gi"), ("s", "20Gi"))
    ]
    taken = claim("c", exactly("r"), exactly("s"), status={"allocation": {"devices": {"results": parts}}})
    big = published("a", capacity={"memory": {"value": "40Gi"}}, allowMultipleAllocations=True)
    state = state_of(device_class(), device_node("n1"), resource_slice("s", "n1", big), taken, claim("d", exactly()))
    (share,) = device_ledger(state).nodes[0].free.shares.values()
    assert share.capacity == (30 * 2**30 * 10**9,)
    state.apply(Deleted(taken))
    assert device_ledger(state).nodes[0].free.shares == {}


# -- claims among those that wait and those that hold ------------------------------------------------------


URGENT = [made("PriorityClass", "urgent", value=100)]
PREEMPT = make_policy(actions="enqueue, allocate, preempt", devices={}, drf={"priorityFirst": True})
TWO_KINDS = [device_node("n1"), resource_slice("s1", "n1", gpu("a"), gpu("b", "80Gi"))]


def holder(name: str, device: str) -> list[ApiObject]:
    taken = claim(f"{name}-claim", exactly(), status=allocated(name, "n1", device))
    return [taken, claiming(name, f"{name}-claim", node="n1")]


def test_a_claimant_evicts_the_pod_whose_claim_holds_a_device_that_it_could_take() -> None:
    wanted = [
        template("t", exactly(device_class="big")),
        claiming("p", template="t", spec={"priorityClassName": "urgent"}),
    ]
    world = [device_class(), SIZES, URGENT, TWO_KINDS, holder("small-user", "a"), holder("big-user", "b"), wanted]
    found = decided(state_of(*world), PREEMPT)
    assert [eviction.pod for eviction in found.evictions] == ["default/big-user"]
    assert [nomination.pod for nomination in found.nominations] == ["default/p"]


def test_a_claimant_by_class_evicts_the_pod_whose_claim_holds_the_device() -> None:
    by_class = asking("p", classes={"by-kind": 2}, spec={"priorityClassName": "urgent"})
    world = [device_class(), kind_class("by-kind", "gpu"), URGENT, TWO_KINDS, holder("user", "a"), by_class]
    found = decided(state_of(*world), PREEMPT)
    assert [eviction.pod for eviction in found.evictions] == ["default/user"]


def test_a_starving_claim_reserves_only_a_node_whose_devices_could_serve_it() -> None:
    reserve = acting(
        "enqueue", ("reserve", {"starvingJobTimeThreshold": 10, "reservedNodePercent": 100}), "allocate", devices={}
    )
    bare = device_node("n0")
    world = [device_class(), SIZES, bare, TWO_KINDS, holder("user", "b")]
    wanted = [template("t", exactly(device_class="big")), claiming("p", template="t", created=0)]
    found = decided(state_of(*world, wanted), reserve)
    assert [(r.pod, r.node) for r in found.reservations] == [("default/p", "n1")]
    never = [template("t", exactly(device_class="big", count=2)), claiming("p", template="t", created=0)]
    assert decided(state_of(*world, never), reserve).reservations == ()
    limited = queue("default", capability={"resourceclass.fairway.dev/big": 0})
    assert decided(state_of(*world, wanted, limited), reserve).reservations == ()


def test_least_loss_minds_what_claims_ask_for() -> None:
    policy = make_policy(devices={"strategy": ["least-loss"]})
    large = resource_class("large", term(("memory", "GtEq", ["60Gi"])))
    node = [device_node("n1"), resource_slice("s1", "n1", gpu("a", "80Gi"), gpu("b"))]
    later = [template("t", exactly(device_class="large")), claiming("later", template="t", created=9)]
    first = asking("first", classes={"any": 1}, created=0)
    found = decided(state_of(kind_class("any", "gpu"), large, node, first, later), policy)
    assert given(found) == {"first": [("", "b")], "later": [("r", "a")]}


def test_who_has_alternatives_of_different_kinds_does_not_lose_its_place_in_line() -> None:
    """As long as it is not known which kind it will be, it counts as none: two do not ask for more than there is."""
    kinds = ("little", "large")
    found = decided(
        state_of(
            device_node("n"),
            resource_slice("s", "n", *(published(kind, attributes={"kind": {"string": kind}}) for kind in kinds)),
            [kind_class(kind, kind) for kind in kinds],
            template("t", {"name": "r", "firstAvailable": [{"name": n, "deviceClassName": n} for n in kinds]}),
            claim("c", exactly(device_class="large")),
            [claiming("one", template="t", created=0), claiming("two", template="t", created=1)],
            claiming("late", claim="c", created=2),
        ),
        POLICY,
    )
    assert sorted(bound(found)) == ["one", "two"]


# -- as many users as a claim may have ----------------------------------------------------------------------------


def used(name: str, users: int) -> ApiObject:
    """A claim that so many other pods use."""
    status = allocated(name, "n1", "a")
    status["reservedFor"] = [{"resource": "pods", "name": f"u{i}", "uid": f"uid-{i}"} for i in range(users)]
    return claim(name, exactly(), status=status)


def test_a_claim_is_reserved_for_no_more_pods_than_the_api_takes() -> None:
    assert bound(plan(NODE, used("c", 255), claiming("p", "c"))) == {"p": "n1"}
    found = plan(NODE, used("c", 256), claiming("p", "c"), claiming("q", template="t"), template("t", exactly()))
    assert bound(found) == {"q": "n1"}
    text = "resource claim default/c is reserved for 256 pods, 1 more would exceed 256"
    assert text in waiting(found)["p"].message


def test_a_pod_that_a_full_claim_is_reserved_for_already_is_bound() -> None:
    """What wrote it was killed before it bound the pod."""
    assert bound(plan(NODE, used("c", 256), claiming("u7", "c"))) == {"u7": "n1"}


def test_a_gang_that_shares_a_claim_waits_whole_where_not_all_can_use_it() -> None:
    members = [claiming(f"m{i}", "c", group="g") for i in range(4)]
    assert len(bound(plan(NODE, used("c", 252), group("g", minimum=4), members))) == 4
    found = plan(NODE, used("c", 253), group("g", minimum=4), members)
    assert bound(found) == {}
    assert "is reserved for 253 pods, 4 more would exceed 256" in waiting(found)["g"].message


def test_pods_of_a_group_share_the_claim_that_was_made_for_the_group_from_a_template() -> None:
    """Kubernetes makes one claim for a PodGroup that names a template (DRAWorkloadResourceClaims)."""

    def member(number: int) -> Any:
        found: Any = claiming(f"m{number}", template="t", group="g")
        status = replace(found.status, resource_claim_statuses=(PodClaimStatus("c", "g-c"),))
        return replace(found, status=status)

    def owned(kind: str) -> Any:
        found: Any = claim("g-c", exactly())
        owners = (OwnerReference(kind=kind, name="g", uid="g1", controller=True),)
        return replace(found, metadata=replace(found.metadata, owner_references=owners))

    one = [device_node("n1"), resource_slice("s1", "n1", gpu("a"))]
    members = [template("t", exactly()), group("g", minimum=3), *map(member, range(3))]
    found = plan(one, owned("PodGroup"), members)
    assert bound(found) == {f"m{number}": "n1" for number in range(3)}
    assert [choice.device for binding in found.bindings for choice in binding.devices] == ["a"]
    assert bound(plan(one, owned("Pod"), members)) == {}, "one of their own for each"


@pytest.mark.parametrize("status", [None, allocated("c", "n1", "a")])
def test_a_claim_that_is_being_deleted_is_given_to_no_further_pod(status: Any) -> None:
    going: Any = claim("c", exactly(), status=status)
    going = replace(going, metadata=replace(going.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    found = plan(NODE, going, claiming("p", "c"))
    assert bound(found) == {}
    assert waiting(found)["p"].message == "resource claim default/c is being deleted"
