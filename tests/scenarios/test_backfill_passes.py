"""What one job leaves behind for the next while starts are planned: in a pass, between passes, between actions."""

from typing import Any

from fairway.api.policy import Policy
from fairway.scheduler.reservations.objects import reservation_objects
from support import engine
from support.contention import DAY, cycle, evicted, nominations, plan, reserved, waiting
from support.objects import HOST, at, node, queue
from support.streams import busy, limited, planning, promises

LENDING = ("gang", "predicates", "proportion")


def on(name: str, span: int) -> dict[str, Any]:
    """Only on this node, and ended after so many seconds."""
    return {"spec": {"activeDeadlineSeconds": span, "nodeSelector": {HOST: name}}}


def strict_per_queue() -> Policy:
    actions: list[dict[str, Any]] = [
        {"name": "allocate", "arguments": {"blocked": "wait", "perQueue": True}},
        {"name": "backfill", "arguments": {"mode": "conservative"}},
    ]
    return engine.policy(actions=actions, plugins=("priority", "gang", "predicates"))


def test_a_blocked_job_gives_its_planned_start_up_to_other_queues() -> None:
    """`small` was planned on n1 from 30 on. Then `big`, which fits nowhere, came before it in its queue."""
    cluster = [queue("a"), queue("b"), node("n1", cpu=2), busy("r", "n1", 30, cpu=1)]
    small = waiting("small", created=1, queue="a", cpu=2, **limited(10))
    other = waiting("other", created=2, queue="b", cpu=1, **limited(1000))
    state = engine.state_of(cluster, small)
    first = cycle(state, strict_per_queue())
    assert promises(first)["small"].planned_start == at(DAY + 30)
    state.upsert(reservation_objects(first.reservations, first.overruns).values())
    state.upsert([other])
    assert engine.bound(cycle(state, strict_per_queue())) == {}
    state.upsert([waiting("big", priority=9, created=3, queue="a", cpu=5)])
    found = cycle(state, strict_per_queue())
    assert engine.bound(found) == {"other": "n1"}
    assert engine.reasons(found)["small"] == "Blocked"


def test_shortest_first_holds_for_what_is_lent_too() -> None:
    """The head of queue b is found in the first pass; what b leaves idle goes to the shorter job of a in the second."""
    cluster = [
        queue("a"),
        queue("b"),
        node("n1", cpu=2),
        node("n2", cpu=2),
        busy("r", "n1", 100, cpu=1, queue="a"),
        busy("s", "n2", 30, cpu=1, queue="a"),
    ]
    jobs = [
        waiting("head", queue="b", cpu=2, **on("n2", 50)),
        waiting("long", created=1, queue="a", cpu=1, **on("n1", 90)),
        waiting("short", created=2, queue="a", cpu=1, **on("n1", 10)),
    ]
    policy = planning("easy", plugins=LENDING, order="shortest")
    found = plan(cluster, jobs, policy=policy)
    assert set(promises(found)) == {"head"}
    assert engine.bound(found) == {"short": "n1"}
    policy = planning("easy", plugins=LENDING)
    assert engine.bound(plan(cluster, jobs, policy=policy)) == {"long": "n1"}


def test_a_planned_start_stands_where_the_reservation_was_released() -> None:
    """The reservation on n1 has timed out; in the same cycle the job is planned to start there."""
    reserve = ("reserve", {"starvingJobTimeThreshold": 10**9, "reservationTimeout": 60})
    big = reserved(waiting("big", cpu=2, **limited(9)), ("big", "n1", "reserved"), since=DAY - 600)
    found = plan(node("n1", cpu=2), busy("r", "n1", 30), big, policy=planning("easy", reserve))
    assert [entry.pod for entry in found.released] == ["default/big"]
    assert promises(found)["big"].planned_start == at(DAY + 30)


def test_what_planned_starts_leave_to_one_job_does_not_bind_one_that_evicts() -> None:
    """The last job that is tried could only have what the head leaves on n1; the head itself evicts there."""
    actions: list[dict[str, Any]] = [
        {"name": "allocate"},
        {"name": "preempt"},
        {"name": "backfill", "arguments": {"mode": "easy"}},
    ]
    policy = engine.policy(actions=actions, plugins=("priority", *LENDING, "conformance"))
    cluster = [
        queue("a"),
        queue("b"),
        node("n1", cpu=2),
        node("n2", cpu=2),
        busy("r", "n1", 30, cpu=1, queue="b"),
        busy("s", "n2", 90, cpu=2, queue="a"),
    ]
    jobs = [waiting("head", priority=9, queue="b", cpu=2), waiting("last", created=1, queue="a", cpu=1)]
    found = plan(cluster, jobs, policy=policy)
    assert engine.bound(found) == {}
    assert (evicted(found), nominations(found)) == (["r"], {"head": "n1"})
