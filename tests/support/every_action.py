"""Random clusters that are full, and policies with every action that evicts, places or reserves."""

from random import Random
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from support import engine
from support.contended import SEEDS, full_cluster, seldom, some_of, sometimes
from support.contention import annotated

PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "nodeorder")


def policies() -> st.SearchStrategy[Policy]:
    """Every action that evicts, places or holds, in every order that makes sense, in every mode."""
    return SEEDS.map(lambda seed: _policy(Random(seed)))


def _policy(random: Random) -> Policy:
    arguments: dict[str, Any] = {}
    if seldom(random):
        arguments["maxEvictionsPerCycle"] = random.randint(1, 3)
    if seldom(random):
        arguments["minRuntime"] = random.randint(1, 5)
    evicting = random.choice((("preempt",), ("reclaim",), ("reclaim", "preempt"), ("preempt", "reclaim")))
    listed: list[Any] = [{"name": name, "arguments": arguments} for name in evicting]
    listed = [*listed, "allocate"] if sometimes(random) else ["allocate", *listed]
    if sometimes(random):
        reserve = {"starvingJobTimeThreshold": random.randint(0, 9), "reservedNodePercent": 60}
        listed.insert(0, {"name": "reserve", "arguments": reserve})
    mode = random.choice(("besteffort", "easy", "conservative"))
    backfill = {"mode": mode, "overrun": random.choice(("evict", "allow"))}
    actions = ["enqueue", *listed, {"name": "backfill", "arguments": backfill}]
    named = [action if isinstance(action, dict) else {"name": action} for action in actions]
    drf = {"priorityFirst": random.random() < 0.5}
    shares = random.choice(("proportion", "proportion", "capacity"))
    more = {"lending": "none"} if shares == "proportion" and seldom(random) else {}
    return engine.policy(actions=named, plugins=PLUGINS, drf=drf, **{shares: more})  # type: ignore[arg-type]


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Full clusters; queues may have a priority and say what they deserve, some jobs state how long they run."""
    random = Random(draw(SEEDS))
    rest, jobs = full_cluster(random, plain=random.random() < 0.5)
    rest = [_queue(random, thing) if isinstance(thing, Queue) else thing for thing in rest]
    return [*rest, *draw(some_of([[_timed(random, thing) for thing in job] for job in jobs]))]


def _queue(random: Random, queue: Queue) -> Queue:
    deserved = {"cpu": str(random.randint(1, 9))} if random.random() < 0.5 else {}
    most = queue.spec.capability.get("cpu")
    if most is not None and deserved:
        deserved = {"cpu": str(min(int(deserved["cpu"]), int(most)))}
    spec = replace(queue.spec, deserved=deserved, priority=random.randint(0, 1))
    return replace(queue, spec=spec)


def _timed(random: Random, thing: Any) -> Any:
    if type(thing).__name__ != "Pod" or not sometimes(random):
        return thing
    return annotated(thing, expected_runtime=str(random.randint(1, 9)))
