"""A plan says the same whenever it is read: what happens to the state afterwards is not its concern."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.drive.change import bound
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import objects as make
from support.clusters import clusters, policies
from support.contended import contended, evicting_policies
from support.effort import examples
from support.engine import policy as make_policy
from support.engine import reasons, state_of

some = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")
LATER = ("again", "delete", "new", "assume", "decide", "decide without reasons")


def test_a_pod_that_is_told_of_again_changes_no_reason() -> None:
    pod = make.pod("p", cpu=100)
    state = state_of(make.node("n", cpu=1), pod)
    plan = decide(state, make_policy(), make.NOW)
    state.apply(Upserted(pod))
    assert reasons(plan) == {"p": "NeverFits"}


def test_a_plan_that_no_one_has_any_more_costs_nothing() -> None:
    state = state_of(make.node("n", cpu=1), make.pod("p", cpu=100))
    read: list[str] = []

    class Watched:
        def freeze(self) -> None:
            read.append("frozen")

    watched = Watched()
    state.before_change(watched.freeze)
    del watched
    state.apply(Upserted(make.node("m", cpu=1)))
    assert read == []


def happen(state: ClusterState, policy: Policy, objects: list[ApiObject], plan: Plan, data: st.DataObject) -> None:
    """Something later: an object is told of again, changes or goes, a driver carries something out, time passes."""
    what = data.draw(st.sampled_from(LATER))
    thing = data.draw(st.sampled_from(objects))
    match what:
        case "again":
            state.apply(Upserted(thing))
        case "delete":
            state.apply(Deleted(thing))
        case "new":
            state.upsert([make.node("later", cpu=64), make.pod("later", cpu=1, created=0)])
        case "assume":
            name = f"{thing.metadata.namespace}/{thing.metadata.name}"
            if isinstance(thing, Pod) and name in state.tasks and state.tasks[name].state.name == "PENDING":
                state.apply(Upserted(bound(thing, next(iter(state.nodes.rows), "elsewhere"), make.NOW, {})))
        case _:
            decide(state, policy, make.NOW + 10**9, reasons=what == "decide")


def compare(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    early, late = ClusterState(), ClusterState()
    early.upsert(objects)
    late.upsert(objects)
    expected: dict[str, Any] = decide(early, policy, make.NOW).document()
    plan = decide(late, policy, make.NOW)
    for _ in range(data.draw(st.integers(1, 6))):
        happen(late, policy, objects, plan, data)
    assert plan.document() == expected


@some
@given(clusters(), policies(ACTIONS), st.data())
def test_read_late_is_read_early(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    compare(objects, policy, data)


@some
@given(contended(), evicting_policies(), st.data())
def test_read_late_is_read_early_under_contention(
    objects: list[ApiObject], policy: Policy, data: st.DataObject
) -> None:
    compare(objects, policy, data)
