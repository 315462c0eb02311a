"""From a pod created to its binding seen, one pod at a time on an idle cluster: Fairway and kube-scheduler in turn.

Both run all the time, each for the pods that name it. The time is from the request that creates the pod to the event
that shows its node, so it includes what the server takes for both writes. Pods come with pauses, as on an idle cluster.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE, BenchCluster, waiting_pod
from benchmarks.on_server.watching import PodWatch

PAUSE = 0.1
"""Seconds between two pods."""


async def measure(cluster: BenchCluster, nodes: int, pods: int) -> None:
    await cluster.namespaces([NAMESPACE])
    await cluster.nodes(nodes)
    running = {
        "fairway": await programs.fairway(cluster.plane, scheduler="fairway"),
        "kube-scheduler": await programs.kube_scheduler(cluster.plane, scheduler="other"),
    }
    names = {"fairway": "fairway", "kube-scheduler": "other"}
    watch = PodWatch(cluster.client)
    await watch.start()
    found: dict[str, list[float]] = {program: [] for program in running}
    try:
        for number in range(-5, pods):  # the first few warm both up
            for program, scheduler in names.items():
                took = await _one(cluster, watch, f"{scheduler}-{number + 5}", scheduler)
                if number >= 0:
                    found[program].append(took)
                await asyncio.sleep(PAUSE)
    finally:
        for one in running.values():
            await one.stop()
        await watch.stop()
        await cluster.empty()
    print(f"{nodes:,} nodes, {pods} pods one at a time: milliseconds from created to bound")
    for program, times in found.items():
        cuts = statistics.quantiles(times, n=100)
        print(f"{program:16} p50 {cuts[49]:6.1f}   p90 {cuts[89]:6.1f}   p99 {cuts[98]:6.1f}")


async def _one(cluster: BenchCluster, watch: PodWatch, name: str, scheduler: str) -> float:
    body = waiting_pod(scheduler)
    body["metadata"]["name"] = name
    begin = time.monotonic()
    await cluster.client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
    return 1000 * (await watch.wait_for_pod(name) - begin)
