"""No endless eviction: plans that are carried out, cycle after cycle, lead to no state that was there before.

Every action and mode: allocate before or after preempt and reclaim, reserve, all backfill modes with and without
`overrun: evict`, with queues that share by weight or deserve what is written on them. Evicted pods are recreated, and
nothing else happens: no pod comes, none ends. A long run (`FAIRWAY_LONG`) looks at 10,000 clusters.
"""

from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from fairway.clock import SECOND
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import Plan
from support import engine
from support.contended import contended, seldom, sometimes
from support.contention import annotated
from support.effort import examples
from support.objects import BEGIN
from support.world import World

CYCLES = 50
PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "nodeorder")
EXPECTED = "fairway.dev/expected-runtime"

many = settings(
    max_examples=examples(40, 10_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

State = tuple[frozenset[tuple[str, str]], ...]


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Every action that evicts, places or holds, in every order that makes sense, in every mode."""
    arguments: dict[str, Any] = {}
    if draw(seldom):
        arguments["maxEvictionsPerCycle"] = draw(st.integers(1, 3))
    if draw(seldom):
        arguments["minRuntime"] = draw(st.integers(1, 5))
    evicting = draw(st.sampled_from((("preempt",), ("reclaim",), ("reclaim", "preempt"), ("preempt", "reclaim"))))
    listed: list[Any] = [{"name": name, "arguments": arguments} for name in evicting]
    listed = ["allocate", *listed] if draw(st.integers(0, 3)) else [*listed, "allocate"]
    if draw(sometimes):
        reserve = {"starvingJobTimeThreshold": draw(st.integers(0, 9)), "reservedNodePercent": 60}
        listed.insert(0, {"name": "reserve", "arguments": reserve})
    mode = draw(st.sampled_from(("besteffort", "easy", "conservative")))
    backfill = {"mode": mode, "overrun": draw(st.sampled_from(("evict", "allow")))}
    actions = ["enqueue", *listed, {"name": "backfill", "arguments": backfill}]
    named = [action if isinstance(action, dict) else {"name": action} for action in actions]
    drf = {"priorityFirst": draw(st.booleans())}
    shares = draw(st.sampled_from(("proportion", "proportion", "capacity")))
    more = {"lending": "none"} if shares == "proportion" and draw(seldom) else {}
    return engine.policy(actions=named, plugins=PLUGINS, drf=drf, **{shares: more})  # type: ignore[arg-type]


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Full clusters; queues may have a priority and say what they deserve, some jobs state how long they run."""
    objects = draw(contended(plain=draw(st.booleans())))
    return [_queue(draw, thing) if isinstance(thing, Queue) else _timed(draw, thing) for thing in objects]


def _queue(draw: st.DrawFn, queue: Queue) -> Queue:
    deserved = {"cpu": str(draw(st.integers(1, 9)))} if draw(st.booleans()) else {}
    most = queue.spec.capability.get("cpu")
    if most is not None and deserved:
        deserved = {"cpu": str(min(int(deserved["cpu"]), int(most)))}
    spec = replace(queue.spec, deserved=deserved, priority=draw(st.integers(0, 1)))
    return replace(queue, spec=spec)


def _timed(draw: st.DrawFn, thing: Any) -> Any:
    if type(thing).__name__ != "Pod" or not draw(sometimes):
        return thing
    return annotated(thing, expected_runtime=str(draw(st.integers(1, 9))))


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
        plan = decide(world.state, policy, BEGIN + world.now * SECOND, reasons=False)
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
