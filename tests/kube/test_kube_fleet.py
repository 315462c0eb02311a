"""`fairway fleet` on a real API server with OCM's definitions: what users and consumers of decisions see."""

from __future__ import annotations

import json

import pytest

from fairway.clock import SECOND
from fairway.fleet.names import REPLICAS, REQUIREMENTS
from fairway.kube.hub import loop
from kube.cluster import eventually
from kube.hub import LABEL, Hub, LiveFleet
from kube.ocm import GROUP, V1BETA1
from support.cli import invoke

MEMORY = {
    "mode": "Exact",
    "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableMemory"}, "weight": 1}],
}


def test_a_placement_gets_decisions_a_status_and_an_event(hub: Hub) -> None:
    for name, memory in (("a", "1Gi"), ("b", "3Gi"), ("c", "2Gi")):
        hub.managed(name, {"memory": memory})
    with LiveFleet(hub):
        made = hub.placement("p", numberOfClusters=2, prioritizerPolicy=MEMORY)
        eventually(lambda: hub.chosen("p") == ["b", "c"])
        decision = hub.slices("p")[0]
        assert decision["metadata"]["name"] == "p-decision-1"
        assert decision["metadata"]["labels"] == {
            LABEL: "p",
            f"{GROUP}/decision-group-name": "",
            f"{GROUP}/decision-group-index": "0",
        }
        owner = decision["metadata"]["ownerReferences"]
        assert owner == [
            {
                "apiVersion": V1BETA1,
                "kind": "Placement",
                "name": "p",
                "uid": made["metadata"]["uid"],
                "controller": True,
            }
        ]
        assert decision["status"]["decisions"][0]["reason"] == "rank 1 of 3: ResourceAllocatableMemory 100"
        eventually(lambda: hub.status("p"))
        status = hub.status("p")
        assert status["numberOfSelectedClusters"] == 2
        assert status["decisionGroups"] == [
            {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p-decision-1"], "clusterCount": 2}
        ]
        assert hub.condition("p") == ("True", "AllDecisionsScheduled", "2 clusters chosen of 3")
        assert hub.condition("p", "PlacementMisconfigured") == (
            "False",
            "Succeedconfigured",
            "the configuration is valid",
        )
        notes = eventually(lambda: hub.notes("p"))
        assert notes == [("DecisionCreate", "2 clusters chosen: b (100 points), c (0 points)")]


def test_a_move_is_an_event_with_the_points_before_and_now(hub: Hub) -> None:
    for name, memory in (("a", "1Gi"), ("b", "3Gi"), ("c", "2Gi")):
        hub.managed(name, {"memory": memory})
    hub.placement("p", numberOfClusters=1, prioritizerPolicy=MEMORY)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["b"])
        hub.reports("a", {"memory": "9Gi"})
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        assert sorted(hub.notes("p")[1:]) == [  # both of one instant, and written at the same time
            (
                "DecisionUpdate",
                "cluster a joined with 100 points, it had -100: rank 1 of 3: ResourceAllocatableMemory 100",
            ),
            (
                "DecisionUpdate",
                "cluster b left with -71 points, it had 100: Cut: -71 points, the last of 1 chosen (a) has 100",
            ),
        ]


def test_what_changes_no_decision_writes_nothing(hub: Hub) -> None:
    for name, memory in (("a", "1Gi"), ("b", "3Gi"), ("c", "2Gi")):
        hub.managed(name, {"memory": memory})
    for number in range(3):
        hub.placement(f"p{number}", numberOfClusters=1, prioritizerPolicy=MEMORY)
    with LiveFleet(hub) as live:
        eventually(lambda: all(hub.chosen(f"p{number}") == ["b"] for number in range(3)))
        live.settle()
        live.requests.clear()
        decided = live.placer.metrics.decisions._value.get()
        hub.reports("a", {"memory": "2Gi"})
        eventually(lambda: live.placer.metrics.decisions._value.get() >= decided + 3)
        live.settle()
        assert live.requests == []
    with LiveFleet(hub) as live:  # nor does another start
        live.settle()
        assert live.requests == []


def test_foreign_edits_of_decisions_are_repaired(hub: Hub) -> None:
    for name in "abc":
        hub.managed(name)
    hub.placement("p", numberOfClusters=1)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        path = f"{hub.decisions_path}/p-decision-1"
        hub.patch(f"{path}/status", {"status": {"decisions": [{"clusterName": hub.full("c"), "reason": "mine"}]}})
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        hub.patch(path, {"metadata": {"labels": {LABEL: "q", "team": "x"}}})
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        hub.delete(path)
        eventually(lambda: hub.chosen("p") == ["a"])
        live.settle()
        assert [line["placement"] for line in live.logged("decision changed by another program; writing it again")]
        assert "DecisionRepaired" in {reason for reason, _ in hub.notes("p")}
        assert live.placer.metrics.repairs._value.get() >= 3


def test_a_status_that_another_program_overwrote_is_written_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "INTERVAL", SECOND)
    hub.managed("a")
    hub.placement("p", numberOfClusters=1)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.status("p").get("numberOfSelectedClusters") == 1)
        live.settle()
        path = f"{hub.placement_path('p')}/status"
        hub.patch(path, {"status": {"numberOfSelectedClusters": 7, "decisionGroups": None, "conditions": []}})
        eventually(lambda: hub.status("p").get("numberOfSelectedClusters") == 1)
        assert (hub.condition("p", "PlacementSatisfied") or ("",))[0] == "True"
        assert hub.status("p")["decisionGroups"][0]["clusterCount"] == 1
        live.settle()
        live.requests.clear()
        hub.patch(path, {"status": {"conditions": hub.status("p")["conditions"]}})  # nothing new: nothing to write
        live.settle()
        assert live.requests == []


def test_a_status_is_written_though_the_placement_has_just_changed(hub: Hub) -> None:
    hub.managed("a")
    with LiveFleet(hub) as live:
        live.meet_a_change()
        hub.placement("p", numberOfClusters=1)
        eventually(lambda: hub.status("p").get("numberOfSelectedClusters") == 1)
        live.settle()
        assert [method for method, path in live.requests if "/placements/p/status" in path] == ["PUT", "PATCH"]
        assert hub.get(hub.placement_path("p"))["metadata"]["annotations"]["team"] == "x"


def test_a_bad_placement_keeps_its_last_good_decisions_and_says_so(hub: Hub) -> None:
    for name in "ab":
        hub.managed(name)
    hub.placement("p", numberOfClusters=1)
    hub.placement("q", numberOfClusters=1)
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["a"] and hub.chosen("q") == ["b"])
        unknown = [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Fastest"}, "weight": 1}]
        hub.patch(hub.placement_path("p"), {"spec": {"prioritizerPolicy": {"configurations": unknown}}})
        found = eventually(
            lambda: (hub.condition("p", "PlacementMisconfigured") or ("",))[0] == "True" and hub.status("p")
        )
        assert "Fastest" in str(found["conditions"])
        assert hub.chosen("p") == ["a"]
        assert found["numberOfSelectedClusters"] == 1
        hub.patch(hub.placement_path("p"), {"spec": {"prioritizerPolicy": None, "numberOfClusters": 2}})
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        live.settle()
        assert hub.condition("p", "PlacementMisconfigured") is not None
        eventually(lambda: (hub.condition("p", "PlacementMisconfigured") or ("",))[0] == "False")


def test_many_clusters_are_slices_of_a_hundred_in_groups(hub: Hub) -> None:
    for number in range(205):
        hub.managed(f"c{number:03}", labels={"ring": "canary"} if number < 5 else {})
    groups = {
        "groupStrategy": {
            "decisionGroups": [
                {
                    "groupName": "canary",
                    "groupClusterSelector": {"labelSelector": {"matchLabels": {"ring": "canary"}}},
                }
            ]
        }
    }
    hub.placement("p", decisionStrategy=groups)
    with LiveFleet(hub) as live:
        eventually(lambda: len(hub.chosen("p")) == 205)
        live.settle()
        sizes = [len(one["status"]["decisions"]) for one in hub.slices("p")]
        assert sizes == [5, 100, 100]
        eventually(lambda: len(hub.status("p").get("decisionGroups", [])) == 2)
        assert [(one["decisionGroupName"], one["clusterCount"]) for one in hub.status("p")["decisionGroups"]] == [
            ("canary", 5),
            ("", 200),
        ]


def test_requirements_and_replicas_travel_in_annotations(hub: Hub) -> None:
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "4"}'})
    hub.managed("b", annotations={"fairway.dev/free": '{"cpu": "40"}'})
    hub.placement("p", annotations={REQUIREMENTS: '{"cpu": "32"}', REPLICAS: "3"})
    hub.placement("q", annotations={REQUIREMENTS: '{"cpu": "32"}'})
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["b"])
        live.settle()
        notes = hub.slices("p")[0]["metadata"]["annotations"]
        assert notes == {
            "fairway.dev/ledger": f'{{"{hub.full("b")}":{{"cpu":"32"}}}}',
            "fairway.dev/replicas": f'{{"{hub.full("b")}":3}}',
        }
        assert hub.chosen("q") == []
        condition = hub.condition("q")
        assert condition is not None
        assert "InsufficientFree: cpu: 4 available, 32 required" in condition[2]
        hub.annotate("b", placement_usage={f"{hub.namespace}/p": {"cpu": "32"}}, free={"cpu": "40"})
        eventually(lambda: hub.chosen("q") == ["b"])
        live.settle()


def test_dry_run_decides_and_writes_nothing(hub: Hub) -> None:
    hub.managed("a")
    hub.placement("p", numberOfClusters=1)
    with LiveFleet(hub, dry_run=True) as live:
        eventually(lambda: live.logged("joins"))
        assert hub.slices("p") == []
        assert live.requests == []


def test_commands_that_ask_the_hub(hub: Hub) -> None:
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "4"}'})
    hub.managed("b", taints=[{"key": "down", "effect": "NoSelect"}])
    hub.placement("p")
    there = ("--kubeconfig", str(hub.plane.kubeconfig()), "-o", "json")
    placed = invoke("place", *there)
    assert placed.code == 0, placed.err
    name = f"{hub.namespace}/p"
    own = next(one for one in json.loads(placed.out)["placements"] if one["placement"] == name)
    assert [one["cluster"] for one in own["decisions"]] == [hub.full("a")]
    told = json.loads(invoke("explain", "placement", name, "--cluster", hub.full("b"), *there).out)
    assert told["advice"]["steps"] == ["tolerate down:NoSelect, or remove the taint"]
    found = {one["name"]: one for one in json.loads(invoke("clusters", *there).out)["clusters"]}
    assert found[hub.full("a")]["free"] == {"cpu": "4"}
    assert found[hub.full("b")]["taints"] == ["down:NoSelect"]
