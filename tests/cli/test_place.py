"""`fairway place` as a user runs it: the proposal's examples and stories, output forms, bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

GROUP = "cluster.open-cluster-management.io"
NOW = ("--now", "2026-01-01T00:00:00Z")

FLEET: list[dict[str, Any]] = [
    {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "ManagedClusterSet",
        "metadata": {"name": "global"},
        "spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {}}},
    },
    {
        "apiVersion": f"{GROUP}/v1beta2",
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": "ns1"},
        "spec": {"clusterSet": "global"},
    },
]


def managed(name: str, allocatable: dict[str, Any], capacity: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": name, **metadata},
        "spec": {"hubAcceptsClient": True, "leaseDurationSeconds": 60},
        "status": {"allocatable": allocatable, "capacity": capacity},
    }


def clusters(**usage: tuple[str, str, str, str]) -> list[dict[str, Any]]:
    """name=(cpu allocatable, cpu capacity, memory allocatable, memory capacity)"""
    return [managed(n, {"cpu": a, "memory": m}, {"cpu": c, "memory": w}) for n, (a, c, m, w) in usage.items()]


FIVE = clusters(
    c1=("2", "10", "10Gi", "100Gi"),
    c2=("4", "10", "60Gi", "100Gi"),
    c3=("6", "10", "30Gi", "100Gi"),
    c4=("8", "10", "80Gi", "100Gi"),
    c5=("10", "10", "50Gi", "100Gi"),
)


def seed(name: str, count: int, *configurations: dict[str, Any], mode: str | None = None) -> dict[str, Any]:
    """A Placement as the proposal writes it."""
    policy: dict[str, Any] = {"configurations": list(configurations)} | ({"mode": mode} if mode else {})
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Placement",
        "metadata": {"name": name, "namespace": "ns1"},
        "spec": {"numberOfClusters": count, "prioritizerPolicy": policy},
    }


@pytest.fixture
def placed(fairway: Any, tmp_path: Path) -> Any:
    """Writes the objects to a file, runs `fairway place -o json` on it, gives what it printed."""

    def invoke(*objects: dict[str, Any]) -> Any:
        file = tmp_path / "fleet.yaml"
        file.write_text(yaml.safe_dump_all([*FLEET, *objects]))
        result = fairway("place", "-f", str(file), *NOW, "-o", "json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return invoke


def one(document: Any) -> Any:
    [placement] = document["placements"]
    return placement


def names(placement: Any) -> list[str]:
    return [decision["cluster"] for decision in placement["decisions"]]


def test_example_1_three_clusters_with_little_usage(placed: Any) -> None:
    example = seed("placement1", 3, {"name": "ResourceRatioCPU"}, {"name": "ResourceRatioMemory"})
    placement = one(placed(*FIVE, example))
    assert placement["placement"] == "ns1/placement1"
    assert placement["decisions"][0] == {
        "cluster": "c4",
        "score": 220,
        "scores": {"Balance": 100, "Steady": 0, "ResourceRatioCPU": 60, "ResourceRatioMemory": 60},
        "reason": "rank 1 of 5: Balance 100, Steady 0, ResourceRatioCPU 60, ResourceRatioMemory 60",
    }
    assert names(placement) == ["c4", "c5", "c2"]
    assert [decision["score"] for decision in placement["decisions"]] == [220, 200, 100]
    assert [(item["cluster"], item["filter"], item["score"]) for item in placement["filtered"]] == [
        ("c3", "Cut", 80),
        ("c1", "Cut", -40),
    ]


def test_example_2_the_largest_memory(placed: Any) -> None:
    placement = one(placed(*FIVE, seed("placement2", 1, {"name": "ResourceAllocatableMemory"})))
    assert names(placement) == ["c4"]
    assert placement["decisions"][0]["scores"]["ResourceAllocatableMemory"] == 100
    assert placement["conditions"][0] == {
        "type": "PlacementSatisfied",
        "status": "True",
        "reason": "AllDecisionsScheduled",
        "message": "1 cluster chosen of 5",
    }


def existing(name: str, *chosen: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "PlacementDecision",
        "metadata": {
            "name": f"{name}-decision-1",
            "namespace": "ns1",
            "labels": {f"{GROUP}/placement": name},
        },
        "status": {"decisions": [{"clusterName": cluster, "reason": ""} for cluster in chosen]},
    }


def test_example_3_sensitive_to_changes(placed: Any) -> None:
    example = seed(
        "placement3", 2, {"name": "ResourceRatioCPU", "weight": 2}, {"name": "ResourceAllocatableMemory", "weight": 2}
    )
    before = one(placed(*FIVE, example))
    assert names(before) == ["c4", "c5"]
    changed = [cluster for cluster in FIVE if cluster["metadata"]["name"] != "c5"]
    changed += clusters(c5=("1", "10", "20Gi", "100Gi"))
    after = one(placed(*changed, existing("placement3", *names(before)), example))
    assert names(after) == ["c4", "c2"]
    assert [(move["cluster"], move["move"]) for move in after["moves"]] == [("c2", "joined"), ("c5", "left")]
    assert after["moves"][1]["reason"].startswith("Cut: ")


def test_example_4_pinned(placed: Any) -> None:
    example = seed("placement4", 4, {"name": "ResourceAllocatableCPU"}, {"name": "Steady", "weight": 3}, mode="Exact")
    before = one(placed(*FIVE, example))
    assert names(before) == ["c5", "c4", "c3", "c2"]
    turned = clusters(**{f"c{n}": (str(12 - 2 * n), "10", "10Gi", "100Gi") for n in range(1, 6)})
    after = one(placed(*turned, existing("placement4", *names(before)), example))
    assert sorted(names(after)) == ["c2", "c3", "c4", "c5"]
    assert after["moves"] == []
    unpinned = seed("placement4", 4, {"name": "ResourceAllocatableCPU"}, mode="Exact")
    moved = one(placed(*turned, existing("placement4", *names(before)), unpinned))
    assert names(moved) == ["c1", "c2", "c3", "c4"]


def test_story_1_less_cpu_used_than_others(placed: Any) -> None:
    assert names(one(placed(*FIVE, seed("p", 1, {"name": "ResourceRatioCPU"})))) == ["c5"]
    both = seed("p", 2, {"name": "ResourceRatioCPU"}, {"name": "ResourceRatioMemory"})
    assert names(one(placed(*FIVE, both))) == ["c4", "c5"]


def test_story_2_most_of_a_resource(placed: Any) -> None:
    assert names(one(placed(*FIVE, seed("p", 1, {"name": "ResourceAllocatableMemory"})))) == ["c4"]


def test_story_3_the_decision_follows_the_usage(placed: Any) -> None:
    follows = seed("p", 1, {"name": "ResourceRatioCPU", "weight": 2})
    assert names(one(placed(*FIVE, follows))) == ["c5"]
    busy = [cluster for cluster in FIVE if cluster["metadata"]["name"] != "c5"]
    busy += clusters(c5=("1", "10", "50Gi", "100Gi"))
    assert names(one(placed(*busy, existing("p", "c5"), follows))) == ["c4"]


def test_story_4_the_decision_stays_whatever_the_usage(placed: Any) -> None:
    pinned = seed("p", 2, {"name": "ResourceRatioCPU"}, {"name": "Steady", "weight": 3}, mode="Exact")
    assert sorted(names(one(placed(*FIVE, existing("p", "c1", "c2"), pinned)))) == ["c1", "c2"]


def test_story_5_gpus_and_network_bandwidth(placed: Any) -> None:
    other = [
        managed(
            "busy",
            {"nvidia.com/gpu": 1, "example.com/bandwidth": "40G"},
            {"nvidia.com/gpu": 8, "example.com/bandwidth": "100G"},
        ),
        managed(
            "idle",
            {"nvidia.com/gpu": 7, "example.com/bandwidth": "10G"},
            {"nvidia.com/gpu": 8, "example.com/bandwidth": "100G"},
        ),
        managed("plain", {"cpu": 4}, {"cpu": 8}),
    ]
    gpu = one(placed(*other, seed("p", 1, {"name": "ResourceRatio:nvidia.com/gpu"})))
    assert names(gpu) == ["idle"]
    assert {item["cluster"]: item["scores"]["ResourceRatio:nvidia.com/gpu"] for item in gpu["filtered"]} == {
        "busy": -75,
        "plain": -100,
    }
    assert names(one(placed(*other, seed("p", 1, {"name": "ResourceAllocatable:example.com/bandwidth"})))) == ["busy"]


SAMPLE = """\
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata:
  name: local-cluster
spec:
  hubAcceptsClient: true
  leaseDurationSeconds: 60
status:
  allocatable:
    cpu: '15'
    memory: 63194Mi
  capacity:
    core_worker: '18'
    cpu: '18'
    memory: 69938Mi
    socket_worker: '6'
"""


def test_the_sample_cluster_of_the_proposal_loads_as_it_stands(placed: Any) -> None:
    example = seed("p", 1, {"name": "ResourceRatioCPU"}, {"name": "ResourceRatioMemory"}, mode="Exact")
    placement = one(placed(yaml.safe_load(SAMPLE), example))
    assert placement["decisions"][0]["scores"] == {"ResourceRatioCPU": 66, "ResourceRatioMemory": 80}


def test_decisions_are_printed_as_objects_too(placed: Any) -> None:
    document = placed(*FIVE, seed("p", 2, {"name": "ResourceRatioCPU"}, mode="Exact"))
    [slice] = document["placementDecisions"]
    assert slice["kind"] == "PlacementDecision"
    assert slice["metadata"]["name"] == "p-decision-1"
    assert slice["metadata"]["labels"][f"{GROUP}/placement"] == "p"
    assert slice["status"]["decisions"] == [
        {"clusterName": "c4", "reason": "rank 2 of 5: ResourceRatioCPU 60", "score": 60},
        {"clusterName": "c5", "reason": "rank 1 of 5: ResourceRatioCPU 100", "score": 100},
    ]
    again = one(placed(*FIVE, seed("p", 2, {"name": "ResourceRatioCPU"}, mode="Exact"), slice))
    assert again["moves"] == []


def test_no_binding_selects_nothing_and_says_so(fairway: Any, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump_all([*FIVE, seed("p", 1)]))
    placement = one(json.loads(fairway("place", "-f", str(file), *NOW, "-o", "json").out))
    assert placement["decisions"] == []
    assert placement["conditions"][0]["reason"] == "NoManagedClusterSetBindings"


def test_the_table_has_the_cut_and_every_reason_in_80_columns(
    fairway: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long = "ResourceAllocatable:example.com/a-resource-with-a-long-name"
    many = [{"name": name} for name in ("ResourceRatioCPU", "ResourceRatioMemory", "ResourceAllocatableCPU", long)]
    tainted = managed("tainted-eu-1", {}, {})
    tainted["spec"]["taints"] = [{"key": "example.com/maintenance", "value": "planned", "effect": "NoSelect"}]
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump_all([*FLEET, *FIVE, tainted, seed("p", 2, *many)]))
    result = fairway("place", "-f", str(file), *NOW)
    lines = result.out.splitlines()
    assert result.code == 0
    assert max(map(len, lines)) <= 80
    assert lines[0] == "ns1/p"
    rows = [line.split()[1] for line in lines if line[:1].isdigit()]
    assert rows == ["c5", "c4", "c3", "c2", "c1"]
    cut = next(number for number, line in enumerate(lines) if "--- cut ---" in line)
    assert lines[cut - 1].startswith("2") and lines[cut + 1].startswith("3")  # noqa: PT018
    assert "TaintToleration" in result.out


def test_yaml_is_the_same_document(fairway: Any, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump_all([*FLEET, *FIVE, seed("p", 1)]))
    from_json = json.loads(fairway("place", "-f", str(file), *NOW, "-o", "json").out)
    assert yaml.safe_load(fairway("place", "-f", str(file), *NOW, "-o", "yaml").out) == from_json


def test_the_next_change_by_time_is_printed(fairway: Any, tmp_path: Path) -> None:
    cluster = managed("c", {}, {})
    cluster["spec"]["taints"] = [{"key": "k", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]
    example = seed("p", 1)
    example["spec"]["tolerations"] = [{"key": "k", "operator": "Exists", "tolerationSeconds": 90}]
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump_all([*FLEET, cluster, example]))
    document = json.loads(fairway("place", "-f", str(file), *NOW, "-o", "json").out)
    assert document["recheckAt"] == "2026-01-01T00:01:30Z"
    assert "2026-01-01T00:01:30Z" in fairway("place", "-f", str(file), *NOW).out


def test_misconfigured_is_stated_and_no_error(placed: Any) -> None:
    placement = one(placed(*FIVE, existing("p", "c1"), seed("p", 1, {"name": "ResourceRatioGPU"})))
    assert names(placement) == ["c1"]
    assert placement["conditions"][1]["type"] == "PlacementMisconfigured"
    assert "unknown prioritizer 'ResourceRatioGPU'" in placement["conditions"][1]["message"]


def test_bad_input_is_refused_with_its_place(fairway: Any, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text("kind: Placement\napiVersion: cluster.open-cluster-management.io/v1beta1\nspec: 3\n")
    result = fairway("place", "-f", str(file))
    assert result.code == 2
    assert f"{file}:3: spec:" in result.err
    assert fairway("place", "-f", str(file), "--now", "tomorrow").code == 2
    assert fairway("place").code == 2


def test_no_placement_at_all(fairway: Any, tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(yaml.safe_dump_all(FLEET))
    assert "No Placements." in fairway("place", "-f", str(file)).out
