"""Clusters that are short of room: who runs where since when, claims that objects carry, cycles at given times.

Times are whole seconds after `BEGIN`; where none is given it is a day later (`NOW`).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import reservation_name
from fairway.clock import SECOND, to_datetime
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.paranoid import check
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.state.cluster import ClusterState
from support import engine
from support import objects as make
from support.objects import BEGIN

DAY = 86_400
NOMINATED_SINCE = "fairway.dev/nominated-since"

Action = str | tuple[str, Mapping[str, Any]]


def acting(*actions: Action, **plugins: Mapping[str, Any]) -> Policy:
    """A policy with these actions, each a name or (name, arguments); keywords are arguments of plugins."""
    listed = [{"name": a} if isinstance(a, str) else {"name": a[0], "arguments": dict(a[1])} for a in actions]
    return engine.policy(actions=listed, **plugins)  # type: ignore[arg-type]


def reserving(**arguments: Any) -> Policy:
    """`reserve` and `allocate` (spec S6); jobs starve after a second unless told otherwise."""
    return acting("enqueue", ("reserve", {"starvingJobTimeThreshold": 1, **arguments}), "allocate", "backfill")


def preempting(drf: Mapping[str, Any] | None = None, **arguments: Any) -> Policy:
    return acting("enqueue", "allocate", ("preempt", arguments), "backfill", drf=drf or {})


def reclaiming(proportion: Mapping[str, Any] | None = None, **arguments: Any) -> Policy:
    return acting("enqueue", "allocate", ("reclaim", arguments), "backfill", proportion=proportion or {})


def running(name: str, node: str, *, started: int = 0, priority: int = 0, **rest: Any) -> Pod:
    """A pod that runs since `started`."""
    spec = {"priority": priority, **rest.pop("spec", {})}
    found = make.pod(name, node=node, spec=spec, created=rest.pop("created", started), **rest)
    assert isinstance(found, Pod)
    return replace(found, status=replace(found.status, start_time=to_datetime(BEGIN + started * SECOND)))


def waiting(name: str, *, priority: int = 0, created: int = 0, **rest: Any) -> Pod:
    """A pod that waits since `created`."""
    spec = {"priority": priority, **rest.pop("spec", {})}
    found = make.pod(name, spec=spec, created=created, **rest)
    assert isinstance(found, Pod)
    return found


def full(name: str = "n1", cpu: int = 4) -> list[Any]:
    """A node with a pod that leaves one cpu free."""
    return [make.node(name, cpu=cpu, pods=10), running(f"on-{name}", name, cpu=cpu - 1)]


def many(*names: str) -> list[Any]:
    return [full(name) for name in names]


def running_gang(name: str, nodes: Iterable[str], *, minimum: int | None = None, **rest: Any) -> list[ApiObject]:
    """A group with one running pod on each of these nodes."""
    places = list(nodes)
    namespace, queue = rest.pop("namespace", "default"), rest.pop("queue", "default")
    group = make.group(
        name, namespace, minimum=len(places) if minimum is None else minimum, queue=queue, created=0, phase="Running"
    )
    pods = [running(f"{name}-{i}", place, namespace=namespace, group=name, **rest) for i, place in enumerate(places)]
    return [group, *pods]


def waiting_gang(name: str, members: int, *, minimum: int | None = None, **rest: Any) -> list[ApiObject]:
    namespace, queue, created = rest.pop("namespace", "default"), rest.pop("queue", "default"), rest.pop("created", 0)
    group = make.group(name, namespace, minimum=members if minimum is None else minimum, queue=queue, created=created)
    pods = [waiting(f"{name}-{i}", namespace=namespace, group=name, created=created, **rest) for i in range(members)]
    return [group, *pods]


def annotated(thing: Any, **notes: str) -> Any:
    """The object with more annotations; keywords are names without `fairway.dev/`, underscores for dashes."""
    named = {f"fairway.dev/{name.replace('_', '-')}": text for name, text in notes.items()}
    meta = thing.metadata
    return replace(thing, metadata=replace(meta, annotations={**meta.annotations, **named}))


def reserved(thing: Any, *claims: tuple[str, str, str], since: int = DAY - 60) -> list[ApiObject]:
    """A group, or lone pod, and the reservation that it has: (pod, node, state)."""
    return [thing, reservation(thing, *claims, since=since)]


def reservation(
    owner: Any, *claims: tuple[str, str, str], since: int | None = DAY - 60, uid: str = "", **spec: Any
) -> ApiObject:
    """The reservation of a group or lone pod; `uid` is the owner's unless it is forged."""
    kind, meta = "Pod" if isinstance(owner, Pod) else "PodGroup", owner.metadata
    began = {} if since is None else {"since": make.at(since)}
    return make.made(
        "Reservation",
        reservation_name(kind, meta.name),
        meta.namespace,
        spec={
            "jobRef": {"kind": kind, "name": meta.name, "uid": uid or meta.uid},
            "places": [{"pod": pod, "node": node, "state": state, **began} for pod, node, state in claims],
            **spec,
        },
    )


def nominated(pod: Pod, node: str, since: int | None = DAY - 60) -> Pod:
    named = replace(pod, status=replace(pod.status, nominated_node_name=node))
    return named if since is None else annotated(named, nominated_since=make.at(since))


def budget(
    name: str, labels: Mapping[str, str], *, namespace: str = "default", allowed: int | None = None, **spec: Any
) -> ApiObject:
    """A PodDisruptionBudget; `allowed` is what its status says."""
    status = {} if allowed is None else {"disruptionsAllowed": allowed}
    spec = {"selector": {"matchLabels": dict(labels)}, **spec}
    return make.made("PodDisruptionBudget", name, namespace, spec=spec, status=status)


def cycle(state: ClusterState, policy: Policy, at: int = DAY) -> ExplainedPlan:
    """One cycle at a time; after it everything kept must be true. What events broke before it is still broken then."""
    now = BEGIN + at * SECOND
    plan = decide_and_explain(state, policy, now)
    check(state, policy, now)
    return plan


def plan(*objects: Any, policy: Policy, at: int = DAY) -> ExplainedPlan:
    return cycle(engine.state_of(*objects), policy, at)


def reservations(plan: Plan) -> dict[str, tuple[str, str]]:
    """Node and state by pod."""
    return {_short(entry.pod): (entry.node, entry.state) for entry in plan.reservations}


def released(plan: Plan) -> dict[str, str]:
    """Reason by pod."""
    return {_short(entry.pod): entry.reason for entry in plan.released}


def evicted(plan: Plan) -> list[str]:
    return sorted(_short(entry.pod) for entry in plan.evictions)


def nominations(plan: Plan) -> dict[str, str]:
    return {_short(entry.pod): entry.node for entry in plan.nominations}


def notes(found: ExplainedPlan, job: str) -> str:
    return engine.waiting(found)[job].message


def _short(key: str) -> str:
    return key.removeprefix("default/")
