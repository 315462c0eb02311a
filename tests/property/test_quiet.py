"""A plan without reasons says what to do exactly as one with reasons does, also where it was told at a glance."""

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from fairway.scheduler.quiet import quiet_plan
from support.clusters import clusters, policies
from support.contended import contended
from support.contention import acting
from support.objects import BEGIN
from support.world import World

some = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
DEEDS = ("bindings", "evictions", "reservations", "nominations", "released", "recheck_at")


def deeds(plan: Plan) -> dict[str, Any]:
    return {deed: getattr(plan, deed) for deed in DEEDS}


def compare(objects: list[Any], policy: Policy) -> None:
    """Over some cycles: those after the first find most who can be placed in place, and little that is free."""
    world = World(objects, policy=policy)
    for second in (0, 1, 40, 41, 90):
        world.now = second
        world.pass_time()
        now = BEGIN + second * SECOND
        quiet = quiet_plan(world.state, policy, now)
        event("told at a glance" if quiet is not None else "decided in full")
        short = deeds(decide(world.state, policy, now, reasons=False))
        plan = decide(world.state, policy, now)
        assert short == deeds(plan)
        if quiet is not None:
            assert deeds(quiet) == deeds(plan)
        world.carry_out(plan)


@some
@given(clusters(), policies(("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")))
def test_in_calm_clusters(objects: list[Any], policy: Policy) -> None:
    compare(objects, policy)


@some
@given(contended(), st.integers(0, 60), st.sampled_from((("reclaim",), ("preempt",), ())))
def test_where_there_is_not_enough(objects: list[Any], patience: int, evicting: tuple[str, ...]) -> None:
    reserve = ("reserve", {"starvingJobTimeThreshold": patience})
    compare(objects, acting("enqueue", reserve, "allocate", *evicting, "backfill"))
