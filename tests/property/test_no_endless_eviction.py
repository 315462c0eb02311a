"""No endless eviction: plans that are carried out, cycle after cycle, lead to no state that was there before.

Every action and mode: allocate before or after preempt and reclaim, reserve, all backfill modes with and without
`overrun: evict`, with queues that share by weight or deserve what is written on them. Evicted pods are recreated, and
nothing else happens: no pod comes, none ends. A long run (`FAIRWAY_LONG`) looks at 10,000 clusters of each kind.
"""

from random import Random
from typing import Any

from hypothesis import HealthCheck, given, note, settings

from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from support.circles import two_resource_cluster
from support.contended import SEEDS
from support.contention import acting
from support.effort import examples
from support.every_action import clusters, policies
from support.objects import BEGIN
from support.world import World

CYCLES = 50

many = settings(
    max_examples=examples(40, 10_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

State = tuple[frozenset[tuple[str, str]], ...]


def state_of(world: World, plan: Plan) -> State:
    """What runs and is not terminating, what is nominated and what is reserved, each with its node, and which jobs have
    outlived their run times and state none any more. A planned start is no part of it: it may move earlier and later as
    estimates do.
    """
    runs = [(key, pod) for key, pod in world.pods.items() if pod.metadata.deletion_timestamp is None]
    placed = frozenset((key, pod.spec.node_name) for key, pod in runs if pod.spec.node_name)
    nominated = frozenset((entry.pod, entry.node) for entry in plan.nominations)
    standing = [entry for entry in plan.reservations if entry.planned_start is None]
    reserved = frozenset((entry.pod, f"{entry.node} {entry.state}") for entry in standing)
    overrun = frozenset((job.key, "") for job in world.state.overrun_jobs())
    return placed, nominated, reserved, overrun


def is_ready(world: World, kind: str, key: str) -> bool:
    job = world.state.job_of(kind, key)
    return job is None or job.ready >= job.minimum


def converges(objects: list[Any], policy: Policy) -> None:
    """Carry plans out, a cycle each second: a state may stay as it is, and may not come back once it has changed. No
    pod is evicted twice for overrunning, and none for a job that was before the other has started (8.8).

    After a cycle that changes nothing those are left out before the plan says that its answer may change (9.1).
    """
    world = World(objects, policy=policy)
    seen: dict[State, int] = {}
    last: State | None = None
    overrun: set[str] = set()
    while world.now < CYCLES:
        world.pass_time()
        makes_way = {job.key: job.overrun.after for job in world.state.overrun_jobs() if job.overrun is not None}
        plan = decide(world.state, policy, BEGIN + world.now * SECOND)
        world.carry_out(plan)
        for eviction in plan.evictions:
            note(f"{world.now}: {eviction.for_} evicts {eviction.pod} ({eviction.action}: {eviction.reason})")
            first = makes_way.get(eviction.for_)
            assert first is None or is_ready(world, *first), f"{eviction.for_} comes after {first[1]}, which waits"
        again = overrun & {entry.pod for entry in plan.evictions if entry.action == "backfill"}
        assert not again, f"evicted twice for overrunning: {again}"
        overrun |= {entry.pod for entry in plan.evictions if entry.action == "backfill"}
        now = state_of(world, plan)
        assert now == last or now not in seen, f"the state at {seen[now]} and at {world.now} is the same: {now}"
        following = world.now + 1
        if now == last and not plan.evictions and not plan.bindings:
            if plan.recheck_at is None:
                return
            following = max(following, -((BEGIN - plan.recheck_at) // SECOND))
        seen[now] = world.now
        last, world.now = now, following
    assert all(at < CYCLES - 10 for at, _, _ in world.evictions), "evictions do not come to an end"


@many
@given(clusters(), policies())
def test_50_cycles_with_every_action_and_mode_lead_to_no_state_that_was_there_before(objects, policy):
    converges(objects, policy)


@many
@given(SEEDS)
def test_two_resources_invite_no_circle(seed):
    """A GPU pod of low priority and CPU pods of higher priority, beside tenants with CPUs only."""
    random = Random(seed)
    objects = two_resource_cluster(random)
    actions = random.choice((("allocate", "preempt"), ("preempt", "allocate")))
    drf, arguments = {"priorityFirst": random.random() < 0.3}, {"byJobShare": random.random() < 0.7}
    listed = [(name, arguments) if name == "preempt" else name for name in actions]
    converges(objects, acting("enqueue", *listed, "backfill", drf=drf))
