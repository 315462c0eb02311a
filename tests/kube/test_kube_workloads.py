"""How pods join gangs and queues on a real API server (kube.md section 5): each way with what its API takes."""

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
