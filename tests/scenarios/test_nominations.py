"""The room that was made for a claimant is its own until it is bound or gives up (spec S7.5)."""

import pytest

from fairway.clock import SECOND
from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.contention import (
    DAY,
    acting,
    cycle,
    evicted,
    nominated,
    nominations,
    notes,
    plan,
    preempting,
    released,
    reservations,
    reserving,
    running,
    waiting,
    waiting_gang,
)
from support.engine import bound, reasons, state_of
from support.objects import BEGIN
from support.world import World

POLICY = preempting()


def leaving(name: str, node: str = "n1", **rest):
    return running(name, node, leaving=True, **{"cpu": 1, **rest})


def claimant(node: str = "n1", **rest):
    since = rest.pop("since", DAY - 60)
    return nominated(waiting("mine", **{"cpu": 1, "priority": 10, **rest}), node, since=since)


def test_the_room_is_no_others_while_the_victim_leaves_and_the_claimant_gets_it_then():
    state = state_of(make.node("n1", cpu=1), leaving("victim"), claimant(), waiting("other", cpu=1, priority=99))
    found = cycle(state, acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({}, {"mine": "n1"})
    assert reasons(found) == {"mine": "WaitingForRelease", "other": "InsufficientResources"}
    state.apply(Deleted(leaving("victim")))
    found = cycle(state, acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({"mine": "n1"}, {})


def test_room_beyond_what_is_being_released_is_held_too():
    """Two of three cpus are free: they are the claimant's, who waits for the third."""
    cluster = [make.node("n1", cpu=3), leaving("victim"), claimant(cpu=3)]
    found = plan(cluster, waiting("other", cpu=1), policy=acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({}, {"mine": "n1"})


def test_what_the_claimant_does_not_need_is_free_for_others():
    cluster = [make.node("n1", cpu=4), leaving("victim"), claimant(cpu=2)]
    found = plan(cluster, waiting("o1", cpu=1), waiting("o2", cpu=2), policy=acting("enqueue", "allocate"))
    assert bound(found) == {"mine": "n1", "o1": "n1"}


def test_a_gang_waits_until_all_of_it_has_room_and_no_pod_gets_between():
    group, *pods = waiting_gang("g", 2, cpu=1, priority=10)
    named = [nominated(pods[0], "n1"), nominated(pods[1], "n2")]
    nodes = [make.node("n1", cpu=1), make.node("n2", cpu=1)]
    state = state_of(nodes, leaving("v2", "n2"), group, named, waiting("other", cpu=1))
    found = cycle(state, acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({}, {"g-0": "n1", "g-1": "n2"})
    state.apply(Deleted(leaving("v2", "n2")))
    assert bound(cycle(state, acting("enqueue", "allocate"))) == {"g-0": "n1", "g-1": "n2"}


def test_while_a_gang_waits_others_may_use_what_it_does_not_need():
    group, nodes = make.group("g", minimum=2), [make.node("n1", cpu=3), make.node("n2", cpu=1)]
    named = [
        nominated(waiting(f"g-{i}", group="g", cpu=1, priority=10, spec={"nodeSelector": {make.HOST: node}}), node)
        for i, node in enumerate(("n1", "n2"))
    ]
    others = [waiting("o1", cpu=2), waiting("o2", cpu=1)]
    found = plan(nodes, leaving("v2", "n2"), group, named, others, policy=acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({"o1": "n1"}, {"g-0": "n1", "g-1": "n2"})


def test_the_room_of_a_claimant_that_is_placed_elsewhere_is_free_in_the_same_cycle():
    nodes = [make.node("n1", cpu=3), make.node("n2", cpu=3)]
    found = plan(
        nodes, leaving("victim"), claimant(cpu=3), waiting("other", cpu=2), policy=acting("enqueue", "allocate")
    )
    assert (bound(found), nominations(found)) == ({"mine": "n2", "other": "n1"}, {})


def test_two_claimants_of_one_node_do_not_use_one_room_twice():
    """One of two victims is gone: there is room for one of the two who were nominated."""
    pods = [nominated(waiting(f"m{i}", cpu=2, priority=10, created=i), "n1") for i in range(2)]
    state = state_of(make.node("n1", cpu=4), leaving("victim", cpu=2), pods)
    found = cycle(state, acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({"m0": "n1"}, {"m1": "n1"})


def test_a_gang_with_two_places_on_one_node_does_not_either():
    group, *pods = waiting_gang("g", 2, cpu=2, priority=10)
    named = [nominated(pod, "n1") for pod in pods]
    state = state_of(make.node("n1", cpu=4), leaving("victim", cpu=2), group, named)
    found = cycle(state, acting("enqueue", "allocate"))
    assert (bound(found), set(nominations(found))) == ({}, {"g-0", "g-1"})


def test_what_is_free_is_that_of_the_claimant_whose_victims_went_first():
    """The later claimant has a higher priority, and its own victim is still terminating."""
    first = nominated(waiting("first", cpu=1, priority=5), "n1", since=DAY - 60)
    later = nominated(waiting("later", cpu=1, priority=9), "n1", since=DAY - 30)
    found = plan(make.node("n1", cpu=2), leaving("victim"), first, later, policy=acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({"first": "n1"}, {"later": "n1"})


def test_a_host_port_that_was_freed_for_a_claimant_is_its_own():
    group = make.group("g", minimum=2, created=0)
    pods = [
        nominated(waiting("g-0", group="g", cpu=1, ports=[80], priority=10), "n1"),
        nominated(waiting("g-1", group="g", cpu=2, priority=10), "n2"),
    ]
    nodes = [make.node("n1", cpu=2), make.node("n2", cpu=2)]
    state = state_of(nodes, leaving("v2", "n2"), group, pods, waiting("other", cpu=1, ports=[80]))
    assert bound(cycle(state, acting("enqueue", "allocate"))) == {}
    state.apply(Deleted(leaving("v2", "n2")))
    assert bound(cycle(state, acting("enqueue", "allocate"))) == {"g-0": "n1", "g-1": "n2"}


def test_a_gang_that_lost_one_of_its_places_starts_with_the_rest_and_another():
    """Its own nomination counts while another place is looked for."""
    group, *pods = waiting_gang("g", 2, cpu=2, priority=10)
    named = [nominated(pods[0], "n1"), nominated(pods[1], "gone")]
    state = state_of(make.node("n1", cpu=2), make.node("n3", cpu=2), group, named, waiting("other", cpu=2))
    assert bound(cycle(state, acting("enqueue", "allocate"))) == {"g-1": "n3", "g-0": "n1"}


def test_a_gang_that_lost_one_of_its_places_evicts_for_another():
    group, *pods = waiting_gang("g", 2, cpu=2, priority=10)
    named = [nominated(pods[0], "n1"), nominated(pods[1], "gone")]
    objects = [make.node("n1", cpu=2), make.node("n3", cpu=2), running("more", "n3", cpu=2), group, *named]
    found = plan(objects, waiting("other", cpu=2), policy=POLICY)
    assert (bound(found), evicted(found), nominations(found)) == ({}, ["more"], {"g-0": "n1", "g-1": "n3"})


def test_a_gang_that_lost_a_place_for_good_gives_up_the_rest():
    group, *pods = waiting_gang("g", 2, cpu=2, priority=10)
    named = [nominated(pods[0], "n1"), nominated(pods[1], "gone")]
    state = state_of(make.node("n1", cpu=2), group, named, waiting("other", cpu=2))
    found = cycle(state, POLICY)
    assert (bound(found), nominations(found), found.recheck_at) == ({}, {}, BEGIN + DAY * SECOND + 1)
    assert released(found)["g-0"] == "the job no longer has nodes for its minimum"


def test_a_claimant_that_fits_elsewhere_goes_there():
    cluster = [make.node("n1", cpu=1), make.node("n2", cpu=1), leaving("victim"), claimant()]
    found = plan(cluster, policy=acting("enqueue", "allocate"))
    assert (bound(found), nominations(found)) == ({"mine": "n2"}, {})
    assert released(found) == {"mine": "the job became ready elsewhere"}


def test_a_claimant_does_not_evict_again():
    cluster = [make.node("n1", cpu=1), make.node("n2", cpu=1), leaving("victim"), running("more", "n2", cpu=1)]
    found = plan(cluster, claimant(), policy=POLICY)
    assert (evicted(found), nominations(found)) == ([], {"mine": "n1"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "its node is gone"),
        (make.node("n1", cpu=1, unschedulable=True), "its node is cordoned"),
        (make.node("n1", cpu=1, ready=False), "its node is not ready"),
        (make.node("n1", cpu="500m"), "it no longer fits its node"),
    ],
    ids=["gone", "cordoned", "not ready", "too small"],
)
def test_it_gives_up_with_its_node(change, reason):
    state = state_of(make.node("n1", cpu=1), leaving("victim"), claimant())
    state.apply(Deleted(make.node("n1")) if change is None else Upserted(change))
    found = cycle(state, acting("enqueue", "allocate"))
    assert (nominations(found), released(found)) == ({}, {"mine": reason})


def test_it_ends_with_the_claimant():
    state = state_of(make.node("n1", cpu=1), claimant(), waiting("other", cpu=1))
    state.apply(Deleted(claimant()))
    assert bound(cycle(state, POLICY)) == {"other": "n1"}


@pytest.mark.parametrize(("age", "stands"), [(599, True), (600, False)])
def test_it_gives_up_after_ten_minutes(age, stands):
    cluster = [make.node("n1", cpu=1), leaving("victim")]
    found = plan(cluster, claimant(since=DAY - age), policy=preempting())
    assert nominations(found) == ({"mine": "n1"} if stands else {})
    assert released(found) == ({} if stands else {"mine": "not bound within 600 s"})
    if stands:
        assert found.recheck_at == BEGIN + (DAY + 1) * SECOND


def test_the_policy_may_say_how_long():
    cluster = [make.node("n1", cpu=1), leaving("victim"), claimant(since=DAY - 30)]
    assert nominations(plan(cluster, policy=preempting(nominationTimeout=30))) == {}
    assert nominations(plan(cluster, policy=preempting(nominationTimeout=31))) == {"mine": "n1"}


def test_a_nomination_without_the_time_it_was_made_begins_now():
    found = plan(make.node("n1", cpu=1), leaving("victim"), claimant(since=None), policy=POLICY)
    assert found.nominations[0].since == make.at(DAY)


def test_nominated_amounts_count_for_queue_and_namespace():
    found = plan(make.node("n1", cpu=1), make.queue("q"), leaving("victim"), claimant(queue="q"), policy=POLICY)
    (queue,) = [queue for queue in found.queues if queue.name == "q"]
    assert (queue.allocated["cpu"], queue.reserved["cpu"]) == ("0", "1")


def test_no_node_with_a_nomination_is_reserved():
    """A pod is about to start there: the node would take a task that it is not reserved for."""
    cluster = [make.node("n1", cpu=4), leaving("victim", cpu=3), claimant(cpu=2)]
    starving = waiting("big", cpu=4)
    assert reservations(plan(cluster, starving, policy=reserving())) == {}
    assert "big" in reservations(plan(cluster[:2], starving, policy=reserving()))


def test_a_victim_is_gone_and_the_claimant_runs():
    """Through time: evicted at 0, gone 3 seconds later, the claimant starts then, the victim waits."""
    world = World(
        make.node("n1", cpu=1),
        running("victim", "n1", cpu=1),
        waiting("mine", cpu=1, priority=10),
        policy=POLICY,
    )
    world.grace = 3
    world.play(5)
    assert world.evictions == [(0, "default/victim", "default/mine")]
    assert world.started == {"mine": 3}
    assert not world.pods["default/victim"].spec.node_name


def test_a_waiting_claimant_says_what_it_waits_for():
    found = plan(make.node("n1", cpu=1), leaving("victim"), claimant(), policy=POLICY)
    assert reasons(found) == {"mine": "WaitingForRelease"}
    assert "it is nominated to n1 and starts when the pods evicted for it are gone" in notes(found, "mine")


def test_a_ready_job_waits_for_the_room_that_is_made_for_more_of_it():
    """Its victim still leaves: until then no other pod gets the room, and the nomination stands."""
    group = make.group("g", minimum=1, created=0)
    runs = running("g-0", "n1", group="g", cpu=1, priority=10)
    more = nominated(waiting("g-1", group="g", cpu=1, priority=10), "n1")
    state = state_of(make.node("n1", cpu=2), group, runs, more, leaving("victim"), waiting("other", cpu=1))
    found = cycle(state, POLICY)
    assert (bound(found), nominations(found), released(found)) == ({}, {"g-1": "n1"}, {})
    state.apply(Deleted(leaving("victim")))
    assert bound(cycle(state, POLICY)) == {"g-1": "n1"}
