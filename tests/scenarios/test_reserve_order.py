"""Which starving job reserves first, and what reservations leave to others (spec S6.1 to S6.3)."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from fairway.clock import to_datetime
from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    cycle,
    notes,
    plan,
    reservation,
    reservations,
    reserving,
    running,
    waiting,
    waiting_gang,
)
from support.engine import bound, policy, state_of
from support.engine import waiting as pending
from support.objects import BEGIN

HALF = {"starvingJobTimeThreshold": 1}


def full(name: str = "n1", cpu: int = 4, **rest: Any) -> list[Any]:
    """A node on which one pod leaves a single cpu."""
    return [make.node(name, cpu=cpu, pods=20), running(f"on-{name}", name, cpu=cpu - 1, **rest)]


def many(count: int) -> list[Any]:
    return [full(f"n{number}") for number in range(1, count + 1)]


# -- order ------------------------------------------------------------------------------------------------------------


def test_the_queue_with_less_reserves_first_whatever_the_age():
    queues = [make.queue("a"), make.queue("b")]
    runs = running("runs", "n2", cpu=1, queue="a")
    old, young = waiting("old", cpu=4, queue="a"), waiting("young", cpu=4, queue="b", created=100)
    found = plan(many(2), queues, runs, old, young, policy=reserving())
    assert set(reservations(found)) == {"young"}


def test_each_reservation_is_charged_before_the_next_job_is_looked_at():
    jobs = [
        waiting(f"{space}-{number}", namespace=space, cpu=4, created=number) for space in "ab" for number in range(3)
    ]
    older = [replace(job, metadata=replace(job.metadata, creation_timestamp=to_datetime(BEGIN))) for job in jobs[:3]]
    found = plan(many(4), older, jobs[3:], policy=reserving())
    assert Counter(pod.split("/")[0] for pod in reservations(found)) == {"a": 1, "b": 1}


def test_weights_of_namespaces_count():
    quota = make.quota("b", 3)
    jobs = [
        waiting(f"{space}-{number}", namespace=space, cpu=4, created=number) for space in "ab" for number in range(4)
    ]
    found = plan(many(8), quota, jobs, policy=reserving())
    assert Counter(pod.split("/")[0] for pod in reservations(found)) == {"a": 1, "b": 3}


def test_inside_a_namespace_priority_comes_first_then_the_longest_wait():
    jobs = [waiting("old", cpu=4), waiting("young", cpu=4, created=5), waiting("vip", cpu=4, created=9, priority=3)]
    assert set(reservations(plan(many(2), jobs, policy=reserving()))) == {"vip"}
    assert set(reservations(plan(many(2), jobs[:2], policy=reserving()))) == {"old"}


def test_order_priority_puts_priority_before_queues():
    queues = [make.queue("a"), make.queue("b")]
    runs = running("runs", "n2", cpu=1, queue="a")
    vip, other = waiting("vip", cpu=4, queue="a", priority=3), waiting("other", cpu=4, queue="b")
    assert set(reservations(plan(many(2), queues, runs, vip, other, policy=reserving()))) == {"other"}
    assert set(reservations(plan(many(2), queues, runs, vip, other, policy=reserving(order="priority")))) == {"vip"}


# -- allocate's answer comes first ------------------------------------------------------------------------------------


def test_a_starving_job_that_allocate_places_is_placed_and_others_reserve_beside_it():
    small, big = waiting("small", cpu=1), waiting("big", cpu=4)
    found = plan(many(2), small, big, policy=reserving())
    assert (len(bound(found)), set(reservations(found))) == (1, {"big"})


def test_the_whole_backlog_shares_as_if_nothing_starved():
    queues = [make.queue("a"), make.queue("b", weight=3)]
    pods = [make.pods(f"p-{name}", 20, queue=name, cpu=1, created=0) for name in "ab"]
    cluster = [make.node("n", cpu=12, pods=100)]
    want = Counter(pod.split("-")[1] for pod in bound(plan(cluster, queues, pods, policy=policy())))
    assert want == {"a": 3, "b": 9}
    found = plan(cluster, queues, pods, policy=reserving())
    assert Counter(pod.split("-")[1] for pod in bound(found)) == want


def test_reserve_after_allocate_takes_what_that_left():
    late = acting("enqueue", "allocate", ("reserve", HALF), "backfill")
    small, big = waiting("small", cpu=1), waiting("big", cpu=4)
    found = plan(many(2), small, big, policy=late)
    assert (bound(found), set(reservations(found))) == ({"small": "n1"}, {"big"})


# -- guarantees -------------------------------------------------------------------------------------------------------


def test_nothing_is_reserved_out_of_what_another_queue_is_guaranteed():
    """Eight cpus, four of them guaranteed: a starving job of six would leave two."""
    queues = [make.queue("safe", guarantee={"cpu": 4}), make.queue("greedy")]
    fresh = make.pods("fresh", 4, queue="safe", cpu=1, created=DAY)
    old = waiting("old", cpu=6, queue="greedy")
    found = plan(make.node("n", cpu=8, pods=20), queues, fresh, old, policy=reserving())
    assert (len(bound(found)), reservations(found)) == (4, {})
    alone = plan(make.node("n", cpu=8, pods=20), queues[1], old, policy=reserving())
    assert bound(alone) == {"old": "n"}


def test_not_even_while_no_pod_of_that_queue_waits():
    queues = [make.queue("safe", guarantee={"cpu": 4}), make.queue("greedy")]
    busy = full("n1", cpu=8)
    assert reservations(plan(busy, queues, waiting("old", cpu=6, queue="greedy"), policy=reserving())) == {}
    assert reservations(plan(busy, queues, waiting("old", cpu=4, queue="greedy"), policy=reserving())) != {}


def test_nodes_are_left_for_a_guarantee_that_is_not_met():
    """A reserved node takes no pod of others: the rest of the nodes must hold what they are guaranteed and ask for."""
    queues = [make.queue("safe", guarantee={"cpu": 5}), make.queue("greedy")]
    wants = make.pods("wants", 5, queue="safe", cpu=4, created=DAY)
    old = waiting("old", cpu=3, queue="greedy")
    cluster = [full("n1"), full("n2")]
    found = plan(cluster, queues, wants, old, policy=reserving())
    assert reservations(found) == {}
    assert "guaranteed" in notes(found, "old")
    assert set(reservations(plan(cluster, queues, old, policy=reserving()))) == {"old"}, "no job asks for it"
    more = full("n3", cpu=8)
    assert set(reservations(plan(cluster, more, queues, wants, old, policy=reserving()))) == {"old"}


def test_what_is_reserved_for_the_guaranteed_queue_does_not_meet_its_guarantee():
    queues = [make.queue("safe", guarantee={"cpu": 4}), make.queue("greedy")]
    held = waiting("held", cpu=4, queue="safe")
    mine = reservation(held, ("held", "n1", "reserved"))
    wants = waiting("wants", cpu=4, queue="safe", created=DAY)
    old = waiting("old", cpu=4, queue="greedy")
    cluster = [full("n1"), full("n2")]
    wide = reserving(reservedNodePercent=100)
    assert set(reservations(plan(cluster, queues, held, mine, wants, old, policy=wide))) == {"held"}
    assert set(reservations(plan(cluster, queues, held, mine, old, policy=wide))) == {"held", "old"}


def test_guarantees_hold_under_parents_too():
    queues = [make.queue("top"), make.queue("x", parent="top"), make.queue("safe", guarantee={"cpu": 4})]
    found = plan(full("n1", cpu=8), queues, waiting("old", cpu=6, queue="x"), policy=reserving())
    assert reservations(found) == {}


# -- overtaken --------------------------------------------------------------------------------------------------------

OVERTAKEN = reserving(onlyIfOvertaken=True)


def test_a_job_that_merely_waits_its_turn_does_not_starve():
    busy = [make.node("n1", cpu=4, pods=20), running("older", "n1", cpu=3, created=-10, started=5)]
    found = plan(busy, waiting("big", cpu=4), policy=OVERTAKEN)
    assert (reservations(found), pending(found)["big"].starving) == ({}, False)
    assert pending(plan(busy, waiting("big", cpu=4), policy=reserving()))["big"].starving


@pytest.mark.parametrize(
    ("other", "overtaken"),
    [
        (running("y", "n1", cpu=3, created=10, started=20), True),
        (running("y", "n1", cpu=3, created=-10, started=20), False),
        (running("y", "n1", cpu=3, created=-10, started=-5, priority=-1), False),
        (running("y", "n1", cpu=3, created=-10, started=20, priority=-1), True),
        (running("y", "n1", cpu=3, created=10, started=20, priority=1), False),
        (running("y", "n1", cpu=3, created=0, started=20), True),
        (running("a", "n1", cpu=3, created=0, started=20), False),
        (running("y", "n1", cpu=3, created=10, started=20, spec={"schedulerName": "other"}), False),
    ],
    ids=[
        "younger",
        "older",
        "lower, placed before",
        "lower, placed since",
        "higher",
        "name after",
        "name before",
        "not ours",
    ],
)
def test_who_overtakes(other, overtaken):
    state = state_of(make.node("n1", cpu=4, pods=20), other, waiting("big", cpu=4), scheduler_names=["fairway"])
    found = cycle(state, OVERTAKEN)
    assert ("big" in reservations(found)) is overtaken
    assert pending(found)["big"].starving is overtaken


def test_one_that_overtook_and_is_gone_does_not_count():
    other = running("other", "n1", cpu=3, created=10, started=20)
    state = state_of(
        make.node("n1", cpu=4, pods=20), running("first", "n1", cpu=1, created=-5), waiting("big", cpu=4), other
    )
    assert "big" in reservations(cycle(state, OVERTAKEN))
    state.apply(Deleted(other))
    assert reservations(cycle(state, OVERTAKEN)) == {}
    state.apply(Upserted(other))
    assert "big" in reservations(cycle(state, OVERTAKEN))


def test_a_gang_that_was_ready_waits_since_then():
    """Placed before it lost its pods is not placed since it began to wait."""
    group, *pods = waiting_gang("g", 1, cpu=4)
    ready = {"type": "Scheduled", "status": "True", "lastTransitionTime": make.at(100)}
    once = make.made(
        "PodGroup",
        "g",
        "default",
        metadata={"creationTimestamp": make.at(0)},
        spec={"minMember": 1},
        status={"conditions": [ready]},
    )
    node = make.node("n1", cpu=4, pods=20)
    early, late = (running("other", "n1", cpu=3, created=10, started=when) for when in (50, 150))
    assert reservations(plan(node, early, group, pods, policy=OVERTAKEN)) != {}
    assert reservations(plan(node, early, once, pods, policy=OVERTAKEN)) == {}
    assert reservations(plan(node, late, once, pods, policy=OVERTAKEN)) != {}


def test_the_index_follows_events():
    """Jobs come, run, change their priority and go: the answer is that of a state made anew."""
    nodes = [make.node(f"n{i}", cpu=4, pods=20) for i in range(3)]
    story = [
        running("a", "n0", cpu=3, created=-10, started=0),
        running("b", "n1", cpu=3, created=20, started=30),
        running("b", "n1", cpu=3, created=20, started=30, priority=5),
        running("c", "n2", cpu=3, created=-5, started=30, priority=-3),
        waiting("c", cpu=3, created=-5, priority=-3),
        running("b", "n1", cpu=3, created=20, started=30),
    ]
    state, known = state_of(nodes, waiting("big", cpu=4)), {}
    for thing in story:
        known[thing.metadata.name] = thing
        state.apply(Upserted(thing))
        fresh = plan(nodes, waiting("big", cpu=4), list(known.values()), policy=OVERTAKEN)
        assert reservations(cycle(state, OVERTAKEN)) == reservations(fresh), thing


# -- a job's own threshold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "least", "age", "starves"),
    [
        ("50", None, 60, False),
        ("50", None, 101, True),
        ("50", 10, 51, True),
        ("50", 10, 50, False),
        ("5", 10, 9, False),
        ("5", 10, 11, True),
        ("200", 10, 150, False),
        ("200", 10, 201, True),
        ("200", None, 201, True),
    ],
)
def test_a_job_raises_its_threshold_and_lowers_it_as_far_as_the_policy_lets_it(own, least, age, starves):
    arguments = {"starvingJobTimeThreshold": 100} | ({} if least is None else {"minStarvingAfter": least})
    job = annotated(waiting("big", cpu=4, created=DAY - age), starving_after=own)
    assert ("big" in reservations(plan(full(), job, policy=reserving(**arguments)))) is starves


# -- the guard --------------------------------------------------------------------------------------------------------


def test_the_guard_looks_at_strictly_higher_priority_in_any_queue():
    queues = [make.queue("a"), make.queue("b")]
    big = waiting("big", cpu=4, queue="a", priority=5)
    for priority, kept_back in ((4, False), (5, False), (6, True)):
        young = waiting("young", cpu=1, queue="b", priority=priority, created=DAY)
        found = plan(many(2), queues, big, young, policy=reserving())
        assert ("big" in reservations(found)) is not kept_back


# -- shown ------------------------------------------------------------------------------------------------------------


def test_pods_with_a_reservation_are_counted_as_waiting():
    found = plan(many(2), waiting_gang("g", 2, cpu=4), policy=reserving(reservedNodePercent=100))
    assert len(reservations(found)) == 2
    assert (pending(found)["g"].waiting, pending(found)["g"].ready) == (2, 0)


def test_a_queue_never_has_more_allocated_than_the_cluster():
    found = plan(many(2), waiting_gang("g", 2, cpu=4), policy=reserving(reservedNodePercent=100))
    (queue,) = found.queues
    assert (queue.allocated["cpu"], queue.reserved["cpu"], queue.dominant_share) == ("6", "8", 0.75)


def test_a_deleted_queue_is_not_listed():
    queue = make.queue("gone")
    state = state_of(full(queue="gone"), queue, make.pod("waits", cpu=9, queue="gone", created=0))
    assert "gone" in {standing.name for standing in cycle(state, policy()).queues}
    state.apply(Deleted(queue))
    found = cycle(state, policy())
    assert "gone" not in {standing.name for standing in found.queues}
    assert "gone" not in {standing.name for standing in found.status.queues}


def test_a_queue_that_has_all_it_asked_for_does_not_show_as_full():
    found = plan(make.node("n", cpu=8), make.queue("q"), running("r", "n", cpu=2, queue="q"), policy=policy())
    queue = next(standing for standing in found.queues if standing.name == "q")
    assert (queue.deserved["cpu"], queue.allocated["cpu"], queue.share, queue.dominant_share) == ("2", "2", 1.0, 0.25)
