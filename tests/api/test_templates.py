"""Workloads in files stand for the pods that their controllers would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairway.api.manifests import Manifests, load
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.api.shape import path_text
from fairway.api.templates import MAX_PODS, expand
from fairway.errors import ManifestError

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"schedulerName": "fairway", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def workload(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "w", "namespace": "team"}, "spec": spec}


def read(tmp_path: Path, *documents: dict[str, Any]) -> Manifests:
    path = tmp_path / "w.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return load([str(path)])


def names(manifests: Manifests) -> list[str]:
    return [thing.metadata.name for thing in manifests.objects]


ROLES = {"replicas": 2, "template": TEMPLATE}
WORKLOADS = {
    "Job": (workload("batch/v1", "Job", parallelism=2, completions=5, template=TEMPLATE), ["w-0", "w-1"]),
    "Job that ends": (workload("batch/v1", "Job", parallelism=4, completions=1, template=TEMPLATE), ["w-0"]),
    "Job, suspended": (workload("batch/v1", "Job", suspend=True, template=TEMPLATE), []),
    "CronJob": (
        workload("batch/v1", "CronJob", schedule="* * * * *", jobTemplate={"spec": {"template": TEMPLATE}}),
        ["w-0"],
    ),
    "Deployment": (workload("apps/v1", "Deployment", replicas=2, template=TEMPLATE), ["w-0", "w-1"]),
    "JobSet": (
        workload(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            replicatedJobs=[
                {"name": "lead", "template": {"spec": {"template": TEMPLATE}}},
                {"name": "work", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
            ],
        ),
        ["w-lead-0-0", "w-work-0-0", "w-work-0-1", "w-work-1-0", "w-work-1-1"],
    ),
    "PyTorchJob": (
        workload(
            "kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Master": {"template": TEMPLATE}, "Worker": ROLES}
        ),
        ["w-master-0", "w-worker-0", "w-worker-1"],
    ),
    "RayCluster": (
        workload(
            "ray.io/v1",
            "RayCluster",
            headGroupSpec={"template": TEMPLATE},
            workerGroupSpecs=[{"groupName": "g", "replicas": 1, "numOfHosts": 2, "template": TEMPLATE}],
        ),
        ["w-head", "w-g-worker-0", "w-g-worker-1"],
    ),
    "LeaderWorkerSet": (
        workload(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            replicas=2,
            leaderWorkerTemplate={"size": 2, "workerTemplate": TEMPLATE},
        ),
        ["w-0", "w-0-1", "w-1", "w-1-1"],
    ),
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_becomes_its_pods(kind: str, tmp_path: Path) -> None:
    document, expected = WORKLOADS[kind]
    other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    manifests = read(tmp_path, document, other)
    pods = [thing for thing in manifests.objects if isinstance(thing, Pod)]
    assert [pod.metadata.name for pod in pods] == expected
    for pod in pods:
        assert pod.metadata.namespace == "team"
        assert pod.metadata.labels["app"] == "x"
        assert [(o.kind, o.name, o.controller) for o in pod.metadata.owner_references] == [
            (document["kind"], "w", True)
        ]


def test_a_volcano_job_becomes_a_group_and_its_pods(tmp_path: Path) -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "template": TEMPLATE},
        {"name": "worker", "replicas": 3, "template": TEMPLATE},
    ]
    document = workload("batch.volcano.sh/v1alpha1", "Job", minAvailable=3, queue="research", tasks=tasks)
    group, *pods = read(tmp_path, document).objects
    assert isinstance(group, PodGroup)
    assert (group.spec.min_member, group.spec.queue) == (3, "research")
    assert [pod.metadata.name for pod in pods] == ["w-ps-0", "w-worker-0", "w-worker-1", "w-worker-2"]
    assert {pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in pods} == {"w"}


def test_a_workload_that_lives_in_a_cluster_is_left_alone(tmp_path: Path) -> None:
    document = workload("batch/v1", "Job", parallelism=2, template=TEMPLATE)
    document["metadata"]["uid"] = "u"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-x1", "namespace": "team"}, **TEMPLATE}
    pod["metadata"] = {"name": "w-x1", "namespace": "team"}
    assert names(read(tmp_path, document, pod)) == ["w-x1"]


@pytest.mark.parametrize(
    ("spec", "place", "message"),
    [
        ({"parallelism": -1, "template": TEMPLATE}, "spec.parallelism", "expected a whole number from 0"),
        ({"parallelism": 10**9, "template": TEMPLATE}, "spec.parallelism", f"to {MAX_PODS}"),
        ({"parallelism": "many", "template": TEMPLATE}, "spec.parallelism", "expected a whole number"),
        ({"parallelism": 2}, "spec.template", "is missing"),
        ({"template": {"spec": {"containers": 5}}}, "spec.template.spec.containers", "expected a list"),
    ],
)
def test_what_is_wrong_is_named_where_it_stands(spec: Any, place: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as error:
        read(tmp_path, workload("batch/v1", "Job", **spec))
    assert "w.yaml:" in str(error.value)
    assert place in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("version", "kind", "spec", "place"),
    [
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [ROLES, {"replicas": 10**9}]}, "spec.tasks[1].replicas"),
        ("batch.volcano.sh/v1alpha1", "Job", {"tasks": [{"replicas": 1}]}, "spec.tasks[0].template"),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"replicas": -1}}},
            "spec.pytorchReplicaSpecs.Worker.replicas",
        ),
    ],
)
def test_an_error_says_where_it_is(version: str, kind: str, spec: dict[str, Any], place: str) -> None:
    [(path, _)] = expand(workload(version, kind, **spec)).errors
    assert path_text(path) == place
