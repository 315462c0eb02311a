"""Plans and explanations are values: what happens to the state afterwards is not their concern, and a cycle that the
state has left behind is not explained at all.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.drive.change import bound
from fairway.errors import StaleCycleError
from fairway.scheduler import paranoid
from fairway.scheduler.decide import OpenCycle, consider, decide, decide_and_explain
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.plan import ExplainedPlan, Plan, PlanStruct
from fairway.scheduler.plugins import BUILT_IN
from fairway.state.cluster import ClusterState, Deleted, Upserted
from support import objects as make
from support.clusters import clusters, policies
from support.contended import contended, evicting_policies
from support.effort import examples
from support.engine import policy as make_policy
from support.engine import state_of

some = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")
LATER = ("again", "delete", "new", "assume", "decide", "explain")
PLAIN = (str, int, float, bool, type(None))


def happen(state: ClusterState, policy: Policy, objects: list[ApiObject], data: st.DataObject) -> None:
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
            (decide if what == "decide" else decide_and_explain)(state, policy, make.NOW + 10**9)


def assert_plain(value: Any) -> None:
    """Nothing but frozen structs of plans, and what JSON has: no session, no state, nothing to be called later."""
    if isinstance(value, PlanStruct):
        assert type(value).__struct_config__.frozen
        for name in value.__struct_fields__:
            assert_plain(getattr(value, name))
    elif isinstance(value, tuple):
        for entry in value:
            assert_plain(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            assert isinstance(key, str)
            assert_plain(entry)
    elif isinstance(value, msgspec.Struct):  # of an API: the owner of an EvictionRecord, the pods of its last stop
        assert_plain(msgspec.to_builtins(value))
    else:
        assert isinstance(value, PLAIN), value


def compare(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    state = state_of(objects)
    plan = decide(state, policy, make.NOW)
    explained = decide_and_explain(state, policy, make.NOW)
    texts = msgspec.json.encode(plan), msgspec.json.encode(explained)
    assert_plain(plan)
    assert_plain(explained)
    for _ in range(data.draw(st.integers(1, 6))):
        happen(state, policy, objects, data)
    assert (msgspec.json.encode(plan), msgspec.json.encode(explained)) == texts


@some
@given(clusters(), policies(ACTIONS), st.data())
def test_nothing_that_happens_later_changes_a_plan(
    objects: list[ApiObject], policy: Policy, data: st.DataObject
) -> None:
    compare(objects, policy, data)


@some
@given(contended(), evicting_policies(), st.data())
def test_nor_under_contention(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    compare(objects, policy, data)


@some
@given(contended(), evicting_policies())
def test_an_explained_plan_does_what_its_cycle_decided(objects: list[ApiObject], policy: Policy) -> None:
    """The second step adds reasons and changes nothing of what to do; both steps together are `decide_and_explain`."""
    with OpenCycle(state_of(objects), policy, make.NOW) as cycle:
        explained = cycle.explain()
    assert all(getattr(explained, name) == getattr(cycle.plan, name) for name in Plan.__struct_fields__)
    assert explained == decide_and_explain(state_of(objects), policy, make.NOW)


Step = Callable[[ClusterState, Policy], object]
STEPS: dict[str, Step] = {
    "an event": lambda state, policy: state.apply(Upserted(make.node("m", cpu=200))),
    "the same pod again": lambda state, policy: state.apply(Upserted(make.pod("p", cpu=100))),
    "a cycle": lambda state, policy: decide(state, policy, make.NOW),
    "an explained cycle": lambda state, policy: decide_and_explain(state, policy, make.NOW),
    "an order of consideration": lambda state, policy: consider(state, policy, make.NOW),
    "a paranoid check": lambda state, policy: paranoid.check(state, policy, make.NOW),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_cycle_that_the_state_has_left_behind_is_not_explained(step: str) -> None:
    state, policy = state_of(make.node("n", cpu=1), make.pod("p", cpu=100)), make_policy()
    with OpenCycle(state, policy, make.NOW) as cycle:
        STEPS[step](state, policy)
        with pytest.raises(StaleCycleError, match="the state has changed"):
            cycle.explain()


def test_a_closed_cycle_is_not_explained() -> None:
    state, policy = state_of(make.node("n", cpu=1), make.pod("p", cpu=100)), make_policy()
    with OpenCycle(state, policy, make.NOW) as cycle:
        pass
    with pytest.raises(StaleCycleError, match="closed"):
        cycle.explain()


def test_what_was_explained_in_time_is_there_for_good() -> None:
    state, policy = state_of(make.node("n", cpu=1), make.pod("p", cpu=100)), make_policy()
    with OpenCycle(state, policy, make.NOW) as cycle:
        explained = cycle.explain()
    for step in STEPS.values():
        step(state, policy)
    assert cycle.explain() is explained
    assert [entry.reason for entry in explained.pending] == ["NeverFits"]


def test_a_plan_keeps_no_session_in_memory() -> None:
    state, policy = state_of(make.node("n", cpu=1), make.pod("p", cpu=1), make.pod("q", cpu=9)), make_policy()
    plans = [decide(state, policy, make.NOW), decide_and_explain(state, policy, make.NOW)]
    reached: list[object] = list(plans)
    seen = {id(value) for value in reached}
    while reached:
        value = reached.pop()
        assert type(value).__module__ not in ("fairway.scheduler.framework.session", "fairway.state.cluster"), value
        if isinstance(value, type):
            continue
        for other in gc.get_referents(value):
            if id(other) not in seen:
                seen.add(id(other))
                reached.append(other)


class Fails:
    """An external plugin that fails when reasons are worked out, and not before."""

    name = "fails"

    def __init__(self, arguments: object = None) -> None:
        self.asked = 0

    def job_key(self, job: Any) -> int:
        self.asked += 1
        if job.ready == 0 and self.asked > 2:
            raise RuntimeError("no")
        return 0


def test_a_plugin_that_fails_over_reasons_is_left_out_of_the_whole_cycle() -> None:
    """So there is no cycle of which the plan rests on the plugin's order and the reasons do not."""
    registry = Registry(BUILT_IN, [Fails])
    policy = make_policy(registry=registry, fails={})
    state = state_of(make.node("n", cpu=1), [make.pod(f"p{i}", cpu=100) for i in range(4)])
    with OpenCycle(state, policy, make.NOW, registry=registry) as cycle:
        explained = cycle.explain()
    assert isinstance(explained, ExplainedPlan)
    assert any("fails" in text and "left out of this cycle" in text for text in explained.warnings)
    assert len(explained.pending) == 4
