"""What lives on a cluster besides its scheduler: controllers that make pods again, kubelets that run them, node churn.

Every job is run to its end: a pod that is lost is made again under another name. The pods of a gang end only after so
many of them as the gang needs were on nodes together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kube.history import DirectClient, History, Thing

KUBE = "scheduling.k8s.io/v1alpha2"
VOLCANO = "scheduling.volcano.sh/v1beta1"
DEVICES = "resource.k8s.io/v1"
JOB = "test.fairway.dev/job"


@dataclass
class TestJob:
    name: str
    size: int
    minimum: int
    """More than 1: a gang."""
    api: str
    """Of its PodGroup; "" where it has none."""
    seconds: float
    is_urgent: bool = False
    has_claim: bool = False
    pods: dict[int, str] = field(default_factory=dict)
    """The pod of each place now."""
    done: set[int] = field(default_factory=set)
    tries: int = 0
    complete_since: float | None = None
    is_over: bool = False


class Workload:
    """A thread that plays all of it, until `stop`."""

    def __init__(self, client: DirectClient, namespace: str, scheduler: str, random: Random) -> None:
        self.client = client
        self.namespace = namespace
        self._scheduler = scheduler
        self._random = random
        self.jobs: dict[str, TestJob] = {}
        self.history: History
        self._new: list[TestJob] = []
        self._since: dict[tuple[str, str], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="workload", daemon=True)
        self.failure: BaseException | None = None
        self.chores: list[Callable[[], None]] = []
        """What else is done from time to time, on the same thread."""

    def start(self, history: History) -> None:
        self.history = history
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def submit(self, job: TestJob) -> None:
        self._new.append(job)

    @property
    def is_idle(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return not self._new and all(job.is_over for job in self.jobs.values())

    @property
    def unfinished(self) -> list[str]:
        return [job.name for job in self.jobs.values() if not job.is_over]

    # -- on its thread ---------------------------------------------------------------------------------------

    def _play(self) -> None:
        try:
            while not self._stop.wait(0.03):
                self._controllers()
                self._kubelets()
                for chore in self.chores:
                    chore()
        except BaseException as error:
            self.failure = error

    def _path(self, kind: str, version: str = "v1") -> str:
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{base}/namespaces/{self.namespace}/{kind}"

    def _must(self, method: str, path: str, body: Any = None, *allowed: int, patch: str = "") -> Thing:
        status, answer = self.client(method, path, body, patch=patch)
        assert status < 300 or status in allowed, (method, path, status, answer)
        return answer

    # -- controllers -----------------------------------------------------------------------------------------

    def _controllers(self) -> None:
        while self._new:
            job = self._new.pop(0)
            if job.api:
                self._must("POST", self._path("podgroups", job.api), _group(job), 409)
            self.jobs[job.name] = job
        pods = {pod["metadata"]["name"]: pod for pod in self.history.snapshot("Pod")}
        for job in self.jobs.values():
            if not job.is_over:
                self._control(job, pods)

    def _control(self, job: TestJob, pods: dict[str, Thing]) -> None:
        placed = 0
        for place in range(job.size):
            name = job.pods.get(place)
            pod = pods.get(name or "")
            if place in job.done:
                placed += 1
            elif name is None or (pod is None and self._is_missing(name)):
                self._make(job, place)
            elif pod is not None and pod["status"].get("phase") == "Succeeded":
                job.done.add(place)
            elif pod is not None:
                placed += bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]
        if placed < job.minimum:
            job.complete_since = None
        elif job.complete_since is None:
            job.complete_since = time.monotonic()
        if len(job.done) == job.size:
            self._end(job)

    def _is_missing(self, name: str) -> bool:
        """Not only late in our own watch."""
        return self.client("GET", f"{self._path('pods')}/{name}")[0] == 404

    def _make(self, job: TestJob, place: int) -> None:
        job.tries += 1
        name = f"{job.name}-{place}-{job.tries}"
        if job.has_claim:
            requests = [{"name": "d", "exactly": {"deviceClassName": self.namespace}}]
            claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
            self._must("POST", self._path("resourceclaims", DEVICES), {"apiVersion": DEVICES, **claim}, 409)
            old = job.pods.get(place)
            if old:
                self._drop_claim(old)
        self._must("POST", self._path("pods"), self._pod(job, name), 409)
        job.pods[place] = name

    def _pod(self, job: TestJob, name: str) -> Thing:
        container: Thing = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec: Thing = {
            "schedulerName": self._scheduler,
            "nodeSelector": {"test": self.namespace},
            "terminationGracePeriodSeconds": 30,
            "containers": [container],
        }
        meta: Thing = {"name": name, "labels": {JOB: job.name}}
        if job.api == KUBE:
            spec["schedulingGroup"] = {"podGroupName": job.name}
        elif job.api:
            meta["annotations"] = {"scheduling.k8s.io/group-name": job.name}
        if job.is_urgent:
            spec["priorityClassName"] = f"{self.namespace}-urgent"
        if job.has_claim:
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": name}]
            container["resources"]["claims"] = [{"name": "d"}]
        return {"metadata": meta, "spec": spec}

    def _end(self, job: TestJob) -> None:
        job.is_over = True
        for name in job.pods.values():
            self._must("DELETE", f"{self._path('pods')}/{name}", {"gracePeriodSeconds": 0}, 404)
            if job.has_claim:
                self._drop_claim(name)
        if job.api:
            self._must("DELETE", f"{self._path('podgroups', job.api)}/{job.name}", None, 404)

    def _drop_claim(self, name: str) -> None:
        """As the controller of claims does when their pod is gone."""
        path = f"{self._path('resourceclaims', DEVICES)}/{name}"
        self._must("DELETE", path, None, 404)
        self._must("PATCH", path, {"metadata": {"finalizers": None}}, 404, patch="merge-patch")

    # -- kubelets --------------------------------------------------------------------------------------------

    def _kubelets(self) -> None:
        nodes = {node["metadata"]["name"] for node in self.history.snapshot("Node")}
        for pod in self.history.snapshot("Pod"):
            name, phase = pod["metadata"]["name"], pod["status"].get("phase", "Pending")
            path = f"{self._path('pods')}/{name}"
            if phase == "Succeeded":
                continue  # a gang needs it to be there until its end
            is_lost = pod["spec"].get("nodeName", "") not in nodes | {""}
            if "deletionTimestamp" in pod["metadata"] or is_lost:
                if self._has_passed(pod, "leaves", 0.3):
                    self._must("DELETE", path, {"gracePeriodSeconds": 0}, 404)
            elif not pod["spec"].get("nodeName"):
                continue
            elif phase == "Pending":
                if self._has_passed(pod, "starts", 0.1):
                    self._must("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, 404, patch="merge-patch")
            elif phase == "Running" and self._may_end(pod):
                self._must("PATCH", f"{path}/status", {"status": {"phase": "Succeeded"}}, 404, patch="merge-patch")

    def _has_passed(self, pod: Thing, what: str, seconds: float) -> bool:
        key = (pod["metadata"]["uid"], what)
        now = time.monotonic()
        due = self._since.setdefault(key, now + seconds * (0.5 + self._random.random()))
        return now >= due

    def _may_end(self, pod: Thing) -> bool:
        job = self.jobs[pod["metadata"]["labels"][JOB]]
        since = job.complete_since
        return since is not None and time.monotonic() > since + job.seconds and self._has_passed(pod, "ends", 0.1)


def _group(job: TestJob) -> Thing:
    head = {"apiVersion": job.api, "kind": "PodGroup", "metadata": {"name": job.name}}
    if job.api == KUBE:
        return {**head, "spec": {"schedulingPolicy": {"gang": {"minCount": job.minimum}}}}
    return {**head, "spec": {"minMember": job.minimum}}
