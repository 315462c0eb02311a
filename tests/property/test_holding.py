"""A hold has the effect of scheduling gates: whoever holds, and whenever it came."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod, SchedulingGate
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.state import invariants
from fairway.state.annotations import HOLD
from fairway.state.reader import group_of
from support import objects as make
from support.clusters import clusters, policies
from support.effort import examples
from support.engine import state_of

some = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")
GATE = SchedulingGate("some.example/gate")


def held(thing: Any) -> Any:
    notes = {**thing.metadata.annotations, HOLD: "true"}
    return replace(thing, metadata=replace(thing.metadata, annotations=notes))


def gated(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, scheduling_gates=(*pod.spec.scheduling_gates, GATE)))


def key(group: PodGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"


def done(plan: ExplainedPlan) -> tuple[Any, ...]:
    """All that a plan does, and which jobs wait."""
    waiting = sorted((one.job, one.waiting) for one in plan.pending)
    return plan.bindings, plan.evictions, plan.reservations, waiting


@some
@given(objects=clusters(), policy=policies(ACTIONS), data=st.data())
def test_pods_that_are_held_are_pods_with_a_gate(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    chosen = [thing for thing in objects if isinstance(thing, Pod | PodGroup) and data.draw(st.booleans())]
    groups = {key(thing) for thing in chosen if isinstance(thing, PodGroup)}

    def by_gates(thing: ApiObject) -> ApiObject:
        if not isinstance(thing, Pod) or thing.spec.node_name:
            return thing
        return gated(thing) if thing in chosen or group_of(thing) in groups else thing

    with_pods = {group_of(thing) for thing in objects if isinstance(thing, Pod)}
    objects = [thing for thing in objects if not isinstance(thing, PodGroup) or key(thing) in with_pods]
    state = state_of(objects)
    decide_and_explain(state, policy, make.NOW)
    state.upsert([held(thing) for thing in data.draw(st.permutations(chosen))])
    invariants.check(state)
    expected = decide_and_explain(state_of([by_gates(thing) for thing in objects]), policy, make.NOW)
    assert done(decide_and_explain(state, policy, make.NOW)) == done(expected)

    state.upsert(data.draw(st.permutations(chosen)))  # released
    invariants.check(state)
    assert done(decide_and_explain(state, policy, make.NOW)) == done(
        decide_and_explain(state_of(objects), policy, make.NOW)
    )
