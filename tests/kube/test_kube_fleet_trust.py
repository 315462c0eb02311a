"""A hub's placer and what it cannot rely on: clusters that report nonsense, crashes, other leaders, missing access."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fairway.app.live.program import LeaderElection
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects
from kube.cluster import eventually
from kube.fleet_process import FleetProcess
from kube.history import DirectClient, History
from kube.hub import Hub, LiveFleet
from kube.ocm import GROUP

REPORT = "FairwayReportAccepted"


@pytest.mark.parametrize(
    ("allocatable", "notes", "word"),
    [
        ({"cpu": "-5"}, {}, "allocatable.cpu"),
        ({"cpu": "9" * 40}, {}, "allocatable.cpu"),
        ({"cpu": "5"}, {"fairway.dev/free": '{"cpu": "NaN"}'}, "NaN"),
        ({"cpu": "5"}, {"fairway.dev/free": "all of it"}, "not JSON"),
        ({"cpu": "5"}, {"fairway.dev/placement-usage": "[1]"}, "placement-usage"),
    ],
)
def test_a_cluster_that_reports_nonsense_gets_a_condition_and_harms_no_other(
    hub: Hub, allocatable: dict[str, str], notes: dict[str, str], word: str
) -> None:
    hub.managed("bad", allocatable, {"cpu": "10"}, annotations=notes)
    hub.managed("good", {"cpu": "5"}, {"cpu": "10"}, annotations={"fairway.dev/free": '{"cpu": "3"}'})
    hub.placement("p", numberOfClusters=1, annotations={"fairway.dev/requirements": '{"cpu": "2"}'})
    with LiveFleet(hub) as live:
        eventually(lambda: hub.chosen("p") == ["good"])
        found = eventually(lambda: hub.condition_of("bad", REPORT))
        assert (found["status"], found["reason"]) == ("False", "InvalidReport")
        assert word in found["message"]
        assert hub.condition_of("bad", "ManagedClusterConditionAvailable") is not None  # those of others stay
        assert hub.condition_of("good", REPORT) is None
        live.settle()
        assert live.placer.metrics.set_aside._value.get() == 1
        hub.annotate("bad", free={"cpu": "9"}, placement_usage=None)
        hub.reports("bad", {"cpu": "5"}, {"cpu": "10"})
        eventually(lambda: (hub.condition_of("bad", REPORT) or {"status": "True"})["status"] == "True")


def test_a_requirement_that_no_cluster_reports_says_so(hub: Hub) -> None:
    hub.managed("a", annotations={"fairway.dev/free": '{"cpu": "3"}'})
    hub.placement("p", annotations={"fairway.dev/requirements": '{"example.com/quantum": "1"}'})
    with LiveFleet(hub):
        found = eventually(lambda: hub.condition("p"))
        assert found[:2] == ("False", "NoManagedClusterMatched")
        assert "InsufficientFree: example.com/quantum: 0 available, 1 required (no cluster reports it)" in found[2]


def test_kill_9_while_clusters_move_between_slices_leaves_no_gap_and_the_next_start_ends_it(hub: Hub) -> None:
    count = 150
    for number in range(count):
        hub.managed(f"c{number:03}", labels={"ring": str(number % 2)})
    ring = {"labelSelector": {"matchLabels": {"ring": "1"}}}
    groups = [{"groupName": "first", "groupClusterSelector": ring}]
    process, client = FleetProcess(hub), DirectClient(hub.plane)
    try:
        process.start()
        hub.placement("p")
        eventually(lambda: len(hub.chosen("p")) == count)
        with History(client, {"PlacementDecision": hub.decisions_path}) as history:
            begin = {one["metadata"]["name"]: one for one in hub.slices("p")}
            for wanted in (groups, [], groups):
                strategy = {"groupStrategy": {"decisionGroups": wanted}}
                revision = hub.get(hub.decisions_path)["metadata"]["resourceVersion"]
                hub.patch(hub.placement_path("p"), {"spec": {"decisionStrategy": strategy}})
                _await_change(history, int(revision))
                process.kill()
                process.start()
            eventually(lambda: [len(one["status"]["decisions"]) for one in hub.slices("p")] == [75, 75])
            names = {hub.full(f"c{number:03}") for number in range(count)}
            assert _least(begin, history, names) == count
    finally:
        process.kill()
        client.close()


def _await_change(history: History, since: int) -> None:
    """The first write of several: there the process is killed."""
    eventually(lambda: any(entry.revision > since for entry in history.entries()))


def _least(begin: dict[str, Any], history: History, names: set[str]) -> int:
    """The smallest number of these clusters that were in any slice, over all revisions."""
    slices = {name: _clusters(one) for name, one in begin.items()}
    least = len(names & set().union(*slices.values()))
    for entry in sorted(history.entries(), key=lambda entry: entry.revision):
        slices[entry.name] = set() if entry.is_deleted else _clusters(entry.thing)
        least = min(least, len(names & set().union(*slices.values())))
    return least


def _clusters(one: dict[str, Any]) -> set[str]:
    return {item["clusterName"] for item in one.get("status", {}).get("decisions", [])}


def test_of_two_replicas_one_writes_and_the_other_goes_on_without_writing_again(hub: Hub) -> None:
    for name in "abc":
        hub.managed(name)
    hub.placement("p", numberOfClusters=2)
    lease = LeaderElection(namespace=hub.namespace, name="fleet", duration=5, renew_deadline=3, retry=1)
    with LiveFleet(hub, user="admin", leader_election=lease) as first:
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        first.settle()
        with LiveFleet(hub, user="admin", leader_election=lease) as second:
            hub.placement("q", numberOfClusters=1)
            eventually(lambda: hub.chosen("q") == ["c"])
            first.settle()
            assert second.requests == []
            first.stop()
            eventually(lambda: second.logged("leading"))
            second.settle()
            own = [one for one in second.requests if "leases" not in one[1]]
            assert own == []
            hub.reports("c", {"cpu": "1"})
            hub.delete(hub.path("a"), grace=None)
            eventually(lambda: hub.chosen("p") == ["b", "c"])


def test_the_access_that_is_installed_is_enough_and_every_rule_is_used(hub: Hub) -> None:
    options = InstallOptions(part="fleet", name="fairway-fleet")
    installed = objects(options)
    assert {one["kind"] for one in installed} >= {
        "Deployment",
        "ServiceAccount",
        "PodDisruptionBudget",
        "NetworkPolicy",
    }
    assert not any(one["kind"] in ("ConfigMap", "CustomResourceDefinition") for one in installed)
    lease = LeaderElection(namespace=options.namespace, name=options.name)
    with LiveFleet(hub, leader_election=lease) as live:
        hub.managed("a", {"cpu": "-1"})
        hub.managed("b")
        live.meet_a_change()
        hub.placement("p", annotations={"fairway.dev/min-gain": "0"})
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        eventually(lambda: hub.condition_of("a", REPORT))
        strategy = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
        hub.patch(hub.placement_path("p"), {"spec": {"decisionStrategy": strategy}})
        eventually(lambda: len(hub.slices("p")) == 2)
        hub.patch(hub.placement_path("p"), {"spec": {"decisionStrategy": None}})
        eventually(lambda: len(hub.slices("p")) == 1)
        for _ in range(2):  # the same event twice is a series
            live.settle()
            hub.delete(f"{hub.decisions_path}/p-decision-1")
            eventually(lambda: hub.chosen("p") == ["a", "b"])
        hub.patch(f"{hub.decisions_path}/p-decision-1", {"metadata": {"labels": {f"{GROUP}/placement": "q"}}})
        eventually(lambda: hub.chosen("p") == ["a", "b"])
        live.settle()
        used = {_access(method, path) for method, path in live.requests}
        assert [line for line in live.lines if "forbidden" in str(line).lower()] == []
    rules = [rule for one in installed if one["kind"] == "ClusterRole" for rule in one["rules"]]
    granted = {(one, verb) for rule in rules for one in rule["resources"] for verb in rule["verbs"]}
    assert {one for one in granted if one[1] not in ("list", "watch")} == used


def _access(method: str, path: str) -> tuple[str, str]:
    found = re.sub(r"^/(apis/[^/]+|api)/[^/]+/(namespaces/[^/]+/)?", "", path.partition("?")[0]).split("/")
    resource = found[0] + (f"/{found[2]}" if len(found) > 2 else "")
    return resource, {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
