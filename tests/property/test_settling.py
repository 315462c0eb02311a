"""A plan that is carried out settles: unless it says when to look again, looking again finds nothing more to do."""

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.scheduler.decide import decide
from support.clusters import clusters, policies
from support.contended import contended
from support.contention import acting
from support.effort import examples
from support.objects import BEGIN
from support.world import World

some = settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


def settle(objects: list[Any], policy: Policy) -> None:
    """What was just bound may be a victim: where there is eviction, the next look is another matter."""
    evicts = any(policy.action(name) is not None for name in ("preempt", "reclaim"))
    world = World(objects, policy=policy)
    for second in (0, 1, 40, 41, 90):
        world.now = second
        world.pass_time()
        now = BEGIN + second * SECOND
        plan = decide(world.state, policy, now)
        world.carry_out(plan)
        if plan.evictions or plan.recheck_at == now + 1 or (plan.bindings and evicts):
            event("looked at again")
            continue
        again = decide(world.state, policy, now + 1)
        assert again.bindings == ()
        assert again.evictions == ()
        held = {(entry.pod, entry.node, entry.state) for entry in plan.reservations}
        assert {(entry.pod, entry.node, entry.state) for entry in again.reservations} == held
        assert again.released == ()


@some
@given(clusters(), policies(("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")))
def test_in_calm_clusters(objects: list[Any], policy: Policy) -> None:
    settle(objects, policy)


@some
@given(contended(), st.integers(0, 60), st.sampled_from((("reclaim",), ("preempt",), ())))
def test_where_there_is_not_enough(objects: list[Any], starvation_override: int, evicting: tuple[str, ...]) -> None:
    reserve = ("reserve", {"starvingJobTimeThreshold": starvation_override})
    settle(objects, acting("enqueue", reserve, "allocate", *evicting, "backfill"))
