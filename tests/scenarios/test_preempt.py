"""preempt: who is entitled to whose room inside a queue, and the options of the action (spec S7.1)."""

import pytest

from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    evicted,
    nominated,
    nominations,
    notes,
    plan,
    preempting,
    running_gang,
    waiting,
)
from support.engine import bound, reasons
from support.engine import waiting as pending
from support.preempting import POLICY, PRIORITY_FIRST, high, low, nodes, one_node
from support.world import World

# -- entitlement --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "entitled"), [(9, False), (10, False), (11, True)])
def test_in_a_namespace_the_claimant_must_have_a_strictly_higher_priority(priority, entitled):
    found = plan(one_node(), low("a", priority=10), high(priority=priority), policy=POLICY)
    assert evicted(found) == (["a"] if entitled else [])
    assert nominations(found) == ({"high": "n1"} if entitled else {})
    assert bound(found) == {}


def test_the_plan_says_which_pod_goes_for_which_job_and_why():
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


def test_capacity_that_an_earlier_claimant_of_the_cycle_frees_serves_the_next_one():
    """On n1 `first` takes what is free and the pod of v1; for `second` on n2 a gang goes, which has a pod on n1, too.
    `third` needs that capacity and the pod of v2: what `first` has of the free capacity is not counted twice.
    """
    cluster = [
        [make.node("n1", cpu=4), make.node("n2", cpu=1, labels={"disk": "ssd"})],
        [low("v1"), low("v2", priority=2)],
        running_gang("gang", ["n1", "n2"], cpu=1, priority=1),
    ]
    second = high("second", priority=8, spec={"nodeSelector": {"disk": "ssd"}})
    claimants = [high("first", cpu=2, priority=9), second, high("third", cpu=2, priority=7)]
    found = plan(cluster, claimants, policy=POLICY)
    assert nominations(found) == {"first": "n1", "second": "n2", "third": "n1"}
    assert evicted(found) == ["gang-0", "gang-1", "v1", "v2"]


def test_a_namespace_with_less_of_its_weighted_share_takes_from_one_with_more():
    cluster = [one_node(4), [low(f"a{i}", namespace="rich") for i in range(4)]]
    found = plan(cluster, high(namespace="poor", priority=0), policy=POLICY)
    assert evicted(found) == ["rich/a0"]
    assert found.evictions[0].reason == "namespace poor has a lower weighted share than rich"
    assert nominations(found) == {"poor/high": "n1"}


def test_it_must_have_no_more_after_the_move():
    """poor would have 1 of 3, rich 2 of 3: fine, and so are 1 and 1. 2 and 1 would only turn the tables."""
    cluster = [one_node(3), [low(f"a{i}", namespace="rich") for i in range(3)]]
    assert evicted(plan(cluster, high(namespace="poor", priority=0), policy=POLICY)) == ["rich/a0"]
    assert evicted(plan(cluster, high(namespace="poor", priority=0, cpu=2), policy=POLICY)) == []
    pair = [one_node(2), [low(f"a{i}", namespace="rich") for i in range(2)]]
    assert evicted(plan(pair, high(namespace="poor", priority=0), policy=POLICY)) == ["rich/a0"]


def test_six_and_four_become_five_and_five_and_stay_there():
    pods = [low(f"a{i}", namespace="six") for i in range(6)] + [low(f"b{i}", namespace="four") for i in range(4)]
    waits = [high(f"w{i}", namespace="four", priority=0, created=0) for i in range(6)]
    world = World(one_node(10), pods, waits, policy=POLICY)
    world.play(until=20)
    assert len(world.evictions) == 1
    assert sum(key.startswith("four/") for key, pod in world.pods.items() if pod.spec.node_name) == 5


def test_six_and_four_pods_of_two_elastic_jobs_become_five_and_five():
    less = running_gang("less", ["n1"] * 4, minimum=1, cpu=1)
    cluster = [one_node(10), running_gang("more", ["n1"] * 6, minimum=1, cpu=1), less]
    waits = [waiting(f"less-{i}", group="less", cpu=1) for i in (4, 5, 6)]
    found = plan(cluster, waits, policy=POLICY)
    assert (len(evicted(found)), set(nominations(found))) == (1, {"less-4"})


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
    three = [one_node(3), [low(f"a{i}", namespace="rich", priority=50) for i in range(2)], low("b", namespace="poor")]
    assert evicted(plan(three, high(namespace="poor", priority=-5), policy=POLICY)) == []
    four = [one_node(4), [low(f"a{i}", namespace="rich", priority=50) for i in range(3)], low("b", namespace="poor")]
    found = plan(four, high(namespace="poor", priority=-5), policy=POLICY)
    assert evicted(found) == ["rich/a0"]
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


def test_at_equal_shares_priority_takes_nothing_that_share_could_take_back():
    """Whatever two lost, it could claim again by its lower share: so priority decides inside a namespace only."""
    cluster = [one_node(2), low("a", namespace="one"), low("b", namespace="two")]
    assert evicted(plan(cluster, high(namespace="one"), policy=POLICY)) == ["one/a"]
    keep = annotated(low("a", namespace="one"), never_evict="true")
    guarded = [one_node(2), keep, low("b", namespace="two")]
    assert evicted(plan(guarded, high(namespace="one"), policy=POLICY)) == []
    assert evicted(plan(guarded, high(namespace="one"), policy=PRIORITY_FIRST)) == ["two/b"]


def test_at_equal_shares_priority_takes_what_changes_no_share():
    """Both have half of the cpu. What one takes of the memory leaves their dominant shares where they are."""
    keep = [annotated(low(f"{name}0", namespace=name, cpu=2), never_evict="true") for name in ("one", "two")]
    other = low("other", namespace="x", cpu=0, memory="4Gi", priority=99)
    cluster = [make.node("n1", cpu=4, memory="8Gi"), keep, other]
    theirs = low("b", namespace="two", cpu=0, memory="4Gi")
    claimant = high(namespace="one", cpu=0, memory="2Gi")
    assert evicted(plan(cluster, theirs, claimant, policy=POLICY)) == ["two/b"]
    assert evicted(plan(cluster, theirs, high(namespace="one", cpu=0, memory="2Gi", priority=0), policy=POLICY)) == []


def test_between_jobs_of_one_namespace_and_priority_the_smaller_share_takes_surplus():
    big = running_gang("big", ["n1"] * 4, minimum=1, cpu=1)
    found = plan(one_node(4), big, high("small", priority=0), policy=POLICY)
    assert len(evicted(found)) == 1
    assert found.evictions[0].reason == "its job has a smaller share"
    pair = running_gang("big", ["n1"] * 2, minimum=1, cpu=1)
    assert len(evicted(plan(one_node(2), pair, high("small", priority=0), policy=POLICY))) == 1
    assert evicted(plan(one_node(2), pair, high("small", priority=0, cpu=2), policy=POLICY)) == []


def test_a_job_never_evicts_its_own():
    job = running_gang("g", ["n1", "n1"], minimum=1, cpu=1)
    more = waiting("g-9", group="g", cpu=1, priority=99)
    assert evicted(plan(one_node(2), job, more, policy=POLICY)) == []


def test_only_inside_the_queue():
    queues = [make.queue("a"), make.queue("b")]
    assert evicted(plan(one_node(), queues, low("a", queue="a"), high(queue="b"), policy=POLICY)) == []
    assert evicted(plan(one_node(), queues, low("a", queue="a"), high(queue="a"), policy=POLICY)) == ["a"]


def test_no_pod_is_evicted_without_the_action():
    assert evicted(plan(one_node(), low("a"), high(), policy=acting("enqueue", "allocate", "backfill"))) == []


def test_no_pod_is_evicted_where_there_is_room():
    found = plan(one_node(2), low("a"), high(), policy=POLICY)
    assert (evicted(found), bound(found)) == ([], {"high": "n1"})


def test_several_claimants_share_out_what_a_job_has_above_its_share():
    """Each would be entitled by itself; the second sees what the first has taken."""
    big = running_gang("big", ["n1"] * 5, minimum=1, cpu=1)
    claimants = [high(f"c{i}", priority=0, cpu=1) for i in range(4)]
    found = plan(one_node(5), big, claimants, policy=POLICY)
    assert len(evicted(found)) == 4


# -- options --------------------------------------------------------------------------------------------------------


def test_a_pod_whose_preemption_policy_is_never_evicts_no_pod():
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
    (eviction,) = found.evictions
    assert eviction.reason == "queue q would exceed its capability of cpu; priority 10 is higher than 0"
    assert evicted(plan(cluster, pods, high(queue="q", cpu=3), policy=POLICY)) == []


def test_victims_of_a_limit_may_be_on_any_node_and_no_message_names_another():
    """Only n2 takes the claimant, and has room; a runs on n1 and goes because its queue is at its limit."""
    cluster = [nodes("n1", "n2", cpu=2), make.queue("q", capability={"cpu": 2})]
    pinned = high(queue="q", spec={"nodeSelector": {make.HOST: "n2"}})
    found = plan(cluster, low("a", "n1", queue="q", cpu=2), pinned, policy=POLICY)
    (eviction,) = found.evictions
    assert (eviction.pod, eviction.node, nominations(found)) == ("default/a", "n1", {"high": "n2"})
    assert eviction.reason == "queue q would exceed its capability of cpu; priority 10 is higher than 0"
    assert "waits for room" not in notes(found, "high")


def test_only_victims_of_a_limit_say_so():
    """b makes room on n2; a goes for the limit alone."""
    cluster = [nodes("n1", "n2", cpu=2), make.queue("q", capability={"cpu": 3})]
    pods = [low("a", "n1", queue="q", cpu=1), low("b", "n2", queue="q", cpu=2)]
    pinned = high(queue="q", cpu=2, spec={"nodeSelector": {make.HOST: "n2"}})
    found = plan(cluster, pods, pinned, policy=POLICY)
    assert {entry.pod: entry.reason for entry in found.evictions} == {"default/b": "priority 10 is higher than 0"}
    wide = [make.node("n1", cpu=2), make.node("n2", cpu=3), make.queue("q", capability={"cpu": 3})]
    whole = high(queue="q", cpu=3, spec={"nodeSelector": {make.HOST: "n2"}})
    found = plan(wide, pods, whole, policy=POLICY)
    by_limit = "queue q would exceed its capability of cpu; priority 10 is higher than 0"
    assert {entry.pod: entry.reason for entry in found.evictions} == {
        "default/a": by_limit,
        "default/b": "priority 10 is higher than 0",
    }


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
    assert "it is nominated to n1 and starts when the pods evicted for it are gone" in notes(found, "high")
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


def test_a_job_for_which_others_go_is_no_victim():
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
