"""preempt and reclaim evict and nominate as their slow, obvious twin does, on random clusters that are full."""

from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from fairway.clock import SECOND
from oracles.eviction import plan_evictions
from support import engine
from support import objects as make
from support.contended import contended, evicting_policies
from support.contention import DAY, cycle, running, waiting_gang
from support.effort import examples
from support.engine import state_of
from support.objects import BEGIN

quick = settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def same(objects: list[Any], policy: Policy) -> None:
    expected = plan_evictions(objects, policy, BEGIN + DAY * SECOND)
    found = cycle(state_of(objects), policy)
    note(f"expected {expected}")
    assert [(entry.pod, entry.for_, entry.action) for entry in found.evictions] == expected.evictions
    assert sorted((entry.pod, entry.node) for entry in found.nominations) == expected.nominations


@quick
@given(contended(plain=True), evicting_policies())
def test_where_only_room_decides(objects, policy):
    same(objects, policy)


@quick
@given(contended(), evicting_policies())
def test_where_rules_between_pods_and_budgets_decide_too(objects, policy):
    same(objects, policy)


@st.composite
def with_some_terminating(draw):
    """Of the pods that run, some are being deleted."""
    objects = draw(contended(plain=True))
    return [_terminating(thing) if _runs(thing) and draw(st.integers(0, 4)) == 0 else thing for thing in objects]


def _runs(thing):
    return isinstance(thing, Pod) and bool(thing.spec.node_name)


def _terminating(pod):
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=pod.metadata.creation_timestamp))


@quick
@given(with_some_terminating(), evicting_policies())
def test_where_some_pods_terminate_already(objects, policy):
    same(objects, policy)


@st.composite
def written_queues(draw: st.DrawFn) -> list[Any]:
    """Queues that deserve what is written on them, most of them little, and have priorities."""
    return [_written(draw, thing) if isinstance(thing, Queue) else thing for thing in draw(contended(plain=True))]


def _written(draw: st.DrawFn, queue: Queue) -> Queue:
    deserved = {
        "cpu": f"{draw(st.integers(0, 12)) * 500}m",
        **({"memory": "4Gi"} if draw(st.integers(0, 3)) == 3 else {}),
    }
    spec = replace(queue.spec, deserved=deserved, priority=draw(st.integers(0, 1)), capability={})
    return replace(queue, spec=spec)


@quick
@given(written_queues(), st.booleans())
def test_where_queues_deserve_what_is_written(objects, first):
    plugins = ("priority", "gang", "conformance", "drf", "predicates", "capacity", "nodeorder")
    actions = "enqueue, allocate, reclaim, backfill"
    same(objects, engine.policy(actions=actions, plugins=plugins, drf={"priorityFirst": first}))


@st.composite
def indivisible(draw: st.DrawFn) -> list[Any]:
    """Two queues above what they deserve, in few units of many sizes: what is taken is seldom just what is needed."""
    nodes = [make.node(f"n{i}", cpu=draw(st.integers(3, 8))) for i in range(draw(st.integers(1, 2)))]
    free = {node.metadata.name: 2 * int(node.allocatable["cpu"]) for node in nodes if isinstance(node, Node)}
    pods: list[Any] = []
    for i in range(draw(st.integers(2, 8))):
        halves, queue = draw(st.integers(1, 6)), draw(st.sampled_from("bc"))
        fits = [name for name, left in free.items() if left >= halves]
        if fits:
            where = draw(st.sampled_from(fits))
            free[where] -= halves
            priority, started = draw(st.integers(0, 2)), draw(st.integers(0, 3))
            each: dict[str, Any] = {"cpu": f"{halves * 500}m", "queue": queue, "priority": priority, "started": started}
            pods.append(running(f"r{i}", where, **each))
    deserved = [("a", 16), ("b", draw(st.integers(1, 8))), ("c", draw(st.integers(1, 8)))]
    queues = [make.queue(name, deserved={"cpu": f"{halves * 500}m"}) for name, halves in deserved]
    members = draw(st.integers(1, 2))
    claimant = waiting_gang("w", members, queue="a", cpu=f"{draw(st.integers(1, 6)) * 500}m")
    return [*nodes, *queues, *pods, *claimant]


@settings(quick, max_examples=examples(60))
@given(indivisible())
def test_where_units_are_larger_than_what_a_queue_has_too_much_of(objects):
    """Of all sets that serve, the one that takes queues the least below what they deserve."""
    plugins = ("priority", "gang", "conformance", "drf", "predicates", "capacity", "nodeorder")
    same(objects, engine.policy(actions="enqueue, allocate, reclaim", plugins=plugins))
