"""simulate, diff, sweep and replay as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import fairway, run
from support.reports import embedded

pytestmark = pytest.mark.usefixtures("built_page")

SCENARIO = """
name: two teams
cluster: {nodes: 2 x {cpu: 4}}
workload:
  jobs:
  - {name: a, namespace: x, count: 12, every: exponential 10s, request: {cpu: 2}, run: exponential 60s}
  - {name: big, namespace: y, tasks: 2, request: {cpu: 4}, run: 30s, arrive: 20s}
assert:
  - job y/big starts before 10h
  - no evictions
"""


@pytest.fixture(name="scenario")
def a_scenario(tmp_path: Path) -> str:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return str(path)


def call(*arguments: str) -> int:
    return run(fairway, arguments)


def test_simulate_prints_a_report_and_holds_its_assertions(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("simulate", scenario, "--assert") == 0
    out = capsys.readouterr().out
    assert "two teams under built-in policy, seed 0" in out
    assert "13 of 13" in out


def test_a_broken_assertion_leaves_with_1_and_says_what_broke_and_when(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(scenario).write_text(SCENARIO.replace("before 10h", "before 1s"))
    assert call("simulate", scenario) == 0
    assert call("simulate", scenario, "--assert") == 1
    error = capsys.readouterr().err
    assert "s.yaml:9: job y/big starts before 1s: it starts" in error
    assert "(at 2026-01-01T00:" in error
    assert "1 of 2 assertions failed" in error


def test_a_wrong_scenario_leaves_with_2(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(scenario).write_text("cluster: {nodes: 3}\nworkload: {}\n")
    assert call("simulate", scenario) == 2
    assert "s.yaml:1: cluster.nodes: is the number 3, expected" in capsys.readouterr().err
    assert call("simulate", "nowhere.yaml") == 2


def test_strict_refuses_a_trace_with_a_wrong_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.swf").write_text("1 0 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 1 1\n2 0\n")
    (tmp_path / "s.yaml").write_text("cluster: {nodes: 1 x {cpu: 4}}\nworkload: {trace: {format: swf, file: t.swf}}\n")
    assert call("simulate", str(tmp_path / "s.yaml")) == 0
    assert "1 invalid row was left out" in capsys.readouterr().err
    assert call("simulate", str(tmp_path / "s.yaml"), "--strict") == 2
    assert "t.swf:2: 2 fields, expected 18" in capsys.readouterr().err


def test_the_files_of_a_report(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("simulate", scenario, "--out", str(tmp_path / "out"), "-o", "json") == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "out" / "report.json").read_text() == printed
    report = json.loads(printed)
    assert report["metrics"]["finished"] == 13
    assert report["charts"]["times"]
    rows = (tmp_path / "out" / "jobs.csv").read_text().splitlines()
    assert rows[0].startswith("job,queue,namespace,tasks,size,submit,start,end")
    assert len(rows) == 14
    run = embedded(tmp_path / "out" / "report.html")["runs"][0]
    assert {"jobs finished", "wait, mean", "evictions"} <= {measure["name"] for measure in run["measures"]}
    assert len(run["utilisation"]["times"]) == len(report["charts"]["times"]) + 1
    assert {span["job"] for node in run["timeline"] for span in node["spans"]} >= {"y/big", "x/a-0"}


def test_diff_says_which_jobs_gain(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("actions: [enqueue, allocate]\n")
    arguments = ("diff", scenario, "--policy", "default", "--policy", str(policy), "--seeds", "2", "--workers", "1")
    assert call(*arguments, "--out", str(tmp_path / "out")) == 0
    out = capsys.readouterr().out
    assert "2 seeds" in " ".join(out.split())
    assert "mean wait by namespace" in out
    comparison = json.loads((tmp_path / "out" / "diff.json").read_text())
    assert comparison["seeds"] == [0, 1]
    assert {row["name"] for row in comparison["namespaces"]} == {"x", "y"}
    report = embedded(tmp_path / "out" / "diff.html")
    assert [run["label"] for run in report["runs"]] == ["A: default", "B: p.yaml"]
    assert [table["title"] for table in report["comparison"]["tables"]][:2] == ["A against B", "Mean wait by size"]
    assert call("diff", scenario, "--policy", "default") == 2


def test_the_page_says_how_it_was_made_and_leaves_nothing_out(scenario: str, tmp_path: Path) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("actions: [enqueue, allocate]\n")
    Path(scenario).write_text(SCENARIO.replace("  - no evictions", "  - no evictions\n  - job y/big starts before 1s"))
    assert call("simulate", scenario, "--policy", str(policy), "--out", str(tmp_path / "out"), "--seed", "3") == 0
    page = embedded(tmp_path / "out" / "report.html")
    assert page["command"] == f"fairway simulate {scenario} --policy {policy} --seed 3 --out {tmp_path / 'out'}"
    assert [shown["name"] for shown in page["policies"]] == [str(policy)]
    assert "enqueue" in page["policies"][0]["text"]
    run = page["runs"][0]
    waits = {table["by"]: table["rows"] for table in run["waits"]}
    assert [(row["group"], row["jobs"]) for row in waits["namespace"]] == [("x", 12), ("y", 1)]
    assert [row["group"] for row in waits["queue"]] == ["default"]
    notices = [(notice["kind"], notice["text"]) for notice in run["notices"]]
    assert ("passed", "job y/big starts before 10h") in notices
    assert ("passed", "no evictions") in notices
    assert any(kind == "failed" and text.startswith("job y/big starts before 1s: it starts") for kind, text in notices)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["passed"] == ["job y/big starts before 10h", "no evictions"]


def test_diff_lists_jobs_that_gain_and_jobs_that_lose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Most wanted first, against first come, first served: the wanted job gains what the others lose."""
    (tmp_path / "s.yaml").write_text(
        "cluster: {nodes: 1 x {cpu: 1}}\nworkload:\n  jobs:\n"
        "  - {name: a, count: 3, every: 1s, request: {cpu: 1}, run: 60s}\n"
        "  - {name: wanted, priority: 9, request: {cpu: 1}, run: 60s, arrive: 5s}\n"
    )
    plugins = "[{name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]"
    (tmp_path / "fifo.yaml").write_text(f"tiers: [{{plugins: {plugins}}}]\n")
    given = ("diff", str(tmp_path / "s.yaml"), "--policy", str(tmp_path / "fifo.yaml"), "--policy", "default")
    assert call(*given, "--workers", "1") == 0
    out = capsys.readouterr().out
    assert "wait of jobs that gain" in out
    assert "wait of jobs that lose" in out
    assert call(*given, "--workers", "1", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["change"]) for row in found["gaining"]] == [("default/wanted", -120.0)]
    assert {row["name"]: row["change"] for row in found["losing"]} == {"default/a-1": 60.0, "default/a-2": 60.0}
    assert (found["gainingJobs"], found["losingJobs"]) == (1, 2)


def test_sweep_runs_every_combination(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("sweep", scenario, "--workers", "1", "-o", "json", "--set", "reserve.reservedNodePercent=10,100")
    assert call(*given, "--set", "reserve.starvingJobTimeThreshold=5,9000") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [list(row["settings"].values()) for row in rows] == [[10, 5], [10, 9000], [100, 5], [100, 9000]]
    assert all(row["finished"] == 13 for row in rows)
    assert call("sweep", scenario, "--set", "reserve.reservedNodePercent=10") == 0
    assert call("sweep", scenario, "--set", "reserve.reservedNodePercent=1000") == 2
    assert "reservedNodePercent" in capsys.readouterr().err
    assert call("sweep", scenario, "--set", "nothing.at=1") == 2
    assert call("sweep", scenario, "--set", "nonsense") == 2


def test_replay_gives_the_logged_plan_and_what_another_policy_would_do(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(tmp_path / "log")
    assert call("simulate", scenario, "--record", log) == 0
    capsys.readouterr()
    assert call("replay", log, "--at", "3", "-o", "json") == 0
    captured = capsys.readouterr()
    assert "bindings" in json.loads(captured.out)
    assert captured.err == "Cycle 3: the plan is identical to the recorded one.\n"
    other = tmp_path / "p.yaml"
    other.write_text("actions: [enqueue]\n")
    assert call("replay", log, "--at", "3", "--policy", str(other)) == 0
    assert "the plan differs from the recorded one" in capsys.readouterr().err
    (tmp_path / "log" / "policy.json").write_text('{"actions": ["enqueue"]}')
    assert call("replay", log, "--at", "3") == 1
    assert call("replay", log, "--at", "9999") == 2


def test_a_fault_that_a_process_of_a_sweep_finds_is_said_as_it_is(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "n.yaml").write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {cpu: x}}\n"
    )
    Path(scenario).write_text(SCENARIO.replace("{cpu: 4}}", "{cpu: 4}, manifests: [n.yaml]}"))
    assert call("sweep", scenario, "--set", "drf.priorityFirst=true,false", "--workers", "2") == 2
    assert "n.yaml:4: status.allocatable.cpu: invalid quantity 'x': expected" in capsys.readouterr().err


def test_the_table_of_a_sweep_breaks_no_word(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("--set", "nodeorder.mostAllocated=0,3", "--set", "reserve.starvingJobTimeThreshold=86400")
    assert call("sweep", scenario, "--workers", "1", *settings) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[:2] == ["3", "86400"]
    for word in ("Allocated", "Threshold", "slowdown", "evictions"):
        assert any(word in line.split() for line in lines)


def test_runs_side_by_side_are_named_and_say_which_seed_they_show(scenario: str, tmp_path: Path) -> None:
    policy = tmp_path / "longer.yaml"
    policy.write_text("actions: [enqueue, allocate]\n")
    arguments = ("diff", scenario, "--policy", "default", "--policy", str(policy), "--seeds", "2", "--workers", "1")
    assert call(*arguments, "--out", str(tmp_path / "out")) == 0
    report = embedded(tmp_path / "out" / "diff.html")
    assert [run["label"] for run in report["runs"]] == ["A: default", "B: longer.yaml"]
    assert "The other views show seed 0." in report["comparison"]["note"]
    assert all(row["margin"] for table in report["comparison"]["tables"] for row in table["rows"])


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("failures: [{node: node-9, at: 1m, lasts: 5m}]", "failures[0].node: there is no node 'node-9', did you mean"),
        ("changes: [{at: 1m, drain: n}]", "changes[0].drain: there is no node 'n', expected one of node-0, node-1"),
        (
            "timing: {cycles: interval, interval: 0s}",
            "timing.interval: is 0s, expected at least 10ms between two passes",
        ),
    ],
)
def test_a_scenario_that_cannot_be_meant_leaves_nothing_behind(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, fault: str
) -> None:
    Path(scenario).write_text(SCENARIO + more + "\n")
    assert call("simulate", scenario, "--out", str(tmp_path / "out")) == 2
    assert fault in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_a_folder_that_cannot_be_written_is_said_before_anything_runs(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    policies = ("--policy", "default", "--policy", "default")
    for arguments in (
        ("simulate", scenario, "--out"),
        ("simulate", scenario, "--record"),
        ("diff", scenario, *policies, "--out"),
    ):
        assert call(*arguments, str(tmp_path / "file")) == 2
        captured = capsys.readouterr()
        assert "file: File exists, expected a writable directory" in captured.err
        assert not captured.out
    assert (tmp_path / "file").read_text() == "mine"


def test_replay_under_another_policy_says_what_it_would_do_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log, other = tmp_path / "s.yaml", str(tmp_path / "log"), tmp_path / "p.yaml"
    path.write_text("cluster: {nodes: 2 x {cpu: 4}}\nworkload: {jobs: [{name: a, request: {cpu: 2}, run: 5s}]}\n")
    other.write_text("actions: [enqueue]\n")
    assert call("simulate", str(path), "--record", log) == 0
    capsys.readouterr()
    assert call("replay", log, "--at", "0", "--policy", str(other)) == 0
    assert "recorded one:\n  default/a: not bound to node-0\n" in capsys.readouterr().err
