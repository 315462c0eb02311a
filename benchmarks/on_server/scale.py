"""5,000 nodes and 50,000 pods: from start to the first bind, memory, and what a cluster costs in which little happens.

All pods run; one more waits and is the first to be bound. A *bare client* makes the same lists as Fairway and reads
all bytes of them: nothing is decoded or kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import time

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE, BenchCluster, heartbeats, waiting_pod
from benchmarks.on_server.programs import Program
from benchmarks.on_server.watching import PodWatch

HEARTBEAT = 10.0
"""Seconds in which every node has one."""
PODS_PER_SECOND = 10


async def measure(cluster: BenchCluster, nodes: int, pods: int, repeat: int, seconds: float) -> None:
    await cluster.namespaces([NAMESPACE])
    await cluster.nodes(nodes)
    await cluster.pods(pods, nodes=nodes)
    await _make(cluster, "first-to-warm-up")
    bare, starts = [], []
    program: Program | None = None
    for number in range(repeat):
        bare.append(await _bare(cluster))
        if program is not None:
            await program.stop()
        program, took = await _started(cluster, f"first-{number}")
        starts.append(took)
    assert program is not None
    least, ours = min(bare), statistics.median(starts)
    print(f"{nodes:,} nodes, {pods:,} pods; median of {repeat}")
    print(f"bare client reads the lists      {statistics.median(bare):8.1f} s (least {least:.1f})")
    print(
        f"from start to first bind         {ours:8.1f} s = {ours / statistics.median(bare):.2f} times the bare client"
    )
    per_pod = (program.memory() - program.first_memory) / pods
    print(f"memory over the bare process     {per_pod / 1024:8.1f} KB a pod")
    await _steady(cluster, program, nodes, seconds)
    await program.stop()


async def _make(cluster: BenchCluster, name: str) -> None:
    body = waiting_pod("bench")
    body["metadata"]["name"] = name
    await cluster.client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)


async def _bare(cluster: BenchCluster) -> float:
    """Seconds for the two large lists, as Fairway asks for them, at the same time."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "resourceVersion": "",
    }
    begin = time.monotonic()
    await asyncio.gather(*(_read(cluster, path, query) for path in ("/api/v1/pods", "/api/v1/nodes")))
    return time.monotonic() - begin


async def _read(cluster: BenchCluster, path: str, query: dict[str, str]) -> None:
    async with cluster.client.stream(path, query, silence=600) as body:
        last = b""
        async for chunk in body.iter_any():
            if b"k8s.io/initial-events-end" in last + chunk:
                return
            last = chunk[-100:]


async def _started(cluster: BenchCluster, name: str) -> tuple[Program, float]:
    """A pod waits already; the time is from the end of the imports to its binding."""
    await _make(cluster, name)
    watch = PodWatch(cluster.client)
    await watch.start()
    program = await programs.fairway(cluster.plane)
    begin = time.monotonic()
    took = await watch.wait_for_pod(name, 600) - begin
    await watch.stop()
    return program, took


async def _steady(cluster: BenchCluster, program: Program, nodes: int, seconds: float) -> None:
    """Heartbeats of all nodes, and pods that come and are bound, or end."""
    await asyncio.sleep(5)
    ended = asyncio.Event()
    beating = asyncio.create_task(_beat(cluster, nodes, ended))
    coming = asyncio.create_task(_come_and_go(cluster, ended))
    await asyncio.sleep(2)
    before, begin = program.cpu(), time.monotonic()
    await asyncio.sleep(seconds)
    share = (program.cpu() - before) / (time.monotonic() - begin)
    ended.set()
    sent, came = await beating, await coming
    rate = sent / (time.monotonic() - begin + 2)
    print(
        f"a steady cluster                 {100 * share:8.1f} % of a core ({rate:.0f} heartbeats/s, {came} pod events)"
    )


async def _beat(cluster: BenchCluster, nodes: int, ended: asyncio.Event) -> int:
    """A tenth of the nodes each second, put into etcd: a server that takes 500 updates a second measures itself."""
    sent, part = 0, max(1, int(nodes / HEARTBEAT))
    begin = time.monotonic()
    while not ended.is_set():
        pairs = await asyncio.to_thread(lambda: list(heartbeats(cluster, nodes)))
        for place in range(0, len(pairs), part):
            await asyncio.to_thread(cluster.put, pairs[place : place + part])
            sent += len(pairs[place : place + part])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), max(0.0, begin + sent / part - time.monotonic()))
            if ended.is_set():
                break
    return sent


async def _come_and_go(cluster: BenchCluster, ended: asyncio.Event) -> int:
    """A pod that comes, is bound, and is deleted: three events."""
    number = 0
    while not ended.is_set():
        await _make(cluster, f"steady-{number}")
        number += 1
        await asyncio.sleep(3 / PODS_PER_SECOND)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/steady-{number - 1}"
        await cluster.client.request("DELETE", path, {"gracePeriodSeconds": 0})
    return 3 * number
