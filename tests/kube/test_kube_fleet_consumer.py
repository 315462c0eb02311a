"""A consumer written for OCM, played by a test: it rolls ManifestWorks out over decision groups, and knows nothing of
Fairway. It reads only what OCM documents: the groups in the placement's status, the decisions by their labels."""

from __future__ import annotations

from typing import Any

from kube.cluster import eventually
from kube.hub import LABEL, Hub, LiveFleet
from kube.ocm import GROUP

WORK = "work.open-cluster-management.io/v1"


class Rollout:
    """One ManifestWork in the namespace of each chosen cluster, group after group."""

    def __init__(self, hub: Hub, placement: str) -> None:
        self.hub = hub
        self.placement = placement

    def groups(self) -> list[int]:
        return [one["decisionGroupIndex"] for one in self.hub.status(self.placement).get("decisionGroups", [])]

    def clusters(self, group: int) -> list[str]:
        selector = f"{LABEL}%3D{self.placement},{GROUP}/decision-group-index%3D{group}"
        found = self.hub.get(f"{self.hub.decisions_path}?labelSelector={selector}")["items"]
        return [one["clusterName"] for decision in found for one in decision.get("status", {}).get("decisions", [])]

    def works(self, cluster: str) -> str:
        return f"/apis/{WORK}/namespaces/{cluster}/manifestworks"

    def apply(self, group: int) -> None:
        for cluster in self.clusters(group):
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
            body: dict[str, Any] = {
                "apiVersion": WORK,
                "kind": "ManifestWork",
                "metadata": {"name": self.placement, "labels": {LABEL: self.placement}},
                "spec": {"workload": {"manifests": [manifest]}},
            }
            if self.hub.get(f"{self.works(cluster)}/{self.placement}") is None:
                self.hub.make(self.works(cluster), body)

    def prune(self) -> None:
        chosen = {cluster for group in self.groups() for cluster in self.clusters(group)}
        for work in self.hub.get(f"/apis/{WORK}/manifestworks?labelSelector={LABEL}%3D{self.placement}")["items"]:
            space = work["metadata"]["namespace"]
            if space not in chosen and space.startswith(self.hub.namespace):
                self.hub.delete(f"{self.works(space)}/{self.placement}")

    def applied(self) -> list[str]:
        found = self.hub.get(f"/apis/{WORK}/manifestworks?labelSelector={LABEL}%3D{self.placement}")["items"]
        return sorted(self.hub.short(work["metadata"]["namespace"]) for work in found)


def test_a_rollout_over_decision_groups_follows_the_decisions(hub: Hub) -> None:
    for number in range(5):
        name = f"c{number}"
        hub.managed(name, {"cpu": str(10 - number)}, labels={"ring": "canary"} if number == 4 else {})
        hub.make("/api/v1/namespaces", {"metadata": {"name": hub.full(name)}})
    canary = {"labelSelector": {"matchLabels": {"ring": "canary"}}}
    strategy = {
        "decisionGroups": [{"groupName": "canary", "groupClusterSelector": canary}],
        "clustersPerDecisionGroup": 2,
    }
    cpu = {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": cpu, "weight": 1}]}
    with LiveFleet(hub) as live:
        hub.placement("app", decisionStrategy={"groupStrategy": strategy}, prioritizerPolicy=policy)
        rollout = Rollout(hub, "app")
        eventually(lambda: rollout.groups() == [0, 1, 2])
        assert [len(rollout.clusters(group)) for group in rollout.groups()] == [1, 2, 2]
        steps = []
        for group in rollout.groups():
            rollout.apply(group)
            steps.append(rollout.applied())
        assert steps == [["c4"], ["c0", "c1", "c4"], ["c0", "c1", "c2", "c3", "c4"]]

        hub.patch(hub.placement_path("app"), {"spec": {"numberOfClusters": 2}})
        eventually(lambda: hub.status("app").get("numberOfSelectedClusters") == 2)
        live.settle()
        rollout.prune()
        eventually(lambda: rollout.applied() == ["c0", "c1"])
