"""Preempting and reclaiming for a gang of 100 on a full cluster, and finding that it cannot be done, against allocating
the same gang where there is room.

    python -m benchmarks.preempt [NODES]

10 pods run on each node: lone ones, gangs, elastic gangs, of three sizes and four priorities. All cycles are whole
`decide` calls on clusters in one process that take turns. A cycle begins with the events of the gang's arrival; between
cycles it is taken away again, unmeasured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from benchmarks.timing import full_cycle, paired, quiet, seconds
from benchmarks.workload import GROUP, QUEUE, START
from fairway.api.core import Node, NodeStatus
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import PodGroup, PodGroupSpec, Queue, QueueGuarantee, QueueSpec
from fairway.clock import from_datetime
from fairway.scheduler.plan import Plan
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState, Deleted

WANTED = 10.0
GANG = 100
_REPEAT = 9
_SIZES = (1000, 1500, 2000)
_ON_A_NODE = 10
_NOW = from_datetime(START + timedelta(days=30))


class Case(NamedTuple):
    """A claimant, and what the others are like: `free` nodes are empty, `safe` pods are more important than it."""

    title: str
    action: str
    evicts: bool
    cpu: int = 4000
    priority: int = 10
    namespaces: int = 1
    queue: str = "left"
    free: int = 0
    safe: str = ""


ALLOCATE = Case("allocate", "allocate", False, free=50)

CASES = (
    Case("preempt by priority", "preempt", True),
    Case("preempt by namespace share", "preempt", True, priority=0, namespaces=40),
    Case("reclaim", "reclaim", True, namespaces=40, queue="right"),
    Case("nothing: all are more important", "preempt", False, safe="all"),
    Case("nothing: one on each node is", "preempt", False, cpu=16_000, safe="one"),
    Case("nothing: shares allow a part of it", "preempt", False, cpu=15_900, priority=0, namespaces=50),
)
"""The last is made for 5,000 nodes: there the gang would have nearly as much as each namespace has."""


def policy_of(action: str) -> Policy:
    actions = ", ".join(dict.fromkeys(["enqueue", "allocate", action, "backfill"]))
    text = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""
    return parse_policy(text, "the policy of the benchmark", default_registry().catalog)


class Full:
    """A full (or nearly full) cluster, and a gang that is added and removed."""

    def __init__(self, nodes: int, case: Case) -> None:
        self._case = case
        self._policy = policy_of(case.action)
        self._state = ClusterState()
        self._state.upsert(cluster(nodes, case))
        self._gang = list(claimant(case))
        self.first = self.cycle()

    def cycle(self) -> float:
        took = seconds(self._decide)
        for thing in self._gang:
            self._state.apply(Deleted(thing))
        self._state.refresh()
        return took

    def _decide(self) -> Plan:
        self._state.upsert(self._gang)
        plan = full_cycle(self._state, self._policy, _NOW)
        assert bool(plan.evictions) == self._case.evicts, (self._case.title, len(plan.evictions))
        assert (plan.placed == GANG) == (self._case is ALLOCATE)
        return plan


def cluster(nodes: int, case: Case) -> Iterator[ApiObject]:
    """Nodes and what runs on them: jobs of up to 10 pods, each on nodes that follow each other."""
    random = np.random.default_rng(1)
    status = NodeStatus(capacity={"cpu": "16", "memory": "64Gi", "pods": "110"})
    for index in range(nodes):
        yield Node(metadata=ObjectMeta(name=f"node-{index:05}"), status=status)
    yield Queue(metadata=ObjectMeta(name="left"))
    mine = {"cpu": str(nodes), "memory": f"{4 * nodes}Gi"} if case.queue == "right" else {}
    yield Queue(metadata=ObjectMeta(name="right"), spec=QueueSpec(guarantee=QueueGuarantee(resource=mine)))
    for lane in range(_ON_A_NODE):
        size = _SIZES[lane % 3] if lane else 16_000 - sum(_SIZES[i % 3] for i in range(1, _ON_A_NODE))
        row = case.free
        while row < nodes:
            members = min(int(random.choice([1, 1, 4, 10])), nodes - row)
            minimum = members if random.random() < 0.5 else 1 + members // 2
            safe = case.safe == "all" or (case.safe == "one" and not lane)
            priority = 50 if safe else int(random.integers(0, 4)) if case.priority else 0
            job = f"job-{lane}-{row:05}"
            places = [f"node-{at:05}" for at in range(row, row + members)]
            yield from _job(job, f"team-{row % case.namespaces:02}", "left", members, minimum, size, priority, places)
            row += members


def claimant(case: Case) -> Iterator[ApiObject]:
    namespace = "newcomer" if case.namespaces > 1 else "team-00"
    yield from _job("claimant", namespace, case.queue, GANG, GANG, case.cpu, case.priority, [])


def _job(
    name: str, namespace: str, queue: str, members: int, minimum: int, cpu: int, priority: int, places: list[str]
) -> Iterator[ApiObject]:
    age = START + timedelta(seconds=sum(map(ord, name)) * 97 % 86_400)
    if members > 1:
        meta = ObjectMeta(name=name, namespace=namespace, creation_timestamp=age)
        yield PodGroup(metadata=meta, spec=PodGroupSpec(min_member=minimum, queue=queue))
    requests = {"cpu": f"{cpu}m", "memory": str(cpu << 21)}
    for member in range(members):
        yield Pod(
            metadata=ObjectMeta(
                name=f"{name}-{member:03}",
                namespace=namespace,
                creation_timestamp=age,
                annotations={GROUP: name} if members > 1 else {QUEUE: queue},
            ),
            spec=PodSpec(
                containers=(Container(name="main", resources=ResourceRequirements(requests=requests)),),
                node_name=places[member] if places else "",
                priority=priority,
            ),
            status=PodStatus(phase="Running" if places else "Pending", start_time=age if places else None),
        )


def main(nodes: int) -> None:
    print(f"a gang of {GANG} on {nodes} nodes with {nodes * _ON_A_NODE} running pods (wanted: at most {WANTED})")
    room = Full(nodes, ALLOCATE)
    print(f"  {ALLOCATE.title:34}  1.0          (first cycle {room.first * 1e3:.0f} ms)")
    for case in CASES:
        full = Full(nodes, case)
        with quiet():
            ratio, ours, theirs = paired(full.cycle, room.cycle, _REPEAT)
        text = f"{ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms; first cycle {full.first * 1e3:.0f} ms"
        print(f"  {case.title:34} {ratio:4.1f} ({text})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
