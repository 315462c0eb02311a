"""preempt: who is never evicted, whoever asks (spec S7.1)."""

import pytest
from msgspec.structs import replace

from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    budget,
    evicted,
    nominated,
    nominations,
    plan,
    preempting,
    running_gang,
    waiting,
    waiting_gang,
)
from support.engine import bound, reasons
from support.preempting import POLICY, high, low, one_node

# -- protections --------------------------------------------------------------------------------------------------


def test_a_gang_goes_whole_and_its_surplus_first():
    gang = running_gang("g", ["n1", "n1", "n1"], minimum=2, cpu=1)
    assert len(evicted(plan(one_node(3), gang, high(), policy=POLICY))) == 1
    assert evicted(plan(one_node(3), gang, high(cpu=2), policy=POLICY)) == ["g-0", "g-1", "g-2"]
    tight = running_gang("g", ["n1", "n1", "n1"], cpu=1)
    assert evicted(plan(one_node(3), tight, high(), policy=POLICY)) == ["g-0", "g-1", "g-2"]


def test_when_a_gang_goes_its_surplus_elsewhere_goes_along():
    """Left behind it would run below its minimum."""
    gang = running_gang("g", ["n1", "n2"], minimum=1, cpu=1, started=5)
    older = [replace(thing) for thing in gang]
    pinned = high(spec={"nodeSelector": {make.HOST: "n1"}})
    cluster = [make.node("n1", cpu=1), make.node("n2", cpu=1)]
    surplus = "g-0"  # the same start: the surplus is the first by name, on n1
    assert evicted(plan(cluster, older, pinned, policy=POLICY)) == [surplus]
    other = high(spec={"nodeSelector": {make.HOST: "n2"}})
    assert evicted(plan(cluster, older, other, policy=POLICY)) == ["g-0", "g-1"]


def test_each_role_keeps_its_minimum():
    group = make.group("g", minimum=1, roles={"chief": 1}, created=0, phase="Running")
    pods = [low("g-chief", group="g", role="chief", started=50), low("g-worker", group="g", role="worker")]
    assert evicted(plan(one_node(2), group, pods, high(), policy=POLICY)) == ["g-worker"]
    assert evicted(plan(one_node(2), group, pods, high(cpu=2), policy=POLICY)) == ["g-chief", "g-worker"]


@pytest.mark.parametrize(
    "victim",
    [
        low("a", namespace="kube-system"),
        low("a", spec={"priorityClassName": "system-node-critical", "priority": 0}),
        low("a", annotations={"volcano.sh/preemptable": "false"}),
        annotated(low("a"), never_evict="true"),
    ],
    ids=["kube-system", "critical", "not preemptable", "never evict"],
)
def test_some_pods_are_never_victims(victim):
    claimant = high(namespace=victim.metadata.namespace)
    assert evicted(plan(one_node(), victim, claimant, policy=POLICY)) == []


def test_system_pods_are_only_safe_with_conformance():
    policy = acting("enqueue", "allocate", "preempt", conformance={"enablePreemptable": False})
    victim = low("a", namespace="kube-system")
    assert evicted(plan(one_node(), victim, high(namespace="kube-system"), policy=policy)) == ["kube-system/a"]


def test_a_group_marked_never_to_be_evicted():
    group, *pods = running_gang("g", ["n1"], cpu=1)
    assert evicted(plan(one_node(), group, pods, high(), policy=POLICY)) == ["g-0"]
    assert evicted(plan(one_node(), annotated(group, never_evict="true"), pods, high(), policy=POLICY)) == []
    assert evicted(plan(one_node(), annotated(group, never_evict="no"), pods, high(), policy=POLICY)) == ["g-0"]


def test_a_queue_marked_never_to_be_evicted_and_those_below_it():
    marked = annotated(make.queue("q"), never_evict="true")
    pods = [low("a", queue="q"), high(queue="q")]
    assert evicted(plan(one_node(), make.queue("q"), pods, policy=POLICY)) == ["a"]
    assert evicted(plan(one_node(), marked, pods, policy=POLICY)) == []
    tree = [annotated(make.queue("top"), never_evict="true"), make.queue("q", parent="top")]
    assert evicted(plan(one_node(), tree, pods, policy=POLICY)) == []


def test_one_protected_pod_protects_its_gang_but_not_the_surplus():
    group, *pods = running_gang("g", ["n1", "n1"], cpu=1)
    guarded = [annotated(pods[0], never_evict="true"), pods[1]]
    assert evicted(plan(one_node(2), group, guarded, high(), policy=POLICY)) == []
    loose = make.group("g", minimum=1, created=0)
    assert evicted(plan(one_node(2), loose, guarded, high(), policy=POLICY)) == ["g-1"]
    assert evicted(plan(one_node(2), loose, guarded, high(cpu=2), policy=POLICY)) == []


@pytest.mark.parametrize(("ran", "safe"), [(59, True), (60, False)])
def test_a_pod_that_has_not_run_for_long_enough_is_safe(ran, safe):
    policy = preempting(minRuntime=60)
    found = plan(one_node(), low("a", started=DAY - ran), high(), policy=policy)
    assert evicted(found) == ([] if safe else ["a"])


def test_the_plan_says_when_a_pod_will_have_run_for_long_enough():
    found = plan(one_node(), low("a", started=DAY - 59), high(), policy=preempting(minRuntime=60))
    assert found.document()["recheckAt"] == make.at(DAY + 1)


def test_a_gang_is_as_young_as_its_youngest_pod():
    group = make.group("g", minimum=2, created=0)
    pods = [low("g-0", group="g"), low("g-1", group="g", started=DAY - 1)]
    assert evicted(plan(one_node(2), group, pods, high(), policy=preempting(minRuntime=60))) == []


def labelled(count: int):
    return [low(f"a{i}", labels={"app": "a"}) for i in range(count)]


@pytest.mark.parametrize(("allowed", "victims"), [(0, []), (1, ["a0"])])
def test_the_status_of_a_disruption_budget_is_respected(allowed, victims):
    pdb = budget("pdb", {"app": "a"}, allowed=allowed)
    assert evicted(plan(one_node(2), labelled(2), pdb, high(), policy=POLICY)) == victims
    assert evicted(plan(one_node(2), labelled(2), pdb, high(cpu=2), policy=POLICY)) == []


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({"minAvailable": 4}, 0),
        ({"minAvailable": 3}, 1),
        ({"minAvailable": "50%"}, 2),
        ({"minAvailable": "51%"}, 1),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "25%"}, 1),
        ({"maxUnavailable": 0}, 0),
        ({"maxUnavailable": "100%"}, 4),
    ],
    ids=str,
)
def test_a_disruption_budget_without_a_status_is_worked_out(spec, most):
    pdb = budget("pdb", {"app": "a"}, **spec)
    for wanted in range(1, 5):
        found = plan(one_node(4), labelled(4), pdb, high(cpu=wanted), policy=POLICY)
        assert len(evicted(found)) == (wanted if wanted <= most else 0), wanted


@pytest.mark.parametrize(
    ("spec", "pending", "most"),
    [
        ({"maxUnavailable": 2}, 0, 2),
        ({"maxUnavailable": 2}, 1, 1),
        ({"maxUnavailable": 2}, 2, 0),
        ({"maxUnavailable": 2}, 3, 0),
        ({"maxUnavailable": "50%"}, 1, 2),
        ({"maxUnavailable": "50%"}, 3, 1),
        ({"minAvailable": 3}, 2, 1),
        ({"minAvailable": "50%"}, 2, 1),
    ],
    ids=str,
)
def test_pods_that_are_not_there_have_used_up_part_of_a_budget(spec, pending, most):
    """Four run and some wait: those that wait are unavailable already."""
    waits = [waiting(f"w{i}", cpu=1, labels={"app": "a"}, priority=-1) for i in range(pending)]
    pdb = budget("pdb", {"app": "a"}, **spec)
    for wanted in range(1, 5):
        found = plan(one_node(4), labelled(4), waits, pdb, high(cpu=wanted), policy=POLICY)
        assert len(evicted(found)) == (wanted if wanted <= most else 0), wanted


def test_pods_that_terminate_have_used_up_part_of_a_budget():
    pods = [labelled(3), low("gone", labels={"app": "a"}, leaving=True)]
    claimant = high(cpu=2)
    pdb = budget("pdb", {"app": "a"}, maxUnavailable=1)
    assert evicted(plan(one_node(4), pods, pdb, claimant, policy=POLICY)) == []
    wide = budget("pdb", {"app": "a"}, maxUnavailable=2)
    assert len(evicted(plan(one_node(4), pods, wide, claimant, policy=POLICY))) == 1


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_system_pods_are_protected_by_conformance_as_its_flags_say(action):
    """Without the plugin, or with its flag for the action off, they are like any other."""
    queues = [make.queue("a"), make.queue("b")]
    mine = "b" if action == "preempt" else "a"
    pods = [low(f"s{i}", namespace="kube-system", queue="b") for i in range(2)]
    claimant = high(queue=mine, namespace="kube-system", priority=10)
    for flags, count in (({}, 0), ({f"enable{action.capitalize()}able": False}, 1), ({"enableJobOrder": False}, 0)):
        chosen = acting("enqueue", "allocate", action, conformance=flags)
        found = plan(one_node(2), queues, pods, claimant, policy=chosen)
        assert len(evicted(found)) == count, flags


def test_a_budget_is_spent_by_all_claimants_of_a_cycle_together():
    pdb = budget("pdb", {"app": "a"}, allowed=1)
    claimants = [high("h1"), high("h2")]
    assert len(evicted(plan(one_node(2), labelled(2), pdb, claimants, policy=POLICY))) == 1


def test_a_budget_is_spent_by_preempt_and_reclaim_together():
    policy = acting("enqueue", "allocate", "preempt", "reclaim", "backfill")
    pdb = budget("pdb", {"app": "a"}, allowed=1)
    queues = [make.queue("a"), make.queue("b")]
    pods = [low(f"a{i}", queue="a", labels={"app": "a"}) for i in range(4)]
    claimants = [high("inside", queue="a"), high("outside", queue="b")]
    assert len(evicted(plan(one_node(4), queues, pods, claimants, policy=policy))) == 2
    found = plan(one_node(4), queues, pods, claimants, pdb, policy=policy)
    assert len(evicted(found)) == 1


def test_those_that_leave_already_are_no_victims():
    leaving = low("a", leaving=True)
    found = plan(one_node(), leaving, high(), policy=POLICY)
    assert evicted(found) == []
    assert reasons(found)["high"] == "WaitingForRelease"


def test_no_victim_goes_where_terminating_pods_make_enough_room():
    found = plan(one_node(2), low("a", leaving=True), low("b"), high(), policy=POLICY)
    assert (evicted(found), reasons(found)["high"]) == ([], "WaitingForRelease")


def test_a_gang_evicts_only_for_what_those_that_leave_already_do_not_make():
    pods = [low("a", leaving=True), low("b"), low("c")]
    found = plan(one_node(3), pods, waiting_gang("high", 2, priority=20, cpu=1), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["b"], {"high-0": "n1", "high-1": "n1"})


def test_room_that_is_being_left_for_a_pod_is_no_others():
    waits = nominated(high("first"), "n1")
    found = plan(one_node(2), low("a", leaving=True), low("b"), waits, high("second"), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["b"], {"first": "n1", "second": "n1"})


def test_what_a_victim_leaves_beyond_the_need_of_one_claimant_does_for_the_next():
    pods = [low("a", cpu=2), low("b", cpu=2, priority=5)]
    found = plan(one_node(4), pods, high("first", created=1), high("second", created=2), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"first": "n1"})
    third = [high(name, created=at) for at, name in enumerate(("first", "second", "third"), 1)]
    assert evicted(plan(one_node(4), pods, third, policy=POLICY)) == ["a"], "one waits for a cycle more"


def test_room_that_victims_leave_is_given_to_no_pod_before_they_are_gone():
    """preempt before allocate: what the victim leaves beyond the need is not there yet."""
    early = acting("enqueue", "preempt", "allocate")
    found = plan(one_node(2), low("a", cpu=2), high(), waiting("small", cpu=1, created=DAY), policy=early)
    assert (evicted(found), nominations(found), bound(found)) == (["a"], {"high": "n1"}, {})
