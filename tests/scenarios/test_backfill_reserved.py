"""Reservations of starving jobs and run times: planned starts, and who may use a reserved node until then."""

from typing import Any

import pytest

from fairway.api.policy import Policy
from support import engine
from support.contention import DAY, acting, annotated, evicted, nominations, notes, plan, reserved, running, waiting
from support.objects import at, group, node, pod
from support.streams import busy, lasting, limited, planning, promises

RESERVE = ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100})


def reserving(mode: str, **arguments: object) -> Policy:
    return planning(mode, RESERVE, plugins=("gang", "predicates", "nodeorder"), **arguments)


def starving(cpu: int = 3) -> object:
    """A job that carries a reservation on n1."""
    return reserved(waiting("big", cpu=cpu), ("big", "n1", "reserved"))


@pytest.mark.parametrize("mode", ["besteffort", "easy", "conservative"])
def test_a_reservation_has_a_planned_start_where_run_times_are_known(mode: str):
    runs = [busy("a", "n1", 30, cpu=1), busy("b", "n1", 50, cpu=2)]
    held = plan(node("n1", cpu=3), runs, starving(), policy=reserving(mode)).reservations[0]
    assert (held.pod, held.node, held.planned_start) == ("default/big", "n1", at(DAY + 50))
    assert (held.soft, held.estimated, held.anew) == (False, False, False)


@pytest.mark.parametrize(("cpu", "start"), [(1, 30), (2, 50)])
def test_the_earliest_time_at_which_there_is_enough_is_promised(cpu: int, start: int):
    runs = [busy("a", "n1", 30, cpu=1), busy("b", "n1", 50, cpu=2)]
    found = plan(node("n1", cpu=3), runs, starving(cpu), policy=reserving("easy"))
    assert promises(found)["big"].planned_start == at(DAY + start)
    assert found.document()["recheckAt"] == at(DAY + start)
    assert f"it is planned to start at {at(DAY + start)}" in notes(found, "big")


def test_a_reservation_made_in_this_cycle_is_promised_too():
    found = plan(node("n1", cpu=3), busy("a", "n1", 30, cpu=3), waiting("big", cpu=3), policy=reserving("easy"))
    assert promises(found)["big"].planned_start == at(DAY + 30)
    assert not promises(found)["big"].anew


def test_a_reservation_made_after_allocate_is_promised_in_the_same_cycle():
    policy = acting("allocate", RESERVE, ("backfill", {"mode": "easy"}))
    found = plan(node("n1", cpu=3), busy("a", "n1", 30, cpu=3), waiting("big", cpu=3), policy=policy)
    assert [(held.planned_start, held.anew) for held in found.reservations] == [(at(DAY + 30), False)]


def test_the_promise_of_a_gang_is_when_all_of_it_has_room():
    gang = [
        reserved(group("big", minimum=2, created=0), ("big-0", "n1", "reserved"), ("big-1", "n2", "reserved")),
        *(waiting(f"big-{i}", group="big", cpu=2) for i in range(2)),
    ]
    cluster = [node("n1", cpu=2), node("n2", cpu=2), busy("a", "n1", 30), busy("b", "n2", 70)]
    found = plan(cluster, gang, policy=reserving("easy"))
    assert {pod: held.planned_start for pod, held in promises(found).items()} == {
        "big-0": at(DAY + 70),
        "big-1": at(DAY + 70),
    }


def test_where_runs_are_not_ended_in_time_the_promise_is_soft():
    run = running("a", "n1", started=DAY - 10, cpu=3, **lasting(40))
    soft = {
        mode: promises(plan(node("n1", cpu=3), run, starving(), policy=reserving(mode)))["big"].soft
        for mode in ("besteffort", "easy")
    }
    assert soft == {"besteffort": True, "easy": False}


@pytest.mark.parametrize("mode", ["besteffort", "easy", "conservative"])
def test_without_run_times_nothing_new_goes_on_a_reserved_node(mode: str):
    jobs = [starving(), waiting("short", created=DAY, cpu=1, **limited(1))]
    found = plan(node("n1", cpu=3), running("u", "n1", cpu=1), jobs, policy=reserving(mode))
    assert promises(found) == {}
    assert engine.bound(found) == {}
    assert engine.reasons(found)["short"] == "NodeResourceReserved"


@pytest.mark.parametrize(
    ("job", "starts"),
    [
        (limited(30), True),
        (lasting(30), True),
        (limited(31), False),
        ({}, False),
    ],
    ids=["ends for sure before it", "is evicted before it", "ends after it", "has no known end"],
)
def test_a_short_job_may_use_a_reserved_node_until_the_promise(job: dict[str, Any], starts: bool):
    small = waiting("small", created=DAY, cpu=1, **job)
    found = plan(node("n1", cpu=3), busy("a", "n1", 30), starving(), small, policy=reserving("easy"))
    assert engine.bound(found) == ({"small": "n1"} if starts else {})
    assert promises(found)["big"].planned_start == at(DAY + 30)
    found = plan(node("n1", cpu=3), busy("a", "n1", 30), starving(), small, policy=reserving("besteffort"))
    assert engine.bound(found) == {}, "only with easy and conservative"


def test_a_long_job_may_use_what_the_reservation_does_not_need():
    jobs = [starving(cpu=2), *(waiting(name, created=DAY, cpu=1, **limited(999)) for name in ("fits", "late"))]
    found = plan(node("n1", cpu=3), busy("a", "n1", 30), jobs, policy=reserving("easy"))
    assert engine.bound(found) == {"fits": "n1"}
    assert engine.reasons(found)["late"] == "NodeResourceReserved"


def test_the_job_takes_its_room_when_the_time_has_come():
    found = plan(
        node("n1", cpu=3), starving(), waiting("x", created=DAY, cpu=1, **limited(1)), policy=reserving("easy")
    )
    assert engine.bound(found) == {"big": "n1"}


def test_a_job_with_a_reservation_is_no_head_and_the_next_one_is():
    cluster = [node("n1", cpu=3), node("n2", cpu=3), busy("a", "n1", 30, cpu=3), busy("b", "n2", 40, cpu=3)]
    found = plan(cluster, starving(), waiting("head", created=DAY, cpu=3, **limited(9)), policy=reserving("easy"))
    assert {pod: (held.node, held.anew) for pod, held in promises(found).items()} == {
        "big": ("n1", False),
        "head": ("n2", True),
    }


def test_a_promise_to_the_head_stays_clear_of_reservations():
    """The reserved job may run for ever: the head can only have what is left."""
    jobs = [starving(cpu=2), waiting("head", created=DAY, cpu=2, **limited(9))]
    found = plan(node("n1", cpu=3), busy("a", "n1", 30, cpu=3), jobs, policy=reserving("easy"))
    assert set(promises(found)) == {"big"}
    jobs = [starving(cpu=2), waiting("head", created=DAY, cpu=1, **limited(9))]
    found = plan(node("n1", cpu=3), busy("a", "n1", 30, cpu=3), jobs, policy=reserving("easy"))
    assert promises(found)["head"].planned_start == at(DAY + 30)


def test_those_that_evict_do_not_take_a_reserved_node_that_has_a_promise():
    policy = planning(
        "easy", RESERVE, ("preempt", {}), plugins=("priority", "gang", "conformance", "drf", "predicates")
    )
    important = waiting("important", priority=9, created=DAY, cpu=2)
    found = plan(node("n1", cpu=3), busy("a", "n1", 30), starving(), important, policy=policy)
    assert evicted(found) == []
    assert nominations(found) == {}
    assert promises(found)["big"].planned_start == at(DAY + 30)


def test_pods_that_ask_for_nothing_leave_a_promised_reservation_its_slot():
    cluster = [node("n1", cpu=3, pods=2), busy("a", "n1", 30), starving()]
    found = plan(cluster, pod("tiny", created=DAY), policy=reserving("easy"))
    assert engine.bound(found) == {}
    assert promises(found)["big"].planned_start == at(DAY + 30)


def test_reservations_that_hold_room_already_have_no_planned_start():
    gang = [
        reserved(group("big", minimum=2, created=0), ("big-0", "n1", "allocated"), ("big-1", "n2", "reserved")),
        *(waiting(f"big-{i}", group="big", cpu=2) for i in range(2)),
    ]
    found = plan(node("n1", cpu=2), node("n2", cpu=2), busy("b", "n2", 70), gang, policy=reserving("easy"))
    assert set(promises(found)) == {"big-1"}


def test_an_unreadable_run_time_is_none():
    run = annotated(running("a", "n1", started=DAY - 10, cpu=3), expected_runtime="soon")
    found = plan(node("n1", cpu=3), run, starving(), policy=reserving("easy"))
    assert promises(found) == {}


def test_room_that_is_held_for_a_gang_is_free_at_no_known_time():
    """However short the run of the one that holds it will be: when it begins is not known."""
    gang = [
        reserved(group("big", minimum=2, created=0), ("big-0", "n1", "allocated"), ("big-1", "n2", "reserved")),
        *(waiting(f"big-{i}", group="big", cpu=2, **limited(5)) for i in range(2)),
    ]
    cluster = [node("n1", cpu=2), node("n2", cpu=2), running("u", "n2", cpu=2)]
    found = plan(cluster, gang, waiting("head", created=DAY, cpu=2, **limited(9)), policy=reserving("easy"))
    assert promises(found) == {}
