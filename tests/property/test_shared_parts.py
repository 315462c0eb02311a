"""What a policy's sessions share, and what a small cycle leaves out, decides nothing: all is as with a new start."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.scheduler.decide import OpenCycle, decide, decide_and_explain
from fairway.scheduler.framework import order
from fairway.scheduler.framework.candidates import QueueVerdicts
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.policy_parts import SpareParts
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state import snapshot
from fairway.state.cluster import ClusterState, Deleted, Event, Upserted
from fairway.state.snapshot import snapshot_of
from support import clusters, contended
from support import objects as make
from support.effort import examples
from support.engine import policy as make_policy
from support.engine import state_of

some = settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
ACTIONS = ("enqueue, allocate, backfill", "enqueue, reserve, allocate, backfill", "allocate, preempt, reclaim")


def with_keys(self: order.Order, job: JobRun) -> None:
    """The only job goes in as each of many does."""
    self._namespace(job.account).heap.append((self._keys.job_key(job), job))
    self._settle(self._root)


def compare(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    """A state that keeps everything beside one of which the parts are made again for every cycle."""
    kept, fresh = ClusterState(), ClusterState()
    for state in (kept, fresh):
        state.upsert(objects)
    plans = []
    for _ in range(4):
        for kind in (SpareParts, QueueVerdicts):
            fresh.derived._kept.pop(kind, None)
        reasons = data.draw(st.booleans())
        plan = (decide_and_explain if reasons else decide)(kept, policy, make.NOW)
        with (
            mock.patch.object(order.Order, "_enter_alone", with_keys),
            mock.patch.object(snapshot, "_FEW", -1),
            mock.patch.object(Placer, "_is_lone", return_value=False),
        ):
            slow = decide_and_explain(fresh, policy, make.NOW)
        plans.append((plan, slow))
        thing = data.draw(st.sampled_from(objects))
        event: Event = Deleted(thing) if data.draw(st.booleans()) else Upserted(thing)
        for state in (kept, fresh):
            state.apply(event)
    for plan, slow in plans:  # read late: the parts have served others since
        if isinstance(plan, ExplainedPlan):
            assert plan.document() == slow.document()
        else:
            assert (plan.bindings, plan.evictions, plan.reservations) == (
                slow.bindings,
                slow.evictions,
                slow.reservations,
            )


@some
@given(clusters.clusters(), clusters.policies(ACTIONS), st.data())
def test_parts_that_are_kept_change_no_plan(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    compare(objects, policy, data)


@some
@given(contended.contended(), contended.evicting_policies("preempt", "reclaim"), st.data())
def test_nor_where_pods_are_evicted(objects: list[ApiObject], policy: Policy, data: st.DataObject) -> None:
    compare(objects, policy, data)


def test_two_open_sessions_have_plugins_of_their_own() -> None:
    state, policy, registry = state_of(make.node("n", cpu=1)), make_policy(), default_registry()
    one, two = (Session(state, policy, make.NOW, registry) for _ in range(2))
    assert one.plugins is not two.plugins
    one.close()
    one.close()
    three, four = (Session(state, policy, make.NOW, registry) for _ in range(2))
    assert three.plugins is one.plugins
    assert four.plugins not in (one.plugins, two.plugins)


def test_another_policy_gets_plugins_of_its_own() -> None:
    state, registry = state_of(make.node("n", cpu=1)), default_registry()
    one = Session(state, make_policy(), make.NOW, registry)
    one.close()
    other = Session(state, make_policy(actions="enqueue, allocate"), make.NOW, registry)
    assert other.plugins is not one.plugins


def test_a_cycle_that_is_over_gives_its_plugins_to_the_next() -> None:
    state, policy = state_of(make.node("n", cpu=1), make.pod("p", cpu=100)), make_policy()
    with mock.patch.object(Session, "close", autospec=True, side_effect=Session.close) as closing:
        decide_and_explain(state, policy, make.NOW)
        with OpenCycle(state, policy, make.NOW):
            pass
        sessions = [call.args[0] for call in closing.call_args_list]
    assert len({id(session.plugins) for session in sessions}) == 1


@some
@given(st.lists(st.lists(st.integers(0, 9), min_size=9, max_size=9), min_size=5, max_size=5))
def test_few_rows_are_restored_as_many_are(amounts: list[list[int]]) -> None:
    state = state_of(*(make.node(f"n{index}", cpu=1) for index in range(3)))
    found, nodes = snapshot_of(state), state.nodes
    tables = (nodes.allocatable, nodes.used, nodes.drawn, nodes.pipelined, nodes.releasing)
    for table, drawn in zip(tables, amounts, strict=True):
        table.data[:, :3] = np.array(drawn).reshape(3, 3)
    rows = np.arange(3)
    found._restore(rows)
    one_by_one = found.idle.copy()
    with mock.patch.object(snapshot, "_FEW", -1):
        found._restore(rows)
    assert (found.idle == one_by_one).all()
