"""What each value that is kept between cycles saves: cycles without it against cycles with it.

    python -m benchmarks.derived [--only NAME] [--nodes NODES]

For each derived value and each shortcut there is a cluster in which it matters. Two copies of that cluster, one of them
with the value switched off (`FAIRWAY_DERIVED=-NAME` does the same), take turns in one process: an event, and the cycle
that it starts. A value that others depend on takes those with it; the last column names them. The rows are those of the
table in docs/architecture.md.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.devices import Cluster
from benchmarks.devices import Size as DeviceSize
from benchmarks.hostile_shapes import read
from benchmarks.live.rules import policy_of_actions, reserved_scene
from benchmarks.live.scene import Scene, group, node, pod, queue
from benchmarks.policies import policy_for
from benchmarks.timing import paired, quiet
from fairway.api.kinds import ApiObject
from fairway.api.policy import default_policy
from fairway.scheduler.plugins.installed import default_registry
from fairway.state.derived import switched_off

RUNNING = 4
"""Pods that run on each node."""
_REPEAT = 11
_RUN_TIME = {"fairway.dev/expected-runtime": "48h"}
_DRIVER = "gpu.example.com"

Maker = Callable[[int], Scene]


def _busy(nodes: int, cpu: str = "15", **more: Any) -> Iterator[ApiObject]:
    """Nodes that are full but for a few cpus, with running pods of many queues and namespaces."""
    yield from (node(index, zone=f"zone-{index % 5}", rack=f"rack-{index % 50}") for index in range(nodes))
    yield from (queue(f"queue-{index:03}", f"above-{index % 10}") for index in range(100))
    yield from (queue(f"above-{index}") for index in range(10))
    for index in range(RUNNING * nodes):
        where = {"queue": f"queue-{index % 100:03}", "namespace": f"team-{index % 100:03}"}
        yield pod(f"run-{index}", cpu, on=f"node-{index % nodes:05}", **where, **more)


def one_pod(nodes: int) -> Scene:
    """A pod arrives in a cluster with 100 queues, where 20 kinds of pods wait for other nodes."""
    waiting = (pod(f"wait-{index}", f"{40 + index}", queue=f"queue-{index:03}") for index in range(20))
    return Scene([*_busy(nodes), *waiting], pod("new", queue="queue-007"), reasons=False)


def kinds(nodes: int) -> Scene:
    """A pod arrives while a gang of 25 kinds of pods waits for one more that fits nowhere."""
    members = [pod(f"gang-{index}", f"{1_000 + index % 25}m", group="gang") for index in range(50)]
    members.append(pod("gang-large", "100", group="gang"))
    return Scene(
        [*_busy(nodes), group("gang", 51), *members], pod("new", queue="queue-007"), policy_for("least"), reasons=False
    )


def hopeless(nodes: int) -> Scene:
    """A pod arrives where 1,000 pods wait, no two of one request, that fit nowhere."""
    waiting = (pod(f"large-{index}", f"{100_000 + index}m") for index in range(1_000))
    return Scene([*_busy(nodes), *waiting], pod("new", queue="queue-007"), reasons=False)


def tenants(nodes: int) -> Scene:
    """A pod arrives while one waits in each of 1,000 queues."""
    tops = [queue(f"top-{index}") for index in range(3)]
    middle = [queue(f"middle-{index}", f"top-{index % 3}") for index in range(30)]
    leaves = [queue(f"leaf-{index:04}", f"middle-{index % 30}") for index in range(1_000)]
    waiting = [pod(f"wait-{index}", "1m", queue=f"leaf-{index:04}") for index in range(1_000)]
    few = [node(index) for index in range(nodes // 10)]
    return Scene([*few, *tops, *middle, *leaves, *waiting], pod("new", queue="leaf-0001"), reasons=False)


def nobody_waits(nodes: int) -> Scene:
    """A pod arrives in a cluster where nothing else waits."""
    return Scene(_busy(nodes), pod("new", queue="queue-007"), reasons=False)


def nothing_to_do(nodes: int) -> Scene:
    """A pod arrives that fits nowhere, as the one that waits."""
    return Scene([*_busy(nodes), pod("large", "100")], pod("new", "101"), reasons=False)


def reservations(nodes: int) -> Scene:
    """A pod arrives in a full cluster with 100 reservations."""
    return reserved_scene(nodes, 100)


def same_reservations(nodes: int) -> Scene:
    """A pod that fits nowhere arrives in a full cluster with 10 reservations."""
    scene = reserved_scene(nodes, 10)
    scene.event, scene.reasons = pod("large", "100", creation_timestamp=None), False
    return scene


def starving(nodes: int) -> Scene:
    """50 kinds of pods starve if others have overtaken them."""
    reserve = (
        "{name: reserve, arguments: {starvingJobTimeThreshold: 60, onlyIfOvertaken: true, reservedNodePercent: 1}}"
    )
    waiting = (pod(f"wait-{index}", f"{70_000 + index}m", priority=index % 5) for index in range(50))
    return Scene(
        [*_busy(nodes), *waiting], pod("new"), policy_of_actions(f"enqueue, {reserve}, allocate"), reasons=False
    )


def preempting(nodes: int) -> Scene:
    """An important pod arrives in a full cluster."""
    policy = policy_for("binpack", "enqueue, allocate, preempt")
    return Scene(_busy(nodes, "16", priority=0), pod("new", "16", priority=9), policy, reasons=False)


def planning(nodes: int) -> Scene:
    """A pod arrives where all pods have run times and one waits for its planned start."""
    policy = policy_of_actions("enqueue, allocate, {name: backfill, arguments: {mode: easy}}")
    head = pod("head", "64", notes=_RUN_TIME)
    return Scene([*_busy(nodes, notes=_RUN_TIME), head], pod("new", "4", notes=_RUN_TIME), policy, reasons=False)


def networks(nodes: int) -> Scene:
    """A pod arrives while a gang waits for a HyperNode that takes all of it."""
    size = nodes // 50 + 2

    def hyper(name: str, tier: int, members: dict[str, Any]) -> dict[str, Any]:
        spec = {"tier": tier, "members": [{"type": "Node", "selector": members}]}
        return {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": name},
            "spec": spec,
        }

    racks = [hyper(f"rack-{n}", 1, {"labelMatch": {"matchLabels": {"rack": f"rack-{n}"}}}) for n in range(50)]
    zones = [hyper(f"zone-{n}", 2, {"labelMatch": {"matchLabels": {"zone": f"zone-{n}"}}}) for n in range(5)]
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"minMember": size, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
    }
    members = [pod(f"gang-{index}", "4", group="gang") for index in range(size)]
    return Scene([*_busy(nodes), *read([*racks, *zones, gang]), *members], pod("new"), reasons=False)


def device_classes(nodes: int) -> Scene:
    """A pod arrives that requests a device of a class."""
    cluster = Cluster(DeviceSize(nodes=nodes, pods=10))
    arriving = next(iter(cluster.pods(by_class=True)))
    policy = default_policy(default_registry().catalog)
    return Scene([*cluster.classes(), *cluster.nodes(described=True)], arriving, policy, reasons=False)


def device_claims(nodes: int) -> Scene:
    """A pod arrives that claims a device by an expression."""
    things: list[dict[str, Any]] = [_device_class(f"device.attributes['{_DRIVER}'].tier >= 1"), _claim()]
    things += [_slice(index) for index in range(nodes)]
    spec = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "claim"}]}
    arriving = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], **spec},
    }
    policy = default_policy(default_registry().catalog)
    event, *objects = read([arriving, *things])
    return Scene([*(node(index) for index in range(nodes)), *objects], event, policy, reasons=False)


def _device_class(expression: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}


def _claim() -> dict[str, Any]:
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
    meta = {"name": "claim", "namespace": "team"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": meta, "spec": {"spec": {"devices": devices}}}


def _slice(index: int) -> dict[str, Any]:
    name = f"node-{index:05}"
    devices = [
        {"name": f"d{n}", "attributes": {"tier": {"int": n % 3}, "uuid": {"string": f"{index}-{n}"}}} for n in range(4)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"s-{name}"},
        "spec": spec,
    }


SCENES: dict[str, Maker] = {
    "columns": kinds,
    "devices": device_classes,
    "hyper-levels": networks,
    "lone-pods": nobody_waits,
    "overtakers": starving,
    "parking": hopeless,
    "plugins": one_pod,
    "queue-totals": one_pod,
    "queue-verdicts": tenants,
    "quiet-plan": nothing_to_do,
    "run-ends": planning,
    "selector-answers": device_claims,
    "shares": one_pod,
    "snapshot": one_pod,
    "standing-reservations": reservations,
    "unchanged-reservations": same_reservations,
    "victims": preempting,
}
"""The cluster for each value. There is none for `reasons`, which saves no time."""


def measure(name: str, nodes: int, repeat: int = _REPEAT) -> tuple[float, float]:
    """Milliseconds of a cycle without a value, and with it."""
    scenes = [SCENES[name](nodes) for _ in range(2)]
    scenes[1].state.derived.switch(f"-{name}")
    for scene in scenes:
        scene.cycle()
    with quiet():
        _, off, on = paired(scenes[1].cycle, scenes[0].cycle, repeat)
    return off * 1e3, on * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.derived", description="What each kept value saves.")
    parser.add_argument("--only", choices=sorted(SCENES), action="append", help="this value; may be repeated")
    parser.add_argument("--nodes", type=int, default=500, help="nodes of each cluster (default: 500)")
    given = parser.parse_args()
    print("| value | without | with | ratio | off with it |\n|---|---|---|---|---|", flush=True)
    for name in given.only or sorted(SCENES):
        off, on = measure(name, given.nodes)
        others = ", ".join(sorted(switched_off(f"-{name}") - {name})) or "-"
        print(f"| `{name}` | {off:.2f} ms | {on:.2f} ms | {off / on:.1f} | {others} |", flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
