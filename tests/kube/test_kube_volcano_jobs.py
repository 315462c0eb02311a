"""Volcano's own controllers and definitions with `fairway run` in place of its scheduler: its jobs run to their end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
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
    eventually(lambda: _is_empty(cluster), "nothing of the test is left")


def _is_empty(cluster: Cluster) -> bool:
    """There is no garbage collector here, and a group that was let in claims its `minResources` until it is deleted:
    those of the next test would wait for it.
    """
    left = False
    for path in (f"/apis/{VOLCANO}/namespaces/{cluster.namespace}/podgroups", cluster.pods):
        for one in cluster.get(path)["items"]:
            left = True
            cluster.delete(f"{path}/{one['metadata']['name']}")
    return not left


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


def _bound(cluster: Cluster) -> int:
    return len(list(filter(None, cluster.places().values())))


def test_a_group_counts_the_pods_that_run_though_nothing_happens_any_more(
    cluster: Cluster, run: RunProcess, history: History
) -> None:
    cluster.node("n", cpu=4)
    submit(cluster, "train", 3)
    eventually(lambda: _bound(cluster) == 3, "its pods are bound")
    play_kubelets(cluster, "Running")
    eventually(
        lambda: next(iter(history.snapshot("PodGroup")), {}).get("status", {}).get("running") == 3, "all are counted"
    )
    assert phase(history, "PodGroup") == "Running"


def test_a_job_that_loses_a_pod_is_restarted(cluster: Cluster, run: RunProcess, history: History) -> None:
    """Its controller deletes the pods and, where it does so, the group; both are made again only after a status."""
    cluster.node("n", cpu=4)
    submit(cluster, "train", 3, policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    eventually(lambda: _bound(cluster) == 3, "its pods are bound")
    play_kubelets(cluster, "Running")
    eventually(lambda: phase(history, "Job") == "Running", "the job runs")
    first = {one["metadata"]["uid"] for one in cluster.get(cluster.pods)["items"]}
    cluster.delete(f"{cluster.pods}/train-worker-1")

    def is_made_again() -> bool:
        found = cluster.get(cluster.pods)["items"]
        return sum(one["metadata"]["uid"] not in first and "nodeName" in one["spec"] for one in found) == 3

    eventually(is_made_again, "all pods are made again and bound")
    play_kubelets(cluster, "Running")
    eventually(lambda: phase(history, "Job") == "Running", "the job runs again")
    eventually(lambda: phase(history, "PodGroup") == "Running", "and so does its group")


def test_a_group_that_is_deleted_while_its_pods_run_gets_a_status_when_it_is_made_again(
    cluster: Cluster, run: RunProcess, history: History
) -> None:
    cluster.node("n", cpu=4)
    submit(cluster, "train", 3)
    eventually(lambda: _bound(cluster) == 3, "its pods are bound")
    play_kubelets(cluster, "Running")
    eventually(lambda: phase(history, "PodGroup") == "Running", "the group runs")
    (old,) = history.snapshot("PodGroup")
    path = f"/apis/{VOLCANO}/namespaces/{cluster.namespace}/podgroups"
    cluster.delete(f"{path}/{old['metadata']['name']}")
    meta = {key: old["metadata"][key] for key in ("name", "namespace", "ownerReferences")}
    cluster.make(path, {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": meta, "spec": old["spec"]})

    def new() -> Any:
        found = [one for one in history.snapshot("PodGroup") if one["metadata"]["uid"] != old["metadata"]["uid"]]
        return found and found[0].get("status", {}).get("phase")

    assert eventually(new, "the new group has a status") == "Running"


def test_the_group_of_a_job_whose_pods_fail_does_not_run(cluster: Cluster, run: RunProcess, history: History) -> None:
    cluster.node("n", cpu=4)
    submit(cluster, "train", 2)
    eventually(lambda: _bound(cluster) == 2, "its pods are bound")
    play_kubelets(cluster, "Running")
    eventually(lambda: phase(history, "PodGroup") == "Running", "the group runs")
    play_kubelets(cluster, "Failed")
    eventually(lambda: phase(history, "PodGroup") in ("Completed", ""), "it is over, or deleted by Volcano")


def test_the_events_of_a_waiting_job_are_those_that_volcanos_tools_look_for(
    cluster: Cluster, run: RunProcess, history: History
) -> None:
    cluster.node("n", cpu=2)
    cluster.node("m", cpu=0.9)  # so that the cluster admits the job, though no node has room for its third pod
    submit(cluster, "train", 3)

    def events() -> Any:
        found = cluster.get(f"/api/v1/namespaces/{cluster.namespace}/events")["items"]
        ours = [one for one in found if one.get("reportingComponent") == "fairway.dev/scheduler"]
        of_group = [one for one in ours if one["involvedObject"]["kind"] == "PodGroup"]
        of_pods = {one["involvedObject"]["name"]: one for one in ours if one["involvedObject"]["kind"] == "Pod"}
        newest = [one for one in of_group if "insufficient cpu" in one["message"]]
        return (newest, of_pods) if newest and len(of_pods) == 3 else None

    newest, of_pods = eventually(events, "the group and each pod have an event with the reason that stands")
    assert {one["reason"] for one in newest} == {"Unschedulable"}
    assert all(one["lastTimestamp"] and one["firstTimestamp"] and one["count"] for one in newest)
    assert {one["reason"] for one in of_pods.values()} == {"FailedScheduling"}
