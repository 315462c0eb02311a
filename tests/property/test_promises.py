"""What the engine promises, on random clusters: nothing is over-committed, gangs are whole, the bytes are the same,
every job that waits is told why, and nothing is left idle that a job could use.
"""

import json

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import EXCLUDED_TAINTS, Policy
from fairway.resources.algebra import Resource
from fairway.scheduler.plan import Plan
from fairway.scheduler.verdict import Reason
from fairway.state.snapshot import snapshot_of
from oracles.cluster import Cluster, Job, add_up
from oracles.places import Places
from support.clusters import clusters, policies
from support.effort import examples
from support.engine import carry_out_bindings, decided, policy, state_of

REASONS = {reason.value for reason in Reason}
modest = settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def carried_out(objects: list[ApiObject], plan: Plan) -> Cluster:
    """The cluster as it is once every binding has been made."""
    where = {binding.pod: binding.node for binding in plan.bindings}
    return Cluster([_bound(thing, where) for thing in objects])


def _bound(thing: ApiObject, where: dict[str, str]) -> ApiObject:
    if not isinstance(thing, Pod):
        return thing
    node = where.get(f"{thing.metadata.namespace}/{thing.metadata.name}")
    return (
        thing
        if node is None
        else msgspec.structs.replace(thing, spec=msgspec.structs.replace(thing.spec, node_name=node))
    )


@modest
@given(clusters(), policies())
def test_no_node_and_no_queue_is_over_committed(objects, policy):
    plan = decided(state_of(objects), policy)
    after = carried_out(objects, plan)
    places = Places(after, policy)
    tasks = {task.key: task for task in after.tasks()}
    for binding in plan.bindings:
        free = places.free(after.nodes[binding.node])
        assert all(free[name] >= 0 for name, amount in tasks[binding.pod].request.items() if amount)
    for job in {binding.job for binding in plan.bindings}:
        _check_capability(after, _job(after, job, plan))


def _job(cluster: Cluster, key: str, plan: Plan) -> Job:
    bound = {binding.pod for binding in plan.bindings}
    return next(job for job in cluster.jobs.values() if job.key == key and any(t.key in bound for t in job.tasks))


def _check_capability(cluster: Cluster, job: Job) -> None:
    line, name = [], job.queue
    while name:
        line.append(cluster.queues[name])
        name = line[-1].parent
    for queue in line:
        below = [j for j in cluster.jobs.values() if queue in _line(cluster, j.queue)]
        held = add_up(j.held() for j in below)
        asked = {name for task in job.tasks for name, amount in task.request.items() if amount}
        assert all(held[name] <= queue.capability.get(name, held[name]) for name in asked & held.keys())


def _line(cluster: Cluster, name: str) -> list[object]:
    queue = cluster.queues[name]
    return [queue, *(_line(cluster, queue.parent) if queue.parent else [])]


@modest
@given(clusters(), policies())
def test_a_gang_is_placed_whole_or_not_at_all(objects, policy):
    plan = decided(state_of(objects), policy)
    after = carried_out(objects, plan)
    for key in {binding.job for binding in plan.bindings}:
        assert _job(after, key, plan).is_ready()


@modest
@given(clusters(), policies(), st.randoms(use_true_random=False))
def test_equal_inputs_give_equal_bytes_in_any_order_and_again(objects, policy, random):
    state = state_of(objects)
    first = json.dumps(decided(state, policy).document())
    assert json.dumps(decided(state, policy).document()) == first
    random.shuffle(objects)
    assert json.dumps(decided(state_of(objects), policy).document()) == first


@modest
@given(clusters(), policies())
def test_every_job_that_waits_has_a_reason_and_a_place_in_line(objects, policy):
    state = state_of(objects)
    plan = decided(state, policy)
    bound = {binding.pod for binding in plan.bindings}
    expected = {}
    for job in Cluster(objects).jobs.values():
        left = [task for task in job.waiting() if task.key not in bound] or [task for task in job.tasks if task.gated]
        if left:
            expected[job.key, job.alone] = len(left)
    listed = [row for row in plan.pending if row.waiting]
    assert sorted((row.job, row.waiting) for row in listed) == sorted((key, n) for (key, _), n in expected.items())
    for row in plan.pending:
        assert row.reason in REASONS
        assert row.message
        assert sum(row.nodes.values()) <= len(state.nodes.rows)
    places = [(row.queue, row.position) for row in plan.pending]
    assert len(set(places)) == len(places)


@modest
@given(clusters(), st.sampled_from(("default", "none")))
def test_what_queues_deserve_is_at_most_the_cluster_and_children_at_most_their_parent(objects, lending):
    plan = decided(state_of(objects), policy(proportion={"lending": lending}))
    total = state_of(objects)
    decided(total)
    amounts = dict(zip(total.axis.names, snapshot_of(total).total_without(EXCLUDED_TAINTS), strict=True))
    deserved = {queue.name: Resource.parse(queue.deserved).amounts for queue in plan.queues}
    for parent in ["", *deserved]:
        children = [queue.name for queue in plan.queues if queue.parent == parent]
        limit = amounts if not parent else deserved[parent]
        for name in plan.queues[0].deserved if children else ():
            assert sum(deserved[child].get(name, 0) for child in children) <= limit.get(name, 0)


@modest
@given(clusters())
def test_with_lending_no_job_waits_while_a_whole_task_would_fit(objects):
    lending = policy()
    plan = decided(state_of(objects), lending)
    after = carried_out(objects, plan)
    places = Places(after, lending)
    guaranteed = any(queue.guarantee for queue in after.queues.values())
    for row in plan.pending:
        if row.reason == "QueueOverused":
            assert guaranteed
        job = after.jobs.get((row.job, True))
        near = job is not None and (job.tasks[0].pod.spec.affinity or job.tasks[0].pod.spec.topology_spread_constraints)
        if job is not None and row.reason in ("InsufficientResources", "PredicateFailed") and not near:
            assert not any(places.fits(job.tasks[0], node) for node in after.nodes.values())


@modest
@given(clusters(), policies())
def test_what_is_bound_stays_bound_and_a_second_cycle_takes_nothing_back(objects, policy: Policy):
    state = state_of(objects)
    first = decided(state, policy)
    carry_out_bindings(state, objects, first)
    second = decided(state, policy)
    assert not {binding.pod for binding in first.bindings} & {binding.pod for binding in second.bindings}
    assert second.evictions == ()
