"""Random clusters that are full, and policies with every action that evicts, places or reserves."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from support import engine
from support.contended import contended, seldom, sometimes
from support.contention import annotated

PLUGINS = ("priority", "gang", "conformance", "drf", "predicates", "nodeorder")


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
