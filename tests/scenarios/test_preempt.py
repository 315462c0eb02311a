"""preempt: who takes room from whom inside a queue, who is safe, and why (the rules 7.1, 7.3 and 7.4)."""

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
    notes,
    plan,
    preempting,
    reserved,
    running,
    running_gang,
    waiting,
    waiting_gang,
)
from support.engine import bound, reasons
from support.engine import waiting as pending

POLICY = preempting()
PRIORITY_FIRST = preempting(drf={"priorityFirst": True})


def low(name: str, node: str = "n1", **rest):
    return running(name, node, **{"cpu": 1, **rest})


def high(name: str = "high", **rest):
    return waiting(name, **{"cpu": 1, "priority": 10, "created": DAY, **rest})


def one_node(cpu: int = 1, **rest):
    return make.node("n1", cpu=cpu, **rest)


# -- entitlement --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "entitled"), [(9, False), (10, False), (11, True)])
def test_in_a_namespace_the_claimant_must_have_a_strictly_higher_priority(priority, entitled):
    found = plan(one_node(), low("a", priority=10), high(priority=priority), policy=POLICY)
    assert evicted(found) == (["a"] if entitled else [])
    assert nominations(found) == ({"high": "n1"} if entitled else {})
    assert bound(found) == {}


def test_the_plan_says_who_goes_for_whom_and_why():
    found = plan(one_node(), low("a"), high(), policy=POLICY)
    (eviction,) = found.document()["evictions"]
    assert eviction == {
        "pod": "default/a",
        "node": "n1",
        "for": "default/high",
        "action": "preempt",
        "reason": "priority 10 is higher than 0",
    }
    assert reasons(found) == {"high": "WaitingForRelease"}


def test_a_namespace_with_less_of_its_weighted_share_takes_from_one_with_more():
    cluster = [one_node(4), [low(f"a{i}", namespace="rich") for i in range(4)]]
    found = plan(cluster, high(namespace="poor", priority=0), policy=POLICY)
    assert evicted(found) == ["rich/a0"]
    assert found.evictions[0].reason == "namespace poor has less of its weighted share than rich"
    assert nominations(found) == {"poor/high": "n1"}


def test_it_must_have_less_even_after_the_move():
    """poor would have 1 of 3, rich 2 of 3: fine. With 2 each it would only turn the tables."""
    cluster = [one_node(3), [low(f"a{i}", namespace="rich") for i in range(3)]]
    assert evicted(plan(cluster, high(namespace="poor", priority=0), policy=POLICY)) == ["rich/a0"]
    assert evicted(plan(cluster, high(namespace="poor", priority=0, cpu=2), policy=POLICY)) == []
    pair = [one_node(2), [low(f"a{i}", namespace="rich") for i in range(2)]]
    assert evicted(plan(pair, high(namespace="poor", priority=0), policy=POLICY)) == []


def test_weights_count():
    cluster = [one_node(2), [low(f"a{i}", namespace="rich") for i in range(2)]]
    poor = high(namespace="poor", priority=0)
    assert evicted(plan(cluster, make.quota("poor", 3), poor, policy=POLICY)) == ["rich/a0"]
    assert evicted(plan(cluster, make.quota("rich", 3), poor, policy=POLICY)) == []


def test_namespaces_come_before_priority():
    """A pod of the namespace that has more gets nothing from the other, however important it is."""
    cluster = [one_node(3), [low(f"a{i}", namespace="rich") for i in range(2)], low("b", namespace="poor")]
    found = plan(cluster, high(namespace="rich", priority=100), policy=POLICY)
    assert evicted(found) == ["rich/a0"]
    cheap = plan(cluster, high(namespace="poor", priority=-5), policy=preempting(minRuntime=0))
    assert evicted(cheap) == []
    four = [one_node(4), [low(f"a{i}", namespace="rich", priority=50) for i in range(3)], low("b", namespace="poor")]
    found = plan(four, high(namespace="poor", priority=-5), policy=POLICY)
    assert evicted(found) == []
    five = [one_node(5), [low(f"a{i}", namespace="rich", priority=50) for i in range(4)], low("b", namespace="poor")]
    assert evicted(plan(five, high(namespace="poor", priority=-5), policy=POLICY)) == ["rich/a0"]


def test_with_priority_first_it_is_the_other_way_round():
    cluster = [one_node(3), [low(f"a{i}", namespace="rich") for i in range(2)], low("b", namespace="poor", priority=-1)]
    found = plan(cluster, high(namespace="rich"), policy=PRIORITY_FIRST)
    assert evicted(found) == ["poor/b"]
    assert found.evictions[0].reason == "priority 10 is higher than -1"
    five = [one_node(5), [low(f"a{i}", namespace="rich", priority=50) for i in range(4)], low("b", namespace="poor")]
    assert evicted(plan(five, high(namespace="poor", priority=-5), policy=PRIORITY_FIRST)) == []
    level = high(namespace="poor", priority=50)
    assert evicted(plan(one_node(4), five[1], level, policy=PRIORITY_FIRST)) == ["rich/a0"]


def test_at_equal_shares_nobody_takes_what_somebody_smaller_could_take_back_by_share():
    keep = annotated(low("a", namespace="one", cpu=2), never_evict="true")
    cluster = [one_node(4), keep, low("b", namespace="two", cpu=2)]
    claimant = high(namespace="one", cpu=2)
    assert evicted(plan(cluster, claimant, policy=POLICY)) == ["two/b"]
    alike, smaller = (waiting(f"w{cpu}", namespace="two", cpu=cpu, created=DAY) for cpu in (2, 1))
    assert evicted(plan(cluster, claimant, alike, policy=POLICY)) == ["two/b"]
    assert evicted(plan(cluster, claimant, smaller, policy=POLICY)) == []


def test_at_equal_shares_of_two_namespaces_priority_decides():
    cluster = [one_node(2), low("a", namespace="one"), low("b", namespace="two")]
    found = plan(cluster, high(namespace="one"), policy=POLICY)
    assert evicted(found) == ["one/a"]  # both are entitled; the order of victims decides
    keep = annotated(low("a", namespace="one"), never_evict="true")
    found = plan(one_node(2), keep, low("b", namespace="two"), high(namespace="one"), policy=POLICY)
    assert evicted(found) == ["two/b"]
    assert (
        evicted(plan(one_node(2), keep, low("b", namespace="two"), high(namespace="one", priority=0), policy=POLICY))
        == []
    )


def test_at_equal_shares_a_claimant_takes_one_unit_of_another_namespace_at_most():
    """Of two, the smaller could come back by share, and then the whole would begin again."""
    mine = annotated(low("a", namespace="one", cpu=2), never_evict="true")
    theirs = [low(f"b{i}", namespace="two") for i in range(2)]
    assert evicted(plan(one_node(4), mine, theirs, high(namespace="one", cpu=2), policy=POLICY)) == []
    whole = low("b", namespace="two", cpu=2)
    assert evicted(plan(one_node(4), mine, whole, high(namespace="one", cpu=2), policy=POLICY)) == ["two/b"]


def test_between_jobs_of_one_namespace_and_priority_the_smaller_share_takes_surplus():
    big = running_gang("big", ["n1"] * 4, minimum=1, cpu=1)
    found = plan(one_node(4), big, high("small", priority=0), policy=POLICY)
    assert len(evicted(found)) == 1
    assert found.evictions[0].reason == "its job has a smaller share"
    pair = running_gang("big", ["n1"] * 2, minimum=1, cpu=1)
    assert evicted(plan(one_node(2), pair, high("small", priority=0), policy=POLICY)) == []


def test_a_job_never_evicts_its_own():
    job = running_gang("g", ["n1", "n1"], minimum=1, cpu=1)
    more = waiting("g-9", group="g", cpu=1, priority=99)
    assert evicted(plan(one_node(2), job, more, policy=POLICY)) == []


def test_only_inside_the_queue():
    queues = [make.queue("a"), make.queue("b")]
    assert evicted(plan(one_node(), queues, low("a", queue="a"), high(queue="b"), policy=POLICY)) == []
    assert evicted(plan(one_node(), queues, low("a", queue="a"), high(queue="a"), policy=POLICY)) == ["a"]


def test_nobody_is_evicted_without_the_action():
    assert evicted(plan(one_node(), low("a"), high(), policy=acting("enqueue", "allocate", "backfill"))) == []


def test_nobody_is_evicted_where_there_is_room():
    found = plan(one_node(2), low("a"), high(), policy=POLICY)
    assert (evicted(found), bound(found)) == ([], {"high": "n1"})


def test_several_claimants_share_out_what_a_job_has_above_its_share():
    """Each would be entitled by itself; the second sees what the first has taken."""
    big = running_gang("big", ["n1"] * 5, minimum=1, cpu=1)
    claimants = [high(f"c{i}", priority=0, cpu=1) for i in range(4)]
    found = plan(one_node(5), big, claimants, policy=POLICY)
    assert len(evicted(found)) == 3


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


def test_those_who_leave_already_are_no_victims():
    leaving = low("a", leaving=True)
    found = plan(one_node(), leaving, high(), policy=POLICY)
    assert evicted(found) == []
    assert reasons(found)["high"] == "WaitingForRelease"


def test_nobody_goes_for_whom_those_who_leave_already_make_enough_room():
    found = plan(one_node(2), low("a", leaving=True), low("b"), high(), policy=POLICY)
    assert (evicted(found), reasons(found)["high"]) == ([], "WaitingForRelease")


def test_a_gang_evicts_only_for_what_those_who_leave_already_do_not_make():
    pods = [low("a", leaving=True), low("b"), low("c")]
    found = plan(one_node(3), pods, waiting_gang("high", 2, priority=20, cpu=1), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["b"], {"high-0": "n1", "high-1": "n1"})


def test_room_that_is_being_left_for_somebody_is_nobody_elses():
    waits = nominated(high("first"), "n1")
    found = plan(one_node(2), low("a", leaving=True), low("b"), waits, high("second"), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["b"], {"first": "n1", "second": "n1"})


def test_what_a_victim_leaves_beyond_the_need_of_one_claimant_does_for_the_next():
    pods = [low("a", cpu=2), low("b", cpu=2, priority=5)]
    found = plan(one_node(4), pods, high("first", created=1), high("second", created=2), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"first": "n1"})
    third = [high(name, created=at) for at, name in enumerate(("first", "second", "third"), 1)]
    assert evicted(plan(one_node(4), pods, third, policy=POLICY)) == ["a"], "one waits for a cycle more"


def test_room_that_victims_leave_is_given_to_nobody_before_they_are_gone():
    """preempt before allocate: what the victim leaves beyond the need is not there yet."""
    early = acting("enqueue", "preempt", "allocate")
    found = plan(one_node(2), low("a", cpu=2), high(), waiting("small", cpu=1, created=DAY), policy=early)
    assert (evicted(found), nominations(found), bound(found)) == (["a"], {"high": "n1"}, {})


# -- minimal, useful, only what is needed -------------------------------------------------------------------------


def test_the_least_important_go_then_the_latest_to_start_then_by_name():
    pods = [low("a", priority=5), low("b", started=10), low("c", started=20), low("d", started=20)]
    cluster = one_node(4)
    assert evicted(plan(cluster, pods, high(), policy=POLICY)) == ["c"]
    assert evicted(plan(cluster, pods, high(cpu=2), policy=POLICY)) == ["c", "d"]
    assert evicted(plan(cluster, pods, high(cpu=3), policy=POLICY)) == ["b", "c", "d"]
    assert evicted(plan(cluster, pods, high(cpu=4), policy=POLICY)) == ["a", "b", "c", "d"]


def test_whoever_turns_out_not_to_be_needed_is_spared():
    pods = [low("small", cpu=1, started=20), low("large", cpu=3, started=10)]
    assert evicted(plan(one_node(4), pods, high(cpu=3), policy=POLICY)) == ["large"]


def test_nobody_is_evicted_if_the_gang_does_not_fit_even_then():
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


def test_the_elastic_part_of_a_job_claims_one_pod_after_the_other():
    job = running_gang("g", ["n1"], minimum=1, cpu=1, priority=10)
    more = [waiting(f"g-{i}", group="g", cpu=1, priority=10) for i in (1, 2)]
    found = plan(one_node(3), job, low("a"), low("b"), more, policy=POLICY)
    assert len(evicted(found)) == 1


def test_a_claimant_evicts_nobody_who_holds_nothing_of_what_it_is_short_of():
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


def nodes(*names: str, cpu: int = 2):
    return [make.node(name, cpu=cpu) for name in names]


def test_the_node_whose_most_important_victim_is_least_important_is_chosen():
    pods = [low("a", "n1", cpu=2, priority=5), low("b", "n2", priority=4), low("c", "n2", priority=1)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["b", "c"]


def test_then_the_one_with_fewest_pods():
    pods = [low("a", "n1"), low("b", "n1"), low("c", "n2", cpu=2)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["c"]


def test_all_pods_of_a_gang_count():
    gang = running_gang("g", ["n1", "n3", "n3"], cpu=1)
    pods = [low("b", "n2"), low("c", "n2")]
    full = [low("x", "n1", priority=99)]
    found = plan(nodes("n1", "n2", "n3"), gang, pods, full, high(cpu=2, spec={"nodeSelector": {}}), policy=POLICY)
    assert evicted(found) == ["b", "c"]


def test_then_the_one_where_least_work_is_lost():
    pods = [low("old", "n1", cpu=2, started=0), low("young", "n2", cpu=2, started=50)]
    assert evicted(plan(nodes("n1", "n2"), pods, high(cpu=2), policy=POLICY)) == ["young"]


def test_who_goes_already_is_not_counted_again():
    """The first pod of the claimant costs g-0; with it gone, the rest of its gang is one pod, and loses less work."""
    cluster = [nodes("n1", "n2"), running_gang("g", ["n2", "n1"], minimum=1, started=10, cpu=1, priority=1)]
    cluster += [low("safe", "n1", priority=9), low("old", "n2", priority=1)]
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


def test_a_victim_may_have_ports_that_nobody_wants():
    assert evicted(plan(one_node(), low("web", ports=[80]), high(), policy=POLICY)) == ["web"]


def test_ports_of_those_who_leave_are_not_given_away_before_they_are_gone():
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


def test_the_pods_whom_the_claimant_wants_to_be_near_are_spared():
    cluster = nodes("n1", "n2", cpu=2)
    pods = [low("friend", "n1", labels={"app": "f"}, started=90), low("a", "n1"), low("b", "n2", cpu=2)]
    found = plan(cluster, pods, high(spec=make.affinity(app="f")), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"high": "n1"})


# -- options --------------------------------------------------------------------------------------------------------


def test_a_pod_whose_preemption_policy_is_never_evicts_nobody():
    meek = high(spec={"preemptionPolicy": "Never"})
    assert evicted(plan(one_node(), low("a"), meek, policy=POLICY)) == []
    by_class = make.made("PriorityClass", "meek", value=10, preemptionPolicy="Never")
    claimant = make.pod("high", cpu=1, spec={"priorityClassName": "meek"})
    assert evicted(plan(one_node(), low("a"), by_class, claimant, policy=POLICY)) == []


def test_those_behind_a_meek_pod_are_not_meek_for_it():
    meek = high("a-meek", created=0, spec={"preemptionPolicy": "Never"})
    found = plan(one_node(2), low("a"), low("b"), meek, high("bold", created=1), policy=POLICY)
    assert (len(evicted(found)), nominations(found)) == (1, {"bold": "n1"})


@pytest.mark.parametrize(("waited", "acts"), [(29, False), (30, True)])
def test_a_claimant_waits_for_as_long_as_the_policy_says(waited, acts):
    found = plan(one_node(), low("a"), high(created=DAY - waited), policy=preempting(preemptionDelay=30))
    assert evicted(found) == (["a"] if acts else [])
    if not acts:
        assert found.document()["recheckAt"] == make.at(DAY + 1)


def test_those_behind_a_claimant_wait_for_as_long_too():
    claimants = [high("old", created=0), high("young", created=DAY - 1)]
    found = plan(one_node(2), low("a"), low("b"), claimants, policy=preempting(preemptionDelay=30))
    assert nominations(found) == {"old": "n1"}


def test_a_claimant_that_needs_more_evictions_than_a_cycle_has_waits_and_says_so():
    pods = [low(f"a{i}") for i in range(3)]
    limited = preempting(maxEvictionsPerCycle=2)
    found = plan(one_node(3), pods, high(cpu=3), policy=limited)
    assert evicted(found) == []
    assert reasons(found) == {"high": "PreemptionLimited"}
    assert notes(found, "high") == "needs 3 evictions, 2 left in this cycle"
    found = plan(one_node(3), pods, [high(f"h{i}", created=i) for i in range(3)], policy=limited)
    assert len(evicted(found)) == 2
    assert reasons(found)["h2"] == "PreemptionLimited"


def test_a_claimant_whose_queue_is_full_makes_room_in_its_queue():
    """The cluster has room; the queue's capability is used up by less important pods of its own."""
    queue = make.queue("q", capability={"cpu": 2})
    cluster = [make.node("n1", cpu=8), queue]
    pods = [low("a", queue="q", started=5), low("b", queue="q")]
    found = plan(cluster, pods, high(queue="q"), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"high": "n1"})
    assert evicted(plan(cluster, pods, high(queue="q", cpu=3), policy=POLICY)) == []


def test_one_victim_can_serve_capability_and_room_at_once():
    queue = make.queue("q", capability={"cpu": 2})
    cluster = [nodes("n1", "n2", cpu=1), queue]
    pods = [low("a", "n1", queue="q", started=5), low("b", "n2", queue="q")]
    pinned = high(queue="q", spec={"nodeSelector": {make.HOST: "n2"}})
    assert evicted(plan(cluster, pods, pinned, policy=POLICY)) == ["b"]


def test_a_lone_pod_that_asks_for_nothing_claims_nothing():
    assert evicted(plan(make.node("n1", cpu=1, pods=1), low("a"), waiting("idle", priority=9), policy=POLICY)) == []


def test_pending_jobs_say_where_they_stand():
    found = plan(one_node(), low("a"), high(), policy=POLICY)
    assert "it has places on n1 and waits for room there" in notes(found, "high")
    assert pending(found)["high"].position == 1


def test_preempt_before_allocate_serves_jobs_that_have_started_too():
    policy = acting("enqueue", "preempt", "allocate")
    job = running_gang("g", ["n1"], minimum=2, cpu=1, priority=10)
    found = plan(one_node(2), job, low("a"), waiting("g-1", group="g", cpu=1, priority=10), policy=policy)
    assert evicted(found) == ["a"]


def test_a_job_that_has_just_been_evicted_claims_nothing_in_that_cycle():
    gang = running_gang("g", ["n1"], cpu=1, priority=5)
    more = waiting("g-1", group="g", cpu=1, priority=5)
    found = plan(nodes("n1", "n2", cpu=1), gang, more, low("a", "n2", priority=6), high(priority=6), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["g-0"], {"high": "n1"})
    found = plan(nodes("n1", "n2", cpu=1), gang, more, low("a", "n2"), high(priority=6), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"high": "n2"})


def test_a_job_for_which_others_go_is_nobodys_victim():
    """mid takes a's room for one more pod of it; the next claimant leaves mid alone then."""
    mid = running_gang("mid", ["n1", "n1"], minimum=1, cpu=1, priority=5)
    more = waiting("mid-2", group="mid", cpu=1, priority=5, created=0)
    late = high("late", priority=9, namespace="default")
    cluster = [make.node("n1", cpu=3), low("a", priority=0)]
    found = plan(cluster, mid, more, policy=POLICY)
    assert (evicted(found), nominations(found)) == (["a"], {"mid-2": "n1"})
    standing = nominated(more, "n1")
    found = plan(make.node("n1", cpu=3), low("a", leaving=True), mid, standing, late, policy=POLICY)
    assert evicted(found) == []


def test_what_allocate_has_placed_claims_nothing():
    job = running_gang("g", ["n1"], minimum=1, cpu=1, priority=10)
    more = waiting("g-1", group="g", cpu=1, priority=10)
    found = plan(nodes("n1", "n2", cpu=1), job, more, policy=POLICY)
    assert (bound(found), evicted(found)) == ({"g-1": "n2"}, [])
    found = plan(nodes("n1", "n2", "n3", cpu=1), job, more, low("a", "n3"), policy=POLICY)
    assert (bound(found), evicted(found)) == ({"g-1": "n2"}, [])
