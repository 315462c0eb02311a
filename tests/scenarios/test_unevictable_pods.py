"""Capacity that cannot be taken back is never lent: pods that nothing can evict stay within what their queue deserves
(spec S5.6).
"""

from typing import Any

import pytest

from support import objects as make
from support.contention import (
    acting,
    annotated,
    budget,
    evicted,
    notes,
    plan,
    reservations,
    running,
    waiting,
    waiting_gang,
)
from support.engine import bound, reasons
from support.engine import waiting as pending

POLICY = acting("enqueue", "allocate", "reclaim", "backfill")
QUEUES = [make.queue("q1"), make.queue("q2")]


def cluster(cpu: int = 4) -> list[Any]:
    """Two queues deserve half of the node each, and q2 requests its half: pods that fit nowhere."""
    large = [waiting(f"large{number}", cpu=cpu + 1, queue="q2") for number in range(2)]
    return [make.node("n1", cpu=cpu, pods=20), *QUEUES, *large]


def three(**rest: Any) -> list[Any]:
    """Pods of q1, which deserves two of four cpus."""
    return [waiting(f"p{number}", cpu=1, queue="q1", created=number, **rest) for number in range(3)]


def test_pods_that_can_be_evicted_borrow():
    assert sorted(bound(plan(cluster(), three(), policy=POLICY))) == ["p0", "p1", "p2"]


MARKS = {"fairway.dev/never-evict": "true"}, {"volcano.sh/preemptable": "false"}


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: next(iter(mark)))
def test_marked_pods_do_not(mark: dict[str, str]):
    found = plan(cluster(), three(annotations=mark), policy=POLICY)
    assert sorted(bound(found)) == ["p0", "p1"]
    assert reasons(found)["p2"] == "QueueOverused"
    assert pending(found)["p2"].message.startswith(
        "the job is marked as never to be evicted, so it is placed only within what queue q1 deserves, never on "
        "borrowed capacity"
    )


def test_pods_behind_a_marked_one_of_their_kind_still_borrow():
    pods = three()
    found = plan(
        cluster(),
        pods[0],
        pods[1],
        annotated(pods[2], never_evict="true"),
        waiting("p3", cpu=1, queue="q1", created=9),
        policy=POLICY,
    )
    assert sorted(bound(found)) == ["p0", "p1", "p3"]


def test_pods_of_a_queue_that_is_never_evicted_do_not():
    queue = annotated(make.queue("q1"), never_evict="true")
    found = plan(queue, [thing for thing in cluster() if thing is not QUEUES[0]], three(), policy=POLICY)
    assert sorted(bound(found)) == ["p0", "p1"]
    assert "pods of queue q1 are never evicted" in notes(found, "p2")


@pytest.mark.parametrize(
    ("spec", "borrows"),
    [
        ({"maxUnavailable": 0}, False),
        ({"minAvailable": 3}, False),
        ({"minAvailable": "100%"}, False),
        ({"maxUnavailable": 1}, True),
        ({"minAvailable": 1}, True),
    ],
)
def test_pods_whose_budget_allows_no_disruption_do_not(spec: dict[str, Any], borrows: bool):
    found = plan(cluster(), three(labels={"app": "x"}), budget("pdb", {"app": "x"}, **spec), policy=POLICY)
    assert sorted(bound(found)) == ["p0", "p1", "p2"][: 3 if borrows else 2]
    if not borrows:
        assert "PodDisruptionBudget default/pdb allows no eviction of it" in notes(found, "p2")


def test_a_gang_of_which_a_budget_never_lets_all_go_does_not():
    gang = waiting_gang("g", 3, cpu=1, queue="q1", labels={"app": "x"})
    one, all_ = (budget("pdb", {"app": "x"}, maxUnavailable=most) for most in (1, 3))
    assert bound(plan(cluster(), gang, one, policy=POLICY)) == {}
    assert len(bound(plan(cluster(), gang, all_, policy=POLICY))) == 3


def test_system_pods_are_exempt():
    pods = three(annotations=MARKS[0], spec={"priorityClassName": "system-node-critical"})
    assert sorted(bound(plan(cluster(), pods, policy=POLICY))) == ["p0", "p1", "p2"]


def test_pods_that_request_nothing_borrow_nothing():
    pod = annotated(waiting("b", queue="q1"), never_evict="true")
    assert bound(plan(cluster(), running("full", "n1", cpu=4, queue="q1"), pod, policy=POLICY)) == {"b": "n1"}


def test_they_do_not_reserve_beyond_it_either():
    reserve = ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 100})
    policy = acting("enqueue", reserve, "allocate", "backfill")
    full = [running(f"r{number}", "n1", cpu=2, queue=f"q{number}") for number in (1, 2)]
    claimant = annotated(waiting("p", cpu=2, queue="q1"), never_evict="true")
    found = plan(cluster(), full, claimant, policy=policy)
    assert reservations(found) == {}
    assert "and its queue would have to borrow" in notes(found, "p")


def test_nor_preempt_what_their_queue_has_borrowed():
    policy = acting("enqueue", "allocate", "preempt", "backfill")
    full = [running(f"r{number}", "n1", cpu=1, queue="q1") for number in range(4)]
    claimant = waiting("p", cpu=1, queue="q1", priority=9)
    assert evicted(plan(cluster(), full, claimant, policy=policy)) != []
    found = plan(cluster(), full, annotated(claimant, never_evict="true"), policy=policy)
    assert evicted(found) == []
    assert "evicts nothing: the job is marked as never to be evicted" in notes(found, "p")
