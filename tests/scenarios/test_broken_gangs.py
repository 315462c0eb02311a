"""A gang that has started and lost pods is repaired first, has its capacity kept, or is evicted (spec S5.5)."""

from typing import Any

import pytest
from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.clock import SECOND, to_datetime
from fairway.state.cluster import Deleted, Upserted
from support import objects as make
from support.contention import (
    DAY,
    acting,
    annotated,
    budget,
    cycle,
    evicted,
    nominations,
    notes,
    plan,
    running,
    waiting,
)
from support.engine import bound, state_of
from support.objects import BEGIN
from support.world import World

POLICY = acting("enqueue", "allocate", "backfill")


def broken(*lost: Any, scheduled: Any = "", at: int = 0, queue: str = "default", **rest: Any) -> list[Any]:
    """A gang of two in namespace a: one pod runs on n1, the other is among `lost`, or nowhere."""
    group: Any = make.group("g", "a", minimum=2, created=0, phase="Running", queue=queue)
    if scheduled:
        status: Any = group.status
        told = make_condition(scheduled, at)
        group = replace(group, status=replace(status, conditions=(told,)))
    return [group, running("g-0", "n1", cpu=1, namespace="a", group="g", **rest), *lost]


def make_condition(scheduled: Any, at: int) -> Condition:
    return Condition("Scheduled", scheduled, "", "", to_datetime(BEGIN + at * SECOND))


def recreated(created: int = 0, **rest: Any) -> Any:
    return waiting("g-1", namespace="a", group="g", created=created, **{"cpu": 1, **rest})


def nodes(*names: str, cpu: int = 1) -> list[Any]:
    return [make.node(name, cpu=cpu, pods=10) for name in names]


def other(name: str = "other", **rest: Any) -> Any:
    return waiting(name, namespace="b", **{"cpu": 1, **rest})


# -- order ----------------------------------------------------------------------------------------------------------


def test_its_missing_pod_goes_before_jobs_that_have_not_started_whatever_the_namespaces_say():
    """Namespace b has nothing and would be first."""
    found = plan(nodes("n1", "n2"), broken(recreated()), other(), policy=POLICY)
    assert bound(found) == {"a/g-1": "n2"}


def test_it_goes_before_jobs_of_its_own_namespace_too():
    older = waiting("first", namespace="a", cpu=1)
    assert bound(plan(nodes("n1", "n2"), broken(recreated(created=9)), older, policy=POLICY)) == {"a/g-1": "n2"}


def test_a_job_of_higher_priority_is_still_first():
    found = plan(nodes("n1", "n2"), broken(recreated()), other(priority=1), policy=POLICY)
    assert bound(found) == {"b/other": "n2"}


def test_a_job_of_lower_priority_is_not():
    gang = broken(recreated(priority=1), priority=1)
    assert bound(plan(nodes("n1", "n2"), gang, other(), policy=POLICY)) == {"a/g-1": "n2"}


def test_queues_keep_their_order():
    """Its queue has what it deserves; the other one has not."""
    queues = [make.queue("q1"), make.queue("q2")]
    found = plan(queues, nodes("n1", "n2"), broken(recreated(), queue="q1"), other(queue="q2"), policy=POLICY)
    assert bound(found) == {"b/other": "n2"}


def test_a_pod_that_requests_more_than_the_gang_had_waits_its_turn():
    found = plan(nodes("n1") + nodes("n2", cpu=2), broken(recreated(cpu=2)), other(cpu=2), policy=POLICY)
    assert bound(found) == {"b/other": "n2"}


def test_a_started_job_that_grows_keeps_its_turn():
    """Namespace b is first, and its job is not one that has not started."""
    group = make.group("e", "b", minimum=1, created=0, phase="Running")
    elastic = [
        group,
        waiting("e-1", namespace="b", group="e", cpu=1),
        running("e-0", "n3", namespace="b", group="e", cpu=1),
    ]
    found = plan(nodes("n1", "n2", "n3"), make.quota("b", 3), broken(recreated()), elastic, policy=POLICY)
    assert bound(found) == {"b/e-1": "n2"}


# -- capacity -------------------------------------------------------------------------------------------------------

BOTH = [make.queue("q1"), make.queue("q2")]


@pytest.mark.parametrize(("age", "kept"), [(0, True), (119, True), (120, False)])
def test_capacity_is_kept_for_a_pod_that_is_not_recreated_yet(age: int, kept: bool):
    gang = broken(scheduled="False", at=DAY - age, queue="q1")
    found = plan(BOTH, nodes("n1", "n2"), gang, other(queue="q2"), policy=POLICY)
    assert bound(found) == ({} if kept else {"b/other": "n2"})
    if kept:
        assert found.recheck_at == BEGIN + (DAY - age + 120) * SECOND


def test_a_gang_that_was_ready_a_moment_ago_has_its_capacity_kept():
    """Its condition still says so."""
    gang = broken(scheduled="True", at=10, queue="q1")
    assert bound(plan(BOTH, nodes("n1", "n2"), gang, other(queue="q2"), policy=POLICY)) == {}


def test_the_recreated_pod_has_it_before_other_queues():
    gang = broken(recreated(created=DAY - 5), queue="q1")
    assert bound(plan(BOTH, nodes("n1", "n2"), gang, other(queue="q2"), policy=POLICY)) == {"a/g-1": "n2"}


def test_a_gang_that_misses_two_waits_for_both():
    group = replace(broken()[0], spec=replace(broken()[0].spec, min_member=3))
    gang = [group, broken()[1], recreated(created=DAY - 5)]
    found = plan(nodes("n1", "n2", "n3", "n4"), gang, other("o1"), other("o2"), policy=POLICY)
    assert sorted(bound(found)) == ["b/o1"]
    assert "capacity for its missing pods is kept until" in notes(found, "a/g")


def test_the_time_is_the_policys():
    none = acting("enqueue", ("allocate", {"gangRepairTimeout": 0}), "backfill")
    gang = broken(scheduled="False", at=DAY, queue="q1")
    assert bound(plan(BOTH, nodes("n1", "n2"), gang, other(queue="q2"), policy=none)) == {"b/other": "n2"}


def test_no_claimant_is_nominated_for_what_its_terminating_pod_leaves():
    """It evicts the other pod instead, which may go as part of a gang that does not work."""
    ends = replace(running("g-1", "n2", cpu=1, namespace="a", group="g"), metadata=_deleted("g-1", DAY - 1))
    policy = acting("enqueue", "allocate", "preempt", drf={"priorityFirst": True})
    busy = running("busy", "n3", cpu=1, namespace="b")
    claimant = waiting("claimant", cpu=1, priority=9)
    found = plan(nodes("n1", "n2", "n3"), broken(ends), busy, claimant, policy=policy)
    assert evicted(found) in (["b/busy"], ["a/g-0"])
    assert nominations(found)["claimant"] != "n2"


def _deleted(name: str, at: int) -> Any:
    meta = running(name, "n2", namespace="a", group="g", cpu=1).metadata
    return replace(meta, deletion_timestamp=to_datetime(BEGIN + at * SECOND))


def test_through_time_newer_pods_do_not_starve_a_gang_that_lost_one():
    """A pod of a running gang is deleted and recreated, while single pods of other namespaces keep coming and going."""
    gang = [*broken(), running("g-1", "n2", cpu=1, namespace="a", group="g")]
    world = World(nodes("n1", "n2"), gang, policy=POLICY, runs={f"o{number}": 1 for number in range(30)})
    for second in range(6):
        world.now = second
        if second == 2:
            world.recreate("a/g-1")
        pod = other(f"o{second}", created=second)
        world.pods[f"b/o{second}"] = pod
        world.state.apply(Upserted(pod))
        world.step(second)
    assert world.started == {"g-1": 2}


# -- gangs that stay broken -----------------------------------------------------------------------------------------


def stale(seconds: int) -> Any:
    return acting("enqueue", ("allocate", {"staleGangTimeout": seconds}), "backfill")


@pytest.mark.parametrize(("age", "goes"), [(599, False), (600, False), (601, True)])
def test_a_gang_that_stays_broken_is_evicted_whole(age: int, goes: bool):
    gang = broken(scheduled="False", at=DAY - age)
    found = plan(nodes("n1", "n2"), gang, policy=stale(600))
    assert evicted(found) == (["a/g-0"] if goes else [])
    if goes:
        assert found.evictions[0].reason == "its gang has been below its minimum for more than 600 s"
    else:
        assert found.recheck_at == BEGIN + (DAY - age + 600) * SECOND + 1


def test_by_default_it_never_is():
    assert evicted(plan(nodes("n1"), broken(scheduled="False", at=0), policy=POLICY)) == []


def test_protected_pods_stay():
    gang = broken(scheduled="False", at=0)
    assert evicted(plan(nodes("n1"), [annotated(gang[0], never_evict="true"), gang[1]], policy=stale(600))) == []
    covered = broken(scheduled="False", at=0, labels={"app": "x"})
    one = budget("pdb", {"app": "x"}, namespace="a", allowed=0)
    assert evicted(plan(nodes("n1"), covered, one, policy=stale(600))) == []


def test_what_was_evicted_waits_again_as_a_whole():
    gang = broken(scheduled="False", at=0)
    state = state_of(nodes("n1", "n2"), gang)
    assert evicted(cycle(state, stale(600))) == ["a/g-0"]
    state.apply(Deleted(gang[1]))
    state.upsert([waiting("g-0", namespace="a", group="g", cpu=1), recreated()])
    assert sorted(bound(cycle(state, stale(600)))) == ["a/g-0", "a/g-1"]
