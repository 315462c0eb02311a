"""Volcano's own controllers and definitions with `fairway run` in place of its scheduler: its jobs run to their end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.install.bundle import objects
from fairway.kube.install.options import InstallOptions
from kube.cluster import Cluster, eventually
from kube.controlplane import volcano_build
from kube.controlplane.plane import ControlPlane, data_folder
from kube.history import DirectClient, History
from kube.process import RunProcess
from kube.servers import apply

BATCH, VOLCANO = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"
OPTIONS = InstallOptions(volcano_crds=False, scheduler_names=("fairway", "volcano"))


@pytest.fixture(name="volcano", scope="module")
def a_cluster_with_volcano(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A server of its own: Volcano's controllers act on all namespaces, and its definitions are not Fairway's."""
    problem = volcano_build.build()
    source = volcano_build.module_folder()
    if problem or source is None:
        pytest.skip(f"Volcano's controllers cannot be built here: {problem or 'no module'}")
    folder = data_folder(tmp_path_factory.mktemp("volcano"))
    own = ControlPlane(folder)
    own.start()
    controllers = None
    try:
        files = sorted((source / "config" / "crd").glob("*/bases/*.yaml"))
        theirs = [yaml.safe_load(path.read_text()) for path in files]
        apply(own, theirs)
        apply(own, [one for one in objects(OPTIONS) if one["kind"] not in ("Deployment", "ServiceMonitor")])
        controllers = _start(own)
        yield own
    finally:
        if controllers is not None:
            controllers.terminate()
            controllers.wait(30)
        own.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start(plane: ControlPlane) -> subprocess.Popen[bytes]:
    flags = ["--kubeconfig", str(plane.kubeconfig()), "--leader-elect=false", "--scheduler-name=volcano", "--v=2"]
    with (plane.folder / "volcano.log").open("wb") as log:
        return subprocess.Popen(
            [str(volcano_build.controller_manager()), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


@pytest.fixture(name="cluster")
def a_namespace(volcano: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = Cluster(volcano, request.node.name.removeprefix("test_").replace("_", "-")[:30])
    yield cluster
    cluster.clean()


@pytest.fixture(name="run")
def the_scheduler(cluster: Cluster, tmp_path: Path) -> Iterator[RunProcess]:
    """As installed in place of Volcano's, under the access that is installed."""
    kubeconfig = str(cluster.plane.kubeconfig("scheduler"))
    off = {"enabled": False}
    run = RunProcess(tmp_path, "run", kubeconfig=kubeconfig, schedulerNames=["volcano"], leaderElection=off)
    run.start()
    yield run
    assert run.stop() == 0
    assert run.problems() == []


@pytest.fixture(name="history")
def the_history(cluster: Cluster) -> Iterator[History]:
    client = DirectClient(cluster.plane)
    space = f"namespaces/{cluster.namespace}"
    paths = {
        "Job": f"/apis/{BATCH}/{space}/jobs",
        "Pod": f"/api/v1/{space}/pods",
        "PodGroup": f"/apis/{VOLCANO}/{space}/podgroups",
    }
    with History(client, paths) as history:
        yield history
    client.close()


def submit(cluster: Cluster, name: str, pods: int, **spec: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "nodeSelector": {"test": cluster.namespace}, "containers": [container]}
    task = {
        "name": "worker",
        "replicas": pods,
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "template": {"spec": {**pod, "terminationGracePeriodSeconds": 0}},
    }
    body = {"minAvailable": pods, "schedulerName": "volcano", "queue": "default", "tasks": [task], **spec}
    head = {"apiVersion": BATCH, "kind": "Job", "metadata": {"name": name}}
    cluster.make(f"/apis/{BATCH}/namespaces/{cluster.namespace}/jobs", {**head, "spec": body})


def phase(history: History, kind: str) -> str:
    status: dict[str, Any] = next((one.get("status", {}) for one in history.snapshot(kind)), {})
    return str((status.get("state", {}) if kind == "Job" else status).get("phase", ""))


def phases(history: History, kind: str) -> list[str]:
    """All that were ever written, each once."""
    found: dict[str, None] = {}
    for entry in history.entries(kind):
        status = entry.thing.get("status", {})
        found[(status.get("state", {}) if kind == "Job" else status).get("phase", "")] = None
    return [one for one in found if one]


def play_kubelets(cluster: Cluster, phase: str) -> None:
    for name, node in cluster.places().items():
        if node:
            cluster.runs(name, phase)


def test_a_job_of_volcano_runs_to_its_end(cluster: Cluster, run: RunProcess, history: History) -> None:
    cluster.node("n", cpu=4)
    submit(cluster, "train", 3)
    eventually(lambda: len(list(filter(None, cluster.places().values()))) == 3, "its pods are made and bound")
    play_kubelets(cluster, "Running")
    eventually(lambda: phase(history, "Job") == "Running", "Volcano says that the job runs")
    eventually(lambda: phase(history, "PodGroup") == "Running", "Fairway says that the group runs")
    play_kubelets(cluster, "Succeeded")
    eventually(lambda: phase(history, "Job") == "Completed", "Volcano says that the job is complete")
    eventually(lambda: phase(history, "PodGroup") in ("", "Completed"), "its group is complete, or deleted by Volcano")
    order = ["Pending", "Inqueue", "Running", "Completed"]
    assert phases(history, "PodGroup")[-2:] in (["Inqueue", "Running"], ["Running", "Completed"])
    assert phases(history, "PodGroup") == sorted(phases(history, "PodGroup"), key=order.index)
    inqueue = min(
        entry.revision
        for entry in history.entries("PodGroup")
        if entry.thing.get("status", {}).get("phase") == "Inqueue"
    )
    assert min(entry.revision for entry in history.entries("Pod")) > inqueue  # the controller waits for it


def test_a_job_of_volcano_has_no_pods_until_its_queue_lets_it_in(
    cluster: Cluster, run: RunProcess, history: History
) -> None:
    cluster.node("n", cpu=4)
    queue = cluster.namespace
    head = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": queue}}
    cluster.make(f"/apis/{VOLCANO}/queues", {**head, "spec": {"weight": 1, "capability": {"cpu": "1"}}})
    path = f"/apis/{VOLCANO}/queues/{queue}"
    eventually(lambda: cluster.get(path).get("status", {}).get("state") == "Open", "the queue is open")
    submit(cluster, "large", 3, queue=queue)

    def waits() -> Any:
        found = next(iter(history.snapshot("PodGroup")), {}).get("status", {}).get("conditions", ())
        return next((one["message"] for one in found if one["type"] == "Unschedulable"), "")

    assert "capability" in eventually(waits, "the group says why it waits")
    assert (phase(history, "PodGroup"), history.entries("Pod")) == ("Pending", [])
    cluster.plane.call("PATCH", path, {"spec": {"capability": {"cpu": "3"}}}, kind="merge")
    eventually(lambda: list(cluster.places().values()) == ["n"] * 3, "its pods are made and bound")
