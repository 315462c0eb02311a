"""A hub with many clusters and placements: from nothing to all decisions written, and then one cluster changes twice.

The first change moves no decision, the second some: what is written then is counted by watches, on the server's side.

Fairway's placer, OCM's own controller and a bare loop of the same writes, in turn on the same server and objects.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from benchmarks.on_server import programs
from benchmarks.on_server.cluster import NAMESPACE, BenchCluster
from benchmarks.on_server.programs import Program
from fairway.kube.http.client import ApiClient
from kube.controlplane import ocm_build
from kube.controlplane.plane import ControlPlane
from kube.hub import install
from kube.ocm import GROUP, V1, V1BETA1, V1BETA2

CHOSEN = 3
QUIET = 2.0
"""Seconds without a write after which a program has nothing more to say."""


class Figures(NamedTuple):
    seconds: float
    """From the start of the program until all was written."""
    cpu: float
    rate: float
    """Placements per second, from the first write of any to the last status."""
    chosen: dict[str, tuple[str, ...]]
    first_writes: int = 0
    """Of decisions and placements, until all was written."""
    change_writes: int = 0
    """Writes after one cluster has changed, and no decision moves."""
    change_cpu: float = 0.0
    moved: int = 0
    """Decisions that another change of that cluster moves."""
    move_writes: int = 0
    """Writes after it."""
    move_cpu: float = 0.0


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Choice(msgspec.Struct, rename="camel"):
    cluster_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    decisions: tuple[_Choice, ...] = ()
    number_of_selected_clusters: int = 0


class _Thing(msgspec.Struct):
    metadata: _Meta = _Meta()
    status: _Status = _Status()


class _Seen(msgspec.Struct):
    type: str
    object: _Thing


class HubWatch:
    """What is written, seen from outside: the same measure for every program."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._decoder = msgspec.json.Decoder(_Seen)
        self._tasks: list[asyncio.Task[None]] = []
        self.chosen: dict[str, tuple[str, ...]] = {}
        self.done: dict[str, float] = {}
        """When a placement's status said that all clusters are chosen."""
        self.writes = 0
        self.first = 0.0
        self.last = time.monotonic()

    async def start(self) -> None:
        for what in ("placementdecisions", "placements"):
            path = f"/apis/{V1BETA1}/{what}"
            listed = json.loads(await self._client.request("GET", path, query={"limit": "1"}))
            version = listed["metadata"]["resourceVersion"]
            self._tasks.append(asyncio.create_task(self._follow(path, version, what == "placements")))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, number: int, seconds: float = 600) -> None:
        """So many placements are done, and their decisions were seen."""
        async with asyncio.timeout(seconds):
            while len(self.done) < number or sum(map(len, self.chosen.values())) < number * CHOSEN:
                await asyncio.sleep(0.02)

    async def until_quiet(self) -> None:
        while time.monotonic() - self.last < QUIET:
            await asyncio.sleep(0.1)

    async def _follow(self, path: str, version: str, placements: bool) -> None:
        """A server ends watches of definitions that are new: it goes on from the last version."""
        while True:
            query = {"watch": "true", "resourceVersion": version}
            async with self._client.stream(path, query, silence=3600) as body:
                rest = b""
                async for chunk in body.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        seen = self._decoder.decode(line)
                        version = seen.object.metadata.resource_version or version
                        self._take(seen, placements)

    def _take(self, read: _Seen, placements: bool) -> None:
        self.writes += 1
        self.last = time.monotonic()
        self.first = self.first or self.last
        name, status = read.object.metadata.name, read.object.status
        if not placements:
            names = sorted(one.cluster_name for one in status.decisions)
            self.chosen[name.removesuffix("-decision-1")] = tuple(names)
        elif status.number_of_selected_clusters >= CHOSEN:
            self.done.setdefault(name, self.last)


class _Row(NamedTuple):
    name: str
    start: Callable[[], Awaitable[Program]]
    reacts: bool = True


async def fairway_fleet(plane: ControlPlane) -> Program:
    command = [sys.executable, "-m", "fairway.cli.main", "fleet", "--kubeconfig", str(plane.kubeconfig())]
    command += ["--no-leader-elect", "--http-address", f"127.0.0.1:{programs.free_port()}"]
    return await programs.start(command)


async def place_loop(plane: ControlPlane) -> Program:
    command = [sys.executable, "-m", "benchmarks.place_loop", str(plane.kubeconfig()), NAMESPACE]
    return await programs.start(command, waits_for_line=True)


async def measure(cluster: BenchCluster, number: int, repeat: int, with_ocm: bool) -> None:
    await asyncio.to_thread(install, cluster.plane)
    await cluster.namespaces([NAMESPACE])
    cluster.also_empties(f"/registry/{GROUP}/placementdecisions/")
    await _clusters(cluster, number)
    plane = cluster.plane
    rows = [
        _Row("bare loop", lambda: place_loop(plane), reacts=False),
        _Row("fairway fleet", lambda: fairway_fleet(plane)),
    ]
    if with_ocm:
        rows.append(_Row("OCM", lambda: programs.start(ocm_build.command(plane.kubeconfig()))))
    found: dict[str, list[Figures]] = {row.name: [] for row in rows}
    for turn in range(repeat):
        for row in rows:
            figures = await _once(cluster, row, number)
            found[row.name].append(figures)
            sys.stderr.write(f"{turn + 1}/{repeat} {row.name}: {figures.seconds:.2f} s, {figures.cpu:.2f} s of CPU\n")
    _report(found, number)


async def _once(cluster: BenchCluster, row: _Row, number: int) -> Figures:
    await _placements(cluster, number)
    watch = HubWatch(cluster.client)
    await watch.start()
    begin = time.monotonic()
    program = await row.start()
    try:
        await program.until(watch.until(number))
        times = sorted(watch.done.values())
        rate = number / max(0.001, times[-1] - watch.first)
        found = Figures(times[-1] - begin, 0.0, rate, dict(watch.chosen), watch.writes)
        if row.reacts:
            found = await _react(cluster, program, watch, found)
    finally:
        await program.stop()
        await watch.stop()
        await cluster.empty()
        for what in ("placements", "placementdecisions"):
            await cluster.until(f"/apis/{V1BETA1}/{what}", 0)
        await _change(cluster, "1Mi")
    return found


async def _react(cluster: BenchCluster, program: Program, watch: HubWatch, found: Figures) -> Figures:
    """What two changes of one cluster cost: one leaves it among the smallest, one makes it the largest of all."""
    await watch.until_quiet()
    found = found._replace(cpu=program.total_cpu(), chosen=dict(watch.chosen), first_writes=watch.writes)
    same, same_cpu = await _cost(cluster, program, watch, "7Mi")
    other, other_cpu = await _cost(cluster, program, watch, "20000Mi")
    moved = sum(watch.chosen[name] != clusters for name, clusters in found.chosen.items())
    return found._replace(change_writes=same, change_cpu=same_cpu, moved=moved, move_writes=other, move_cpu=other_cpu)


async def _cost(cluster: BenchCluster, program: Program, watch: HubWatch, memory: str) -> tuple[int, float]:
    """Writes and processor time after the cluster has so much memory."""
    writes, spent = watch.writes, program.total_cpu()
    await _change(cluster, memory)
    await asyncio.sleep(QUIET)
    await watch.until_quiet()
    return watch.writes - writes, program.total_cpu() - spent


async def _change(cluster: BenchCluster, memory: str) -> None:
    """One cluster says that it has so much memory."""
    body = {"status": {"allocatable": {"cpu": "10", "memory": memory}}}
    path = f"/apis/{V1}/managedclusters/c0000/status"
    await cluster.client.request("PATCH", path, body, content_type="application/merge-patch+json")


async def _clusters(cluster: BenchCluster, number: int) -> None:
    sets = {"apiVersion": V1BETA2, "kind": "ManagedClusterSet", "metadata": {"name": "bench"}}
    await cluster.client.request("POST", f"/apis/{V1BETA2}/managedclustersets", sets)
    kind = {"apiVersion": V1BETA2, "kind": "ManagedClusterSetBinding"}
    binding = {**kind, "metadata": {"name": "bench"}, "spec": {"clusterSet": "bench"}}
    path = f"/apis/{V1BETA2}/namespaces/{NAMESPACE}/managedclustersetbindings"
    await cluster.client.request("POST", path, binding)
    bound = {
        "type": "Bound",
        "status": "True",
        "reason": "Bound",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.client.request(
        "PATCH",
        f"{path}/bench/status",
        {"status": {"conditions": [bound]}},
        content_type="application/merge-patch+json",
    )
    meta = {"name": "shape", "labels": {f"{GROUP}/clusterset": "bench"}}
    one = {"apiVersion": V1, "kind": "ManagedCluster", "metadata": meta, "spec": {"hubAcceptsClient": True}}

    def changed(thing: dict[str, Any], index: int) -> None:
        allocatable = {"cpu": "10", "memory": f"{index * 37 % 9973 + 1}Mi"}
        available = {"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "Available", "message": ""}
        available["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        capacity = {"cpu": "10", "memory": "9999Mi"}
        thing["status"] = {"allocatable": allocatable, "capacity": capacity, "conditions": [available]}

    names = [("", f"c{index:04}") for index in range(number)]
    await cluster.copies(f"/apis/{V1}/managedclusters", one, names, changed)


async def _placements(cluster: BenchCluster, number: int) -> None:
    """They weigh memory, as in the proposal's second example, and say how OCM counts what is not reported."""
    policy = {
        "configurations": [
            {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 1}
        ]
    }
    spec = {"numberOfClusters": CHOSEN, "prioritizerPolicy": policy}
    meta = {"name": "shape", "annotations": {"fairway.dev/missing-resource": "zero"}}
    one = {"apiVersion": V1BETA1, "kind": "Placement", "metadata": meta, "spec": spec}
    names = [(NAMESPACE, f"p{index:04}") for index in range(number)]
    await cluster.copies(f"/apis/{V1BETA1}/namespaces/{NAMESPACE}/placements", one, names, lambda thing, index: None)


def _report(found: dict[str, list[Figures]], number: int) -> None:
    bare = statistics.median(one.rate for one in found["bare loop"])
    print(f"{number:,} clusters x {number:,} placements of {CHOSEN}; median of {len(found['bare loop'])}")
    head = f"{'':16} {'seconds':>8} {'own CPU, s':>11} {'placements/s':>13} {'of bare':>8} {'writes':>7}"
    print(f"{head} {'no move: writes':>16} {'CPU, s':>7} {'moved':>6} {'writes':>7} {'CPU, s':>7}")
    for name, figures in found.items():
        seconds, cpu, rate, more, most = (
            statistics.median(getattr(one, what) for one in figures)
            for what in ("seconds", "cpu", "rate", "change_cpu", "move_cpu")
        )
        last = figures[-1]
        print(
            f"{name:16} {seconds:8.2f} {cpu:11.2f} {rate:13.0f} {rate / bare:8.2f} {last.first_writes:7d}"
            f" {last.change_writes:16d} {more:7.2f} {last.moved:6d} {last.move_writes:7d} {most:7.2f}"
        )
    if "OCM" in found:
        ours, theirs = found["fairway fleet"], found["OCM"]
        same = sum(ours[0].chosen.get(name) == clusters for name, clusters in theirs[0].chosen.items())
        print(f"the same clusters chosen: {same} of {number}")
        time_share, cpu_share = (
            statistics.median(getattr(one, what) for one in ours)
            / statistics.median(getattr(one, what) for one in theirs)
            for what in ("seconds", "cpu")
        )
        print(f"time: {time_share:.2f} of OCM's; CPU: {cpu_share:.2f} of OCM's")
