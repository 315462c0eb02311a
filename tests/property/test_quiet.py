"""A plan without reasons says what to do exactly as one with reasons does, also where it was told at a glance."""

from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from fairway.api.policy import Policy
from fairway.clock import SECOND, parse_rfc3339
from fairway.scheduler.decide import decide, decide_and_explain, quiet_plan
from fairway.scheduler.plan import Plan
from support.clusters import clusters, policies
from support.contended import contended
from support.contention import acting
from support.effort import examples
from support.objects import BEGIN, node, pod, queue
from support.streams import limited, planning
from support.world import World

some = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
NEVER = 1 << 62
SECONDS = (0, 1, 40, 41, 42, 60, 90)
DEEDS = ("bindings", "evictions", "nominations", "released")


def deeds(plan: Plan) -> dict[str, Any]:
    """What is to be done. When the room of a reservation will be there is only said, and to be said anew then."""
    held = [(entry.pod, entry.job, entry.node, entry.state, entry.since) for entry in plan.reservations]
    return {**{deed: getattr(plan, deed) for deed in DEEDS}, "reservations": held}


def when(plan: Plan, now: int) -> set[int]:
    """The moments at which the promises of a plan are due."""
    starts = {parse_rfc3339(entry.planned_start) for entry in plan.reservations if entry.planned_start is not None}
    return {start for start in starts if start > now}


def compare(objects: list[Any], policy: Policy, runs: dict[str, int] | None = None) -> None:
    """Over some cycles: those after the first find most who can be placed in place, and little that is free."""
    world = World(objects, policy=policy, runs=runs)
    for second in SECONDS:
        world.now = second
        world.pass_time()
        now = BEGIN + second * SECOND
        quiet = quiet_plan(world.state, policy, now)
        event(
            "decided in full" if quiet is None else "told while reserved" if quiet.reservations else "told at a glance"
        )
        short = decide(world.state, policy, now)
        plan = decide_and_explain(world.state, policy, now)
        assert deeds(short) == deeds(plan)
        assert plan.recheck_at == min({short.recheck_at or NEVER, *when(plan, now)} - {NEVER}, default=None)
        if quiet is not None:
            assert (deeds(quiet), quiet.recheck_at) == (deeds(plan), short.recheck_at)
        world.carry_out(plan)


@some
@given(clusters(), policies(("enqueue, allocate, backfill", "enqueue, reserve, allocate, reclaim, backfill")))
def test_in_calm_clusters(objects: list[Any], policy: Policy) -> None:
    compare(objects, policy)


@some
@given(contended(), st.integers(0, 60), st.sampled_from((("reclaim",), ("preempt",), ())))
def test_where_there_is_not_enough(objects: list[Any], starvation_override: int, evicting: tuple[str, ...]) -> None:
    reserve = ("reserve", {"starvingJobTimeThreshold": starvation_override})
    compare(objects, acting("enqueue", reserve, "allocate", *evicting, "backfill"))


few = settings(some, max_examples=examples(25))
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 120), st.integers(0, 80), st.sampled_from(("a", "a", "a", "b")))


@few
@given(
    st.integers(1, 2),
    st.lists(SIZES, min_size=3, max_size=12),
    st.sampled_from(("policy", "shortest")),
    st.sampled_from((("gang", "predicates"), ("priority", "gang", "predicates", "proportion", "binpack"))),
    st.booleans(),
)
def test_behind_the_head_of_easy_backfilling(
    nodes: int, sizes: list[tuple[int, int, int, str]], order: str, plugins: tuple[str, ...], apart: bool
) -> None:
    """Most of what waits there is larger than what is free, and is not tried where no reasons are wanted."""
    jobs = [
        pod(f"p{index}", namespace if apart else "a", cpu=cpu, created=created, **limited(span))
        for index, (cpu, span, created, namespace) in enumerate(sizes)
    ]
    whole = [node(f"n{index}", cpu=4) for index in range(nodes)]
    compare([*whole, *jobs], planning("easy", order=order, plugins=plugins))


@few
@given(st.integers(1, 2), st.lists(SIZES, min_size=3, max_size=12), st.integers(0, 40), st.booleans(), st.booleans())
def test_while_reservations_stand(
    nodes: int, sizes: list[tuple[int, int, int, str]], threshold: int, two_queues: bool, times_out: bool
) -> None:
    """Starving pods have reservations on nodes that are in use, and one cycle after the other finds nothing new."""
    jobs = [
        pod(f"p{index}", namespace, queue=namespace if two_queues else "a", cpu=cpu, created=created, **limited(span))
        for index, (cpu, span, created, namespace) in enumerate(sizes)
    ]
    whole = [node(f"n{index}", cpu=5) for index in range(nodes)]
    reserve = {"starvingJobTimeThreshold": threshold, "reservedNodePercent": 100}
    if times_out:
        reserve["reservationTimeout"] = 45
    policy = acting("enqueue", ("reserve", reserve), "allocate", "backfill")
    runs = {f"p{index}": span for index, (_, span, *_) in enumerate(sizes)}
    compare([queue("a"), queue("b"), *whole, *jobs], policy, runs)
