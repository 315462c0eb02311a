"""`fairway run` on a real API server, beside a bare loop of the same HTTP client: `make bench-live`.

Each row binds the same number of pods on the same nodes: pods wait, then the program starts. The rate counts from the
first bind to the last. Processor time is the program's own, without its imports, and includes reading all objects.
Rows are repeated in turn, so that what else the machine does falls on all of them; the median counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from fairway.errors import ApiError
from fairway.kube.client import ApiClient
from fairway.kube.configuration import find_connection
from kube.controlplane.build import build
from kube.controlplane.plane import ControlPlane, data_folder

NAMESPACE = "bench"
SCHEDULER = "bench"
GANG = 10
_TICKS = os.sysconf("SC_CLK_TCK")


class Result(NamedTuple):
    rate: float
    """Pods bound per second."""
    cpu: float
    """Milliseconds of own processor time per pod."""


class Bench:
    def __init__(self, plane: ControlPlane, nodes: int, pods: int) -> None:
        self.plane = plane
        self.nodes = nodes
        self.pods = pods
        self.client = ApiClient(find_connection(str(plane.kubeconfig())))
        self._round = 0

    async def prepare(self) -> None:
        await self.client.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await _each(self._node(f"node-{index}") for index in range(self.nodes))

    async def _node(self, name: str) -> None:
        amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        labels = {"kubernetes.io/hostname": name}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        await self.client.request(
            "POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}
        )

    async def fill(self, *, gang: int = 1) -> None:
        """Pods that wait; in gangs by PodGroups of Kubernetes' own, which go only slowly: names are not used again."""
        self._round += 1
        if gang > 1:
            await _each(self._group(f"g{self._round}-{index}", gang) for index in range(self.pods // gang))
        await _each(self._pod(index, gang) for index in range(self.pods))

    async def _group(self, name: str, minimum: int) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        path = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
        body = {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.client.request("POST", path, body)

    async def _pod(self, index: int, gang: int) -> None:
        requests = {"cpu": "500m", "memory": "512Mi"}
        spec: dict[str, Any] = {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        }
        if gang > 1:
            spec["schedulingGroup"] = {"podGroupName": f"g{self._round}-{index // gang}"}
        body = {"metadata": {"name": f"p{index}"}, "spec": spec}
        await self.client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)

    async def empty(self) -> None:
        groups = f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups"
        events = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        for path in (f"/api/v1/namespaces/{NAMESPACE}/pods", groups, events):
            while not await self._emptied(path):
                pass

    async def _emptied(self, path: str) -> bool:
        """The server has a minute for one request, and does not take back what it did in it."""
        try:
            await self.client.request("DELETE", path, {"gracePeriodSeconds": 0}, time_limit=300)
        except ApiError as error:
            if error.status != 504:
                raise
            return False
        return True

    # -- programs ------------------------------------------------------------------------------------------

    async def bare(self) -> Result:
        command = [
            sys.executable,
            "-m",
            "benchmarks.bind_loop",
            str(self.plane.kubeconfig()),
            NAMESPACE,
            str(self.nodes),
        ]
        run = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        output, _ = await run.communicate()
        found = json.loads(output)
        return Result(found["pods"] / found["seconds"], 1000 * found["cpu"] / found["pods"])

    async def fairway(self, *flags: str) -> Result:
        port = _free_port()
        command = [sys.executable, "-m", "fairway.cli.main", "run", "--kubeconfig", str(self.plane.kubeconfig())]
        command += ["--scheduler-names", SCHEDULER, "--http-address", f"127.0.0.1:{port}", *flags]
        run = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        assert run.stderr is not None
        await run.stderr.readline()
        imports = _cpu(run.pid)
        drain = asyncio.create_task(run.stderr.read())
        first, last, done = 0.0, 0.0, 0
        while done < self.pods:
            await asyncio.sleep(0.1)
            bound, now = await asyncio.to_thread(_bound, port), time.monotonic()
            if bound > done:
                if not done:
                    first, before = now, bound
                done, last = bound, now
        spent = _cpu(run.pid) - imports
        run.terminate()
        await run.wait()
        await drain
        return Result((self.pods - before) / max(0.001, last - first), 1000 * spent / self.pods)


def _bound(port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = re.search(rb'attempts_total{result="scheduled"} ([\d.]+)', answer.read())
    except OSError:
        return 0
    return int(float(found[1])) if found else 0


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as made:
        port: int = made.getsockname()[1]
        return port


async def _each(calls: Any) -> None:
    """A few at a time."""
    todo: list[Awaitable[None]] = list(calls)

    async def work() -> None:
        while todo:
            await todo.pop()

    await asyncio.gather(*(work() for _ in range(16)))


async def measure(plane: ControlPlane, nodes: int, pods: int, repeat: int) -> None:
    bench = Bench(plane, nodes, pods)
    await bench.prepare()
    lease = ("--lease-namespace", NAMESPACE)
    rows = {
        "bare loop": (1, bench.bare, ()),
        "single pods, no events": (1, bench.fairway, (*lease, "--no-scheduled-events")),
        "single pods, events": (1, bench.fairway, lease),
        f"gangs of {GANG}": (GANG, bench.fairway, lease),
    }
    results: dict[str, list[Result]] = {name: [] for name in rows}
    for number in range(repeat):
        for name, (gang, call, flags) in rows.items():
            await bench.fill(gang=gang)
            found = await call(*flags)
            results[name].append(found)
            sys.stderr.write(f"{number + 1}/{repeat} {name}: {found.rate:.0f}/s, {found.cpu:.2f} ms\n")
            await bench.empty()
    await bench.client.close()
    _report(results, nodes, pods)


def _report(results: dict[str, list[Result]], nodes: int, pods: int) -> None:
    bare = statistics.median(result.rate for result in results["bare loop"])
    print(f"{nodes:,} nodes, {pods:,} pods; median of {len(results['bare loop'])}")
    print(f"{'':24} {'bound/s':>8} {'of bare':>8} {'own CPU, ms/pod':>16}")
    for name, found in results.items():
        rate, cpu = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"{name:24} {rate:8.0f} {rate / bare:8.2f} {cpu:16.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.api_server", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    build()
    folder = data_folder(Path(mkdtemp()))
    plane = ControlPlane(folder)
    try:
        plane.start()
        asyncio.run(measure(plane, given.nodes, given.pods, given.repeat))
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
