"""Random small clusters that are full, or nearly: jobs that run, jobs that want their room, and protections.

A cluster is made from one drawn seed: drawing every detail would take longer than scheduling the cluster. Shrinking
leaves out whole jobs.
"""

from random import Random
from typing import Any

from hypothesis import strategies as st

from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from support import objects as make
from support.contention import DAY, acting, annotated, budget, running, waiting

NAMESPACES = ("a", "b", "c")

SEEDS = st.integers(0, 2**24 - 1)
"""Of a larger range hypothesis draws mostly small numbers, the same ones again and again."""

WHOLE = st.sampled_from((False,) + (True,) * 29)


Free = dict[str, dict[str, int]]


def sometimes(random: Random) -> bool:
    return random.random() < 0.25


def seldom(random: Random) -> bool:
    return random.random() < 0.1


def nodes(random: Random, *, plain: bool) -> list[ApiObject]:
    found: list[ApiObject] = []
    for i in range(random.choice((1, 1, 2, 2, 3, 4, 5))):
        amounts: dict[str, Any] = {"cpu": random.randint(2, 8), "memory": f"{random.randint(4, 9)}Gi"}
        amounts["pods"] = random.randint(2, 4) if seldom(random) else 110
        if sometimes(random):
            amounts["gpu"] = random.randint(1, 2)
        taints = ["old:NoSchedule"] if seldom(random) and not plain else []
        found.append(make.node(f"n{i}", labels={"zone": random.choice("xy")}, taints=taints, **amounts))
    return found


def jobs(random: Random, free: Free, queues: list[str], *, plain: bool) -> list[list[ApiObject]]:
    """Small jobs that run, as many as there is room for or nearly, and larger ones that want room."""
    taken: dict[str, set[int]] = {name: set() for name in free}
    names = [(f"r{index}", True) for index in range(min(14, len(free) * random.randint(2, 6)))]
    names += [(f"w{index}", False) for index in range(random.randint(1, 4))]
    return [job(random, name, free, taken, queues, plain=plain, runs=runs) for name, runs in names]


def job(
    random: Random, name: str, free: Free, taken: dict[str, set[int]], queues: list[str], *, plain: bool, runs: bool
) -> list[ApiObject]:
    """A gang or a lone pod. Of one that runs, whatever finds no room waits."""
    namespace, queue, moment = random.choice(NAMESPACES), random.choice(queues), random.randint(0, 9)
    each: dict[str, Any] = {"namespace": namespace, "priority": random.randint(0, 3) + 2 * (not runs)}
    asked = {"cpu": random.choice((1, 1, 2) if runs else (1, 2, 3, 4))}
    if sometimes(random):
        asked["memory"] = random.randint(1, 3)
    if seldom(random):
        asked["gpu"] = 1
    each |= {"labels": {"app": random.choice(("web", "db"))}, **_amounts(asked)}
    ports = [80] if not plain and sometimes(random) else []
    if not plain and seldom(random):
        each["spec"] = make.anti_affinity(random.choice((make.HOST, "zone")), app=random.choice(("web", "db")))
    members = random.choice((1, 1, 1, 2, 3))
    lone = members == 1
    pods = []
    for i in range(members):
        where = _room(random, free, taken, asked, ports) if runs else None
        common = {**each, "ports": ports, **({"queue": queue} if lone else {"group": name})}
        pod_name = name if lone else f"{name}-{i}"
        pods.append(
            waiting(pod_name, created=moment, **common)
            if where is None
            else running(pod_name, where, started=moment, **common)
        )
    if seldom(random):
        pods[0] = annotated(pods[0], never_evict="true")
    if lone:
        return list(pods)
    minimum = random.randint(1, members)
    return [make.group(name, namespace, minimum=minimum, queue=queue, created=moment), *pods]


def _amounts(asked: dict[str, int]) -> dict[str, Any]:
    return {name: f"{amount}Gi" if name == "memory" else amount for name, amount in asked.items()}


def _room(
    random: Random, free: Free, taken: dict[str, set[int]], asked: dict[str, int], ports: list[int]
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
    name = random.choice(fits)
    for key, amount in asked.items():
        free[name][key] -= amount
    free[name]["pods"] -= 1
    taken[name] |= set(ports)
    return name


def queues(random: Random) -> list[ApiObject]:
    found = [make.queue("q0", random.randint(1, 3))]
    for name in ("q1", "q2")[: random.randint(0, 2)]:
        limits: dict[str, Any] = {}
        if seldom(random):
            limits["guarantee"] = {"cpu": random.randint(1, 3)}
        if seldom(random):
            limits["capability"] = {"cpu": random.randint(3, 9)}
        found.append(make.queue(name, random.randint(1, 3), **limits))
    return found


def full_cluster(random: Random, *, plain: bool = False) -> tuple[list[ApiObject], list[list[ApiObject]]]:
    """The cluster without its jobs, and the objects of each job. A plain cluster has no rules between pods, no taints
    and no budgets.
    """
    made_nodes, made_queues = nodes(random, plain=plain), queues(random)
    free = {node.metadata.name: _whole(node) for node in made_nodes}
    names = [queue.metadata.name for queue in made_queues]
    made_jobs = jobs(random, free, names, plain=plain)
    quotas = [make.quota(name, random.randint(1, 3)) for name in NAMESPACES if sometimes(random)]
    budgets = []
    if not plain and seldom(random):
        bound = random.choice(({"minAvailable": 1}, {"maxUnavailable": 1}, {"maxUnavailable": "50%"}))
        budgets = [budget("pdb", {"app": "web"}, namespace=random.choice(NAMESPACES), **bound)]
    return [*made_nodes, *made_queues, *quotas, *budgets], made_jobs


@st.composite
def some_of(draw: st.DrawFn, jobs: list[list[ApiObject]]) -> list[ApiObject]:
    """All jobs, and seldom a part of them only: shrinking leaves out the jobs that a failure does not need. A draw for
    every job of every cluster would have hypothesis try those draws in many mixtures, and few clusters.
    """
    whole = draw(WHOLE)
    return [thing for job in jobs if whole or draw(st.booleans()) for thing in job]


@st.composite
def contended(draw: st.DrawFn, *, plain: bool = False) -> list[ApiObject]:
    """A whole cluster."""
    rest, made_jobs = full_cluster(Random(draw(SEEDS)), plain=plain)
    return [*rest, *draw(some_of(made_jobs))]


def _whole(node: Any) -> dict[str, int]:
    amounts = {name.removeprefix("nvidia.com/"): text for name, text in node.status.allocatable.items()}
    return {name: int(str(text).removesuffix("Gi")) for name, text in amounts.items()}


def evicting_policies(*actions: str) -> st.SearchStrategy[Policy]:
    """allocate, and one or both of the actions that evict."""
    return SEEDS.map(lambda seed: _evicting_policy(Random(seed), actions))


def _evicting_policy(random: Random, actions: tuple[str, ...]) -> Policy:
    chosen = actions or random.choice((("preempt",), ("reclaim",), ("reclaim", "preempt")))
    arguments: dict[str, Any] = {}
    if seldom(random):
        arguments["maxEvictionsPerCycle"] = random.randint(1, 3)
    if seldom(random):
        arguments["minRuntime"] = DAY - random.randint(0, 20)
    listed = [(action, arguments) for action in chosen]
    return acting("enqueue", "allocate", *listed, "backfill", drf={"priorityFirst": random.random() < 0.5})
