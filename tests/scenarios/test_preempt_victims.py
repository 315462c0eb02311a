"""preempt: who goes, and where: no more than needed, and only what is short (spec S7.3 and S7.4)."""

from typing import Any

import pytest

from fairway.state.cluster import Deleted
from support import objects as make
from support.contention import (
    DAY,
    acting,
    cycle,
    evicted,
    nominations,
    plan,
    reserved,
    running,
    running_gang,
    waiting,
    waiting_gang,
)
from support.engine import bound, reasons, state_of
from support.engine import waiting as pending
from support.preempting import POLICY, high, low, nodes, one_node

# -- minimal, useful, only what is needed -------------------------------------------------------------------------


def test_the_least_important_go_then_the_least_work_is_lost_then_by_name():
    pods = [low("a", priority=5), low("b", started=10), low("c", started=20), low("d", started=20)]
    cluster = one_node(4)
    assert evicted(plan(cluster, pods, high(), policy=POLICY)) == ["c"]
    assert evicted(plan(cluster, pods, high(cpu=2), policy=POLICY)) == ["c", "d"]
    assert evicted(plan(cluster, pods, high(cpu=3), policy=POLICY)) == ["b", "c", "d"]
    assert evicted(plan(cluster, pods, high(cpu=4), policy=POLICY)) == ["a", "b", "c", "d"]


def test_whoever_turns_out_not_to_be_needed_is_spared():
    pods = [low("small", cpu=1, started=20), low("large", cpu=3, started=10)]
    assert evicted(plan(one_node(4), pods, high(cpu=3), policy=POLICY)) == ["large"]


def test_no_pod_is_evicted_if_the_gang_does_not_fit_even_then():
    cluster = [make.node(name, cpu=2) for name in ("n1", "n2")]
    pods = [low("a", "n1", cpu=2), low("b", "n2", cpu=2, priority=99)]
    assert evicted(plan(cluster, pods, waiting_gang("g", 2, cpu=2, priority=10), policy=POLICY)) == []
    one = plan(cluster, pods, waiting_gang("g", 1, cpu=2, priority=10), policy=POLICY)
    assert evicted(one) == ["a"]


def test_a_gang_gets_room_for_all_of_it():
    cluster = [make.node(name, cpu=4) for name in ("n1", "n2")]
    pods = [low(f"{node}-{i}", node) for node in ("n1", "n2") for i in range(4)]
    gang = waiting_gang("g", 3, cpu=2, priority=10)
    found = plan(cluster, pods, gang, policy=POLICY)
    assert len(evicted(found)) == 6
    assert set(nominations(found)) == {"g-0", "g-1", "g-2"}


def test_a_gang_gets_several_places_on_one_node():
    pods = [low(f"a{i}") for i in range(4)]
    found = plan(one_node(4), pods, waiting_gang("g", 2, cpu=2, priority=10), policy=POLICY)
    assert (len(evicted(found)), nominations(found)) == (4, {"g-0": "n1", "g-1": "n1"})


def test_a_gang_of_unlike_pods_gets_room_for_each():
    pods = [low(f"a{i}") for i in range(4)]
    group = make.group("g", minimum=2, created=0)
    gang = [high("g-0", group="g", cpu=1), high("g-1", group="g", cpu=3)]
    found = plan(one_node(4), pods, group, gang, policy=POLICY)
    assert (len(evicted(found)), nominations(found)) == (4, {"g-0": "n1", "g-1": "n1"})


def test_what_is_idle_is_used_first():
    pods = [low(f"a{i}") for i in range(2)]
    found = plan(one_node(4), pods, waiting_gang("g", 3, cpu=1, priority=10), policy=POLICY)
    assert (len(evicted(found)), len(nominations(found))) == (1, 3)


def test_only_the_missing_members_need_room():
    gang = running_gang("g", ["n1"], minimum=2, cpu=1, priority=10)
    found = plan(one_node(3), gang, low("a"), low("b"), waiting("g-1", group="g", cpu=1, priority=10), policy=POLICY)
    assert (len(evicted(found)), set(nominations(found))) == (1, {"g-1"})


def test_the_elastic_part_of_a_job_claims_one_pod_after_the_other_in_one_cycle():
    job = running_gang("g", ["n1"], minimum=1, cpu=1, priority=10)
    more = [waiting(f"g-{i}", group="g", cpu=1, priority=10) for i in (1, 2, 3)]
    found = plan(one_node(3), job, low("a"), low("b"), more, policy=POLICY)
    assert (evicted(found), set(nominations(found))) == (["a", "b"], {"g-1", "g-2"})


def test_a_job_gives_back_several_surplus_pods_in_one_cycle():
    big = running_gang("big", ["n1"] * 6, minimum=1, cpu=1)
    more = [waiting(f"small-{i}", group="small", cpu=1) for i in range(1, 9)]
    found = plan(one_node(7), big, running_gang("small", ["n1"], minimum=1, cpu=1), more, policy=POLICY)
    assert (len(evicted(found)), len(nominations(found))) == (2, 2), "4 and 3 of 7"


@pytest.mark.parametrize("cpu", [1, 2])
def test_a_job_of_which_the_cycle_binds_a_pod_is_no_victim(cpu):
    """g-2 is bound on n2. Not to bind it would be better than to evict g-0 or g-1 for the sake of others."""
    gang = running_gang("g", ["n1", "n1"], minimum=2, cpu=1)
    more = waiting("g-2", group="g", cpu=1)
    cluster = [nodes("n1", cpu=2), nodes("n2", cpu=1), gang, more]
    pinned = {"spec": {"nodeSelector": {make.HOST: "n1"}}}
    found = plan(cluster, high(cpu=cpu, **pinned), policy=POLICY)
    assert (bound(found), evicted(found)) == ({"g-2": "n2"}, [])


def test_a_gang_that_was_evicted_binds_nothing_in_the_same_cycle():
    early = acting("enqueue", "preempt", "allocate", "backfill")
    gang = running_gang("g", ["n1", "n1"], minimum=2, cpu=1)
    more = waiting("g-2", group="g", cpu=1)
    pinned = high(cpu=2, spec={"nodeSelector": {make.HOST: "n1"}})
    found = plan(nodes("n1", cpu=2), nodes("n2", cpu=1), gang, more, pinned, policy=early)
    assert (bound(found), evicted(found)) == ({}, ["g-0", "g-1"])
    assert "g" in reasons(found)


def test_room_that_victims_still_use_is_bound_to_no_pod_of_a_later_action():
    early = acting("enqueue", "preempt", "allocate")
    found = plan(one_node(3), low("a", cpu=3), high(cpu=2), waiting("small", cpu=1), policy=early)
    assert (evicted(found), nominations(found), bound(found)) == (["a"], {"high": "n1"}, {})


def test_a_gang_for_which_pods_are_evicted_has_none_of_its_own_yet():
    found = plan(
        nodes("n1", "n2", cpu=1), low("a"), low("b", "n2"), waiting_gang("g", 2, cpu=1, priority=10), policy=POLICY
    )
    assert (evicted(found), set(nominations(found))) == (["a", "b"], {"g-0", "g-1"})
    assert pending(found)["g"].ready == 0


def test_who_goes_first_follows_pods_that_come_and_go_between_cycles():
    """What could be evicted is kept from cycle to cycle: new names come in order, and what is gone is gone."""
    state = state_of(one_node(4), low("m"), high(cpu=4))
    assert evicted(cycle(state, POLICY)) == ["m"]
    state.upsert([low(name) for name in "nop"])
    state.upsert([high(cpu=1)])
    assert evicted(cycle(state, POLICY)) == ["m"]
    state.apply(Deleted(low("m")))
    state.upsert([high(cpu=2)])
    assert evicted(cycle(state, POLICY)) == ["n"]


def test_a_claimant_evicts_no_pod_that_has_nothing_of_what_it_is_short_of():
    gpus = [low(f"g{i}", cpu=1, gpu=1, started=1) for i in range(2)]
    others = [low(f"c{i}", cpu=1, started=100) for i in range(4)]
    cluster = make.node("n1", cpu=16, gpu=2)
    found = plan(cluster, gpus, others, high(cpu=1, gpu=1), policy=POLICY)
    assert evicted(found) == ["g0"]


def test_what_counts_is_what_is_short_on_that_node():
    """The claimant asks for memory too, but has enough of it here."""
    pods = [low("mem", cpu=0, memory="4Gi", started=100), low("cpu", cpu=4, memory="1Gi")]
    cluster = make.node("n1", cpu=4, memory="16Gi")
    assert evicted(plan(cluster, pods, high(cpu=4, memory="4Gi"), policy=POLICY)) == ["cpu"]


def test_a_pod_slot_is_something_to_be_short_of():
    cluster = make.node("n1", cpu=16, pods=1)
    assert evicted(plan(cluster, low("a"), high(), policy=POLICY)) == ["a"]


def test_a_pod_that_asks_for_nothing_holds_a_slot_and_nothing_else():
    cluster = make.node("n1", cpu=1, pods=2)
    pods = [running("idle", "n1", started=100), low("busy")]
    assert evicted(plan(cluster, pods, high(), policy=POLICY)) == ["busy"]


# -- between nodes --------------------------------------------------------------------------------------------------


def test_the_node_whose_most_important_victim_is_least_important_is_chosen():
    pods = [low("a", "n1", cpu=2, priority=5), low("b", "n2", priority=4), low("c", "n2", priority=1)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["b", "c"]


def test_then_the_one_where_least_work_is_lost():
    pods = [low("old", "n1", cpu=2, started=0), low("young", "n2", cpu=2, started=50)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["young"]
    pods = [low("one", "n1", cpu=2, started=0), low("a", "n2", started=50), low("b", "n2", started=50)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["a", "b"], "work before pods"


def test_then_the_one_with_fewest_pods():
    pods = [low("a", "n1"), low("b", "n1"), low("c", "n2", cpu=2)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["c"]


def test_all_pods_of_a_gang_count():
    gang = running_gang("g", ["n1", "n3", "n3"], cpu=1)
    pods = [low("b", "n2"), low("c", "n2")]
    full = [low("x", "n1", priority=99)]
    found = plan(nodes("n1", "n2", "n3"), gang, pods, full, high(cpu=2, spec={"nodeSelector": {}}), policy=POLICY)
    assert evicted(found) == ["b", "c"]


def test_who_goes_already_is_not_counted_again():
    """The first pod of the claimant costs g-0; with it gone, the rest of its gang is one pod, and loses less work."""
    cluster = [nodes("n1", "n2"), running_gang("g", ["n2", "n1"], minimum=1, started=10, cpu=1, priority=1)]
    cluster += [low("safe", "n1", priority=9), low("old", "n2", priority=1)]  # type: ignore[list-item]
    found = plan(cluster, waiting_gang("high", 2, priority=5, cpu=1), policy=POLICY)
    assert evicted(found) == ["g-0", "g-1"]


def test_then_the_first_by_name():
    pods = [low("a", "n2", cpu=2), low("b", "n1", cpu=2)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["b"]


def test_nodes_where_the_claimant_may_not_go_are_left_alone():
    tainted = make.node("n1", cpu=2, taints=["gpu=yes:NoSchedule"])
    cordoned = make.node("n3", cpu=2, unschedulable=True)
    pods = [low("a", "n1", cpu=2, started=90), low("b", "n2", cpu=2), low("c", "n3", cpu=2, started=90)]
    assert evicted(plan(tainted, make.node("n2", cpu=2), cordoned, pods, high(cpu=2), policy=POLICY)) == ["b"]


def test_a_reserved_node_is_left_alone():
    policy = acting("enqueue", ("reserve", {"starvingJobTimeThreshold": DAY}), "allocate", "preempt", "backfill")
    standing = reserved(waiting("big", cpu=2, created=DAY - 5), ("big", "n1", "reserved"))
    pods = [low("a", "n1", cpu=2, started=90), low("b", "n2", cpu=2)]
    found = plan(nodes("n1", "n2"), pods, standing, high(cpu=2), policy=policy)
    assert evicted(found) == ["b"]
    assert nominations(found) == {"high": "n2"}
    pinned = high(cpu=2, spec={"nodeSelector": {make.HOST: "n1"}})
    assert evicted(plan(nodes("n1", "n2"), pods, standing, pinned, policy=policy)) == []


# -- more than room -------------------------------------------------------------------------------------------------


def test_the_pod_whose_host_port_is_wanted_goes():
    pods = [low("other", started=90), low("web", ports=[80])]
    found = plan(one_node(8), pods, high(ports=[80]), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["web"], {"high": "n1"})
    safe = [low("other", started=90), low("web", ports=[80], priority=99)]
    assert evicted(plan(one_node(8), safe, high(ports=[80]), policy=POLICY)) == []


def test_a_port_is_wanted_and_room_too():
    pods = [low("other", cpu=3, started=90), low("web", cpu=1, ports=[80])]
    found = plan(one_node(4), pods, high(cpu=3, ports=[80]), policy=POLICY)
    assert evicted(found) == ["other", "web"]
    found = plan(one_node(4), pods, high(cpu=1, ports=[80]), policy=POLICY)
    assert evicted(found) == ["web"]


def test_a_victim_may_have_ports_that_no_pod_wants():
    assert evicted(plan(one_node(), low("web", ports=[80]), high(), policy=POLICY)) == ["web"]


def test_ports_of_those_that_leave_are_not_given_away_before_they_are_gone():
    pods = [low("web", ports=[80]), waiting("idle", ports=[80])]
    found = plan(one_node(), pods, high(), policy=POLICY)
    assert (evicted(found), bound(found)) == (["web"], {})


@pytest.mark.parametrize("owner", ["claimant", "victim"])
def test_the_pod_whose_anti_affinity_or_presence_blocks_goes(owner):
    rule, label = {"spec": make.anti_affinity(app="a")}, {"labels": {"app": "a"}}
    mine, theirs = (rule, label) if owner == "claimant" else (label, rule)
    pods = [low("other", started=90), low("block", **theirs)]
    found = plan(one_node(8), pods, high(**mine), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["block"], {"high": "n1"})


@pytest.mark.parametrize("owner", ["claimant", "victim"])
def test_it_may_be_on_another_node_of_the_zone(owner):
    cluster = [make.node(name, cpu=4, labels={"zone": "z"}) for name in ("n1", "n2")]
    rule, label = {"spec": make.anti_affinity("zone", app="a")}, {"labels": {"app": "a"}}
    mine, theirs = (rule, label) if owner == "claimant" else (label, rule)
    full = low("full", "n2", cpu=3, priority=99)
    found = plan(cluster, full, low("block", "n2", **theirs), high(cpu=4, **mine), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["block"], {"high": "n1"})


def test_a_node_without_blockers_is_better_than_one_with_room():
    cluster = nodes("n1", "n2", cpu=4)
    pods = [low("web", "n1", ports=[80], priority=5), low("a", "n2", cpu=4)]
    assert evicted(plan(cluster, pods, high(ports=[80]), policy=POLICY)) == ["a"]


def test_a_blocker_on_another_node_does_not_count():
    cluster = nodes("n1", "n2", cpu=4)
    pods = [low("web", "n1", ports=[80]), low("safe", "n2", cpu=4, priority=99)]
    assert evicted(plan(cluster, pods, high(ports=[80]), policy=POLICY)) == ["web"]


def test_pods_that_spread_too_unevenly_make_room():
    cluster = [make.node(f"n{i}", cpu=4, labels={"zone": f"z{i}"}) for i in (1, 2)]
    there = [low("s0", "n1", labels={"app": "s"}), low("x", "n2", cpu=4, priority=99)]
    claimant = high(labels={"app": "s"}, spec=make.spread("zone", app="s"))
    found = plan(cluster, there, claimant, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["s0"], {"high": "n1"})


def test_a_gang_that_keeps_to_itself_gets_a_node_each():
    cluster = nodes("n1", "n2", cpu=4)
    pods = [low("a", "n1", cpu=4), low("b", "n2", cpu=4)]
    gang = waiting_gang("g", 2, cpu=1, priority=10, labels={"app": "g"}, spec=make.anti_affinity(app="g"))
    found = plan(cluster, pods, gang, policy=POLICY)
    assert evicted(found) == ["a", "b"]
    assert set(nominations(found).values()) == {"n1", "n2"}


def test_the_pods_that_the_claimant_wants_to_be_near_are_spared():
    cluster = nodes("n1", "n2", cpu=2)
    pods = [low("friend", "n1", labels={"app": "f"}, started=90), low("a", "n1"), low("b", "n2", cpu=2)]
    found = plan(cluster, pods, high(spec=make.affinity(app="f")), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"high": "n1"})


# -- over the whole plan ----------------------------------------------------------------------------------------------


def on(node: str) -> dict[str, Any]:
    return {"spec": {"nodeSelector": {make.HOST: node}}}


def test_a_victim_that_a_later_claimant_makes_needless_is_spared():
    """first takes small on n1; then second takes large on n2, which leaves room for first as well."""
    pods = [low("small", "n1", cpu=1), low("large", "n2", cpu=4, priority=1)]
    cluster = [make.node("n1", cpu=1), make.node("n2", cpu=4), pods]
    first, second = high("first", created=1), high("second", created=2, cpu=2, **on("n2"))
    assert evicted(plan(cluster, first, policy=POLICY)) == ["small"]
    found = plan(cluster, first, second, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["large"], {"first": "n2", "second": "n2"})
    full = plan(cluster, first, high("second", created=2, cpu=4, **on("n2")), policy=POLICY)
    assert (evicted(full), nominations(full)) == (["large", "small"], {"first": "n1", "second": "n2"})


def test_a_claimant_that_is_partly_on_free_capacity_spares_its_victim_too():
    """One pod of the gang goes to n2, which is free, the other takes small; later n3 has free capacity for that one."""
    cluster = [make.node("n1", cpu=2), make.node("n2", cpu=2), make.node("n3", cpu=4)]
    pods = [low("small", "n1", cpu=2), low("large", "n3", cpu=4, priority=1)]
    gang = waiting_gang("first", 2, priority=10, created=1, cpu=2)
    alone = plan(cluster, pods, gang, policy=POLICY)
    assert (evicted(alone), sorted(nominations(alone).values())) == (["small"], ["n1", "n2"])
    found = plan(cluster, pods, gang, high("second", created=2, cpu=2, **on("n3")), policy=POLICY)
    assert evicted(found) == ["large"]
    assert sorted(nominations(found).values()) == ["n2", "n3", "n3"]


def test_claimants_exchange_places_if_that_spares_a_victim():
    """The small one is nominated to n1 first; once the gang has gone for the big one, n2 takes the small one, too."""
    cluster = [make.node("n1", cpu=6), make.node("n2", cpu=2)]
    pods = [low("a", cpu=2), low("b", cpu=2, priority=2), *running_gang("g", ["n1", "n2"], cpu=2, priority=1)]
    small = high("small", cpu=2, priority=20)
    assert nominations(plan(cluster, pods, small, policy=POLICY)) == {"small": "n1"}
    found = plan(cluster, pods, small, high("big", cpu=4), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a", "g-0", "g-1"], {"small": "n2", "big": "n1"})


def test_pods_of_one_gang_exchange_places_if_that_spares_a_victim():
    """Where the small pod takes the best node for itself, the big one needs another victim."""
    cluster = [make.node("n1", cpu=6), make.node("n2", cpu=2)]
    pods = [low("a", cpu=2), low("b", cpu=2, priority=2), *running_gang("g", ["n1", "n2"], cpu=2, priority=1)]
    gang = waiting_gang("w", 2, cpu=4, priority=10)
    gang[1] = waiting("w-0", group="w", cpu=2, priority=10)
    found = plan(cluster, pods, gang, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a", "g-0", "g-1"], {"w-0": "n2", "w-1": "n1"})


def test_a_whole_gang_is_spared_and_then_its_surplus():
    gang = running_gang("g", ["n1", "n1", "n1"], minimum=2, cpu=1)
    cluster = [make.node("n1", cpu=3), make.node("n2", cpu=8), gang, low("large", "n2", cpu=8, priority=1)]
    first, second = high("first", created=1, cpu=3), high("second", created=2, cpu=4, **on("n2"))
    found = plan(cluster, first, second, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["large"], {"first": "n2", "second": "n2"})


def test_a_spared_victim_keeps_its_port_and_its_room():
    """first could move to n2, but there large's room goes to second, and the port is second's too."""
    pods = [low("small", "n1", cpu=1), low("large", "n2", cpu=4, priority=1)]
    cluster = [make.node("n1", cpu=1), make.node("n2", cpu=4), pods]
    first, second = high("first", created=1, ports=[80]), high("second", created=2, cpu=2, ports=[80], **on("n2"))
    found = plan(cluster, first, second, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["large", "small"], {"first": "n1", "second": "n2"})


def test_victims_of_a_limit_are_not_spared_because_there_is_room():
    cluster = [nodes("n1", "n2", cpu=4), make.queue("q", capability={"cpu": 3})]
    pods = [low(f"a{i}", "n1", queue="q") for i in range(3)]
    claimants = [high(f"h{i}", queue="q", created=i) for i in range(2)]
    found = plan(cluster, pods, claimants, policy=POLICY)
    assert (len(evicted(found)), len(nominations(found))) == (2, 2)
