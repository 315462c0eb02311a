"""reserve: which nodes are reserved, how many, and what fits there (spec S6.4 to S6.6)."""

from typing import Any

import pytest

from fairway.clock import SECOND
from support import objects as make
from support.contention import (
    DAY,
    acting,
    full,
    many,
    nominated,
    notes,
    plan,
    reservations,
    reserved,
    reserving,
    running,
    running_gang,
    waiting,
    waiting_gang,
)
from support.engine import bound
from support.engine import waiting as pending
from support.objects import BEGIN

# -- which nodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("percent", "nodes", "most"), [(50, 3, 2), (1, 3, 1), (34, 3, 2), (33, 3, 1), (100, 3, 3)])
def test_the_percent_is_rounded_up_and_counts_ready_nodes(percent, nodes, most):
    names = [f"n{i}" for i in range(nodes)]
    jobs = [waiting(f"big-{i}", cpu=4, created=i) for i in range(nodes)]
    idle = [
        make.node("cordoned", cpu=4, unschedulable=True),
        make.node("broken", cpu=4, ready=False),
    ]
    found = plan(many(*names), idle, jobs, policy=reserving(reservedNodePercent=percent))
    assert len(reservations(found)) == most


def test_standing_reservations_count_against_the_percent():
    standing = reserved(waiting("old", cpu=4), ("old", "n2", "reserved"))
    found = plan(many("n1", "n2"), standing, waiting("big", cpu=4), policy=reserving())
    assert reservations(found) == {"old": ("n2", "reserved")}
    assert "no node is reserved for it: 1 node has reservations of other jobs, which is the limit" in notes(
        found, "big"
    )


def test_when_nodes_go_the_youngest_reservation_above_the_percent_is_given_up():
    first = reserved(waiting("first", cpu=4), ("first", "n1", "reserved"), since=100)
    second = reserved(waiting("second", cpu=4), ("second", "n2", "reserved"), since=200)
    four = many("n1", "n2", "n3", "n4")
    assert set(reservations(plan(four, first, second, policy=reserving(reservationTimeout=0)))) == {"first", "second"}
    found = plan(four[:2], first, second, policy=reserving(reservationTimeout=0))
    assert reservations(found) == {"first": ("n1", "reserved")}
    assert [(entry.pod, entry.node) for entry in found.released] == [("default/second", "n2")]


def test_max_reserved_nodes_is_a_limit_of_its_own():
    jobs = [waiting(f"big-{i}", cpu=4, created=i) for i in range(3)]
    cluster = many("n1", "n2", "n3", "n4")
    assert len(reservations(plan(cluster, jobs, policy=reserving(maxReservedNodes=1)))) == 1
    assert len(reservations(plan(cluster, jobs, policy=reserving(maxReservedNodes=3)))) == 2


def test_room_on_a_node_where_others_wait_is_a_jobs_own_from_the_next_cycle_on():
    cluster = [make.node("n1", cpu=8, pods=10), running("runs", "n1", cpu=5)]
    big, small = waiting("big", cpu=5), waiting("small", cpu=2, created=1)
    found = plan(cluster, big, small, policy=reserving())
    assert reservations(found) == {"big": ("n1", "reserved"), "small": ("n1", "reserved")}
    assert found.recheck_at == BEGIN + DAY * SECOND + 1
    claims = [reserved(pod, (pod.metadata.name, "n1", "reserved")) for pod in (big, small)]
    assert bound(plan(cluster, claims, policy=reserving())) == {"small": "n1"}


def test_several_tasks_share_a_node_that_may_be_reserved():
    gang = waiting_gang("g", 3, cpu=2)
    found = plan([make.node("n1", cpu=6), running("r", "n1", cpu=5)], gang, policy=reserving())
    assert reservations(found) == {f"g-{i}": ("n1", "reserved") for i in range(3)}


def test_a_task_larger_than_every_node_is_never_reserved_for_and_says_so():
    found = plan(full(), waiting("giant", cpu=5), policy=reserving())
    assert reservations(found) == {}
    assert (
        notes(found, "giant") == "a pod needs 5 cpu; the largest node has 4; now 0/1 nodes fit: 1 insufficient cpu; "
        "no node is reserved for it: default/giant is larger than every node"
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"zone": "b"}},
        make.anti_affinity(app="web"),
        make.affinity(app="nobody"),
    ],
    ids=["node selector", "anti-affinity", "affinity"],
)
def test_a_task_that_is_blocked_by_more_than_room_is_never_reserved_for_and_says_so(spec):
    there = running("web", "n1", cpu=3, labels={"app": "web"})
    found = plan(make.node("n1", cpu=4), there, waiting("big", cpu=4, spec=spec), policy=reserving())
    assert reservations(found) == {}
    assert "may not run on any node that is large enough" in notes(found, "big")


def test_a_host_port_in_use_counts_as_blocked():
    there = running("web", "n1", cpu=3, ports=[80])
    big = waiting("big", cpu=4, ports=[80])
    assert reservations(plan(make.node("n1", cpu=4), there, big, policy=reserving())) == {}
    assert (
        reservations(plan(make.node("n1", cpu=4), there, waiting("big", cpu=4, ports=[81]), policy=reserving())) != {}
    )


def test_tasks_that_exclude_each_other_are_not_reserved_on_one_node():
    cluster = [[make.node(name, cpu=8), running(f"on-{name}", name, cpu=7)] for name in ("n1", "n2")]
    all_nodes = reserving(reservedNodePercent=100)
    apart = {"labels": {"app": "g"}, "spec": make.anti_affinity(app="g")}
    for each in ({"ports": [80]}, apart):
        found = plan(cluster, waiting_gang("g", 2, cpu=4, **each), policy=all_nodes)
        assert reservations(found) == {"g-0": ("n1", "reserved"), "g-1": ("n2", "reserved")}
        assert reservations(plan(cluster, waiting_gang("g", 3, cpu=2, **each), policy=all_nodes)) == {}


def test_tasks_that_want_to_be_together_are_reserved_together():
    zones = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}
    used = {"n1": 2, "n2": 3, "n3": 5, "n4": 4}
    nodes = [make.node(name, cpu=6, labels={"zone": zone}) for name, zone in zones.items()]
    there = [running(f"on-{name}", name, cpu=cpu) for name, cpu in used.items()]
    gang = waiting_gang("g", 2, cpu=5, labels={"app": "g"}, spec=make.affinity("zone", app="g"))
    found = plan(nodes, there, gang, policy=reserving(reservedNodePercent=100))
    assert {zones[node] for node, _ in reservations(found).values()} == {"a"}
    assert len(reservations(found)) == 2


def test_among_the_tens_nodes_with_room_come_first_then_the_least_used_then_the_name():
    def nodes(*used: int) -> list[Any]:
        names = [f"n{i}" for i in range(len(used))]
        return [
            [make.node(name, cpu=10, memory="10Gi") for name in names],
            [running(f"on-{name}", name, cpu=cpu) for name, cpu in zip(names, used, strict=True) if cpu],
        ]

    big = waiting_gang("g", 2, cpu=8)
    # one fits n2 at once; of the others n1 is the least used
    found = plan(nodes(5, 3, 2, 6), big, policy=reserving())
    assert reservations(found) == {"g-0": ("n2", "allocated"), "g-1": ("n1", "reserved")}
    # a node with room that is not among the best half is not used
    scarce = [make.node("roomy", cpu=20, memory="10Gi"), running("on-roomy", "roomy", cpu=12)]
    found = plan(nodes(4, 4, 4), scarce, waiting_gang("g", 2, cpu=8), policy=reserving())
    assert set(reservations(found).values()) == {("n0", "reserved"), ("n1", "reserved")}
    # equal scores go by name
    found = plan(nodes(4, 4, 4, 4), waiting("big", cpu=8), policy=reserving())
    assert reservations(found) == {"big": ("n0", "reserved")}


def test_the_score_counts_the_scalars_that_the_task_asks_for_twice():
    def cluster(cpu1: int, gpu1: int, cpu2: int, gpu2: int) -> list[Any]:
        return [
            [make.node(name, cpu=10, memory="10Gi", gpu=10) for name in ("n1", "n2")],
            running("r1", "n1", cpu=cpu1, gpu=gpu1),
            running("r2", "n2", cpu=cpu2, gpu=gpu2),
        ]

    # ((cpu + memory)/2 + 2 * gpu)/3: n1 (20+100)/2, 90 -> 80; n2 (90+100)/2, 80 -> 85
    found = plan(cluster(8, 1, 1, 2), waiting("big", cpu=10, gpu=10), policy=reserving())
    assert reservations(found) == {"big": ("n2", "reserved")}
    # n1 (20+100)/2, 90 -> 80; n2 (90+100)/2, 60 -> 71.7: what is asked for weighs more
    found = plan(cluster(8, 1, 1, 4), waiting("big", cpu=10, gpu=10), policy=reserving())
    assert reservations(found) == {"big": ("n1", "reserved")}
    # a task that asks for no gpu does not look at them
    found = plan(cluster(8, 1, 1, 4), waiting("big", cpu=10), policy=reserving())
    assert reservations(found) == {"big": ("n2", "reserved")}


# -- what is held -------------------------------------------------------------------------------------------------


def test_room_now_is_held_until_the_gang_is_ready():
    cluster = [make.node("n1", cpu=4), make.node("n2", cpu=4), running("r", "n2", cpu=1)]
    gang = waiting_gang("g", 2, cpu=4)
    found = plan(cluster, gang, waiting("small", cpu=1), policy=reserving(reservedNodePercent=100))
    assert reservations(found) == {"g-0": ("n1", "allocated"), "g-1": ("n2", "reserved")}
    assert bound(found) == {}
    assert pending(found)["small"].nodes == {"insufficient cpu": 1, "node(s) resource was(were) reserved": 1}


def test_several_jobs_share_a_node_up_to_its_size():
    cluster = [make.node("n1", cpu=8), running("r", "n1", cpu=8)]
    jobs = [waiting(f"j{i}", cpu=3, created=i) for i in range(3)]
    assert set(reservations(plan(cluster, jobs, policy=reserving()))) == {"j0", "j1"}


def test_pod_slots_count():
    cluster = [make.node("n1", cpu=8, pods=2), running("r", "n1", cpu=8)]
    assert len(reservations(plan(cluster, waiting_gang("g", 2, cpu=1), policy=reserving()))) == 2
    assert len(reservations(plan(cluster, waiting_gang("g", 3, cpu=1), policy=reserving()))) == 0


def test_what_the_job_itself_runs_there_counts_against_the_node():
    job = running_gang("g", ["n1"], minimum=2, cpu=2)
    cluster = [make.node("n1", cpu=4), running("r", "n1", cpu=2)]
    assert reservations(plan(cluster, job, waiting("g-1", group="g", cpu=2), policy=reserving())) != {}
    assert reservations(plan(cluster, job, waiting("g-1", group="g", cpu=3), policy=reserving())) == {}


@pytest.mark.parametrize(("slots", "placed"), [(2, 0), (3, 1), (4, 2)])
def test_a_besteffort_pod_may_not_take_the_last_slot_that_a_reservation_needs(slots, placed):
    cluster = [make.node("n1", cpu=4, pods=slots), running("r", "n1", cpu=3)]
    standing = reserved(waiting("big", cpu=4), ("big", "n1", "reserved"))
    found = plan(cluster, standing, [waiting(f"idle-{i}") for i in range(3)], policy=reserving())
    assert len(bound(found)) == placed
    assert reservations(found) == {"big": ("n1", "reserved")}


@pytest.mark.parametrize(
    "weights", [{}, {"leastrequested.weight": 0, "mostrequested.weight": 1, "balancedresource.weight": 0}]
)
def test_a_gang_of_besteffort_pods_may_not_take_it_either(weights):
    policy = acting(
        "enqueue", ("reserve", {"starvingJobTimeThreshold": DAY}), "allocate", "backfill", nodeorder=weights
    )
    cluster = [make.node("n1", cpu=4, pods=4), running("r", "n1", cpu=3)]
    standing = reserved(waiting("big", cpu=4), ("big", "n1", "reserved"))
    assert len(bound(plan(cluster, standing, waiting_gang("g", 3), policy=policy))) == 0
    assert len(bound(plan(cluster, standing, waiting_gang("g", 2), policy=policy))) == 2


# -- all or nothing -----------------------------------------------------------------------------------------------


def test_a_gang_reserves_for_all_that_it_misses_or_for_none():
    cluster = many("n1", "n2", "n3")
    assert len(reservations(plan(cluster, waiting_gang("g", 2, cpu=4), policy=reserving()))) == 2
    found = plan(cluster, waiting_gang("g", 3, cpu=4), policy=reserving())
    assert reservations(found) == {}
    assert "no node is reserved for it: at most 2 nodes may be reserved, which is not enough" in notes(found, "g")


def test_room_that_could_have_been_held_for_a_gang_that_reserves_nothing_is_free_for_others():
    cluster = [make.node("n1", cpu=4), full("n2")]
    found = plan(cluster, waiting_gang("g", 3, cpu=4), waiting("small", cpu=4, created=9), policy=reserving())
    assert (bound(found), reservations(found)) == ({"small": "n1"}, {})


def test_a_job_for_which_there_is_room_after_all_is_bound_at_once():
    found = plan(make.node("n1", cpu=4), waiting("big", cpu=4), policy=reserving())
    assert (bound(found), reservations(found)) == ({"big": "n1"}, {})


def test_the_guard_leaves_no_trace_on_what_actions_before_it_have_held():
    """Here a nomination is resumed before reserve asks what allocate would do."""
    policy = acting("enqueue", "preempt", ("reserve", {"starvingJobTimeThreshold": 1}), "allocate")
    cluster = [make.node("n1", cpu=4), make.node("n2", cpu=4), running("r", "n2", cpu=1)]
    claimant = nominated(waiting("claimant", cpu=3, priority=2), "n1")
    others = [waiting("big", cpu=4, priority=0), waiting("small", cpu=3, priority=1, created=DAY)]
    found = plan(cluster, claimant, others, policy=policy)
    assert bound(found) == {"claimant": "n1", "small": "n2"}
    assert reservations(found) == {}
