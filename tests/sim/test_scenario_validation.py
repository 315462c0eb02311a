"""Scenarios are held to the rules of manifests: each of these ran, crashed, or took gigabytes before it was refused."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from fairway.sim import run
from support.cli import invoke

SCENARIO = """\
cluster:
  nodes: 2 x {cpu: 4}
  queues:
  - {name: research, weight: 2, guarantee: {cpu: 2}, capability: {cpu: 6}}
  - {name: product}
  namespaces: {alpha: {weight: 3}}
workload:
  jobs:
  - {name: a, queue: research, tasks: 2, request: {cpu: 1}, run: 5s}
timing: {interval: 1s}
failures:
- {every: 1h, lasts: 5m}
changes:
- {at: 1h, join: {name: late, allocatable: {cpu: 1}}}
end: 10s
"""


def simulate(folder: Path, text: str) -> tuple[int, str]:
    (folder / "s.yaml").write_text(text)
    result = invoke("simulate", str(folder / "s.yaml"))
    return result.code, result.err.replace(f"{folder}/", "")


def test_the_scenario_itself_runs(tmp_path: Path) -> None:
    assert simulate(tmp_path, SCENARIO) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("weight: 2", "weight: 0", "s.yaml:4: cluster.queues[0].weight: is the number 0, expected a whole number of "),
        ("weight: 2", "weight: -1", "s.yaml:4: cluster.queues[0].weight: is the number -1, expected a whole number"),
        ("weight: 3", "weight: 0", "s.yaml:6: cluster.namespaces.alpha.weight: is the number 0, expected"),
        ("weight: 2", "wieght: 2", "s.yaml:4: cluster.queues[0].wieght: is an unknown field, did you mean 'weight'?"),
        ("guarantee: {cpu: 2}", "guarantee: {cpu: 7}", "s.yaml:4: cluster.queues[0].guarantee.cpu: is 7, expected at"),
        ("guarantee: {cpu: 2}", "deserved: {cpu: 7}", "s.yaml:4: cluster.queues[0].deserved.cpu: is 7, expected at"),
        ("guarantee: {cpu: 2}", "guarantee: {cpu: [2]}", "s.yaml:4: cluster.queues[0].guarantee.cpu: is a list, expe"),
        ("guarantee: {cpu: 2}", "guarantee: {c pu: 2}", "s.yaml:4: cluster.queues[0].guarantee[c pu]: the name is 'c"),
        ("queue: research", "queue: reserch", "s.yaml:9: workload.jobs[0].queue: there is no queue 'reserch', did yo"),
        ("{name: product}", "{name: product, parent: top}", "s.yaml:5: cluster.queues[1].parent: there is no queue '"),
        ("{name: product}", "{name: product, parent: product}", "s.yaml:5: cluster.queues[1].parent: is the queue it"),
        ("{name: product}", "{name: research}", "s.yaml:5: cluster.queues[1].name: is 'research' again"),
        ("{name: product}", "{name: Pro Duct}", "s.yaml:5: cluster.queues[1].name: is 'Pro Duct', expected at most 2"),
        ("alpha:", "Alpha:", "s.yaml:6: cluster.namespaces.Alpha: is 'Alpha', expected at most 63"),
        ("name: a,", "name: A_,", "s.yaml:9: workload.jobs[0].name: is 'A_-1', expected at most 253"),
        ("run: 5s}", "run: 5s, namespace: x/y}", "s.yaml:9: workload.jobs[0].namespace: is 'x/y', expected at most 63"),
        ("run: 5s}", "run: 5s}\n  - {name: a, request: {cpu: 1}, run: 1s}", "s.yaml:10: workload.jobs[1].name: is 'a'"),
        ("run: 5s}", "run: 5s, nodeSelector: {a: b c}}", "s.yaml:9: workload.jobs[0].nodeSelector.a: is 'b c', expec"),
        ("request: {cpu: 1}", "request: {pods: 1}", "s.yaml:9: workload.jobs[0].request.pods: cannot be requested"),
        ("request: {cpu: 1}", "request: 1", "s.yaml:9: workload.jobs[0].request: is the number 1, expected amounts"),
        ("request: {cpu: 1}, ", "", "s.yaml:9: workload.jobs[0].request: is missing, expected amounts, for example"),
        ("tasks: 2", "tasks: 1.5", "s.yaml:9: workload.jobs[0].tasks: is the number 1.5, expected a whole number fro"),
        ("tasks: 2", "priority: 3000000000", "s.yaml:9: workload.jobs[0].priority: is the number 3000000000, expected"),
        ("2 x {cpu: 4}", "[2 x {cpu: 4}, 3 x {cpu: 8}]", "s.yaml:2: cluster.nodes[1]: nodes named node already exist"),
        ("name: late,", "name: node-1,", "s.yaml:14: changes[0].join: node node-1 already exists"),
        ("{every: 1h,", "{every: 0s,", "s.yaml:12: failures[0].every: is 0s, expected at least 1s on average"),
        ("interval: 1s", "interval: 1us", "s.yaml:10: timing.interval: is 0.001ms, expected at least 10ms between"),
        ("end: 10s", "start: 9999-01-01T00:00:00Z", "s.yaml:15: start: is 9999-01-01T00:00:00Z, expected a year from"),
    ],
)  # fmt: skip
def test_what_a_manifest_would_not_pass_is_refused_with_its_place(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    assert old in SCENARIO
    code, said = simulate(tmp_path, SCENARIO.replace(old, new, 1))
    assert (code, said[: len(message)]) == (2, message)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = SCENARIO.replace("weight: 2", "weight: 0").replace("tasks: 2", "task: 2").replace("lasts: 5m", "lasts: x")
    code, said = simulate(tmp_path, text)
    assert code == 2
    assert [line.split(": ")[1] for line in said.splitlines()] == [
        "cluster.queues[0].weight",
        "workload.jobs[0].task",
        "failures[0].lasts",
    ]


@pytest.mark.parametrize("word", ["Expected `", "Object contains", "msgspec", "at `$", "Invalid enum"])
def test_no_message_is_the_librarys(word: str, tmp_path: Path) -> None:
    for old, new in (("weight: 2", "weight: x"), ("queues:", "queue:"), ("2 x {cpu: 4}", "7"), ("1h,", "{},")):
        _, said = simulate(tmp_path, SCENARIO.replace(old, new, 1))
        assert word not in said


GIANT = [
    ("2 x {cpu: 4}", "1000000000 x {cpu: 4}", "cluster.nodes: 1000000000 nodes, expected 1 to 200000"),
    ("2 x {cpu: 4}", "{count: 1000000000, allocatable: {cpu: 4}}", "cluster.nodes.count: is the number 1000000000"),
    ("2 x {cpu: 4}", f"{'9' * 50} x {{cpu: 4}}", "nodes, expected 1 to 200000"),
    ("2 x {cpu: 4}", "[150000 x {cpu: 4}, 60000 x {memory: 1}]", "210001 nodes in all, expected at most 200000"),
    ("2 x {cpu: 4}", "100000 x {memory: 4Ei}", "the cluster's total of memory does not fit an int64"),
    ("{name: late, ", "{count: 199999, name: late, ", "200001 nodes in all, expected at most 200000"),
    ("tasks: 2", "tasks: 1000000000", "workload.jobs[0].tasks: is the number 1000000000, expected a whole number from"),
    ("tasks: 2", "count: 1000000000, every: 1s", "workload.jobs[0].count: is the number 1000000000, expected a whole"),
    ("tasks: 2, request: {cpu: 1}", "tasks: 9, request: {memory: 7Ei}", "memory: 9 tasks of it do not fit an int64"),
    ("run: 5s", "run: 9999999d", "workload.jobs[0].run: '9999999d' is too long, expected at most 104249d"),
    ("tasks: 2", "count: 9999999, every: 100000d", "the run lasts beyond the year 7999, expected an `end`"),
    ("interval: 1s", f"interval: {'1s' * 60}", "timing.interval: '1s1s"),
    ("timing:", "seed: 99999999999999999999\ntiming:", "seed: is the number 99999999999999999999, expected a whole"),
]


@pytest.mark.parametrize(("old", "new", "message"), GIANT, ids=[message[:40] for _, _, message in GIANT])
def test_giant_numbers_are_refused_before_anything_is_made(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = SCENARIO.replace("end: 10s\n", "").replace("failures:\n- {every: 1h, lasts: 5m}\n", "")
    assert old in text
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, said = simulate(tmp_path, text.replace(old, new, 1))
    assert code == 2
    assert message in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_so_many_pods_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_PODS", 50)
    code, said = simulate(tmp_path, SCENARIO.replace("tasks: 2", "tasks: 7, count: 9000000, every: 0s"))
    assert code == 2
    assert "s.yaml: more than 50 pods would exist at once, at 2026-01-01T00:00:00Z: expected fewer jobs" in said


MANY = ",".join(map(str, range(20)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sweep", "--set", f"reserve.reservedNodePercent={MANY}", "--seeds", "1000"], "20000 runs, expected at most"),
        (["sweep", "--set", "drf.priorityFirst=true", "--workers", "100000"], "256"),
        (["sweep", "--set", "drf.priorityFirst=["], "--set drf.priorityFirst: '[' is not a value"),
        (["diff", "--policy", "default", "--policy", "default", "--workers", "100000"], "256"),
        (["simulate", "--seed", "9" * 30], "--seed"),
    ],
)  # fmt: skip
def test_giant_flags_are_refused(given: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    result = invoke(given[0], str(tmp_path / "s.yaml"), *given[1:])
    assert result.code == 2
    assert message in result.err


def test_random_failures_end_when_nothing_can_start_any_more(tmp_path: Path) -> None:
    """The gang is larger than the cluster: nothing but failures would ever happen."""
    text = SCENARIO.replace("tasks: 2", "tasks: 99").replace("end: 10s\n", "")
    assert simulate(tmp_path, text) == (0, "")


def test_a_giant_grace_period_is_refused(tmp_path: Path) -> None:
    pod = "spec: {schedulerName: fairway, terminationGracePeriodSeconds: 9007199254740991, containers: [{name: c}]}"
    (tmp_path / "w.yaml").write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{pod}\n")
    text = "cluster: {nodes: 2 x {cpu: 1}}\nworkload: {manifests: [{file: w.yaml, run: 10s}]}\n"
    code, said = simulate(tmp_path, f"{text}changes: [{{at: 1s, drain: node-0}}]\n")
    assert (code, "w.yaml:4: spec.terminationGracePeriodSeconds: is the number 9007199254740991" in said) == (2, True)
