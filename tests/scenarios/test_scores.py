"""Which of several nodes is best: packing, spreading, evenness and what a pod would rather have."""

from collections import Counter

import pytest

from support import objects as make
from support.engine import bound, decided, plan, policy, state_of
from support.objects import expression

BARE = ("priority", "gang", "drf", "predicates", "proportion")
PACK = policy(plugins=BARE, binpack={})
LEAST = policy(plugins=BARE, nodeorder={"balancedAllocation": 0})
MOST = policy(plugins=BARE, nodeorder={"leastAllocated": 0, "mostAllocated": 1, "balancedAllocation": 0})


def wish(weight, *requirements):
    term = {"weight": weight, "preference": {"matchExpressions": list(requirements)}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


NODES = [make.node("a", cpu=8), make.node("b", cpu=8), make.node("c", cpu=8), make.pod("r", node="b", cpu=2)]


@pytest.mark.parametrize("chosen", [PACK, MOST], ids=["binpack", "most allocated"])
def test_packing_fills_the_fullest_node_before_the_next(chosen):
    made = plan(NODES, make.gang("g", members=10, cpu=1), policy=chosen)
    assert Counter(bound(made).values()) == {"b": 6, "a": 4}


def test_spreading_fills_the_emptiest_first():
    made = plan(NODES, make.gang("g", members=6, cpu=1), policy=LEAST)
    assert list(bound(made).values()) == ["a", "c", "a", "c", "a", "b"]


def test_evenness_prefers_a_node_whose_resources_are_used_alike():
    nodes = [
        make.node("a", cpu=8, memory="8Gi"),
        make.node("b", cpu=8, memory="8Gi"),
        make.pod("x", node="a", cpu=4, memory="1Gi"),
        make.pod("y", node="b", cpu=1, memory="4Gi"),
    ]
    even = policy(plugins=BARE, nodeorder={"leastAllocated": 0, "balancedAllocation": 1})
    made = plan(nodes, make.pod("p", cpu=3, memory="1Gi"), policy=even)
    assert bound(made) == {"p": "b"}


def test_binpack_weighs_what_a_pod_asks_for_only():
    nodes = [
        make.node("a", cpu=8, gpu=8),
        make.node("b", cpu=8, gpu=8),
        make.pod("x", node="a", cpu=6),
        make.pod("y", node="b", gpu=6),
    ]
    pod = make.pod("p", cpu=1, gpu=1)
    assert bound(plan(nodes, pod, policy=PACK)) == {"p": "a"}
    gpus = policy(plugins=BARE, binpack={"cpu": 1, "resources": {make.GPU: 5}})
    assert bound(plan(nodes, pod, policy=gpus)) == {"p": "b"}


def test_a_preferred_node_is_taken_while_there_is_room():
    nodes = [make.node("a", cpu=8), make.node("z", cpu=2, labels={"disk": "ssd"})]
    made = plan(nodes, make.gang("g", members=3, cpu=1, spec=wish(10, expression("disk", "In", "ssd"))))
    assert Counter(bound(made).values()) == {"z": 2, "a": 1}


def test_preferred_pod_affinity_and_anti_affinity():
    nodes = [make.node(name, cpu=8) for name in "abc"]
    there = [make.pod("web", node="b", cpu=1, labels={"app": "web"})]
    near = make.pod("near", cpu=1, spec=make.affinity(required=False, app="web"))
    far = make.pod("far", cpu=1, spec=make.anti_affinity(required=False, app="web"))
    assert bound(plan(nodes, there, near)) == {"near": "b"}
    assert bound(plan(nodes, there, far)) == {"far": "a"}


def test_soft_spread_prefers_the_zone_with_fewer():
    nodes = [make.node("a", cpu=8, labels={"zone": "x"}), make.node("b", cpu=8, labels={"zone": "y"})]
    there = [make.pod("r", node="a", cpu=1, labels={"app": "g"}), make.pod("big", node="b", cpu=4)]
    pod = make.pod("p", cpu=1, labels={"app": "g"}, spec=make.spread("zone", hard=False, app="g"))
    assert bound(plan(nodes, there, pod)) == {"p": "b"}


def test_an_avoided_taint_that_comes_later_moves_no_other_pod():
    """The kept scores of nodes without a taint stay right when another node gets one."""
    nodes = [make.node(f"n{i}", cpu=8) for i in range(5)]
    state = state_of(nodes, make.pod("p", cpu=1))
    assert bound(decided(state)) == {"p": "n0"}
    state.upsert([make.node("n0", cpu=8, taints=["old:PreferNoSchedule"])])
    assert bound(decided(state)) == {"p": "n1"}


def test_the_largest_weights_do_not_drown_each_other():
    heavy = dict.fromkeys(("leastAllocated", "balancedAllocation", "podAffinity", "topologySpread"), 1000)
    nodes = [make.node(name, cpu=1000, memory="1000Gi") for name in "ab"]
    running = make.pod("r", node="a", cpu=1, memory="1Gi")
    made = plan(nodes, running, make.pod("p", cpu=1, memory="1Gi"), policy=policy(plugins=BARE, nodeorder=heavy))
    assert bound(made) == {"p": "b"}


def test_nodes_of_equal_worth_go_by_name():
    nodes = [make.node(name, cpu=1) for name in ("n10", "n9", "n1", "n02")]
    made = plan(nodes, make.pods("p", 4, cpu=1))
    assert list(bound(made).values()) == ["n02", "n1", "n10", "n9"]
