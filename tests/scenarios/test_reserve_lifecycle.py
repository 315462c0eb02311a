"""What becomes of reservations: carried on objects, filled, moved, given up, ended (spec S6.7 to S6.9, S9)."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.clock import SECOND, format_rfc3339
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    cycle,
    full,
    notes,
    plan,
    released,
    reservation,
    reservations,
    reserved,
    reserving,
    running,
    waiting,
    waiting_gang,
)
from support.engine import bound, state_of
from support.engine import waiting as pending
from support.objects import BEGIN
from support.world import World

POLICY = reserving()


def big(node: str = "n1", state: str = "reserved", **rest) -> list[Any]:
    since = rest.pop("since", DAY - 60)
    return reserved(waiting("big", cpu=4, **rest), ("big", node, state), since=since)


def young(name: str) -> object:
    return waiting(name, cpu=1, created=DAY)


# -- the reference story ----------------------------------------------------------------------------------------

RUNS = {"pod-1": 2, "pod-2": 4, "pod-3": 4, "pod-4": 2, "pod-5": 4, "pod-6": 4, "pod-7": 4}


def seed_world(*actions) -> World:
    sizes = {name: 3 if name == "pod-4" else 1 for name in RUNS}
    pods = [make.pod(name, created=0, cpu=size, memory=f"{size}G") for name, size in sizes.items()]
    world = World(make.node("node", cpu=3, memory="3G"), pods, policy=acting("enqueue", *actions), runs=RUNS)
    world.play(20)
    return world


def test_without_reserve_the_large_pod_starts_last():
    started = seed_world("allocate").started
    assert started == {"pod-1": 0, "pod-2": 0, "pod-3": 0, "pod-5": 2, "pod-6": 4, "pod-7": 4, "pod-4": 8}


def test_with_reserve_it_starts_as_soon_as_those_that_ran_are_gone():
    started = seed_world(("reserve", {"starvingJobTimeThreshold": 3}), "allocate").started
    assert started == {"pod-1": 0, "pod-2": 0, "pod-3": 0, "pod-5": 2, "pod-4": 6, "pod-6": 8, "pod-7": 8}


# -- filled, or no longer needed ----------------------------------------------------------------------------------


def test_the_reserved_task_takes_the_room_in_the_cycle_in_which_it_is_free():
    state = state_of(full(), big(), young("small"))
    assert bound(cycle(state, POLICY)) == {}
    state.apply(Deleted(running("on-n1", "n1", cpu=3)))
    found = cycle(state, POLICY)
    assert bound(found) == {"big": "n1"}
    assert (reservations(found), released(found)) == ({}, {})


def test_a_gang_is_bound_when_the_last_of_it_has_room():
    group, *pods = waiting_gang("g", 2, cpu=4)
    standing = reserved(group, ("g-0", "n1", "reserved"), ("g-1", "n2", "reserved"))
    state = state_of(full("n1"), full("n2"), make.node("n3", cpu=1), standing, pods)
    state.apply(Deleted(running("on-n1", "n1", cpu=3)))
    found = cycle(state, reserving(reservedNodePercent=100))
    assert reservations(found) == {"g-0": ("n1", "allocated"), "g-1": ("n2", "reserved")}
    assert bound(found) == {}
    state.apply(Deleted(running("on-n2", "n2", cpu=3)))
    assert bound(cycle(state, reserving(reservedNodePercent=100))) == {"g-0": "n1", "g-1": "n2"}


def test_a_node_that_got_room_is_open_to_others_but_for_what_is_held():
    group, *pods = waiting_gang("g", 2, cpu=2)
    standing = reserved(group, ("g-0", "n1", "allocated"), ("g-1", "n2", "reserved"))
    nodes = [make.node("n1", cpu=3), make.node("n2", cpu=2), running("r", "n2", cpu=1)]
    found = plan(
        nodes,
        standing,
        pods,
        young("small"),
        young("more"),
        policy=reserving(reservedNodePercent=100),
    )
    assert bound(found) == {"more": "n1"}
    assert reservations(found) == {"g-0": ("n1", "allocated"), "g-1": ("n2", "reserved")}


def test_a_job_that_becomes_ready_elsewhere_gives_its_reservations_up():
    found = plan(full("n1"), make.node("n2", cpu=4), big("n1", priority=1), young("small"), policy=POLICY)
    assert bound(found) == {"big": "n2", "small": "n1"}
    assert reservations(found) == {}
    assert released(found) == {"big": "the job became ready elsewhere"}


def test_part_of_a_gang_elsewhere_is_not_enough():
    group, *pods = waiting_gang("g", 2, cpu=4)
    standing = reserved(group, ("g-0", "n1", "reserved"), ("g-1", "n2", "reserved"))
    found = plan(
        full("n1"), full("n2"), make.node("n3", cpu=4), standing, pods, policy=reserving(reservedNodePercent=100)
    )
    assert (bound(found), set(reservations(found))) == ({}, {"g-0", "g-1"})


def test_binding_a_reserved_task_does_not_ask_the_queue_again():
    """The queue's share has shrunk since: it would not be allowed to place anything now."""
    strict = acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1}), "allocate", proportion={"lending": "none"})
    queues = [make.queue("q"), make.queue("other", 3)]
    state = state_of(make.node("n1", cpu=4), queues, big(queue="q"), make.pods("o", 4, queue="other", cpu=1))
    assert bound(cycle(state, strict)) == {"big": "n1"}


def test_a_job_that_is_ready_by_others_gives_its_reservations_up():
    group, *pods = waiting_gang("g", 2, minimum=1, cpu=4)
    standing = reserved(group, ("g-0", "n1", "reserved"))
    runs = running("g-1", "n2", group="g", cpu=4)
    found = plan(full("n1"), make.node("n2", cpu=4), standing, pods[0], runs, policy=POLICY)
    assert reservations(found) == {}
    assert released(found) == {"g-0": "the job is ready without it"}


# -- ended ----------------------------------------------------------------------------------------------------------


def test_a_reservation_ends_with_its_job():
    state = state_of(full(), big(), young("small"))
    state.apply(Deleted(big()[0]))
    found = cycle(state, POLICY)
    assert (bound(found), reservations(found)) == ({"small": "n1"}, {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda node: None, "its node is gone"),
        (lambda node: replace(node, spec=replace(node.spec, unschedulable=True)), "its node is cordoned"),
        (lambda node: make.node("n1", cpu=4, pods=10, ready=False), "its node is not ready"),
        (lambda node: make.node("n1", cpu=3, pods=10), "it no longer fits its node"),
        (lambda node: make.node("n1", cpu=4, pods=10, taints=["gone=soon:NoSchedule"]), "it no longer fits its node"),
    ],
    ids=["gone", "cordoned", "not ready", "too small", "tainted"],
)
def test_a_reservation_ends_with_its_node(change, reason):
    state = state_of(full("n1"), big("n1"))
    node = make.node("n1", cpu=4, pods=10)
    changed = change(node)
    state.apply(Deleted(node) if changed is None else Upserted(changed))
    found = cycle(state, POLICY)
    assert (reservations(found), released(found)) == ({}, {"big": reason})
    assert [entry.node for entry in found.released] == ["n1"]


def test_a_job_whose_node_is_gone_reserves_another_at_once():
    state = state_of(full("n1"), full("n2"), big("n1"))
    state.apply(Deleted(make.node("n1")))
    found = cycle(state, POLICY)
    assert reservations(found) == {"big": ("n2", "reserved")}
    assert released(found) == {"big": "its node is gone"}


def test_a_gang_that_loses_one_of_its_places_finds_another_or_gives_up_the_rest():
    group, *pods = waiting_gang("g", 2, cpu=4)
    standing = reserved(group, ("g-0", "n1", "reserved"), ("g-1", "n2", "reserved"))
    everywhere = reserving(reservedNodePercent=100)
    state = state_of(full("n1"), full("n2"), full("n3"), standing, pods)
    state.apply(Deleted(make.node("n2")))
    assert reservations(cycle(state, everywhere)) == {"g-0": ("n1", "reserved"), "g-1": ("n3", "reserved")}
    state.apply(Deleted(make.node("n3")))
    found = cycle(state, everywhere)
    assert reservations(found) == {}
    assert released(found) == {
        "g-0": "the job no longer has nodes for its minimum",
        "g-1": "its node is gone",
    }


def test_a_reservation_ends_when_its_queue_closes():
    found = plan(full(), make.queue("q", state="Closed"), big(queue="q"), policy=POLICY)
    assert (reservations(found), released(found)) == ({}, {"big": "queue q is closed"})


def test_a_place_whose_room_was_taken_waits_again_and_holds_nothing_more_than_that():
    """A foreign pod took the room of g-0, so its place is reserved again; the third pod slot of n1 is for others."""
    group, *pods = waiting_gang("g", 2, cpu=3)
    standing = reserved(group, ("g-0", "n1", "allocated"), ("g-1", "n2", "reserved"))
    foreign = running("foreign", "n1", cpu=2, spec={"schedulerName": "other"})
    nodes = [make.node("n1", cpu=4, pods=3), make.node("n2", cpu=4, pods=1), running("on-n2", "n2", cpu=4)]
    state = state_of(nodes, standing, pods, foreign, waiting("effortless"), scheduler_names=["fairway"])
    found = cycle(state, reserving(reservedNodePercent=100))
    assert reservations(found) == {"g-0": ("n1", "reserved"), "g-1": ("n2", "reserved")}
    assert bound(found) == {"effortless": "n1"}


def test_a_rule_that_came_after_the_reservation_is_minded():
    """A pod came to the node that keeps off pods like the reserved one."""
    state = state_of(full(), reserved(waiting("big", cpu=3, labels={"app": "a"}), ("big", "n1", "reserved")))
    state.apply(Upserted(running("keeper", "n1", cpu=1, spec=make.anti_affinity(app="a"))))
    state.apply(Deleted(running("on-n1", "n1", cpu=3)))
    found = cycle(state, POLICY)
    assert (bound(found), reservations(found)) == ({}, {"big": ("n1", "reserved")})
    state.apply(Deleted(running("keeper", "n1", cpu=1)))
    assert bound(cycle(state, POLICY)) == {"big": "n1"}


def test_held_room_that_is_gone_is_waited_for_again():
    """A pod of another scheduler came to the node: what was held does not fit beside it any more."""
    group, *pods = waiting_gang("g", 2, cpu=4)
    standing = reserved(group, ("g-0", "n1", "allocated"), ("g-1", "n2", "reserved"))
    stranger = running("stranger", "n1", cpu=1, spec={"schedulerName": "other"})
    policy = reserving(reservedNodePercent=100)
    state = state_of(make.node("n1", cpu=4), full("n2"), standing, pods, stranger)
    assert reservations(cycle(state, policy)) == {"g-0": ("n1", "reserved"), "g-1": ("n2", "reserved")}
    state.apply(Deleted(running("on-n2", "n2", cpu=3)))
    found = cycle(state, policy)
    assert bound(found) == {}
    assert reservations(found) == {"g-0": ("n1", "reserved"), "g-1": ("n2", "allocated")}


@pytest.mark.parametrize(("age", "stands"), [(99, True), (100, False)])
def test_a_reservation_that_is_not_used_in_time_is_given_up_for_another_node(age, stands):
    policy = reserving(reservationTimeout=100)
    found = plan(full("n1"), full("n2"), big("n1", since=DAY - age), policy=policy)
    if stands:
        assert reservations(found) == {"big": ("n1", "reserved")}
    else:
        assert reservations(found) == {"big": ("n2", "reserved")}
        assert released(found) == {"big": "not used within 100 s"}
        assert found.reservations[0].since == make.at(DAY)


def test_where_there_is_no_other_node_the_same_one_is_reserved_again():
    found = plan(full("n1"), big("n1", since=0), policy=reserving(reservationTimeout=100))
    assert reservations(found) == {"big": ("n1", "reserved")}
    assert found.reservations[0].since == make.at(DAY)


def test_a_job_whose_reservation_timed_out_minds_the_guard_like_any_other():
    important = waiting("important", cpu=1, priority=1, created=DAY)
    found = plan(full("n1"), full("n2"), big("n1", since=0), important, policy=reserving(reservationTimeout=100))
    assert (reservations(found), bound(found)) == ({}, {"important": "n1"})
    assert "higher priority" in notes(found, "big")


def test_the_timeout_is_a_day_if_not_said_and_never_if_it_is_0():
    month = 30 * DAY
    old = big(since=month - DAY)
    assert released(plan(full(), old, policy=POLICY, at=month)) == {"big": "not used within 86400 s"}
    assert released(plan(full(), old, policy=POLICY, at=month - 1)) == {}
    assert released(plan(full(), old, policy=reserving(reservationTimeout=0), at=month)) == {}


# -- carried on objects ---------------------------------------------------------------------------------------------


def test_what_a_plan_reserves_is_read_back_as_it_was():
    group, *pods = waiting_gang("g", 2, cpu=4)
    objects = [make.node("n1", cpu=4), full("n2"), pods]
    policy = reserving(reservedNodePercent=100)
    first = plan(objects, group, policy=policy)
    carried = list(reservation_objects(first.reservations).values())
    again = plan(objects, group, carried, policy=policy, at=DAY + 100)
    assert again.reservations == first.reservations
    assert {entry.since for entry in again.reservations} == {make.at(DAY)}
    assert again.released == ()


def test_an_operator_cancels_a_reservation_by_deleting_it():
    patient = reserving(starvingJobTimeThreshold=10 * DAY)
    job, held = big()
    state = state_of(full(), job, held, young("small"))
    assert reservations(cycle(state, patient)) == {"big": ("n1", "reserved")}
    state.apply(Deleted(held))
    found = cycle(state, patient)
    assert (reservations(found), bound(found)) == ({}, {"small": "n1"})


def test_an_operator_cancels_that_of_a_group_too():
    group, *pods = waiting_gang("g", 1, cpu=4)
    held = reservation(group, ("g-0", "n1", "reserved"))
    state = state_of(full(), group, held, pods, young("small"))
    patient = reserving(starvingJobTimeThreshold=10 * DAY)
    assert bound(cycle(state, patient)) == {}
    state.apply(Deleted(held))
    assert bound(cycle(state, patient)) == {"small": "n1"}


def test_a_policy_without_reserve_releases_all():
    group, *pods = waiting_gang("g", 2, cpu=4)
    standing = reserved(group, ("g-0", "n1", "allocated"), ("g-1", "n2", "reserved"))
    objects = [make.node("n1", cpu=4), full("n2"), standing, pods, make.pods("small", 5, cpu=1)]
    found = plan(objects, policy=acting("enqueue", "allocate"))
    assert reservations(found) == {}
    assert released(found) == {"g-0": "the policy reserves nothing", "g-1": "the policy reserves nothing"}
    assert len(bound(found)) == 5


def test_a_reservation_on_a_node_that_is_not_known_is_released():
    found = plan(full(), big("nowhere"), policy=POLICY)
    assert released(found) == {"big": "its node is gone"}
    assert reservations(found) == {"big": ("n1", "reserved")}


def test_a_pod_that_runs_needs_its_reservation_no_longer():
    runs = reserved(running("big", "n1", cpu=4), ("big", "n1", "reserved"))
    found = plan(make.node("n1", cpu=5), runs, young("small"), policy=POLICY)
    assert bound(found) == {"small": "n1"}


def test_a_reservation_is_shown_with_the_reason_for_which_the_job_waits():
    found = plan(full(), big(), policy=POLICY)
    assert "it has reserved n1 and waits for free capacity there" in notes(found, "big")
    assert pending(found)["big"].starving


# -- when to decide again -------------------------------------------------------------------------------------------


def moment(seconds: int, micros: int = 0) -> int:
    return BEGIN + seconds * SECOND + micros


def test_the_plan_says_when_the_next_job_begins_to_starve():
    policy = reserving(starvingJobTimeThreshold=100)
    young = [waiting("a", cpu=4, created=DAY - 30), waiting("b", cpu=4, created=DAY - 10)]
    found = plan(full(), young, policy=policy)
    assert found.recheck_at == moment(DAY + 70, 1)
    assert found.document()["recheckAt"] == format_rfc3339(moment(DAY + 70, 1))
    own = annotated(waiting("c", cpu=4, created=DAY - 30), starving_after="40")
    brave = reserving(starvingJobTimeThreshold=100, minStarvingAfter=1)
    assert plan(full(), young, own, policy=brave).recheck_at == moment(DAY + 10, 1)


def test_at_that_moment_it_starves():
    policy = reserving(starvingJobTimeThreshold=100)
    state = state_of(full(), waiting("a", cpu=4, created=DAY - 30))
    again = cycle(state, policy).recheck_at
    assert again is not None
    from fairway.scheduler.decide import decide_and_explain

    assert reservations(decide_and_explain(state, policy, again - 1)) == {}
    assert reservations(decide_and_explain(state, policy, again)) == {"a": ("n1", "reserved")}


def test_the_plan_says_when_a_reservation_times_out():
    found = plan(full(), big(since=DAY - 60), policy=reserving(reservationTimeout=100))
    assert found.recheck_at == moment(DAY + 40)


def test_where_nothing_can_change_by_itself_there_is_no_moment():
    assert plan(full(), big(), policy=reserving(reservationTimeout=0)).recheck_at is None
    assert plan(full(), waiting("big", cpu=4), policy=acting("enqueue", "allocate")).recheck_at is None
