"""The promises that hold for every cycle, on random full clusters where jobs reserve, preempt and reclaim: queues stay
within their capability, gangs are whole, the bytes are the same in any order, and every job that waits is told why.
"""

import json
from collections import Counter
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.scheduling import Queue
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.scheduler.verdict import Reason
from fairway.state.cluster import ClusterState
from fairway.state.jobs import Task, TaskState
from support import objects as make
from support.contended import SEEDS, contended
from support.contention import acting, cycle
from support.effort import examples
from support.engine import state_of

some = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])

REASONS = {reason.value for reason in Reason}
RESERVE = ("reserve", {"starvingJobTimeThreshold": 1, "reservedNodePercent": 60})


@st.composite
def policies(draw: st.DrawFn) -> Any:
    first = draw(st.sampled_from(((), (RESERVE,))))
    evicting = draw(st.sampled_from((("preempt",), ("reclaim",), ("reclaim", "preempt"))))
    backfill = ("backfill", {"mode": draw(st.sampled_from(("besteffort", "easy", "conservative")))})
    lending = draw(st.sampled_from(("default", "default", "none")))
    drf = {"priorityFirst": draw(st.booleans())}
    return acting("enqueue", *first, "allocate", *evicting, backfill, drf=drf, proportion={"lending": lending})


@st.composite
def capped(draw: st.DrawFn) -> list[Any]:
    """Every queue has a capability, and may be above it already."""
    return [
        make.queue(thing.metadata.name, thing.spec.weight, capability={"cpu": draw(st.integers(2, 9))})
        if isinstance(thing, Queue)
        else thing
        for thing in draw(contended(plain=True))
    ]


def given_room(state: ClusterState, plan: Plan) -> dict[str, Task]:
    """Pods that the plan binds, or holds room for."""
    entries = [*plan.bindings, *plan.nominations, *(entry for entry in plan.reservations if not entry.anew)]
    return {entry.pod: state.tasks[entry.pod] for entry in entries}  # type: ignore[attr-defined]


@some
@given(capped(), policies())
def test_no_queue_is_given_more_than_its_capability(objects, policy):
    state = state_of(objects)
    plan = cycle(state, policy)
    gone = {eviction.pod for eviction in plan.evictions}
    given = given_room(state, plan)
    held: dict[str, Counter[int]] = {}
    gains: dict[str, set[int]] = {}
    for task in state.tasks.values():
        runs = task.state in (TaskState.RUNNING, TaskState.BOUND) and task.key not in gone
        if runs or task.key in given:
            held.setdefault(task.job.queue, Counter()).update(dict(task.shape.vector))
        if task.key in given:
            gains.setdefault(task.job.queue, set()).update(task.shape.amounts)
    for name, dimensions in gains.items():
        for dimension in dimensions:
            most = state.queues[name].capability.get(dimension)
            assert most is None or held[name][dimension] <= most, (name, state.axis.names[dimension])


def a_gang_gets_room_for_all_of_it_or_none(state: ClusterState, plan: Plan) -> None:
    """Whoever is bound is ready then, and whoever is given room that others leave will be ready in it."""
    gone = Counter(state.tasks[eviction.pod].job for eviction in plan.evictions)
    bound = Counter(state.tasks[binding.pod].job for binding in plan.bindings)
    given = Counter(task.job for task in given_room(state, plan).values())
    for job, count in bound.items():
        assert job.ready + count - gone[job] >= job.minimum, job
    for job, count in given.items():
        assert job.ready + count >= job.minimum, job


def every_job_that_waits_is_told_why(state: ClusterState, plan: ExplainedPlan) -> None:
    bound = {binding.pod for binding in plan.bindings}
    left = {task.job.key for task in state.tasks.values() if task.state is TaskState.PENDING and task.key not in bound}
    listed = {row.job: row for row in plan.pending}
    assert left <= listed.keys()
    assert all(row.reason in REASONS and row.message for row in plan.pending)


@some
@given(contended(), policies(), SEEDS)
def test_equal_inputs_give_equal_bytes_in_any_order_and_again(objects, policy, seed):
    """And the plan keeps the two promises above."""
    state = state_of(objects)
    plan = cycle(state, policy)
    a_gang_gets_room_for_all_of_it_or_none(state, plan)
    every_job_that_waits_is_told_why(state, plan)
    first = json.dumps(plan.document())
    assert json.dumps(cycle(state, policy).document()) == first
    shuffled = list(objects)
    Random(seed).shuffle(shuffled)
    assert json.dumps(cycle(state_of(shuffled), policy).document()) == first
