"""A scheduling budget that no namespace exceeds changes no plan, and a moment decided again gives the same plan."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.state.budgets import SCHEDULING_BUDGET
from fairway.state.cluster import ClusterState
from support import objects as make
from support.clusters import clusters, policies
from support.effort import examples
from support.engine import flat

SETTINGS = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def said(plan: Plan) -> object:
    return (
        [(binding.pod, binding.node) for binding in plan.bindings],
        [(eviction.pod, eviction.reason) for eviction in plan.evictions],
        [(row.job, row.reason, row.message, row.position) for row in plan.pending],
        [(one.pod, one.node, one.state) for one in plan.reservations],
        plan.recheck_at,
    )


@SETTINGS
@given(clusters(), policies())
def test_ordinary_clusters_do_not_notice_the_budget(objects, policy):
    plain, limited = ClusterState(), ClusterState(budget=SCHEDULING_BUDGET)
    for state in (plain, limited):
        state.upsert(flat(objects))
    for cycle in range(3):
        now = make.NOW + 50_000 * cycle
        assert said(decide(limited, policy, now)) == said(decide(plain, policy, now))


@SETTINGS
@given(clusters(), policies())
def test_a_moment_that_is_decided_again_gives_the_same_plan_under_a_small_budget(objects, policy):
    state = ClusterState(budget=500)
    state.upsert(flat(objects))
    for cycle in range(3):
        now = make.NOW + 50_000 * cycle
        assert said(decide(state, policy, now)) == said(decide(state, policy, now))
