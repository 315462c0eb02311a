"""`jobs.csv`: what a user needs to hold a schedule against another one, job by job."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fairway.api.policy import load_policy, parse_policy
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.policies import policy_text
from support.cli import invoke
from support.pages import ROOT
from support.reports import embedded

EASY = """\
actions: [enqueue, allocate, {name: backfill, arguments: {mode: easy}}]
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""
SCENARIO = """\
cluster: {nodes: 4 x {cpu: 1}}
workload:
  jobs:
  - {name: j-0, tasks: 3, request: {cpu: 1}, run: 10s, limit: 10s}
  - {name: j-1, tasks: 4, request: {cpu: 1}, run: 5s, limit: 6s, arrive: 1s}
  - {name: j-2, request: {cpu: 500m}, run: 7s, limit: 7s, arrive: 3s}
"""


def jobs(folder: Path, *flags: str, scenario: str = SCENARIO) -> dict[str, dict[str, str]]:
    (folder / "s.yaml").write_text(scenario)
    (folder / "p.yaml").write_text(EASY)
    given = (
        "simulate",
        str(folder / "s.yaml"),
        "--policy",
        str(folder / "p.yaml"),
        "--out",
        str(folder / "out"),
        *flags,
    )
    result = invoke(*given)
    assert result.code == 0, result.err
    with (folder / "out" / "jobs.csv").open() as file:
        return {row["job"].removeprefix("default/"): row for row in csv.DictReader(file)}


def test_hosts_processors_limits_and_planned_starts_are_there(tmp_path: Path) -> None:
    rows = jobs(tmp_path)
    assert {name: row["hosts"] for name, row in rows.items()} == {
        "j-0": "node-0 node-1 node-2",
        "j-1": "node-0 node-1 node-2 node-3",
        "j-2": "node-3",
    }
    assert {name: row["processors"] for name, row in rows.items()} == {"j-0": "3", "j-1": "4", "j-2": "0.5"}
    assert {name: row["limit"] for name, row in rows.items()} == {
        "j-0": "10.000000",
        "j-1": "6.000000",
        "j-2": "7.000000",
    }
    planned = {name: (row["plannedStart"], row["planned"], row["plannedResult"]) for name, row in rows.items()}
    assert planned == {"j-0": ("", "", ""), "j-1": ("10.000000", "hard", "kept"), "j-2": ("", "", "")}


@pytest.mark.usefixtures("built_page")
def test_the_report_says_how_many_planned_starts_were_kept(tmp_path: Path) -> None:
    jobs(tmp_path)
    given = ("simulate", str(tmp_path / "s.yaml"), "--policy", str(tmp_path / "p.yaml"))
    assert "planned starts kept" in invoke(*given).out
    run = embedded(tmp_path / "out" / "report.html")["runs"][0]
    assert "planned starts kept" in {measure["name"] for measure in run["measures"]}
    assert run["fragmentation"]["title"] == "Fragmentation"
    report = (tmp_path / "out" / "report.json").read_text()
    for key in ("slowdownWeighted", "normalisedWait", "toLastStart", '"planned"', '"fragmentation"', '"jain": null'):
        assert key in report


@pytest.mark.parametrize(
    ("estimate", "start"),
    [
        (None, "15.000000"),
        ("requested", "15.000000"),
        ("clairvoyant", "3.000000"),
        ("1.2", "3.000000"),
        ("9", "15.000000"),
    ],
)
@pytest.mark.parametrize("by", ["flag", "scenario"])
def test_an_estimate_decides_which_job_may_pass(estimate: str | None, start: str, by: str, tmp_path: Path) -> None:
    """The small job requests 100 s and runs for 5; only where that is known it runs ahead of the gang."""
    long_limits = SCENARIO.replace("run: 7s, limit: 7s", "run: 5s, limit: 100s").replace("limit: 10s", "limit: 30s")
    written = estimate if estimate is None or estimate.isalpha() else f"{{scale: {estimate}}}"
    in_file = f"estimate: {written}\n" if by == "scenario" and estimate is not None else ""
    flags = ("--estimate", estimate) if by == "flag" and estimate is not None else ()
    rows = jobs(tmp_path, *flags, scenario=long_limits + in_file)
    assert rows["j-2"]["start"] == start


@pytest.mark.parametrize(
    ("estimate", "message"),
    [
        ("soon", "'soon': expected one of requested, user-history, clairvoyant, or a factor"),
        ("0", "expected a factor from 0.001 to 1000"),
        ("nan", "expected a factor from 0.001 to 1000"),
    ],
)
def test_an_estimate_that_is_none_is_refused(estimate: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    result = invoke("simulate", str(tmp_path / "s.yaml"), "--estimate", estimate)
    assert (result.code, message in result.err) == (2, True), result.err


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("polic*/*.yaml")), ids=lambda path: path.stem)
def test_a_policy_that_is_written_out_means_the_same(path: Path) -> None:
    catalog = default_registry().catalog
    policy = load_policy(str(path), catalog)
    assert parse_policy(policy_text(policy), "written", catalog) == policy


def test_topology_is_part_of_a_policy_that_is_written_out() -> None:
    catalog = default_registry().catalog
    policy = parse_policy("topology: {levels: [zone, rack]}\n", "given", catalog)
    assert parse_policy(policy_text(policy), "written", catalog) == policy
