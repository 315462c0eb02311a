"""A scheduling budget that no namespace exceeds changes no plan, and a moment decided again gives the same plan."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from fairway.api.kinds import ApiObject
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.scheduler.reservations.objects import reservation_objects
from fairway.state.cluster import ClusterState, Deleted
from fairway.state.namespaces import SCHEDULING_BUDGET
from support import objects as make
from support.claims import allocated, claim, claiming, device_class, exactly, gpu
from support.clusters import clusters, policies
from support.devices import resource_slice
from support.effort import examples
from support.engine import flat
from support.engine import policy as make_policy

SETTINGS = settings(
    max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def said(plan: ExplainedPlan) -> object:
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
        assert said(decide_and_explain(limited, policy, now)) == said(decide_and_explain(plain, policy, now))


@SETTINGS
@given(clusters(), policies())
def test_a_moment_that_is_decided_again_gives_the_same_plan_under_a_small_budget(objects, policy):
    state = ClusterState(budget=500)
    state.upsert(flat(objects))
    for cycle in range(3):
        now = make.NOW + 50_000 * cycle
        assert said(decide_and_explain(state, policy, now)) == said(decide_and_explain(state, policy, now))


DEVICES = make_policy(
    actions=[{"name": "reserve", "arguments": {"starvingJobTimeThreshold": 1}}, {"name": "allocate"}], devices={}
)
KIND = 'device.attributes["gpu.example.com"].kind == "gpu"'


def one_gpu_each(*closed: str) -> list[ApiObject]:
    names = ("n1", "n2")
    nodes = [make.node(name, cpu=4, unschedulable=name in closed) for name in names]
    return [*nodes, *(resource_slice(f"s-{name}", name, gpu("g0")) for name in names), device_class("gpu", KIND)]


def test_a_reservation_takes_the_device_of_a_claim_that_was_given_back():
    state = ClusterState(budget=SCHEDULING_BUDGET)
    held = claim("c", exactly(), status=allocated("c", "n1", "g0"))
    state.upsert([*one_gpu_each("n1"), held, claiming("p", claim="c", created=0)])
    plan = decide_and_explain(state, DEVICES, make.NOW)
    assert [(one.pod, one.node) for one in plan.reservations] == [("default/p", "n2")]
    state.upsert([*reservation_objects(plan.reservations).values(), claim("c", exactly())])
    plan = decide_and_explain(state, DEVICES, make.NOW + 50_000)
    assert [(binding.pod, binding.node) for binding in plan.bindings] == [("default/p", "n2")]


def test_a_reservation_stands_until_its_expressions_are_evaluated():
    before, after = ClusterState(budget=SCHEDULING_BUDGET), ClusterState(budget=1)
    objects = [*one_gpu_each("n1"), make.pod("full", cpu=4, node="n2"), claim("c", exactly())]
    objects.append(claiming("p", claim="c", created=0))
    before.upsert(objects)
    plan = decide_and_explain(before, DEVICES, make.NOW)
    assert plan.reservations
    after.upsert(
        [*objects, *reservation_objects(plan.reservations).values()]
    )  # another process, which has evaluated nothing yet
    for cycle in range(20):
        again = decide_and_explain(after, DEVICES, make.NOW + 50_000 * cycle)
        assert (again.released, [one.node for one in again.reservations]) == ((), ["n2"])
    after.apply(Deleted(objects[-3]))
    bound = (decide_and_explain(after, DEVICES, make.NOW + 50_000 * cycle).bindings for cycle in range(20, 60))
    assert any(bound)
