"""`fairway run` as `fairway install` sets it up: its identity, its access and no more, its lease and its policy."""

from __future__ import annotations

from typing import Any

from fairway.app.live.program import LeaderElection
from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from kube.live import Live

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces"


def test_a_gang_and_a_lone_pod_under_the_access_that_is_installed(installed: ControlPlane, cluster: Cluster) -> None:
    cluster.node("n1", cpu=4)
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 2}}
    path = f"{GROUPS}/{cluster.namespace}/podgroups"
    cluster.make(path, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **group})
    joined = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    for name in ("g-0", "g-1"):
        cluster.pod(name, metadata=joined)
    cluster.pod("large", cpu="64")
    with Live(
        cluster,
        user="scheduler",
        leader_election=LeaderElection(namespace="fairway-system"),
        policy_config_map="fairway-system/fairway-policy",
    ) as live:
        eventually(lambda: cluster.places() == {"g-0": "n1", "g-1": "n1", "large": ""}, "the gang is bound")
        eventually(lambda: cluster.get(f"{path}/g").get("status", {}).get("phase") == "Running", "the group says so")
        condition = eventually(lambda: _waits(cluster.get(f"{cluster.pods}/large")), "the lone pod says why it waits")
        assert condition["reason"] == "Unschedulable"
        assert "insufficient cpu" in condition["message"]
        reasons = eventually(lambda: _reasons(cluster), "events are written")
        assert reasons >= {"Scheduled", "FailedScheduling"}
        eventually(lambda: _queue(cluster).get("status", {}).get("state") == "Open", "the queue says how it stands")
        refused = [line for line in live.lines if "forbidden" in str(line).lower()]
        assert refused == []
    lease = installed.call("GET", "/apis/coordination.k8s.io/v1/namespaces/fairway-system/leases/fairway")
    assert not lease["spec"].get("holderIdentity")  # released at a clean end


def _waits(pod: Any) -> Any:
    found = pod["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "PodScheduled" and one["status"] == "False"), None)


def _reasons(cluster: Cluster) -> set[str] | None:
    found = cluster.get(f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")["items"]
    reasons = {event["reason"] for event in found}
    return reasons if len(reasons) > 1 else None


def _queue(cluster: Cluster) -> Any:
    return cluster.get("/apis/scheduling.volcano.sh/v1beta1/queues/default")
