"""reclaim: a queue takes back what it deserves from queues that hold more than they do (spec S7.2)."""

import pytest

from support import objects as make
from support.cli import run_plan
from support.contention import (
    DAY,
    acting,
    annotated,
    budget,
    evicted,
    nominations,
    plan,
    reclaiming,
    reserved,
    running,
    running_gang,
    waiting,
    waiting_gang,
)
from support.engine import bound, policy, reasons

POLICY = reclaiming()


def borrowed(count: int, queue: str = "b", **rest):
    return [running(f"{queue}{i}", "n1", **{"cpu": 1, "queue": queue, **rest}) for i in range(count)]


def claim(name: str = "mine", queue: str = "a", **rest):
    return waiting(name, **{"cpu": 1, "queue": queue, "created": DAY, **rest})


def cluster(cpu: int = 4, *queues):
    return [make.node("n1", cpu=cpu), list(queues) or [make.queue("a"), make.queue("b")]]


def test_a_queue_takes_back_what_it_deserves_and_no_more():
    found = plan(cluster(), borrowed(4), claim(), policy=POLICY)
    assert (evicted(found), nominations(found)) == (["b0"], {"mine": "n1"})
    (eviction,) = found.document()["evictions"]
    assert eviction == {
        "pod": "default/b0",
        "node": "n1",
        "for": "default/mine",
        "action": "reclaim",
        "reason": "queue b has more allocated than it deserves, queue a less",
    }
    claims = [claim(f"m{i}") for i in range(4)]
    assert len(evicted(plan(cluster(), borrowed(4), claims, policy=POLICY))) == 2


def test_the_claimants_queue_stays_within_what_it_deserves_in_every_dimension_it_asks_for():
    assert evicted(plan(cluster(), borrowed(4), claim(cpu=2), policy=POLICY)) == ["b0", "b1"]
    assert evicted(plan(cluster(), borrowed(4), claim(cpu=3), policy=POLICY)) == []
    nodes = [make.node("n1", cpu=4, memory="4Gi"), make.queue("a"), make.queue("b")]
    greedy = claim(cpu=1, memory="3Gi")
    assert evicted(plan(nodes, borrowed(4, memory="1Gi"), greedy, policy=POLICY)) == []
    modest = claim(cpu=1, memory="2Gi")
    assert len(evicted(plan(nodes, borrowed(4, memory="1Gi"), modest, policy=POLICY))) == 2


def test_only_from_queues_that_hold_more_than_they_deserve():
    queues = [make.queue("a"), make.queue("b"), make.queue("c")]
    pods = [borrowed(2, "b"), borrowed(4, "c", started=5)]
    found = plan(cluster(6, *queues), pods, claim(cpu=2), policy=POLICY)
    assert evicted(found) == ["c0", "c1"]
    assert evicted(plan(cluster(6, *queues), pods, claim(cpu=1), policy=POLICY)) == ["c0"]


def test_more_than_deserved_must_be_in_a_dimension_that_is_asked_for():
    """b holds more memory than it deserves, but not more cpu."""
    nodes = [make.node("n1", cpu=4, memory="4Gi"), make.queue("a"), make.queue("b"), make.queue("c")]
    pods = [
        running("b0", "n1", cpu=1, memory="3Gi", queue="b"),
        running("c0", "n1", cpu=3, memory="1Gi", queue="c"),
    ]
    found = plan(nodes, pods, claim(cpu=1), policy=POLICY)
    assert evicted(found) == ["c0"]


def test_a_queue_whose_last_unit_is_larger_than_what_it_has_too_much_loses_it():
    found = plan(cluster(), borrowed(1, cpu=4), claim(cpu=2), policy=POLICY)
    assert evicted(found) == ["b0"]


def test_and_does_not_take_it_back():
    """b would hold more than it deserves with it."""
    pods = [running("mine", "n1", cpu=2, queue="a"), waiting("b0", cpu=4, queue="b")]
    assert evicted(plan(cluster(), pods, policy=POLICY)) == []


def test_a_queue_does_not_lose_more_than_it_has_too_much_of():
    """b deserves 2 and holds 4 in three pods: after two of them it holds 1, and nothing more is taken."""
    pods = [running("big", "n1", cpu=2, queue="b", started=DAY - 9), *borrowed(2)]
    found = plan(cluster(), pods, [claim(f"m{i}", cpu=1) for i in range(2)], policy=POLICY)
    assert evicted(found) == ["big"]


def test_small_units_go_where_a_large_one_would_take_the_queue_below_what_it_deserves():
    """b has 4 of 3.5 deserved: two pods of 0.5 serve, and leave it 3; the large one would leave it 1, and 2 idle."""
    pods = [running("large", "n1", cpu=3, queue="b", started=9), *borrowed(2, cpu="500m")]
    mine = running("m", "n1", cpu=3, queue="a")
    queues = [make.queue("a", deserved={"cpu": 4}), make.queue("b", deserved={"cpu": "3500m"})]
    nodes = make.node("n1", cpu=7)
    assert evicted(plan(nodes, queues, pods, mine, claim(cpu=1), policy=_capacity())) == ["b0", "b1"]
    assert evicted(plan(nodes, queues, pods, mine, claim(cpu="500m"), policy=_capacity())) == ["b0"]
    assert evicted(plan(nodes, queues, pods[:1], mine, claim(cpu=1), policy=_capacity())) == []


def test_on_whatever_node_they_are():
    pods = [running("large", "n1", cpu=3, queue="b", started=9)]
    pods += [running(f"b{i}", "n2", cpu="500m", queue="b") for i in range(2)]
    queues = [make.queue("a", deserved={"cpu": 4}), make.queue("b", deserved={"cpu": "3500m"})]
    nodes = [make.node("n1", cpu=3), make.node("n2", cpu=1)]
    found = plan(nodes, queues, pods, claim(cpu=1), policy=_capacity())
    assert (evicted(found), nominations(found)) == (["b0", "b1"], {"mine": "n2"})


def test_a_set_that_takes_no_queue_below_what_it_deserves_comes_before_one_that_does():
    """The large pod is the latest to start, and of the queue that is furthest above; but c has what is needed."""
    queues = [make.queue(name, deserved={"cpu": most}) for name, most in (("a", 2), ("b", 2), ("c", 1))]
    pods = [running("b0", "n1", cpu=4, queue="b", started=9), *borrowed(2, "c")]
    found = plan(make.node("n1", cpu=6), queues, pods, claim(), policy=_capacity())
    assert evicted(found) == ["c0"]


def written(deserved: dict[str, int], **rest):
    """Queues that deserve so much cpu; keywords give one more field by queue."""
    ((field, by_queue),) = rest.items() or [("weight", {})]
    return [make.queue(name, deserved={"cpu": n}, **{field: by_queue.get(name, 1)}) for name, n in deserved.items()]  # type: ignore[call-overload]


def test_the_queue_that_is_furthest_above_what_it_deserves_gives_first():
    pods = [borrowed(4, "b", started=5), borrowed(5, "c")]
    thirds = {"a": 3, "b": 3, "c": 3}
    assert evicted(plan(cluster(9, *written(thirds)), pods, claim(), policy=_capacity())) == ["c0"]
    level = [borrowed(5, "b"), borrowed(5, "c", started=5)]
    assert evicted(plan(cluster(10, *written(thirds)), level, claim(), policy=_capacity())) == ["c0"], "the latest"
    weights = written(thirds, weight={"c": 3})
    assert evicted(plan(cluster(9, *weights), pods, claim(), policy=_capacity())) == ["b0"], "1 is more than 2 / 3"


def test_of_several_that_go_each_comes_from_the_queue_that_is_furthest_above_then():
    pods = [borrowed(4, "b", started=5), borrowed(5, "c")]
    gang = waiting_gang("g", 3, cpu=1, queue="a", created=DAY)
    queues = written({"a": 3, "b": 3, "c": 3})
    assert evicted(plan(cluster(9, *queues), pods, gang, policy=_capacity())) == ["b0", "c0", "c1"]


def test_the_queue_of_the_lowest_priority_gives_before_that():
    pods = [borrowed(4, "b"), borrowed(5, "c", started=5)]
    thirds = {"a": 3, "b": 3, "c": 3}
    queues = written(thirds, priority={"a": 5, "b": 1, "c": 2})
    assert evicted(plan(cluster(9, *queues), pods, claim(), policy=_capacity())) == ["b0"]
    swapped = written(thirds, priority={"a": 5, "b": 2, "c": 1})
    assert evicted(plan(cluster(9, *swapped), pods, claim(), policy=_capacity())) == ["c0"]


def test_what_is_only_reserved_does_not_count_as_a_guarantee_met():
    """b is guaranteed 3 and has 3, and 3 more reserved: it keeps the 3 that it has."""
    reserving = acting("enqueue", ("reserve", {"starvingJobTimeThreshold": DAY}), "allocate", "reclaim", "backfill")
    big = reserved(waiting("big", cpu=3, queue="b", created=DAY - 5), ("big", "n2", "reserved"))
    nodes = [make.node("n1", cpu=3), make.node("n2", cpu=3), make.queue("a"), make.queue("b", guarantee={"cpu": 3})]
    pods = [make.queue("c"), borrowed(3), running("c", "n2", cpu=3, queue="c"), big]
    found = plan(nodes, pods, claim(spec={"nodeSelector": {make.HOST: "n1"}}), policy=reserving)
    assert evicted(found) == []


def test_capacity_may_take_back_what_is_used_of_a_dimension_that_deserved_does_not_name():
    """b deserves no memory: what it uses of it is borrowed."""
    nodes = make.node("n1", cpu=8, memory="4Gi")
    queues = [make.queue("a", deserved={"cpu": 4, "memory": "2Gi"}), make.queue("b", deserved={"cpu": 4})]
    pods = borrowed(4, memory="1Gi")
    found = plan(nodes, queues, pods, claim(cpu=1, memory="1Gi"), policy=_capacity())
    assert evicted(found) == ["b0"]


def test_priority_does_not_matter_between_queues_but_the_least_important_go_first():
    pods = [running("dear", "n1", cpu=2, queue="b", priority=100), *borrowed(2, priority=50)]
    found = plan(cluster(), pods, claim(cpu=2, priority=-5), policy=POLICY)
    assert evicted(found) == ["b0", "b1"]


def test_never_below_a_guarantee():
    """b deserves only what its guarantee says, and holds that and a bit; what it has borrowed can be taken."""
    queues = [make.queue("a", 9), make.queue("b", guarantee={"cpu": 2})]
    assert evicted(plan(cluster(4, *queues), borrowed(4), claim(cpu=2), policy=POLICY)) == ["b0", "b1"]
    units = borrowed(2, cpu=2)
    guarded = [make.queue("a", 9), make.queue("b", guarantee={"cpu": 3})]
    assert evicted(plan(cluster(4, *guarded), units, claim(cpu=1), policy=POLICY)) == []
    small = borrowed(4)
    assert evicted(plan(cluster(4, *guarded), small, claim(cpu=1), policy=POLICY)) == ["b0"]


def test_a_guarantee_of_a_parent_covers_its_children():
    queues = [
        make.queue("a", 9),
        make.queue("top", guarantee={"cpu": 3}),
        make.queue("b", parent="top"),
        make.queue("c", parent="top"),
    ]
    pods = [borrowed(2, "b"), borrowed(2, "c")]
    found = plan(cluster(4, *queues), pods, claim(), policy=POLICY)
    assert len(evicted(found)) == 1
    assert evicted(plan(cluster(4, *queues), borrowed(2, "b", cpu=2), claim(), policy=POLICY)) == []


def test_inside_a_guaranteed_parent_children_may_take_from_each_other():
    """What one child loses another gains: the parent's guarantee is not touched."""
    queues = [make.queue("top", guarantee={"cpu": 4}), make.queue("a", parent="top"), make.queue("b", parent="top")]
    found = plan(cluster(4, *queues), borrowed(4), claim(), policy=POLICY)
    assert evicted(found) == ["b0"]


def test_a_queue_that_is_not_reclaimable_keeps_what_it_has_borrowed():
    closed = make.made("Queue", "b", spec={"reclaimable": False})
    assert evicted(plan(cluster(4, make.queue("a"), closed), borrowed(4), claim(), policy=POLICY)) == []
    tree = [make.queue("a"), make.made("Queue", "top", spec={"reclaimable": False}), make.queue("b", parent="top")]
    assert evicted(plan(cluster(4, *tree), borrowed(4), claim(), policy=POLICY)) == []
    sibling = [*tree[1:], make.queue("s", parent="top")]
    assert evicted(plan(cluster(4, *sibling), borrowed(4), claim(queue="s"), policy=POLICY)) == ["b0"]


def test_a_queue_marked_never_to_be_evicted_keeps_it_too():
    marked = annotated(make.queue("b"), never_evict="true")
    assert evicted(plan(cluster(4, make.queue("a"), marked), borrowed(4), claim(), policy=POLICY)) == []


def test_children_take_back_from_the_children_of_other_queues():
    queues = [
        make.queue("left"),
        make.queue("right"),
        make.queue("l1", parent="left"),
        make.queue("r1", parent="right"),
        make.queue("r2", parent="right"),
    ]
    pods = [borrowed(3, "r1"), borrowed(1, "r2")]
    found = plan(cluster(4, *queues), pods, claim(queue="l1"), policy=POLICY)
    assert evicted(found) == ["r10"]


def test_what_is_lent_is_taken_back_on_demand_and_without_lending_no_queue_has_more():
    found = plan(cluster(), make.pods("b", 4, queue="b", cpu=1), policy=POLICY)
    assert len(bound(found)) == 4
    strict = reclaiming(proportion={"lending": "none"})
    found = plan(cluster(), make.pods("b", 4, queue="b", cpu=1), policy=strict)
    assert len(bound(found)) == 2


def test_a_whole_gang_gets_its_room_or_no_pod_is_evicted():
    assert len(evicted(plan(cluster(), borrowed(4), waiting_gang("g", 2, cpu=1, queue="a"), policy=POLICY))) == 2
    assert evicted(plan(cluster(), borrowed(4), waiting_gang("g", 3, cpu=1, queue="a"), policy=POLICY)) == []


@pytest.mark.parametrize(
    "protection",
    [
        {"annotations": {"volcano.sh/preemptable": "false"}},
        {"annotations": {"fairway.dev/never-evict": "true"}},
        {"namespace": "kube-system"},
    ],
    ids=str,
)
def test_protections_hold_for_reclaim_too(protection):
    assert evicted(plan(cluster(), borrowed(4, **protection), claim(), policy=POLICY)) == []


def test_gangs_and_budgets_and_run_times_protect_from_reclaim_too():
    gang = running_gang("g", ["n1"] * 4, cpu=1, queue="b")
    assert len(evicted(plan(cluster(), gang, claim(), policy=POLICY))) == 4
    pods = borrowed(4, labels={"app": "b"})
    assert evicted(plan(cluster(), pods, budget("pdb", {"app": "b"}, maxUnavailable=0), claim(), policy=POLICY)) == []
    young = borrowed(4, started=DAY - 5)
    assert evicted(plan(cluster(), young, claim(), policy=reclaiming(minRuntime=60))) == []


def test_options_of_reclaim():
    assert evicted(plan(cluster(), borrowed(4), claim(), policy=reclaiming(preemptionDelay=60))) == []
    found = plan(cluster(), borrowed(4), claim(cpu=2), policy=reclaiming(maxEvictionsPerCycle=1))
    assert (evicted(found), reasons(found)["mine"]) == ([], "PreemptionLimited")


def test_capacity_deserves_what_is_written():
    queues = [make.queue("a", deserved={"cpu": 3}), make.queue("b", deserved={"cpu": 1})]
    found = plan(cluster(4, *queues), borrowed(4), claim(cpu=3), policy=_capacity())
    assert len(evicted(found)) == 3
    assert evicted(plan(cluster(4, *queues), borrowed(4), claim(cpu=4), policy=_capacity())) == []


def test_reclaim_is_among_the_default_actions_and_preempt_is_not(tmp_path):
    objects = [make.node("n1", cpu=4), make.queue("a"), make.queue("b"), *borrowed(4), claim()]
    result = run_plan(objects, tmp_path).plan
    assert [entry["pod"] for entry in result["evictions"]] == ["default/b0"]
    inside = [make.node("n1", cpu=4), make.queue("b"), *borrowed(4), claim(queue="b", priority=9)]
    assert run_plan(inside, tmp_path).plan["evictions"] == []


def _capacity():
    plugins = ("priority", "gang", "drf", "predicates", "capacity", "nodeorder")
    return policy(actions="enqueue, allocate, reclaim", plugins=plugins)
