"""Devices held, promised and made free: reservations, preemption, reclaim, and what the next cycle makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairway.api.policy import Policy
from fairway.scheduler.plan import Plan
from fairway.state.cluster import Deleted
from support.contention import acting, reserved
from support.devices import PREFIX, asking, device_node, gpu, kind_class, memory_class
from support.engine import bound, decided, reasons, state_of
from support.engine import policy as make_policy
from support.objects import GPU, gang, made, pod, queue

ANY = kind_class("any", "nvidia-gpu")
HIGH = memory_class("high", "30G")
PAIRS = kind_class("pairs", "nvlink-pair")
PRIORITY = made("PriorityClass", "urgent", value=100)
URGENT = {"priorityClassName": "urgent"}
LINKED = [gpu("g0"), gpu("g1"), gpu("g2"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])]


def policy(actions: str, **more: Any) -> Policy:
    return make_policy(actions=actions, devices={}, drf={"priorityFirst": True}, **more)


PREEMPT = policy("enqueue, allocate, preempt")


def evicted(plan: Plan) -> list[str]:
    return [eviction.pod.removeprefix("default/") for eviction in plan.evictions]


def running(name: str, device: str, class_name: str = "any", node: str = "n1", **more: Any) -> Any:
    return asking(name, node=node, classes={class_name: 1}, record={f"{class_name}_{device}": 1}, **more)


def test_whoever_wants_a_pair_evicts_the_pods_on_its_members_and_no_others() -> None:
    pods = [running("a", "g0"), running("b", "g1"), running("c", "g2")]
    claimant = asking("p", classes={"pairs": 1}, spec=URGENT)
    found = decided(state_of(ANY, PAIRS, PRIORITY, device_node("n1", *LINKED), pods, claimant), PREEMPT)
    assert sorted(evicted(found)) == ["a", "b"]
    assert [n.pod for n in found.nominations] == ["default/p"]


def test_whoever_wants_a_member_evicts_the_pod_on_the_pair_if_that_is_the_only_way() -> None:
    pods = [running("a", "pair", "pairs"), running("c", "g2", spec=URGENT)]
    claimant = asking("p", classes={"any": 1}, spec=URGENT)
    found = decided(state_of(ANY, PAIRS, PRIORITY, device_node("n1", *LINKED), pods, claimant), PREEMPT)
    assert evicted(found) == ["a"]


def test_a_plain_request_evicts_the_pod_that_has_the_hardware_by_class() -> None:
    gpus = kind_class("gpus", "nvidia.com/gpu")
    holder = asking("a", node="n1", classes={"gpus": 2}, record={"gpus_nvidia.com_x2fgpu": 2})
    claimant = pod("p", gpu=2, spec=URGENT)
    found = decided(state_of(gpus, PRIORITY, device_node("n1", gpu=2), holder, claimant), PREEMPT)
    assert evicted(found) == ["a"]


def test_no_pod_is_evicted_for_a_device_that_is_free() -> None:
    pods = [running("a", "small")]
    node = device_node("n1", gpu("small", memory="8G"))
    claimant = asking("p", classes={"high": 1}, spec=URGENT)
    found = decided(state_of(ANY, HIGH, PRIORITY, node, pods, claimant), PREEMPT)
    assert (evicted(found), reasons(found)) == ([], {"p": "DeviceUnavailable"})


@pytest.mark.parametrize(
    "holder",
    [pod("a", node="n1", gpu=2), asking("a", node="n1", classes={"gpus": 2}, record={"gpus_nvidia.com_x2fgpu": 2})],
    ids=["plain", "by class"],
)
def test_a_unit_is_counted_once_in_its_queue_whether_asked_for_by_name_or_by_class(holder: Any) -> None:
    others = [pod("w", gpu=1, cpu=1), asking("v", classes={"gpus": 1})]
    gpus = kind_class("gpus", "nvidia.com/gpu")
    found = decided(state_of(gpus, device_node("n1", gpu=4), holder, others), policy("enqueue, allocate"))
    assert sorted(bound(found)) == ["v", "w"]
    assert found.queues[0].allocated[GPU] == found.namespaces[0].allocated[GPU] == "4"


@pytest.mark.parametrize("waits_before", [False, True])
def test_a_class_that_comes_late_is_counted_in_what_running_pods_hold(waits_before: bool) -> None:
    """Who could be evicted is kept from cycle to cycle; a new class makes a device held as another one worth taking."""
    first, claimant = asking("first", classes={"any": 1}, spec=URGENT), asking("p", classes={"high": 1}, spec=URGENT)
    state = state_of(ANY, PRIORITY, device_node("n1", gpu("big", memory="32G")), running("a", "big"), first)
    state.upsert([claimant] if waits_before else [])
    assert [e.for_ for e in decided(state, PREEMPT).evictions] == ["default/first"]
    state.apply(Deleted(first))
    state.upsert([HIGH, claimant])
    assert [(e.pod, e.for_) for e in decided(state, PREEMPT).evictions] == [("default/a", "default/p")]


def test_the_room_of_victims_is_not_given_away_while_they_leave() -> None:
    """The nominee waits for its device; a newcomer gets the one that is free, no pod the one that is being freed."""
    node = device_node("n1", gpu("a", memory="32G"), gpu("b", memory="8G"))
    leaving = running("v", "a", leaving=True)
    nominee = asking("p", classes={"high": 1}, spec=URGENT)
    named = made("Pod", "p", "default", spec=_spec(nominee), status={"nominatedNodeName": "n1"})
    late = [asking(f"q{i}", classes={"any": 1}) for i in range(2)]
    found = decided(state_of(ANY, HIGH, PRIORITY, node, leaving, named, late), PREEMPT)
    assert {b.pod: [d.device for d in b.devices] for b in found.bindings} == {"default/q0": ["b"]}
    gone = decided(state_of(ANY, HIGH, PRIORITY, node, named, late), PREEMPT)
    assert {b.pod: [d.device for d in b.devices] for b in gone.bindings} == {"default/p": ["a"], "default/q0": ["b"]}


def _spec(thing: Any) -> Any:
    return msgspec.to_builtins(thing.spec)


def test_a_queue_takes_back_the_devices_it_deserves() -> None:
    node = device_node("n1", gpu("a", 4, memory="32G"), cpu=64)
    borrowed = [
        asking(f"b{i}", queue="q1", node="n1", classes={"any": 1}, record={"any_a": 1}, created=i) for i in range(4)
    ]
    wanting = [asking(f"w{i}", queue="q2", classes={"high": 1}, created=9) for i in range(2)]
    objects = (ANY, HIGH, queue("q1"), queue("q2"), node, borrowed, wanting)
    found = decided(state_of(*objects), policy("enqueue, allocate, reclaim"))
    assert len(evicted(found)) == 2
    assert {name[0] for name in evicted(found)} == {"b"}


RESERVE = acting(
    "enqueue",
    ("reserve", {"starvingJobTimeThreshold": 10, "reservedNodePercent": 100}),
    "allocate",
    devices={},
)


def test_a_starving_job_reserves_a_node_that_could_serve_it_when_empty() -> None:
    node = device_node("n1", gpu("a", 2))
    starving, late = asking("s", classes={"any": 2}, created=0), asking("l", classes={"any": 1}, created=1)
    found = decided(state_of(ANY, node, running("u", "a"), starving, late), RESERVE)
    assert [(r.pod, r.state) for r in found.reservations] == [("default/s", "reserved")]
    assert bound(found) == {}, "the device that is free is kept for it, too"
    assert bound(decided(state_of(ANY, node, starving, late), RESERVE)) == {"s": "n1"}


def test_nothing_is_reserved_where_devices_could_never_serve() -> None:
    node = device_node("n1", gpu("a", 2))
    found = decided(state_of(ANY, node, asking("s", classes={"any": 3}, created=0)), RESERVE)
    assert found.reservations == ()


@pytest.mark.parametrize(
    ("devices", "classes"),
    [
        ([gpu("a", memory="32G")], {"any": 1, "high": 1}),
        ([gpu("a", memory="8G"), gpu("b", memory="8G")], {"any": "500m"}),
        ([gpu("g0"), gpu("g1"), gpu("pair", kind="nvlink-pair", members=["g0", "g1"])], {"pairs": 1, "any": 1}),
    ],
    ids=["one device for two classes", "a part of what is not shared", "a pair and one of its members"],
)
def test_nothing_is_reserved_where_devices_could_not_serve_all_of_it_together(
    devices: list[Any], classes: dict[str, Any]
) -> None:
    world = state_of(ANY, HIGH, PAIRS, device_node("n1", *devices), asking("s", classes=classes, created=0))
    found = decided(world, RESERVE)
    assert found.reservations == ()
    assert "no node has devices for default/s" in found.pending[0].message


def test_two_reservations_on_a_node_are_for_different_devices() -> None:
    node = device_node("n1", gpu("a", memory="32G"), gpu("b", memory="8G"))
    users = [running("u", "a", leaving=True), running("v", "b", leaving=True)]
    starving = [asking(name, classes={"high": 1}, created=place) for place, name in enumerate(("s", "t"))]
    found = decided(state_of(ANY, HIGH, node, users, starving), RESERVE)
    assert [r.pod for r in found.reservations] == ["default/s"]


def test_a_held_device_stays_held_until_the_gang_is_ready() -> None:
    """One member has room and keeps its device; no other pod is given it in the next cycle."""
    nodes = [device_node("n1", gpu("a")), device_node("n2", gpu("a"))]
    asked = {"cpu": 1, f"{PREFIX}any": 1}
    state = [ANY, nodes, running("u", "a", node="n2"), gang("g", members=2, created=0, **asked)]
    found = decided(state_of(*state), RESERVE)
    holds = {(r.pod, r.node, r.state) for r in found.reservations}
    assert holds == {("default/g-0", "n1", "allocated"), ("default/g-1", "n2", "reserved")}
    held = reserved(gang("g", members=2, created=0, **asked)[0], ("g-0", "n1", "allocated"), ("g-1", "n2", "reserved"))
    pods = gang("g", members=2, created=0, **asked)[1:]
    newcomer = asking("q", classes={"any": 1}, created=1)
    again = decided(state_of(ANY, nodes, running("u", "a", node="n2"), held, pods, newcomer), RESERVE)
    assert bound(again) == {}
    assert [(c.allocatable, c.requested) for c in again.resource_classes] == [(2, 2)]
    ready = decided(state_of(ANY, nodes, held, pods, newcomer), RESERVE)
    assert {b.pod: [d.device for d in b.devices] for b in ready.bindings} == {
        "default/g-0": ["a"],
        "default/g-1": ["a"],
    }
