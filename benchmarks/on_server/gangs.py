"""10,000 pods in gangs of 100 over 5,000 nodes, with three queues and ten namespaces, as Volcano's PodGroups.

All are bound, and what each queue has allocated is exactly what its pods request: checked on the pods and on the status
of the queues. The same pods are bound by a bare loop before, for the rate.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE, VOLCANO_GROUP, BenchCluster
from benchmarks.on_server.programs import Program
from benchmarks.on_server.watching import PodWatch
from fairway.errors import ApiError
from fairway.kube.install.crds import volcano_crds
from fairway.resources.quantity import parse_amount

SIZE = 100
QUEUES = ("small", "medium", "large")
NAMESPACES = tuple(f"team-{index}" for index in range(10))
_PATIENCE = 60


async def measure(cluster: BenchCluster, nodes: int, pods: int) -> None:
    await _install(cluster)
    await cluster.namespaces([NAMESPACE, *NAMESPACES])
    await cluster.nodes(nodes)
    bare, _ = await _bound(cluster, pods, lambda: programs.bind_loop(cluster.plane, nodes))
    await cluster.empty((NAMESPACE, *NAMESPACES))
    wanted: dict[str, int] = {}
    shown: dict[str, int] = {}

    async def look() -> None:
        wanted.update(await _requested(cluster))
        shown.update(await _shown(cluster, wanted))

    rate, spent = await _bound(cluster, pods, lambda: programs.fairway(cluster.plane), look)
    print(f"{nodes:,} nodes, {pods:,} pods in gangs of {SIZE}, {len(QUEUES)} queues, {len(NAMESPACES)} namespaces")
    print(f"all bound: {rate:.0f}/s, {rate / bare:.2f} of a bare loop ({bare:.0f}/s), own CPU {spent:.2f} ms/pod")
    for queue in QUEUES:
        print(f"queue {queue:8} requested {wanted[queue]} milli-CPU, allocated {shown[queue]}")
    if shown != wanted:
        raise SystemExit("the queues do not show what their pods have")


async def _bound(
    cluster: BenchCluster,
    pods: int,
    start: Callable[[], Awaitable[Program]],
    then: Callable[[], Awaitable[None]] | None = None,
) -> tuple[float, float]:
    """Pods bound per second, and milliseconds of own processor time for each; `then` comes while the program runs."""
    await cluster.pods(pods, gang=SIZE, api=VOLCANO_GROUP, namespaces=NAMESPACES, queues=QUEUES)
    watch = PodWatch(cluster.client)
    await watch.start()
    program = await start()
    try:
        await program.until(watch.wait_for(pods))
        spent = program.cpu() if then is None else await program.cpu_when_calm()
        if then is not None:
            await then()
    finally:
        await program.stop()
        await watch.stop()
    return watch.rate(), 1000 * spent / pods


async def _install(cluster: BenchCluster) -> None:
    for crd in volcano_crds():
        await cluster.client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for weight, name in enumerate(QUEUES, 1):
        body = {
            "apiVersion": VOLCANO_GROUP,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": weight, "reclaimable": True},
        }
        await _when_served(cluster, f"/apis/{VOLCANO_GROUP}/queues", body)


async def _when_served(cluster: BenchCluster, path: str, body: dict[str, Any]) -> None:
    for _ in range(_PATIENCE):
        try:
            await cluster.client.request("POST", path, body)
            return
        except ApiError:
            await asyncio.sleep(0.5)
    await cluster.client.request("POST", path, body)


async def _requested(cluster: BenchCluster) -> dict[str, int]:
    """What the bound pods of each queue request, from the objects of the server."""
    groups = await _items(cluster, f"/apis/{VOLCANO_GROUP}/podgroups")
    queue_of = {_name(group): group["spec"]["queue"] for group in groups}
    found: Counter[str] = Counter()
    for pod in await _items(cluster, "/api/v1/pods"):
        if pod["spec"].get("nodeName"):
            meta = pod["metadata"]
            group = f"{meta['namespace']}/{meta['annotations']['scheduling.k8s.io/group-name']}"
            request = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            found[queue_of[group]] += parse_amount("cpu", request)
    return dict(found)


async def _shown(cluster: BenchCluster, wanted: dict[str, int]) -> dict[str, int]:
    """What the queues say once they say what is wanted, or after a while."""
    shown: dict[str, int] = {}
    for _ in range(_PATIENCE):
        queues = await _items(cluster, f"/apis/{VOLCANO_GROUP}/queues")
        shown = {
            queue["metadata"]["name"]: parse_amount("cpu", queue.get("status", {}).get("allocated", {}).get("cpu", "0"))
            for queue in queues
            if queue["metadata"]["name"] in QUEUES
        }
        if shown == wanted:
            break
        await asyncio.sleep(0.5)
    return shown


async def _items(cluster: BenchCluster, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await cluster.client.request("GET", path))["items"]
    return found


def _name(thing: dict[str, Any]) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"
