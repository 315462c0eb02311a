"""What reports cost that change nothing: heartbeats of all nodes, and a relist of all pods.

    python -m benchmarks.reports [NODES]

Of a report that tells nothing new the store makes no event, so the cycle after it costs what it costs without. Each is
compared, in one process, with the same cycle after the same reports to another store that nothing reads: both cycles
find the processor's caches full of other objects, as they are whenever anything happens between two cycles. Wanted: at
most 1.2 times. What the store's own comparison takes is shown too.
"""

from __future__ import annotations

import sys
from functools import partial

from msgspec.structs import replace

from benchmarks.timing import full_cycle, paired, quiet, seconds
from fairway.api.core import Node, NodeStatus
from fairway.api.kinds import ApiObject
from fairway.api.meta import Condition, ObjectMeta
from fairway.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from fairway.api.policy import default_policy
from fairway.clock import parse_rfc3339
from fairway.drive.store import ObjectStore
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.cluster import ClusterState

NOW = parse_rfc3339("2026-01-01T00:00:00Z")
PODS_A_NODE = 2
WAITING = 1_000
WANTED = 1.2
REPEAT = 15


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    nodes = [_node(index) for index in range(count)]
    pods = [_pod(f"r{index}", f"n{index % count}", "1") for index in range(count * PODS_A_NODE)]
    pods += [_pod(f"w{index}", "", "64") for index in range(WAITING)]
    store, other, state = ObjectStore(), ObjectStore(), ClusterState()
    policy = default_policy(default_registry().catalog)
    things: list[ApiObject] = [*nodes, *pods]
    _see(store, things)
    _see(other, things)
    other.drain()
    version = len(nodes) + len(pods)

    def cycle() -> float:
        def run() -> object:
            for event in store.drain().events:
                state.apply(event)
            return full_cycle(state, policy, NOW)

        return seconds(run)

    def heartbeats(to: ObjectStore) -> float:
        nonlocal version
        version += 1
        beaten = [_versioned(node, version) for node in nodes]
        took.append(seconds(lambda: _see(to, beaten)))
        return cycle()

    def relist(to: ObjectStore) -> float:
        listed = [replace(pod) for pod in pods]
        took.append(seconds(lambda: to.listed("Pod", listed)))
        return cycle()

    cycle()
    alone = min(cycle() for _ in range(REPEAT))
    with quiet():
        for title, reports, action in (("heartbeats", count, heartbeats), ("re-listed pods", len(pods), relist)):
            took: list[float] = []
            found = paired(partial(action, store), partial(action, other), REPEAT)
            mark = "" if found.ratio <= WANTED else "  MISSED"
            print(
                f"{reports:,} {title}: the cycle after them {found.ratio:.2f} times one without "
                f"({found.ours * 1e3:.2f} ms, wanted {WANTED}){mark}; comparing them {min(took) * 1e3:.2f} ms, "
                f"{min(took) / reports * 1e6:.2f} us each; a cycle right after another {alone * 1e3:.2f} ms"
            )


def _see(store: ObjectStore, things: list[ApiObject]) -> None:
    for thing in things:
        store.seen(thing)


def _node(index: int) -> Node:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    ready = Condition(type="Ready", status="True")
    status = NodeStatus(capacity=amounts, allocatable=amounts, conditions=(ready,))
    return Node(metadata=ObjectMeta(name=f"n{index}", uid=f"n{index}", resource_version="1"), status=status)


def _pod(name: str, node: str, cpu: str) -> Pod:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, resource_version="1"),
        spec=PodSpec(containers=(container,), node_name=node, scheduler_name="fairway"),
        status=PodStatus(phase="Running" if node else "Pending"),
    )


def _versioned(thing: Node, version: int) -> ApiObject:
    """As after a heartbeat: another version, the same in substance, in a new object."""
    meta = replace(thing.metadata, resource_version=str(version))
    return replace(
        thing, metadata=meta, status=replace(thing.status, conditions=(replace(thing.status.conditions[0]),))
    )


if __name__ == "__main__":
    main()
