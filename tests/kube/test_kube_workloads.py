"""How pods join gangs and queues on a real API server (spec K25): each way with what its API takes."""

from __future__ import annotations

from typing import Any

import pytest

from kube.cluster import Cluster, crd, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live
from kube.servers import apply

KUBE, VOLCANO = "scheduling.k8s.io/v1alpha2", "scheduling.volcano.sh/v1beta1"
SIGS = "scheduling.x-k8s.io/v1alpha1"
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "11111111-2222-3333-4444-555555555555"}
WAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "kubernetes": (KUBE, {}, {"schedulingGroup": {"podGroupName": "g"}}),
    "volcano": (VOLCANO, {"annotations": {"scheduling.k8s.io/group-name": "g"}}, {}),
    "scheduler-plugins": (SIGS, {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, {}),
    "owner": (
        "",
        {"annotations": {"fairway.dev/min-available": "2"}, "ownerReferences": [{**JOB, "controller": True}]},
        {},
    ),
}
"""By name: the API of the group, and what the pod's metadata and spec say."""


@pytest.mark.parametrize("way", WAYS)
def test_a_gang_waits_for_its_second_pod(installed: ControlPlane, cluster: Cluster, way: str) -> None:
    version, meta, spec = WAYS[way]
    apply(installed, [crd("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")])
    if version:
        path = f"/apis/{version}/namespaces/{cluster.namespace}/podgroups"
        gang = {"schedulingPolicy": {"gang": {"minCount": 2}}} if version == KUBE else {"minMember": 2}
        head = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}}
        eventually(lambda: installed.call("GET", f"/apis/{version}"))
        cluster.make(path, {**head, "spec": gang})
    cluster.node("n")
    with Live(cluster):
        cluster.pod("g-0", metadata=meta, **spec)
        eventually(lambda: _message(cluster, "g-0"), "the pod says why it waits")
        assert cluster.places() == {"g-0": ""}
        cluster.pod("g-1", metadata=meta, **spec)
        eventually(lambda: cluster.places() == {"g-0": "n", "g-1": "n"}, "both are bound")


def _message(cluster: Cluster, name: str) -> str:
    found = cluster.get(f"{cluster.pods}/{name}")["status"].get("conditions", ())
    return next((one["message"] for one in found if one["type"] == "PodScheduled" and one["status"] == "False"), "")


@pytest.mark.parametrize(
    "said",
    [
        {"labels": {"fairway.dev/queue": "{}"}},
        {"annotations": {"fairway.dev/queue": "{}"}},
        {"labels": {"kueue.x-k8s.io/queue-name": "{}"}},
        {"annotations": {"scheduling.volcano.sh/queue-name": "{}"}},
        {},
    ],
    ids=["label", "annotation", "kueue", "volcano", "namespace"],
)
def test_a_pod_is_charged_to_the_queue_that_it_or_its_namespace_names(
    installed: ControlPlane, cluster: Cluster, said: dict[str, dict[str, str]]
) -> None:
    queue = cluster.namespace
    head = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": queue}}
    cluster.make(f"/apis/{VOLCANO}/queues", {**head, "spec": {"weight": 1}})
    if not said:
        labels = {"metadata": {"labels": {"fairway.dev/queue": queue}}}
        installed.call("PATCH", f"/api/v1/namespaces/{cluster.namespace}", labels, kind="merge")
    cluster.node("n")
    with Live(cluster):
        meta = {part: {key: text.format(queue) for key, text in some.items()} for part, some in said.items()}
        cluster.pod("p", cpu="1500m", metadata=meta)
        path = f"/apis/{VOLCANO}/queues/{queue}"
        eventually(lambda: cluster.get(path).get("status", {}).get("allocated", {}).get("cpu") in ("1500m", "1.5"))


def test_of_several_ways_to_join_a_group_the_first_counts(installed: ControlPlane, cluster: Cluster) -> None:
    """Kubernetes' own field, Volcano's annotation, the label of scheduler-plugins, the controller. A pod that joins a
    group of nine waits.
    """
    apply(installed, [crd("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")])
    for version in (KUBE, VOLCANO, SIGS):
        eventually(lambda: installed.call("GET", f"/apis/{version}"))  # noqa: B023 - looked at before the next one
    for name, version in (("kube", KUBE), ("volcano", VOLCANO), ("sigs", SIGS)):
        for minimum in (1, 9):
            gang = {"schedulingPolicy": {"gang": {"minCount": minimum}}} if version == KUBE else {"minMember": minimum}
            head = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": f"{name}-{minimum}"}}
            cluster.make(f"/apis/{version}/namespaces/{cluster.namespace}/podgroups", {**head, "spec": gang})

    def pod(name: str, kube: int, volcano: int, sigs: int) -> None:
        """Each number is the size of the group that this way names; 0: it names none."""
        meta: dict[str, Any] = {"ownerReferences": [{**JOB, "controller": True}], "annotations": {}, "labels": {}}
        meta["annotations"]["fairway.dev/min-available"] = "9"
        if volcano:
            meta["annotations"]["scheduling.k8s.io/group-name"] = f"volcano-{volcano}"
        if sigs:
            meta["labels"]["pod-group.scheduling.sigs.k8s.io"] = f"sigs-{sigs}"
        spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": f"kube-{kube}"}} if kube else {}
        cluster.pod(name, metadata=meta, **spec)

    cluster.node("n", cpu=8)
    with Live(cluster):
        pod("by-controller", 0, 0, 0)
        pod("kube-waits", 9, 1, 1)
        pod("volcano-waits", 0, 9, 1)
        pod("kube", 1, 9, 9)
        pod("volcano", 0, 1, 9)
        pod("sigs", 0, 0, 1)
        eventually(lambda: all(cluster.places()[name] for name in ("kube", "volcano", "sigs")))
        for name in ("by-controller", "kube-waits", "volcano-waits"):
            eventually(lambda: _message(cluster, name))  # noqa: B023 - looked at before the next one
            assert cluster.places()[name] == ""
