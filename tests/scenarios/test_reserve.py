"""reserve: which jobs starve, what is reserved for them, and against which others (spec S6.1 to S6.3)."""

import pytest
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.clock import SECOND, to_datetime
from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    full,
    many,
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
from support.engine import bound, reasons
from support.engine import waiting as pending
from support.objects import BEGIN

# -- who starves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "starves"), [(60, False), (61, True)])
def test_starving_is_strictly_longer_than_the_threshold(age, starves):
    found = plan(full(), waiting("big", cpu=4, created=DAY - age), policy=reserving(starvingJobTimeThreshold=60))
    assert ("big" in reservations(found)) is starves
    assert pending(found)["big"].starving is starves


def test_a_job_that_was_ready_lately_does_not_starve():
    group, *pods = waiting_gang("g", 1, cpu=4)
    condition = Condition(
        type="Scheduled", status="True", last_transition_time=to_datetime(BEGIN + (DAY - 30) * SECOND)
    )
    once_ready = replace(group, status=replace(group.status, conditions=(condition,)))  # type: ignore[type-var]
    patient = reserving(starvingJobTimeThreshold=60)
    assert reservations(plan(full(), group, pods, policy=patient)) == {"g-0": ("n1", "reserved")}
    assert reservations(plan(full(), once_ready, pods, policy=patient)) == {}
    assert reservations(plan(full(), once_ready, pods, policy=patient, at=DAY + 31)) == {"g-0": ("n1", "reserved")}


def test_a_ready_job_that_wants_more_does_not_starve():
    job = running_gang("g", ["n1"], cpu=1)
    more = waiting("g-9", group="g", cpu=4)
    assert reservations(plan(full(), job, more, policy=reserving(reservedNodePercent=100))) == {}


def test_a_job_with_all_its_reservations_does_not_starve_and_gets_no_others():
    standing = reserved(waiting("big", cpu=4), ("big", "n2", "reserved"))
    found = plan(many("n1", "n2", "n3"), standing, policy=reserving())
    assert reservations(found) == {"big": ("n2", "reserved")}


@pytest.mark.parametrize(
    ("own", "least", "starves"),
    [
        ("200", None, False),
        ("50", None, False),
        ("50", 40, True),
        ("50", 60, True),
        ("50", 99, False),
        ("10", 40, True),
        ("1m30s", None, False),
        ("nonsense", None, False),
        ("99", 99, False),
    ],
    ids=["raised", "lowering needs leave", "lowered", "to the least", "least too high", "below it", "span", "no", "=="],
)
def test_a_job_may_say_when_it_starves_within_what_the_policy_lets_it(own, least, starves):
    arguments = {"starvingJobTimeThreshold": 100, **({} if least is None else {"minStarvingAfter": least})}
    job = annotated(waiting("big", cpu=4, created=DAY - 99), starving_after=own)
    found = plan(full(), job, policy=reserving(**arguments))
    assert ("big" in reservations(found)) is starves
    assert pending(found)["big"].starving is starves


def test_a_job_that_raised_its_threshold_waits_that_long():
    job = annotated(waiting("big", cpu=4, created=DAY - 150), starving_after="200")
    policy = reserving(starvingJobTimeThreshold=100)
    assert reservations(plan(full(), job, policy=policy)) == {}
    assert reservations(plan(full(), job, policy=policy, at=DAY + 51)) == {"big": ("n1", "reserved")}


def test_a_job_of_unknown_age_does_not_starve():
    assert reservations(plan(full(), make.pod("big", cpu=4), policy=reserving())) == {}


# -- who is considered, in which order --------------------------------------------------------------------------


def test_the_more_important_job_is_served_first_and_then_the_one_that_waits_longest():
    one = reserving(maxReservedNodes=1)
    old, young = waiting("old", cpu=4, created=0), waiting("young", cpu=4, created=10)
    assert set(reservations(plan(full(), old, young, policy=one))) == {"old"}
    important = waiting("important", cpu=4, created=10, priority=5)
    assert set(reservations(plan(full(), old, important, policy=one))) == {"important"}
    twin = waiting("odd", cpu=4, created=0)
    assert set(reservations(plan(full(), twin, old, policy=one))) == {"odd"}


def test_jobs_of_one_kind_are_served_one_after_the_other():
    jobs = [waiting(f"big-{i}", cpu=4, created=i) for i in range(4)]
    found = plan(many("n1", "n2", "n3"), jobs, policy=reserving(reservedNodePercent=100))
    assert reservations(found) == {f"big-{i}": (f"n{i + 1}", "reserved") for i in range(3)}


def test_only_the_minimum_is_reserved_for():
    found = plan(many("n1", "n2"), waiting_gang("g", 4, minimum=2, cpu=4), policy=reserving(reservedNodePercent=100))
    assert set(reservations(found)) == {"g-0", "g-1"}


def test_the_minimum_of_each_role_is_reserved_for():
    group = make.group("g", minimum=2, roles={"chief": 1}, created=0)
    pods = [waiting(f"g-{i}", group="g", cpu=4) for i in range(3)] + [
        waiting("g-chief", group="g", role="chief", cpu=4)
    ]
    found = plan(many("n1", "n2"), group, pods, policy=reserving(reservedNodePercent=100))
    assert set(reservations(found)) == {"g-0", "g-chief"}


def test_a_role_that_has_one_place_of_two_is_short_of_one():
    """The second chief's node is gone; the helper comes first by name, and is not what the gang is short of."""
    group = make.group("g", minimum=2, roles={"chief": 2}, created=0)
    chiefs = [waiting(f"g-{i}", group="g", role="chief", cpu=4) for i in range(2)]
    helper = waiting("a-helper", group="g", role="helper", cpu=4)
    standing = reserved(group, ("g-0", "n1", "reserved"), ("g-1", "gone", "reserved"))
    found = plan(many("n1", "n2"), standing, chiefs, helper, policy=reserving(reservedNodePercent=100))
    assert reservations(found) == {"g-0": ("n1", "reserved"), "g-1": ("n2", "reserved")}


@pytest.mark.parametrize(
    "queue",
    [
        make.queue("q", capability={"cpu": 3}),
        make.queue("q", state="Closed"),
    ],
    ids=["beyond its capability", "closed"],
)
def test_a_queue_that_may_not_take_the_job_reserves_nothing_for_it(queue):
    assert reservations(plan(full(), queue, waiting("big", cpu=4, queue="q"), policy=reserving())) == {}
    assert reservations(plan(full(), make.queue("q"), waiting("big", cpu=4, queue="q"), policy=reserving())) != {}


def test_what_runs_and_what_is_reserved_counts_against_the_capability():
    queue = make.queue("q", capability={"cpu": 8})
    first = reserved(waiting("first", cpu=4, queue="q"), ("first", "n1", "reserved"))
    second = waiting("second", cpu=4, queue="q")
    policy = reserving(reservedNodePercent=100)
    assert set(reservations(plan(many("n1", "n2"), queue, first, second, policy=policy))) == {"first", "second"}
    runs = running("runs", "n3", cpu=1, queue="q")
    more = [make.node("n3", cpu=1)]
    assert set(reservations(plan(many("n1", "n2"), more, queue, runs, first, second, policy=policy))) == {"first"}


def test_a_group_that_reserves_all_its_queue_may_hold_is_not_asked_to_enter_again():
    group, *pods = waiting_gang("big", 2, minimum=1, cpu=4, queue="q")
    queue, policy = make.queue("q", capability={"cpu": 5}), reserving()
    assert set(reservations(plan(full(), queue, group, pods, policy=policy))) == {"big-0"}
    holds = reserved(group, ("big-0", "n1", "reserved"))
    found = plan(full(), queue, holds, pods, policy=policy)
    assert set(reservations(found)) == {"big-0"}
    assert found.released == ()


def test_capability_holds_at_every_ancestor():
    queues = [make.queue("top", capability={"cpu": 3}), make.queue("q", parent="top")]
    assert reservations(plan(full(), queues, waiting("big", cpu=4, queue="q"), policy=reserving())) == {}


def test_without_lending_a_queue_reserves_within_what_it_deserves():
    strict = acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1}), "allocate", proportion={"lending": "none"})
    cluster = [[make.node(name, cpu=4), running(f"on-{name}", name, cpu=2, queue="q")] for name in ("n1", "n2")]
    big, queues = waiting("big", cpu=4, queue="q"), [make.queue("q"), make.queue("other")]
    assert reservations(plan(cluster, queues[:1], big, policy=strict)) == {"big": ("n1", "reserved")}
    assert reservations(plan(cluster, queues, big, policy=strict)) == {}


def test_a_gang_without_enough_pods_and_one_that_was_not_let_in_reserve_nothing():
    group, *pods = waiting_gang("g", 3, cpu=4)
    assert reservations(plan(many("n1", "n2", "n3"), group, pods[:2], policy=reserving(reservedNodePercent=100))) == {}
    queue = make.queue("q", capability={"cpu": 8})
    kept_out = waiting_gang("g", 3, cpu=4, queue="q")
    found = plan(many("n1", "n2", "n3"), queue, kept_out, policy=reserving(reservedNodePercent=100))
    assert (reservations(found), reasons(found)["g"]) == ({}, "NotEnqueued")


def test_queues_and_nodes_can_be_excluded():
    big = waiting("big", cpu=4, queue="q")
    cluster = [many("n1", "n2"), make.queue("q")]
    assert reservations(plan(cluster, big, policy=reserving(excludeQueues=["q"]))) == {}
    assert reservations(plan(cluster, big, policy=reserving(excludeQueues=["p"]))) == {"big": ("n1", "reserved")}
    not_n1 = reserving(excludeNodeSelector={make.HOST: "n1"})
    assert reservations(plan(cluster, big, policy=not_n1)) == {"big": ("n2", "reserved")}
    neither = reserving(excludeNodeSelector={make.HOST: "n1", "zone": "a"})
    assert reservations(plan(cluster, big, policy=neither)) == {"big": ("n1", "reserved")}


def test_what_is_reserved_is_shown_apart_and_counts_in_shares():
    found = plan(full(), make.queue("q"), waiting("big", cpu=4, queue="q"), policy=reserving())
    queue = next(standing for standing in found.queues if standing.name == "q")
    assert (queue.allocated["cpu"], queue.reserved["cpu"], queue.dominant_share) == ("0", "4", 0.0)
    (namespace,) = [standing for standing in found.namespaces if standing.queue == "q"]
    assert (namespace.allocated["cpu"], namespace.reserved["cpu"]) == ("0", "4")
    assert namespace.share == 1.0


def test_a_namespace_with_a_reservation_stands_behind_one_without():
    big = reserved(waiting("big", namespace="a", cpu=4), ("big", "n1", "reserved"))
    small = [waiting("s", namespace=name, cpu=1, created=5) for name in ("a", "b")]
    found = plan(full("n1"), make.node("n2", cpu=1), big, small, policy=reserving())
    assert bound(found) == {"b/s": "n2"}


# -- the guard ----------------------------------------------------------------------------------------------------


def test_nothing_is_reserved_while_a_job_of_higher_priority_is_being_placed():
    important = waiting("important", cpu=1, priority=1, queue="other", created=DAY)
    found = plan(full(), make.queue("other"), waiting("big", cpu=4), important, policy=reserving())
    assert bound(found) == {"important": "n1"}
    assert reservations(found) == {}
    assert "higher priority" in notes(found, "big")
    assert found.recheck_at == BEGIN + DAY * SECOND + 1, "the next round is its own"


def test_equal_priority_does_not_keep_a_job_from_reserving():
    alike = waiting("alike", cpu=1, created=DAY)
    found = plan(full(), waiting("big", cpu=4), alike, policy=reserving())
    assert (bound(found), reservations(found)) == ({}, {"big": ("n1", "reserved")})


def test_a_job_of_higher_priority_that_cannot_be_placed_is_no_obstacle():
    important = waiting("important", cpu=9, priority=1, created=DAY)
    assert "big" in reservations(plan(full(), waiting("big", cpu=4), important, policy=reserving()))


def test_the_guard_looks_at_the_state_before_anything_is_reserved():
    """The starving job itself would take the room away in which the important one fits."""
    important = waiting("important", cpu=4, priority=1, created=DAY)
    starving = waiting("starving", cpu=4, priority=0)
    found = plan(make.node("n1", cpu=4), starving, important, policy=reserving())
    assert (bound(found), reservations(found)) == ({"important": "n1"}, {})


def test_the_guard_asks_whether_the_queue_may_place_it():
    important = waiting("important", cpu=1, priority=1, queue="closed", created=DAY)
    queue = make.queue("closed", state="Closed")
    assert "big" in reservations(plan(full(), queue, waiting("big", cpu=4), important, policy=reserving()))


def test_once_made_a_reservation_holds_against_everyone():
    standing = reserved(waiting("big", cpu=4), ("big", "n1", "reserved"))
    important = waiting("important", cpu=1, priority=9)
    found = plan(full(), standing, important, policy=reserving())
    assert (bound(found), reservations(found)) == ({}, {"big": ("n1", "reserved")})
    assert reasons(found)["important"] == "NodeResourceReserved"
    assert pending(found)["important"].nodes == {"node(s) resource was(were) reserved": 1}
