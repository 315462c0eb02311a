"""What every world promises the loop: the same stories end with the same placements, whatever carries them out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract.worlds import WORLDS, Played
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy, parse_policy
from fairway.drive.change import Bind, Change, Evict
from fairway.drive.planned_changes import pod_key
from fairway.scheduler.plan import Binding, Eviction
from fairway.scheduler.plugins.installed import default_registry
from support.engine import flat, policy
from support.objects import NOW, gang, node, pod, queue
from support.sandboxes import running_for

Make = Callable[..., Played]

PREEMPTING = """
actions: [enqueue, allocate, preempt, backfill]
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
RESERVING = """
actions: [enqueue, {name: reserve, arguments: {starvingJobTimeThreshold: 5, reservedNodePercent: 100}}, allocate]
"""


@pytest.fixture(name="make", params=WORLDS, ids=[world.name for world in WORLDS])
def a_world(request: pytest.FixtureRequest) -> Make:
    def make(*objects: object, with_policy: Policy | None = None) -> Played:
        found: list[ApiObject] = flat(objects)
        played: Played = request.param(found, with_policy or policy())
        return played

    return make


def at_high_priority(name: str, **requests: object) -> ApiObject:
    return pod(name, spec={"priority": 100}, **requests)


def test_pods_are_bound_and_run_and_their_successors_follow(make: Make) -> None:
    world = make(node("n1", cpu=2), pod("a", cpu=2, annotations=running_for("30s")))
    world.advance(1)
    assert world.places() == {"a": "n1"}
    world.submit(pod("b", cpu=2))
    world.advance(20)
    assert world.places() == {"a": "n1", "b": ""}
    world.advance(40)
    assert world.places() == {"b": "n1"}


def test_a_gang_is_placed_whole_when_the_last_node_comes(make: Make) -> None:
    world = make(node("n1", cpu=2), gang("g", members=2, cpu=2))
    world.advance(5)
    assert world.places() == {"g-0": "", "g-1": ""}
    world.submit(node("n2", cpu=2))
    world.advance(6)
    assert set(world.places().values()) == {"n1", "n2"}


def test_an_evicted_pod_leaves_after_its_grace_and_its_node_is_the_claimants(make: Make) -> None:
    world = make(
        node("n1", cpu=2),
        pod("low", cpu=2),
        with_policy=parse_policy(PREEMPTING, "preempting", default_registry().catalog),
    )
    world.advance(3)
    world.submit(at_high_priority("high", cpu=2))
    world.advance(5)
    assert world.places() == {"low": "n1!", "high": ""}
    assert [change.key for change in world.scheduler.store.in_flight()] == []
    world.advance(20)
    assert world.places()["high"] == "n1"
    assert world.places().get("low", "") == ""


def test_a_starving_job_has_a_reservation_that_is_kept_and_ends_with_it(make: Make) -> None:
    small = [pod(f"s{i}", cpu=1, annotations=running_for("100s")) for i in range(2)]
    world = make(
        node("n1", cpu=2), *small, with_policy=parse_policy(RESERVING, "reserving", default_registry().catalog)
    )
    world.advance(1)
    world.submit(pod("big", cpu=2))
    world.advance(10)
    assert world.of_kind("Reservation") == ["pod-big"]
    world.submit(pod("late", cpu=1))
    world.advance(105)
    assert (world.places()["big"], world.places()["late"]) == ("n1", "")
    assert "pod-big" not in world.of_kind("Reservation")


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten(make: Make) -> None:
    world = make(node("n1", cpu=1), pod("a", cpu=2), pod("b", cpu=2))
    world.advance(1)
    world.delete(("Pod", "default", "a"))
    world.submit(node("n2", cpu=2))
    world.advance(5)
    assert world.places() == {"b": "n2"}


def test_a_node_that_goes_takes_its_pods_and_they_wait_again(make: Make) -> None:
    world = make(node("n1", cpu=2), gang("g", members=2, cpu=1))
    world.advance(5)
    world.delete(("Node", "", "n1"))
    world.advance(6)
    assert world.places() == {"g-0": "", "g-1": ""}
    world.submit(node("n2", cpu=2))
    world.advance(10)
    assert world.places() == {"g-0": "n2", "g-1": "n2"}


def test_queues_take_turns_by_weight(make: Make) -> None:
    pods = [pod(f"{name}{i}", cpu=1, queue=name) for name in ("a", "b") for i in range(6)]
    world = make(node("n1", cpu=6), queue("a", 2), queue("b", 1), *pods)
    world.advance(5)
    placed = [name for name, node_name in world.places().items() if node_name]
    assert sorted(name[0] for name in placed) == ["a"] * 4 + ["b"] * 2


def test_nothing_happens_without_a_change(make: Make) -> None:
    world = make(node("n1", cpu=1), pod("a", cpu=2))
    world.advance(1)
    cycles = world.scheduler.cycles
    world.advance(1000)
    assert world.scheduler.cycles <= cycles + 1


@pytest.mark.parametrize("uid", ["another", "gone"])
def test_a_change_for_an_object_that_is_gone_or_another_is_refused(make: Make, uid: str) -> None:
    world = make(node("n1", cpu=1), node("n2", cpu=1), pod("a", cpu=2), pod("b", cpu=1))
    world.advance(1)
    refused: list[tuple[Change, str]] = []
    world.scheduler.listeners.append(_Refusals(refused))
    name = "default/a" if uid == "another" else "default/nosuch"
    bind = Bind(pod_key(name), "another", Binding(name, "n1"), NOW)
    evict = Evict(pod_key(name), "another", Eviction(name, "n1", "j", "preempt", "r"), NOW)
    for change in (bind, evict):
        world.scheduler.store.sent([change])
        world.world.carry_out([change])
    assert [change for change, _ in refused] == [bind, evict]
    assert all(why for _, why in refused)
    assert not list(world.scheduler.store.in_flight())
    world.advance(2)
    assert world.places()["a"] == ""


class _Refusals:
    def __init__(self, refused: list[tuple[Change, str]]) -> None:
        self._refused = refused

    def applied(self, events: object) -> None: ...

    def decided(self, cycle: object) -> None: ...

    def refused(self, change: Change, why: str) -> None:
        self._refused.append((change, why))
