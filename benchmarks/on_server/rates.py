"""How fast pending pods are bound, and at what CPU time: programs in turn on the same server."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import KUBE_GROUP, NAMESPACE, VOLCANO_GROUP, BenchCluster
from benchmarks.on_server.programs import Program
from benchmarks.on_server.volcano import install
from benchmarks.on_server.watching import PodWatch

GANG = 10


class Rate(NamedTuple):
    rate: float
    """Pods bound per second."""
    cpu: float
    """Milliseconds of CPU time per pod."""


class Row(NamedTuple):
    name: str
    gang: int
    start: Callable[[], Awaitable[Program]]
    api: str = KUBE_GROUP
    is_bare: bool = False
    """Nothing but bindings: it ends with the last. A program is compared with the bare loop over the same pods: the
    server takes longer for a pod that belongs to a group.
    """


async def measure(cluster: BenchCluster, nodes: int, pods: int, repeat: int, volcano: str) -> None:
    plane = cluster.plane
    rows = [
        Row("bare loop", 1, lambda: programs.bind_loop(plane, nodes), is_bare=True),
        Row(f"bare loop, gangs of {GANG}", GANG, lambda: programs.bind_loop(plane, nodes), is_bare=True),
        Row("single pods, no events", 1, lambda: programs.fairway(plane, "--no-scheduled-events")),
        Row("single pods, events", 1, lambda: programs.fairway(plane)),
        Row(f"gangs of {GANG}", GANG, lambda: programs.fairway(plane)),
        Row("kube-scheduler", 1, lambda: programs.kube_scheduler(plane)),
    ]
    if volcano:
        await install(cluster)
        rows.append(Row(f"Volcano, gangs of {GANG}", GANG, lambda: programs.volcano(plane, volcano), VOLCANO_GROUP))
    await cluster.namespaces([NAMESPACE])
    await cluster.nodes(nodes)
    found: dict[str, list[Rate]] = {row.name: [] for row in rows}
    for number in range(repeat):
        for row in rows:
            rate = await _once(cluster, row, pods)
            found[row.name].append(rate)
            sys.stderr.write(f"{number + 1}/{repeat} {row.name}: {rate.rate:.0f}/s, {rate.cpu:.2f} ms\n")
    _report(found, nodes, pods)


async def _once(cluster: BenchCluster, row: Row, pods: int) -> Rate:
    await cluster.pods(pods, gang=row.gang, api=row.api)
    watch = PodWatch(cluster.client)
    await watch.start()
    program = await row.start()
    try:
        await program.until(watch.wait_for(pods))
        spent = program.cpu() if row.is_bare else await program.cpu_when_calm()
    finally:
        await program.stop()
        await watch.stop()
        await cluster.empty()
    return Rate(watch.rate(), 1000 * spent / pods)


def _report(found: dict[str, list[Rate]], nodes: int, pods: int) -> None:
    rate_of = {name: statistics.median(one.rate for one in rates) for name, rates in found.items()}
    kube = rate_of["kube-scheduler"]
    print(f"{nodes:,} nodes, {pods:,} pods; median of {len(found['bare loop'])}")
    print(f"{'':24} {'bound/s':>8} {'of bare':>8} {'of kube-scheduler':>18} {'own CPU, ms/pod':>16} {'least':>7}")
    for name, rates in found.items():
        rate, cpu = (statistics.median(values) for values in zip(*rates, strict=True))
        least = min(one.cpu for one in rates)
        bare = rate_of[f"bare loop, gangs of {GANG}" if name.endswith(f"gangs of {GANG}") else "bare loop"]
        print(f"{name:24} {rate:8.0f} {rate / bare:8.2f} {rate / kube:18.2f} {cpu:16.2f} {least:7.2f}")
