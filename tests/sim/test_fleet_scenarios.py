"""Scenarios of fleets as users write them: what is refused and how, and what the commands show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import invoke
from support.reports import embedded

SCENARIO = """\
fleet:
  report: 5s
  queues: [{name: research}]
  clusters:
  - {name: one, nodes: '2 x {cpu: 4}', labels: {region: west}}
  - {name: two, nodes: '1 x {cpu: 4}', failures: [{node: node, at: 3s, lasts: 5s}]}
  placements:
  - name: near
    namespaces: [team]
    spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {region: west}}}}]}
workload:
  jobs:
  - {name: a, queue: research, tasks: 2, request: {cpu: 3}, run: 50s}
  - {name: b, namespace: team, request: {cpu: 2}, run: 5s}
"""


def simulate(folder: Path, text: str) -> tuple[int, str]:
    (folder / "s.yaml").write_text(text)
    result = invoke("simulate", str(folder / "s.yaml"))
    return result.code, result.err.replace(f"{folder}/", "")


@pytest.mark.usefixtures("built_page")
def test_the_fleet_itself_runs_and_the_report_shows_its_clusters(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    shown = invoke(
        "simulate", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out"), "--record", str(tmp_path / "log")
    )
    assert shown.code == 0, shown.err
    assert "cluster  nodes  finished  waiting" in shown.out
    assert "one 1" in shown.out
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [cluster["name"] for cluster in found["fleet"]["clusters"]] == ["one", "two"]
    fleet = embedded(tmp_path / "out" / "report.html")["runs"][0]["fleet"]
    assert [series["title"] for series in fleet["use"]] == ["one", "two"]
    assert [cluster["name"] for cluster in fleet["clusters"]] == ["one", "two"]
    assert fleet["teams"]
    replayed = invoke("replay", str(tmp_path / "log" / "one"), "--at", "0")
    assert replayed.code == 0, replayed.err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: two", "name: one", "s.yaml:6: fleet.clusters[1].name: is 'one' again"),
        ("name: two", "name: T w o", "s.yaml:6: fleet.clusters[1].name: is 'T w o', expected at most 253"),
        ("1 x {cpu: 4}", "1 y", "s.yaml:6: fleet.clusters[1].nodes: '1 y' is not a template"),
        (
            "nodes: '1 x {cpu: 4}', f",
            "f",
            "s.yaml:6: fleet.clusters[1]: no nodes, expected nodes, manifests or a trace",
        ),
        (
            "node: node,",
            "node: gone,",
            "s.yaml:6: fleet.clusters[1].failures[0].node: there is no node 'gone', expected one of node",
        ),
        ("report: 5s", "report: 1ms", "s.yaml:2: fleet.report: is 1ms, expected at least 100ms between two reports"),
        (
            "queue: research",
            "queue: reserch",
            "s.yaml:13: workload.jobs[0].queue: there is no queue 'reserch', did you",
        ),
        ("name: research}", "name: R!}", "s.yaml:3: fleet.queues[0].name: is 'R!', expected at most 253"),
        ("matchLabels", "matchLabel", "s.yaml:10: fleet.placements[0].spec"),
        (
            "spec: {pred",
            "spec: {numberOfClusters: 2, pred",
            "s.yaml:10: fleet.placements[0].spec.numberOfClusters: cannot be",
        ),
        (
            "spec: {pred",
            "spec: {prioritiserPolicy: {}, pred",
            "s.yaml:10: fleet.placements[0].spec.prioritiserPolicy: is an",
        ),
        (
            "- name: near",
            "- name: far\n  - name: farther\n  - name: near",
            "s.yaml:9: fleet.placements[1]: all other namespa",
        ),
        ("[team]", "[team, te_am]", "s.yaml:9: fleet.placements[0].namespaces[1]: is 'te_am', expected at most 63"),
        (
            "workload:",
            "failures: [{every: 1h, lasts: 5m}]\nworkload:",
            "s.yaml:11: failures: cannot be combined with a fleet, expec",
        ),
        (
            "workload:",
            "cluster: {nodes: '1 x {cpu: 1}'}\nworkload:",
            "s.yaml:11: cluster: cannot be combined with a fleet, expected",
        ),
        ("region: west}}", "region: 'we st'}}", "s.yaml:5: fleet.clusters[0].labels.region"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in SCENARIO
    code, said = simulate(tmp_path, SCENARIO.replace(old, new, 1))
    assert code == 2
    assert message in said


def test_an_unknown_prioritizer_is_refused(tmp_path: Path) -> None:
    spec = "spec: {prioritizerPolicy: {configurations: [{name: Balanse}]}, pred"
    code, said = simulate(tmp_path, SCENARIO.replace("spec: {pred", spec))
    assert code == 2
    assert "s.yaml:10: fleet.placements[0].spec: " in said
    assert "Balanse" in said


def test_two_scenarios_are_compared_cluster_by_cluster(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SCENARIO)
    more = SCENARIO.replace("  placements:", "  - {name: three, nodes: '4 x {cpu: 4}'}\n  placements:")
    (tmp_path / "b.yaml").write_text(more)
    first, second = str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")
    found = invoke("diff", first, second, "--workers", "1", "-o", "json")
    assert found.code == 0, found.err
    comparison = json.loads(found.out)
    assert (comparison["first"], comparison["second"]) == ("a.yaml", "b.yaml")
    rows = {row["name"]: row for row in comparison["clusters"]}
    assert rows["three: cpu in use"]["first"] == 0
    assert rows["three: cpu in use"]["second"] > 0
    assert rows["moves"]["change"] <= 0
    assert "three: cpu in use" in invoke("diff", first, second, "--workers", "1").out
    refused = invoke("diff", first, second, "--policy", "default", "--policy", "default")
    assert refused.code == 2
    assert "got two scenarios and 2 policies, expected at most one policy" in refused.err


def test_a_fleet_and_a_single_cluster_are_not_confused(tmp_path: Path) -> None:
    code, said = simulate(tmp_path, "workload:\n  jobs: [{name: a, request: {cpu: 1}, run: 5s}]\n")
    assert code == 2
    assert "cluster: no nodes, expected nodes, manifests or a trace" in said
    code, said = simulate(
        tmp_path, "fleet: {clusters: []}\nworkload:\n  jobs: [{name: a, request: {cpu: 1}, run: 5s}]\n"
    )
    assert code == 2
    assert "fleet.clusters: 0 clusters, expected 1 to 1000" in said
