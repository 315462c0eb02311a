"""From a pod created to its binding seen, while one namespace does its worst, against the same without it.

Pods of another namespace come at a steady rate, so that cycles follow each other in both cases. The hostile objects are
those of the row `hostile` of `benchmarks.live_cycles`, as far as the server takes them.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks.hostile_shapes import DEVICE_CLASS, KINDS, NAMESPACE, Manifest
from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE as INNOCENT
from benchmarks.on_server.cluster import BenchCluster, waiting_pod
from benchmarks.on_server.watching import PodWatch
from fairway.errors import ApiError

BETWEEN = 0.03
"""Seconds between two pods."""
MOST = 3.0
_PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
}


async def measure(cluster: BenchCluster, nodes: int, pods: int, kinds: list[str]) -> None:
    await cluster.namespaces([INNOCENT, NAMESPACE])
    await cluster.nodes(nodes)
    await _devices(cluster, min(nodes, 20))
    program = await programs.fairway(cluster.plane, scheduler="fairway")
    watch = PodWatch(cluster.client)
    await watch.start()
    try:
        await _latencies(cluster, watch, "warm", 20)
        alone = _p99(await _latencies(cluster, watch, "alone", pods))
        print(f"{nodes:,} nodes, {pods} pods: p99 from created to bound, undisturbed {alone:.1f} ms", flush=True)
        for number, kind in enumerate(kinds):
            made = await _create(cluster, kind)
            theirs = _p99(await _latencies(cluster, watch, f"beside-{number}", pods))
            await _delete(cluster)
            missed = "  MISSED" if theirs > MOST * alone else ""
            print(f"{kind:20} {made:5} objects: p99 {theirs:7.1f} ms, {theirs / alone:5.2f} times{missed}", flush=True)
    finally:
        await program.stop()
        await watch.stop()
        await cluster.empty()


async def _latencies(cluster: BenchCluster, watch: PodWatch, name: str, pods: int) -> list[float]:
    """Milliseconds of each pod; they do not wait for each other."""

    async def one(number: int) -> float:
        body = waiting_pod("fairway")
        body["metadata"]["name"] = f"{name}-{number}"
        begin = time.monotonic()
        await cluster.client.request("POST", f"/api/v1/namespaces/{INNOCENT}/pods", body)
        return 1000 * (await watch.wait_for_pod(f"{name}-{number}") - begin)

    running = []
    for number in range(pods):
        running.append(asyncio.create_task(one(number)))
        await asyncio.sleep(BETWEEN)
    return list(await asyncio.gather(*running))


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


async def _create(cluster: BenchCluster, kind: str) -> int:
    """As many as the server takes."""
    make, count = KINDS[kind]
    made = 0
    for thing in make(min(count, 300)):
        try:
            await cluster.client.request("POST", _PATHS[thing["kind"]].format(NAMESPACE), thing)
            made += 1
        except ApiError:
            continue
    return made


async def _delete(cluster: BenchCluster) -> None:
    for kind, path in _PATHS.items():
        grace = "?gracePeriodSeconds=0" if kind == "Pod" else ""
        try:
            await cluster.client.request("DELETE", path.format(NAMESPACE) + grace)
        except ApiError:
            continue


async def _devices(cluster: BenchCluster, count: int) -> None:
    head = {"apiVersion": "resource.k8s.io/v1"}
    slices: list[Manifest] = [
        {
            **head,
            "kind": "ResourceSlice",
            "metadata": {"name": f"hostile-{index}"},
            "spec": {
                "driver": DEVICE_CLASS,
                "nodeName": f"node-{index}",
                "pool": {"name": f"node-{index}", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {"name": f"gpu-{number}", "attributes": {"uuid": {"string": f"{index}-{number}"}}}
                    for number in range(4)
                ],
            },
        }
        for index in range(count)
    ]
    made = {**head, "kind": "DeviceClass", "metadata": {"name": DEVICE_CLASS}, "spec": {}}
    await cluster.client.request("POST", "/apis/resource.k8s.io/v1/deviceclasses", made)
    for one in slices:
        await cluster.client.request("POST", "/apis/resource.k8s.io/v1/resourceslices", one)
