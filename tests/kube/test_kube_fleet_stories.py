"""The user stories of resource based scheduling on a hub: stories 1 to 5 and the autoscaling note (spec F5 to F13)."""

from __future__ import annotations

from typing import Any

from kube.cluster import eventually
from kube.hub import Hub, LiveFleet


def by(*names: str, mode: str = "Additive", **weights: int) -> dict[str, Any]:
    found = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": 1} for name in names]
    found += [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": n}, "weight": w} for n, w in weights.items()]
    return {"mode": mode, "configurations": found}


def test_story_1_clusters_with_the_largest_ratio_of_allocatable_to_capacity(hub: Hub) -> None:
    size = {"cpu": "10", "memory": "100Gi"}
    hub.managed("busy", {"cpu": "1", "memory": "90Gi"}, size)
    hub.managed("half", {"cpu": "6", "memory": "60Gi"}, size)
    hub.managed("idle", {"cpu": "9", "memory": "70Gi"}, size)
    hub.managed("huge", {"cpu": "30", "memory": "300Gi"}, {"cpu": "100", "memory": "1000Gi"})
    with LiveFleet(hub):
        hub.placement("cpu", numberOfClusters=1, prioritizerPolicy=by("ResourceRatioCPU"))
        eventually(lambda: hub.chosen("cpu") == ["idle"])  # before the other: else Balance has its say
        hub.placement("both", numberOfClusters=2, prioritizerPolicy=by(ResourceRatioCPU=3, ResourceRatioMemory=3))
        eventually(lambda: hub.chosen("both") == ["half", "idle"])
        assert hub.chosen("cpu") == ["idle"]


def test_story_2_the_cluster_with_the_largest_allocatable_memory(hub: Hub) -> None:
    for name, memory in (("small", "10Gi"), ("large", "500Gi"), ("middle", "100Gi")):
        hub.managed(name, {"memory": memory})
    with LiveFleet(hub):
        hub.placement("p", numberOfClusters=1, prioritizerPolicy=by("ResourceAllocatableMemory"))
        eventually(lambda: hub.chosen("p") == ["large"])


def test_story_3_decisions_follow_usage_and_story_4_they_are_pinned(hub: Hub) -> None:
    size = {"cpu": "100"}
    hub.managed("a", {"cpu": "90"}, size)
    hub.managed("b", {"cpu": "50"}, size)
    hub.placement("follows", numberOfClusters=1, prioritizerPolicy=by(ResourceRatioCPU=2))
    pinned = by("ResourceAllocatableCPU", mode="Exact", Steady=3)
    hub.placement("pinned", numberOfClusters=1, prioritizerPolicy=pinned)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("follows") == hub.chosen("pinned") == ["a"])
        live.settle()
        hub.reports("b", {"cpu": "99"}, size)
        hub.reports("a", {"cpu": "5"}, size)
        eventually(lambda: hub.chosen("follows") == ["b"])
        live.settle()
        assert hub.chosen("pinned") == ["a"]
        moved = [text for reason, text in hub.notes("follows") if reason == "DecisionUpdate"]
        assert any(text.startswith("cluster b joined with") for text in moved)
        assert any(text.startswith("cluster a left with") for text in moved)
        assert [reason for reason, _ in hub.notes("pinned")] == ["DecisionCreate"]


def test_story_5_other_resources_and_scores_of_add_ons(hub: Hub) -> None:
    for name, free in (("a", "1"), ("b", "7"), ("c", "4")):
        hub.managed(name, {"cpu": "10", "nvidia.com/gpu": free}, {"cpu": "10", "nvidia.com/gpu": "8"})
    for name, bandwidth in (("a", 90), ("b", -20), ("c", 40)):
        hub.score(name, "network", bandwidth=bandwidth)
    with LiveFleet(hub):
        hub.placement("gpu", numberOfClusters=1, prioritizerPolicy=by("ResourceRatio:nvidia.com/gpu", mode="Exact"))
        add_on = {"type": "AddOn", "addOn": {"resourceName": "network", "scoreName": "bandwidth"}}
        policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": 1}]}
        hub.placement("wide", numberOfClusters=1, prioritizerPolicy=policy)
        eventually(lambda: hub.chosen("gpu") == ["b"])
        eventually(lambda: hub.chosen("wide") == ["a"])
        hub.score("b", "network", bandwidth=100)
        eventually(lambda: hub.chosen("wide") == ["b"])


def test_autoscaling_up_and_down_decides_again(hub: Hub) -> None:
    hub.managed("a", {"memory": "40Gi"})
    hub.managed("b", {"memory": "30Gi"})
    policy = by("ResourceAllocatableMemory", mode="Exact")
    hub.placement("p", numberOfClusters=1, prioritizerPolicy=policy)
    hub.placement("other", numberOfClusters=1, prioritizerPolicy=by("Steady", mode="Exact"))
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["a"])
        hub.reports("b", {"memory": "60Gi"})  # a node was added
        eventually(lambda: hub.chosen("p") == ["b"])
        hub.reports("b", {"memory": "20Gi"})  # nodes were removed
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        updates = [text for reason, text in hub.notes("p") if reason == "DecisionUpdate"]
        assert len(updates) == 4
        assert [reason for reason, _ in hub.notes("other")] == ["DecisionCreate"]
