"""Random small clusters that are full, or nearly: jobs that run, jobs that want their room, and protections."""

from typing import Any

from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from support import objects as make
from support.contention import DAY, acting, annotated, budget, running, waiting

NAMESPACES = ("a", "b", "c")

sometimes = st.sampled_from((False, False, False, True))
seldom = st.sampled_from((False,) * 9 + (True,))

Free = dict[str, dict[str, int]]


@st.composite
def nodes(draw: st.DrawFn, *, plain: bool) -> list[ApiObject]:
    found: list[ApiObject] = []
    for i in range(draw(st.integers(1, 5))):
        amounts: dict[str, Any] = {"cpu": draw(st.integers(2, 8)), "memory": f"{draw(st.integers(4, 9))}Gi"}
        amounts["pods"] = draw(st.integers(2, 4)) if draw(seldom) else 110
        if draw(sometimes):
            amounts["gpu"] = draw(st.integers(1, 2))
        taints = ["old:NoSchedule"] if draw(seldom) and not plain else []
        found.append(make.node(f"n{i}", labels={"zone": draw(st.sampled_from("xy"))}, taints=taints, **amounts))
    return found


@st.composite
def jobs(draw: st.DrawFn, free: Free, queues: list[str], *, plain: bool) -> list[ApiObject]:
    """Small jobs that run, as many as there is room for or nearly, and larger ones that want room."""
    taken: dict[str, set[int]] = {name: set() for name in free}
    found: list[ApiObject] = []
    for index in range(draw(st.integers(2, 14))):
        found += draw(job(f"r{index}", free, taken, queues, plain=plain, runs=True))
    for index in range(draw(st.integers(1, 4))):
        found += draw(job(f"w{index}", free, taken, queues, plain=plain, runs=False))
    return found


@st.composite
def job(
    draw: st.DrawFn, name: str, free: Free, taken: dict[str, set[int]], queues: list[str], *, plain: bool, runs: bool
) -> list[ApiObject]:
    """A gang or a lone pod. Of one that runs, whatever finds no room waits."""
    namespace, queue = draw(st.sampled_from(NAMESPACES)), draw(st.sampled_from(queues))
    moment = draw(st.integers(0, 9))
    each: dict[str, Any] = {"namespace": namespace, "priority": draw(st.integers(0, 3)) + 2 * (not runs)}
    asked = {"cpu": draw(st.sampled_from((1, 1, 2) if runs else (1, 2, 3, 4)))}
    if draw(sometimes):
        asked["memory"] = draw(st.integers(1, 3))
    if draw(seldom):
        asked["gpu"] = 1
    each |= {"labels": {"app": draw(st.sampled_from(("web", "db")))}, **_amounts(asked)}
    ports = [80] if not plain and draw(sometimes) else []
    if not plain and draw(seldom):
        key = draw(st.sampled_from((make.HOST, "zone")))
        each["spec"] = make.anti_affinity(key, app=draw(st.sampled_from(("web", "db"))))
    members = draw(st.sampled_from((1, 1, 1, 2, 3)))
    lone = members == 1
    pods = []
    for i in range(members):
        where = _room(draw, free, taken, asked, ports) if runs else None
        common = {**each, "ports": ports, **({"queue": queue} if lone else {"group": name})}
        pod_name = name if lone else f"{name}-{i}"
        pods.append(
            waiting(pod_name, created=moment, **common)
            if where is None
            else running(pod_name, where, started=moment, **common)
        )
    if draw(seldom):
        pods[0] = annotated(pods[0], never_evict="true")
    if lone:
        return list(pods)
    minimum = draw(st.integers(1, members))
    return [make.group(name, namespace, minimum=minimum, queue=queue, created=moment), *pods]


def _amounts(asked: dict[str, int]) -> dict[str, Any]:
    return {name: f"{amount}Gi" if name == "memory" else amount for name, amount in asked.items()}


def _room(
    draw: st.DrawFn, free: Free, taken: dict[str, set[int]], asked: dict[str, int], ports: list[int]
) -> str | None:
    """A node with room, which is used up."""
    fits = [
        name
        for name, left in free.items()
        if left["pods"] and all(left.get(key, 0) >= amount for key, amount in asked.items())
        if not taken[name] & set(ports)
    ]
    if not fits:
        return None
    name = draw(st.sampled_from(fits))
    for key, amount in asked.items():
        free[name][key] -= amount
    free[name]["pods"] -= 1
    taken[name] |= set(ports)
    return name


@st.composite
def queues(draw: st.DrawFn) -> list[ApiObject]:
    found = [make.queue("q0", draw(st.integers(1, 3)))]
    for name in ("q1", "q2")[: draw(st.integers(0, 2))]:
        limits: dict[str, Any] = {}
        if draw(seldom):
            limits["guarantee"] = {"cpu": draw(st.integers(1, 3))}
        if draw(seldom):
            limits["capability"] = {"cpu": draw(st.integers(3, 9))}
        found.append(make.queue(name, draw(st.integers(1, 3)), **limits))
    return found


@st.composite
def contended(draw: st.DrawFn, *, plain: bool = False) -> list[ApiObject]:
    """A whole cluster. A plain one has no rules between pods, no taints and no budgets."""
    made_nodes, made_queues = draw(nodes(plain=plain)), draw(queues())
    free = {node.metadata.name: _whole(node) for node in made_nodes}
    names = [queue.metadata.name for queue in made_queues]
    made_jobs = draw(jobs(free, names, plain=plain))
    quotas = [make.quota(name, draw(st.integers(1, 3))) for name in NAMESPACES if draw(sometimes)]
    budgets = []
    if not plain and draw(seldom):
        bound = draw(st.sampled_from(({"minAvailable": 1}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"})))
        budgets = [budget("pdb", {"app": "web"}, namespace=draw(st.sampled_from(NAMESPACES)), **bound)]
    return [*made_nodes, *made_queues, *quotas, *budgets, *made_jobs]


def _whole(node: Any) -> dict[str, int]:
    amounts = {name.removeprefix("nvidia.com/"): text for name, text in node.status.allocatable.items()}
    return {name: int(str(text).removesuffix("Gi")) for name, text in amounts.items()}


@st.composite
def evicting_policies(draw: st.DrawFn, *actions: str) -> Policy:
    """allocate, and one or both of the actions that evict."""
    chosen = actions or draw(st.sampled_from((("preempt",), ("reclaim",), ("reclaim", "preempt"))))
    arguments: dict[str, Any] = {}
    if draw(seldom):
        arguments["maxEvictionsPerCycle"] = draw(st.integers(1, 3))
    if draw(seldom):
        arguments["minRuntime"] = DAY - draw(st.integers(0, 20))
    listed = [(action, arguments) for action in chosen]
    return acting("enqueue", "allocate", *listed, "backfill", drf={"priorityFirst": draw(st.booleans())})
