"""preempt by share: moves that change nothing, or that could be taken back, are not made (spec S7.1)."""

from typing import Any

import pytest

from support import objects as make
from support.circles import five_pods
from support.contention import acting, evicted, plan, preempting, running, running_gang, waiting_gang
from support.preempting import POLICY, PRIORITY_FIRST, high, low, one_node
from support.world import World

NO_JOB_SHARE = preempting(byJobShare=False)


def trained(**rest: Any) -> list[Any]:
    """Namespace a has the only GPU and a CPU; b has CPUs."""
    return [make.node("n1", cpu=6, gpu=1), low("gpu", namespace="a", gpu=1, cpu=0, **rest)]


@pytest.mark.parametrize("actions", [("allocate", "preempt"), ("preempt", "allocate")], ids=" ".join)
def test_five_pods_do_not_evict_each_other_for_ever(actions):
    """800 evictions in 600 cycles: web by share for batch, trainer by priority for web, batch by share for web."""
    world = World(five_pods(), policy=acting("enqueue", *actions, "backfill"))
    seen: dict[frozenset[tuple[str, str]], int] = {}
    last = None
    for second in range(600):
        world.step(second)
        placed = frozenset((key, pod.spec.node_name) for key, pod in world.pods.items() if pod.spec.node_name)
        assert placed == last or placed not in seen, f"as at {seen[placed]}"
        seen[placed], last = second, placed
    assert len(world.evictions) <= 4


def test_cpus_of_a_namespace_whose_share_rests_on_its_gpu_are_not_taken():
    pods = [low(f"a-{i}", namespace="a") for i in range(3)] + [low(f"b-{i}", namespace="b") for i in range(3)]
    claimant = high("more", namespace="b", priority=0)
    assert evicted(plan(trained(), pods, claimant, policy=POLICY)) == []
    assert evicted(plan(trained(), pods, claimant, policy=PRIORITY_FIRST)) == []


def test_they_are_taken_with_the_gpu():
    """The claimant needs both, and the share of a falls with the GPU."""
    pods = [low(f"a-{i}", namespace="a") for i in range(5)] + [low("b-0", namespace="b")]
    claimant = high("more", namespace="b", priority=0, gpu=1, cpu=1)
    cluster = [make.node("n1", cpu=6, gpu=2), low("gpu-0", namespace="a", gpu=2, cpu=0)]
    found = plan(cluster, pods, claimant, policy=POLICY)
    assert evicted(found) == ["a/a-0", "a/gpu-0"]


def test_the_claimants_own_victims_count_as_gone():
    """a has 4 and b 6 of 10; with its own four gone and a gang of five placed, a has five, and so has b."""
    pods = [low(f"a-{i}", namespace="a") for i in range(4)] + [low(f"b-{i}", namespace="b") for i in range(6)]
    gang = waiting_gang("gang", 5, cpu=1, priority=5, namespace="a")
    found = evicted(plan(one_node(10), pods, gang, policy=POLICY))
    assert [pod for pod in found if pod.startswith("a/")] == [f"a/a-{i}" for i in range(4)]
    assert len(found) == 5
    more = waiting_gang("gang", 6, cpu=1, priority=5, namespace="a")
    assert evicted(plan(one_node(10), pods, more, policy=POLICY)) == []


def raising(other: int) -> list[Any]:
    """Namespace a would have 5 of 20 CPUs instead of 4; b has so many."""
    cluster = [make.node("n1", cpu=5), make.node("n2", cpu=15)]
    return [*cluster, low("low", namespace="a", cpu=4), running("b", "n2", namespace="b", cpu=other)]


PINNED: dict[str, Any] = {"spec": {"nodeSelector": {make.HOST: "n1"}}}


def test_a_priority_step_does_not_raise_the_share_of_its_namespace():
    claimant = high(namespace="a", cpu=5, **PINNED)
    assert evicted(plan(raising(3), claimant, policy=POLICY)) == []
    assert evicted(plan(raising(3), high(namespace="a", cpu=4, **PINNED), policy=POLICY)) == ["a/low"]
    assert evicted(plan(raising(3), claimant, policy=PRIORITY_FIRST)) == ["a/low"]


def test_it_may_where_the_share_stays_at_or_below_that_of_another():
    assert evicted(plan(raising(5), high(namespace="a", cpu=5, **PINNED), policy=POLICY)) == ["a/low"]


def test_pods_that_the_same_cycle_binds_count_in_the_share_of_another():
    """Namespace a has nothing when the cycle begins, and as much as c would have when preempt decides."""
    runs = [
        running(name, "n1", namespace=namespace, cpu=1) for name, namespace in (("r0", "b"), ("r1", "c"), ("r2", "c"))
    ]
    waits = [make.pod(f"w{i}", "a", cpu=1, created=0, spec={"priority": 2}) for i in range(3)]
    claimant = make.pod("w3", "c", cpu=2, created=0, spec={"priority": 2})
    found = plan(make.node("n1", cpu=7), runs, waits, claimant, policy=acting("enqueue", "allocate", "preempt"))
    assert len(found.bindings) == 3
    assert len(evicted(found)) == 1
    assert [entry.for_ for entry in found.evictions] == ["c/w3"]


def test_it_may_where_no_other_namespace_has_anything():
    cluster = [make.node("n1", cpu=5), low("low", cpu=4)]
    assert evicted(plan(cluster, high(cpu=5), policy=POLICY)) == ["low"]


def test_it_takes_victims_that_do_not_raise_the_share_instead():
    """The pod with the least work is on a node with free capacity; the others make up for all of the claimant."""
    cluster = [make.node("n1", cpu=2), make.node("n2", cpu=2), make.node("n3", cpu=9)]
    pods = [low("new", "n1", namespace="a", started=50), low("b", "n3", namespace="b")]
    pods += [low(f"old-{i}", "n2", namespace="a") for i in range(2)]
    claimant = high(namespace="a", cpu=2, spec={"nodeSelector": {"kubernetes.io/os": "linux"}})
    for node in cluster[:2]:
        node.metadata.labels["kubernetes.io/os"] = "linux"
    assert evicted(plan(cluster, pods, claimant, policy=POLICY)) == ["a/old-0", "a/old-1"]


# -- between jobs ---------------------------------------------------------------------------------------------------


def test_job_share_never_takes_a_pod_that_its_job_needs():
    pair = running_gang("pair", ["n1"] * 4, minimum=3, cpu=1)
    assert len(evicted(plan(one_node(4), pair, high("one", priority=0), policy=POLICY))) == 1
    whole = running_gang("whole", ["n1"] * 4, minimum=4, cpu=1)
    assert evicted(plan(one_node(4), whole, high("one", priority=0), policy=POLICY)) == []


def test_job_share_never_takes_the_last_pod_of_a_job():
    """A group may state a minimum of none."""
    alone = running_gang("g", ["n1"], minimum=0, cpu=4, memory="1Gi")
    assert evicted(plan(one_node(4), alone, high("one", priority=0), policy=POLICY)) == []


def test_the_share_of_the_job_has_to_fall():
    """Its share rests on its GPU pod: CPUs of its other pods would be taken for nothing."""
    group, *pods = running_gang("big", ["n1"] * 3, minimum=1, cpu=1)
    gpu = low("big-9", group="big", gpu=1, cpu=1)
    small = high("small", priority=0)
    assert len(evicted(plan(make.node("n1", cpu=4, gpu=4), group, pods, gpu, small, policy=POLICY))) == 1
    assert evicted(plan(make.node("n1", cpu=4, gpu=1), group, pods, gpu, small, policy=POLICY)) == []


def test_a_policy_may_leave_job_shares_out():
    big = running_gang("big", ["n1"] * 4, minimum=1, cpu=1)
    assert len(evicted(plan(one_node(4), big, high("small", priority=0), policy=POLICY))) == 1
    assert evicted(plan(one_node(4), big, high("small", priority=0), policy=NO_JOB_SHARE)) == []
    assert evicted(plan(one_node(4), big, high("small", priority=1), policy=NO_JOB_SHARE)) != [], (
        "priority still counts"
    )
    namespaces = [low(f"a-{i}", namespace="a") for i in range(4)]
    assert len(evicted(plan(one_node(4), namespaces, high(namespace="b"), policy=NO_JOB_SHARE))) == 1
