"""`fairway run` on a real API server, beside others on the same server: `make bench-live`.

    rates     pods that wait are bound: a bare loop of the same HTTP client, Fairway, kube-scheduler (and Volcano)
    latency   one pod at a time, Fairway and kube-scheduler
    start     5,000 nodes and 50,000 pods: from start to the first bind, memory, and what a steady cluster costs
    hub       1,000 clusters x 1,000 placements: `fairway fleet`, OCM's own controller, a bare loop of the same writes
    devices   writes to the server for pods with claims and with limits of a class, against what claims need
    hostile   one pod after the other while one namespace does its worst, against the same without it
    gangs     10,000 pods in gangs of 100 over three queues and ten namespaces

What else the machine does falls on all rows: they are repeated in turn, and to be compared with each other.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import shutil
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp

import fairway
from benchmarks.hostile_shapes import KINDS
from benchmarks.on_server import device_writes, gangs, hostile, latency, placing, rates, scale
from benchmarks.on_server.cluster import BenchCluster
from kube.controlplane import ocm_build
from kube.controlplane.build import NEEDED, build
from kube.controlplane.plane import ControlPlane, data_folder

PARTS = ("rates", "latency", "start", "gangs", "devices", "hostile", "hub")


async def measure(plane: ControlPlane, part: str, given: argparse.Namespace) -> None:
    cluster = BenchCluster(plane)
    try:
        if part == "rates":
            await rates.measure(cluster, given.nodes, given.pods, given.repeat, given.volcano)
        elif part == "latency":
            await latency.measure(cluster, given.nodes, given.latency_pods)
        elif part == "start":
            await scale.measure(cluster, given.many_nodes, given.many_pods, given.repeat, given.seconds)
        elif part == "hub":
            problem = "" if given.no_ocm else ocm_build.build()
            if problem:
                sys.exit(f"OCM's placement controller cannot be built: {problem} (--no-ocm goes without it)")
            await placing.measure(cluster, given.clusters, given.repeat, not given.no_ocm)
        elif part == "devices":
            await device_writes.measure(cluster, given.device_nodes, given.device_pods)
        elif part == "hostile":
            await hostile.measure(cluster, given.nodes, given.latency_pods, given.kind or [*KINDS])
        else:
            await gangs.measure(cluster, given.many_nodes, given.gang_pods)
    finally:
        await cluster.client.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.on_server", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given again")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--latency-pods", type=int, default=200)
    parser.add_argument("--many-nodes", type=int, default=5000, help="for start and gangs")
    parser.add_argument("--many-pods", type=int, default=50_000, help="for start")
    parser.add_argument("--seconds", type=float, default=60, help="how long the steady cluster of start is looked at")
    parser.add_argument("--gang-pods", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=1000, help="for hub; as many placements")
    parser.add_argument(
        "--no-ocm", action="store_true", help="for hub: without OCM's controller, which takes minutes to build"
    )
    parser.add_argument("--kind", choices=[*KINDS], action="append", help="for hostile: this kind of shapes only")
    parser.add_argument("--device-nodes", type=int, default=20)
    parser.add_argument("--device-pods", type=int, default=100)
    parser.add_argument("--volcano", default="", metavar="FILE", help="Volcano's scheduler, to be measured too")
    given = parser.parse_args()
    build((*NEEDED, "kube-scheduler"))
    compileall.compile_dir(Path(fairway.__file__).parent, quiet=1)  # as an installer does: starts are measured, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the servers end with it
    for part in given.only or PARTS:
        folder = data_folder(Path(mkdtemp()))
        plane = ControlPlane(folder)
        try:
            plane.start()
            asyncio.run(measure(plane, part, given))
        finally:
            plane.stop()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
