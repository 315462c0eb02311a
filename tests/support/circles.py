"""Random small clusters in which two resources invite preempt to go round in a circle.

One tenant has a GPU pod of low priority, on which its dominant share rests, and CPU pods of higher priority beside it;
other tenants have CPUs only. Evictions by share took CPUs from the first, evictions by priority its GPU pod, and the
share that fell with it took the CPUs back.
"""

from random import Random
from typing import Any

from support import objects as make
from support.contention import running, waiting

Free = list[dict[str, int]]
ON_SSD = {"nodeSelector": {"disk": "ssd"}}


def five_pods() -> list[Any]:
    """The smallest cluster in which it happened."""
    return [
        make.node("n0", labels={"disk": "ssd"}, cpu=3, gpu=1),
        make.node("n1", cpu=2),
        running("trainer", "n0", namespace="a", cpu=1, gpu=1),
        running("batch-0", "n0", namespace="b", cpu=2),
        running("batch-1", "n1", namespace="b", cpu=2),
        waiting("web-0", namespace="a", priority=5, cpu=1, spec=ON_SSD),
        waiting("web-1", namespace="a", priority=5, cpu=1, spec=ON_SSD),
    ]


def two_resource_cluster(random: Random) -> list[Any]:
    """A node with a GPU and others without; most jobs of the others found a place there, most of the first wait."""
    others = random.choice((0, 1, 1, 1, 2))
    free = [{"cpu": random.choice((2, 3, 3, 4)), "gpu": 1}]
    free += [{"cpu": random.choice((1, 2, 2, 3)), "gpu": 0} for _ in range(others)]
    made: list[Any] = [make.node("n0", labels={"disk": "ssd"}, **free[0])]
    made += [make.node(f"n{i}", cpu=have["cpu"]) for i, have in enumerate(free) if i]
    tenants = ("b", "c")[: random.choice((1, 1, 1, 2))]
    made += [make.quota(name, random.randint(2, 3)) for name in ("a", *tenants) if random.random() < 0.1]
    spec: dict[str, Any] = random.choice(({}, ON_SSD))
    trainer: dict[str, Any] = {"namespace": "a", "priority": random.choice((0, 0, 1)), "spec": {}}
    made += _job(random, "trainer", trainer, {"cpu": 1, "gpu": 1}, free, 0.9)
    for number in range(random.randint(1, 4)):
        batch: dict[str, Any] = {"namespace": random.choice(tenants), "priority": random.randint(0, 2), "spec": {}}
        made += _job(random, f"batch{number}", batch, {"cpu": random.choice((1, 2, 2))}, free, 0.9)
    for number in range(random.randint(1, 3)):
        web: dict[str, Any] = {"namespace": "a", "priority": random.randint(1, 2), "spec": dict(spec)}
        made += _job(random, f"web{number}", web, {"cpu": random.choice((1, 1, 1, 2))}, free, 0.3)
    return made


def _job(
    random: Random, name: str, each: dict[str, Any], asked: dict[str, int], free: Free, placed: float
) -> list[Any]:
    """A pod alone, or a few with a group; each is on a node with this chance, if one has enough free."""
    members, moment = random.choice((1, 1, 1, 1, 1, 2, 3)), random.randint(0, 9)
    made: list[Any] = []
    if members > 1:
        made.append(make.group(name, each["namespace"], minimum=random.randint(1, members), created=moment))
        each = {**each, "group": name}
    for i in range(members):
        pod = name if members == 1 else f"{name}-{i}"
        rows = [row for row, have in enumerate(free) if all(have[key] >= amount for key, amount in asked.items())]
        rows = [row for row in rows if row == 0 or not each["spec"]]
        if rows and random.random() < placed:
            row = random.choice(rows)
            for key, amount in asked.items():
                free[row][key] -= amount
            made.append(running(pod, f"n{row}", started=moment, **each, **asked))
        else:
            made.append(waiting(pod, created=moment, **each, **asked))
    return made
