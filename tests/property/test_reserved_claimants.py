"""A job that has reserved nodes evicts as if it had not: a reservation never makes it wait for pods of lower rank."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.scheduler.plan import Plan
from support import objects as make
from support.contention import (
    DAY,
    acting,
    evicted,
    nominations,
    plan,
    released,
    reservation,
    reservations,
    running,
    waiting,
    waiting_gang,
)
from support.effort import examples
from support.preempting import high, low, nodes, one_node

RESERVE = ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100})
WITH = acting("enqueue", RESERVE, "allocate", "preempt", "reclaim", drf={"priorityFirst": True})
WITHOUT = acting("enqueue", "allocate", "preempt", "reclaim", drf={"priorityFirst": True})
LONG = 10 * DAY
"""When everything that waits starves."""


def test_a_job_that_starves_evicts_although_it_could_reserve():
    found = plan(one_node(), low("a"), high(), policy=WITH, at=LONG)
    assert (evicted(found), nominations(found)) == (["a"], {"high": "n1"})
    assert (reservations(found), released(found)) == ({}, {})


def test_a_job_with_a_reservation_evicts_and_its_reservation_ends():
    claimant = high(created=0)
    found = plan(
        nodes("n1", "n2", cpu=1),
        [low("a", "n1", priority=5), low("b", "n2")],
        [claimant, reservation(claimant, ("high", "n1", "reserved"))],
        policy=WITH,
    )
    assert (evicted(found), nominations(found)) == (["b"], {"high": "n2"})
    assert released(found) == {"high": "pods are evicted for the job"}


def test_what_a_gang_has_already_is_kept_and_the_rest_is_made_free():
    gang = waiting_gang("gang", 2, cpu=1, priority=10)
    held = reservation(gang[0], ("gang-0", "n1", "allocated"), ("gang-1", "n2", "reserved"))
    found = plan(nodes("n1", "n2", cpu=1), low("a", "n2"), gang, held, policy=WITH)
    assert (evicted(found), nominations(found)) == (["a"], {"gang-1": "n2"})
    assert reservations(found)["gang-0"] == ("n1", "allocated")


@pytest.mark.parametrize("priority", [10, 11])
def test_a_reservation_stands_where_nothing_may_be_evicted(priority):
    claimant = high(created=0)
    held = reservation(claimant, ("high", "n1", "reserved"))
    found = plan(one_node(), low("a", priority=priority), [claimant, held], policy=WITH)
    assert (evicted(found), reservations(found), released(found)) == ([], {"high": ("n1", "reserved")}, {})


def test_a_pod_that_never_preempts_waits_on_its_node():
    claimant = high(created=0, spec={"preemptionPolicy": "Never"})
    found = plan(one_node(), low("a"), claimant, policy=WITH, at=LONG)
    assert (evicted(found), reservations(found)) == ([], {"high": ("n1", "reserved")})


@st.composite
def one_claimant(draw: st.DrawFn) -> tuple[list[ApiObject], list[Any], str]:
    """A cluster of running pods, one job that waits, and a node."""
    count = draw(st.integers(1, 4))
    found: list[ApiObject] = list(nodes(*(f"n{number}" for number in range(count)), cpu=4))
    for number in range(count):
        left = 4
        for index in range(draw(st.integers(0, 3))):
            cpu = draw(st.integers(1, 3))
            if cpu <= left:
                left -= cpu
                priority, space = draw(st.integers(0, 3)), draw(st.sampled_from(("default", "other")))
                found.append(running(f"r{number}-{index}", f"n{number}", cpu=cpu, priority=priority, namespace=space))
    size, cpu, priority = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(0, 4))
    job = (
        [waiting("w", cpu=cpu, priority=priority)] if size == 1 else waiting_gang("w", size, cpu=cpu, priority=priority)
    )
    return found, job, f"n{draw(st.integers(0, count - 1))}"


def outcome(found: Plan) -> tuple[list[str], dict[str, str], list[str]]:
    return evicted(found), nominations(found), sorted(binding.pod for binding in found.bindings)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(one_claimant())
def test_one_job_evicts_the_same_with_reserve_and_without(case: tuple[list[ApiObject], list[Any], str]) -> None:
    """Of a gang some pods may have got their capacity: what is evicted for the others may be on other nodes."""
    cluster, job, node = case
    expected = outcome(plan(cluster, job, policy=WITHOUT, at=LONG))
    places = [(one.metadata.name, node, "reserved") for one in job if isinstance(one, Pod)]
    carried = reservation(job[0], *places, since=LONG - 60)
    for more in ([], [carried]):
        found = outcome(plan(cluster, job, more, policy=WITH, at=LONG))
        if len(job) == 1:
            assert found == expected
        else:
            assert (bool(found[0]), found[2]) == (bool(expected[0]), expected[2])


def test_the_cluster_of_the_property_has_evictions() -> None:
    """It would say nothing if there were none."""
    objects = [make.node("n0", cpu=4), running("r", "n0", cpu=3), waiting("w", cpu=4, priority=4)]
    assert evicted(plan(objects, policy=WITHOUT, at=LONG)) == ["r"]
