"""`ChaosStory`: random jobs, nodes and faults, and kill -9 at any time; then all must have run, and nothing twice."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

from kube import verdicts
from kube.access import grant_in
from kube.cluster import eventually
from kube.controlplane.plane import ControlPlane
from kube.forked import ForkServer
from kube.history import DirectClient, History
from kube.process import RunProcess
from kube.proxy import READ_FAULTS, WATCH_FAULTS, WRITE_FAULTS, Asked, FaultProxy
from kube.workload import KUBE, VOLCANO, TestJob, Workload

POLICY = """
actions:
  - enqueue
  - {name: reserve, arguments: {starvingJobTimeThreshold: 2}}
  - allocate
  - preempt
  - backfill
tiers:
- plugins: [{name: priority}, {name: gang}, {name: drf, arguments: {priorityFirst: true}}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: devices}]
"""
NODES, CPUS, GPUS = 4, 4, 2
GANG_TIME = 5
SLACK = 10
"""Seconds beyond that time in which a scheduler led and had listed everything: kills and faults hold its writes up."""
PATIENCE_AT_THE_END = 180
IDLE_LIFE = 5
"""Seconds after which one that writes nothing may be killed."""
LEASE = {"duration": 4, "renewDeadline": 2, "retry": 1}


class ChaosStory:
    """One namespace, its nodes, one or two replicas, each behind a proxy of its own."""

    def __init__(
        self, plane: ControlPlane, folder: Path, seed: int, *, replicas: int = 1, server: ForkServer | None = None
    ) -> None:
        self.random = Random(seed)
        self.namespace = f"chaos-{seed}"
        self._plane = plane
        self.client = DirectClient(plane)
        self.folder = folder
        self.workload = Workload(self.client, self.namespace, self.namespace, Random(seed + 1))
        self.proxies = [FaultProxy(plane, random=Random(seed + 2 + number)) for number in range(replicas)]
        self._server = server
        self.runs: list[RunProcess] = []
        self._numbers = 0
        self._churn_at = 0.0
        self._restart_at = [0.0] * replicas
        self._kill_at = [0.0] * replicas
        """0: not known yet."""
        self._asked = [0] * replicas
        """Requests before it was started."""
        self._written = [0] * replicas
        """Writes before it was started."""
        self._dies_early = [False] * replicas
        self._has_faults = True
        self.longest_half = 0.0
        """Seconds that a gang was half-bound while a scheduler led, at most."""
        self.excused = 0
        """Writes that came too late though they were sent in time."""
        self._policy = folder / "policy.yaml"
        self._policy.write_text(POLICY)

    # -- the stage -------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        must = self.workload._must
        must("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        urgent = {"metadata": {"name": f"{self.namespace}-urgent"}, "value": 1000}
        must("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        expression = f"device.driver == '{self.namespace}.example'"
        selectors = [{"cel": {"expression": expression}}]
        must(
            "POST",
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"metadata": {"name": self.namespace}, "spec": {"selectors": selectors}},
        )
        for number in range(NODES):
            self._make_node(number)
            self._make_slice(number)
        grant_in(self._plane, self.namespace)

    def _node(self, number: int) -> str:
        return f"{self.namespace}-n{number}"

    def _make_node(self, number: int) -> None:
        name = self._node(number)
        meta = {"name": name, "labels": {"test": self.namespace}}
        amounts = {"cpu": str(CPUS), "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        self.workload._must("POST", "/api/v1/nodes", {"metadata": meta, "status": status})

    def _make_slice(self, number: int) -> None:
        name = self._node(number)
        devices = [{"name": f"d{one}"} for one in range(GPUS)]
        spec = {
            "driver": f"{self.namespace}.example",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        self.workload._must(
            "POST", "/apis/resource.k8s.io/v1/resourceslices", {"metadata": {"name": name}, "spec": spec}
        )

    def paths(self) -> dict[str, str]:
        space = f"namespaces/{self.namespace}"
        return {
            "Node": f"/api/v1/nodes?labelSelector=test%3D{self.namespace}",
            "Pod": f"/api/v1/{space}/pods",
            "ResourceClaim": f"/apis/resource.k8s.io/v1/{space}/resourceclaims",
            "Reservation": f"/apis/fairway.dev/v1alpha1/{space}/reservations",
            "Lease": f"/apis/coordination.k8s.io/v1/{space}/leases",
        }

    # -- the story -------------------------------------------------------------------------------------------

    def play(self, kills: int, faults: int = 0) -> None:
        """Until so many kills and faults; then without any until everything has run."""
        self.set_up()
        for proxy in self.proxies:
            proxy.__enter__()
            proxy.choose = self._choose
        try:
            self._make_runs()
            with History(self.client, self.paths()) as history:
                self.history = history
                self.workload.start(history)
                try:
                    self._trouble(kills, faults)
                    self._calm()
                finally:
                    self.workload.stop()
                history.reaches()
                assert history.errors == []
            self.judge()
        finally:
            for run in self.runs:
                run.kill()
            for proxy in self.proxies:
                proxy.__exit__(None, None, None)
            self._clean()
            self.client.close()

    def _make_runs(self) -> None:
        for number, proxy in enumerate(self.proxies):
            lease: dict[str, Any] = {"enabled": len(self.proxies) > 1, "namespace": self.namespace, **LEASE}
            run = RunProcess(
                self.folder,
                f"run-{number}",
                server=self._server,
                kubeconfig=str(proxy.kubeconfig(self.folder)),
                schedulerNames=[self.namespace],
                policy=str(self._policy),
                leaderElection=lease,
                gangBindTimeout=GANG_TIME,
            )
            proxy.kill = run.kill
            self.runs.append(run)

    def _trouble(self, kills: int, faults: int) -> None:
        submit_at = 0.0
        while self.kills < kills or self.faults < faults:
            now = time.monotonic()
            for number in range(len(self.runs)):
                self._kill_and_restart(number, now, may_kill=self.kills < kills)
            if now > submit_at and len(self.workload.unfinished) < 12:
                submit_at = now + self.random.random() * 0.4
                self.workload.submit(self._job())
            if now > self._churn_at:
                self._churn_at = now + 1 + 4 * self.random.random()
                self.workload.chores = [self._churn]
            assert self.workload.failure is None, self.workload.failure
            time.sleep(0.02)

    def _kill_and_restart(self, number: int, now: float, *, may_kill: bool) -> None:
        run = self.runs[number]
        if run.is_alive:
            if not self._kill_at[number] and self._has_begun(number, now):
                self._kill_at[number] = now + self._life(number)
            if may_kill and 0 < self._kill_at[number] < now:
                run.kill()
            return
        if run.starts and not self._restart_at[number]:
            assert run.was_killed, f"ended by itself: {run.lines[-3:]}"
            if len(self.runs) == 1:
                self.proxies[0].forget_held()  # with a lease the next one waits for longer than that
            self._restart_at[number] = now + 0.3 * self.random.random() + (0.1 if self.proxies[number].held else 0)
        if now >= self._restart_at[number]:
            self._restart_at[number] = 0.0
            self._kill_at[number] = 0.0
            self._asked[number] = len(self.proxies[number].asked)
            self._written[number] = len(self.proxies[number].passed)
            self._dies_early[number] = self.random.random() < 0.2
            run.start()

    def _has_begun(self, number: int, now: float) -> bool:
        """Some die while they read the cluster, most while they write; one that has nothing to write dies too."""
        if self._dies_early[number]:
            return len(self.proxies[number].asked) > self._asked[number]
        has_written = len(self.proxies[number].passed) > self._written[number]
        return has_written or now > self.runs[number].begun + IDLE_LIFE

    def _life(self, number: int) -> float:
        """Seconds from there on."""
        return self.random.random() if self._dies_early[number] else self.random.expovariate(1 / 1.3)

    def _calm(self) -> None:
        """No faults and no kills any more, and all nodes back."""
        self._has_faults = False
        end = time.monotonic() + PATIENCE_AT_THE_END
        while not self.workload.is_idle:
            assert time.monotonic() < end, f"never ran: {self._why_not()}"
            self.workload.chores = [self._mend]  # again: a churn that has begun takes its own away
            for number, run in enumerate(self.runs):  # a fault that was chosen before may still kill one
                if not run.is_alive:
                    assert run.was_killed, f"ended by itself: {run.lines[-3:]}"
                    self.proxies[number].forget_held()
                    run.start()
            time.sleep(0.1)
        eventually(lambda: not self.history.snapshot("Reservation"), "all reservations are released")
        self._fill(TestJob("all-devices", NODES * GPUS, NODES * GPUS, KUBE, 0.3, has_claim=True))
        self._fill(TestJob("all-nodes", NODES * CPUS, NODES * CPUS, KUBE, 0.3))
        for run in self.runs:
            assert run.stop() == 0, run.lines[-5:]

    def _fill(self, job: TestJob) -> None:
        """A gang that needs all there is runs: nothing is counted as used that is free."""
        self.workload.submit(job)
        eventually(lambda: self.workload.is_idle, f"{job.name} runs")

    def _why_not(self) -> list[Any]:
        names = set(self.workload.unfinished)
        found: list[Any] = [self.workload.jobs[name] for name in sorted(names)]
        found += [run.lines[-5:] for run in self.runs]
        for pod in self.history.snapshot("Pod"):
            waits = [one.get("message") for one in pod["status"].get("conditions", []) if one.get("status") == "False"]
            found.append((pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"].get("phase"), waits))
        return found

    # -- chance ----------------------------------------------------------------------------------------------

    def _choose(self, asked: Asked) -> str:
        if not self._has_faults:
            return ""
        chance = self.random.random()
        if asked.is_watch:
            return self.random.choice(WATCH_FAULTS) if chance < 0.35 else ""
        if not asked.is_write:
            return self.random.choice(READ_FAULTS) if chance < 0.1 else ""
        if "/leases" in asked.path:
            return self.random.choice(("reset", "lost", "slow", "error", "conflict")) if chance < 0.1 else ""
        return self.random.choice(WRITE_FAULTS) if chance < 0.25 else ""

    def _job(self) -> TestJob:
        self._numbers += 1
        kind = self.random.choice(("lone", "lone", "kube", "volcano", "wide", "claim", "urgent"))
        name, seconds = f"{kind}-{self._numbers}", 0.3 + self.random.random()
        if kind == "lone":
            return TestJob(name, 1, 1, "", seconds)
        if kind == "claim":
            return TestJob(name, 1, 1, "", seconds, has_claim=True)
        if kind == "urgent":
            return TestJob(name, 2, 2, KUBE, seconds, is_urgent=True)
        if kind == "wide":
            return TestJob(name, 10, 10, VOLCANO, seconds)
        size = self.random.randint(2, 5)
        return TestJob(name, size, size, KUBE if kind == "kube" else VOLCANO, seconds)

    def _churn(self) -> None:
        """A node is cordoned, or given back, or lost with its pods; on the workload's thread."""
        self.workload.chores = []
        number = self.random.randrange(NODES)
        path = f"/api/v1/nodes/{self._node(number)}"
        nodes = {node["metadata"]["name"]: node for node in self.history.snapshot("Node")}
        here = nodes.get(self._node(number))
        if here is None or here["spec"].get("unschedulable"):
            self._mend()
        elif self.random.random() < 0.6:
            self.workload._must("PATCH", path, {"spec": {"unschedulable": True}}, 404, patch="merge-patch")
        else:
            self.workload._must("DELETE", path, None, 404)

    def _mend(self) -> None:
        """All nodes are there and take pods; one that was lost comes back when its pods are gone."""
        nodes = {node["metadata"]["name"]: node for node in self.history.snapshot("Node")}
        used = {pod["spec"].get("nodeName") for pod in self.history.snapshot("Pod")}
        for number in range(NODES):
            name = self._node(number)
            if name not in nodes and name not in used and self.client("GET", f"/api/v1/nodes/{name}")[0] == 404:
                self._make_node(number)
            elif name in nodes and nodes[name]["spec"].get("unschedulable"):
                patch = {"spec": {"unschedulable": None}}
                self.workload._must("PATCH", f"/api/v1/nodes/{name}", patch, 404, patch="merge-patch")

    # -- the end ---------------------------------------------------------------------------------------------

    def judge(self) -> None:
        history = self.history
        assert verdicts.over_commitments(history) == []
        assert verdicts.moves(history) == []
        assert verdicts.shared_devices(history) == []
        assert verdicts.double_reservations(history) == []
        assert verdicts.lost_writes(history, self.proxies, self.namespace) == []
        assert verdicts.double_evictions(self.proxies) == []
        assert verdicts.excess_victims(history, self.workload.jobs) == []
        lives = [life for run in self.runs for life in run.working()]
        times = verdicts.half_bound_times(history, self.workload.jobs, lives)
        self.longest_half = max((seconds for _, seconds in times), default=0.0)
        assert verdicts.late_gangs(history, self.workload.jobs, lives, GANG_TIME + SLACK) == []
        for run in self.runs:
            assert run.problems() == []
        if len(self.proxies) > 1:
            margin = LEASE["duration"] - LEASE["renewDeadline"]
            assert verdicts.writes_without_lease(history, self.proxies, margin) == []
            assert verdicts.late_sends(self.proxies, LEASE["renewDeadline"]) == []
            self.excused = len(verdicts.excused_writes(history, self.proxies, margin))

    @property
    def faults(self) -> int:
        return sum(sum(proxy.injected.values()) for proxy in self.proxies)

    @property
    def kills(self) -> int:
        return sum(run.kills for run in self.runs)

    def _clean(self) -> None:
        for pod in self.client("GET", f"/api/v1/namespaces/{self.namespace}/pods")[1]["items"]:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            self.client("DELETE", path, {"gracePeriodSeconds": 0})
        for number in range(NODES):
            self.client("DELETE", f"/api/v1/nodes/{self._node(number)}")
            self.client("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{self._node(number)}")
