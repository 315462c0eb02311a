"""Scenario files: everything in one, and each fault with its line and path."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.clock import SECOND, parse_rfc3339
from fairway.errors import InputError
from fairway.sim.scenario import load_scenario, parse_scenario

WHOLE = """\
name: two teams
policy: policy.yaml
start: 2026-03-01T08:00:00Z
end: 2h
seed: 7
cluster:
  nodes:
    - 500 x {cpu: 64, memory: 256Gi}        # plain ones
    - {count: 2, name: gpu, allocatable: {cpu: 8, nvidia.com/gpu: 4}, labels: {zone: a}}
  queues:
    - {name: research, weight: 2, guarantee: {cpu: 10}}
  namespaces:
    a: {weight: 3}
workload:
  jobs:
    - {name: big, namespace: a, queue: research, tasks: 64, request: {cpu: 4}, arrive: 1h, run: 2h}
    - {name: small, request: {cpu: 500m}, run: exponential 5m, count: 100, load: 0.95, limit: 1h}
  trace: {format: swf, file: log.swf.gz, first: 10}
timing: {cycles: both, interval: 10s, startDelay: uniform 1s 5s, grace: 30s}
failures:
  - {node: gpu-0, at: 30m, lasts: 10m}
  - {every: exponential 5h, lasts: 1h}
changes:
  - {at: 1h, join: 3 x {cpu: 64}}
  - {at: 90m, drain: node-4}
assert:
  - job a/big starts before 90m
  - no evictions of research
"""
SMALL = "cluster:\n  nodes: 2 x {cpu: 4}\nworkload:\n  jobs:\n  - {name: a, request: {cpu: 1}, run: 5s}\n"


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(WHOLE)
    scenario = load_scenario(path)
    plain, gpu = scenario.nodes
    assert (plain.count, plain.allocatable.get("cpu"), plain.allocatable.get("memory")) == (
        500,
        64_000,
        256 << 30,
    )
    assert (gpu.count, gpu.name, gpu.labels, gpu.allocatable.get("nvidia.com/gpu")) == (
        2,
        "gpu",
        {"zone": "a"},
        4000,
    )
    assert scenario.start == parse_rfc3339("2026-03-01T08:00:00Z")
    big, small = scenario.file.workload.jobs
    assert (big.arrive, big.run.mean, big.tasks) == (3600 * SECOND, 7200 * SECOND, 64)
    assert (small.load, small.limit, small.request.get("cpu")) == (0.95, 3600 * SECOND, 500)
    assert [assertion.line for assertion in scenario.assertions] == [27, 28]
    assert scenario.is_random
    assert scenario.resolve("policy.yaml") == tmp_path / "policy.yaml"


def test_a_small_file_has_defaults_and_nothing_random() -> None:
    scenario = parse_scenario(SMALL, Path("small.yaml"))
    assert (scenario.name, scenario.file.seed, scenario.file.end, scenario.is_random) == (
        "small",
        0,
        None,
        False,
    )
    assert scenario.file.timing.cycles == "events"


def test_published_data_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = parse_scenario(SMALL, Path("small.yaml"))
    monkeypatch.setenv("FAIRWAY_DATA", "/data")
    assert scenario.resolve("$FAIRWAY_DATA/swf/x") == Path("/data/swf/x")
    monkeypatch.delenv("FAIRWAY_DATA")
    with pytest.raises(InputError, match="does not say where FAIRWAY_DATA is"):
        scenario.resolve("$FAIRWAY_DATA/swf/x")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "run: 2h}",
            "run: 2 hours}",
            "s.yaml:16: workload.jobs[0].run: '2 hours' is not a duration, expected for example",
        ),
        ("tasks: 64", "task: 64", "s.yaml:16: workload.jobs[0].task: is an unknown field, did you mean 'tasks'?"),
        (
            "tasks: 64",
            "tasks: some",
            "s.yaml:16: workload.jobs[0].tasks: is 'some', expected a whole number from 1 to 100000",
        ),
        ("cpu: 500m", "cpu: 500q", "s.yaml:17: workload.jobs[1].request.cpu: invalid quantity '500q'"),
        ("2026-03-01T08", "2026-03-01 08", "s.yaml:3: start: '2026-03-01 08:00:00Z' is not an RFC 3339 time"),
        ("500 x {cpu: 64, memory: 256Gi}", "0 x {cpu: 64}", "s.yaml:8: cluster.nodes[0]: 0 nodes"),
        ("500 x {cpu: 64, memory: 256Gi}", "500 y", "s.yaml:8: cluster.nodes[0]: '500 y' is not a template"),
        ("load: 0.95", "load: 0.95, every: 5s", "s.yaml:17: workload.jobs[1]: every and load are both"),
        ("tasks: 64", "tasks: 64, minimum: 65", "s.yaml:16: workload.jobs[0]: minimum: 65, expected 1 to 64"),
        ("at: 30m, ", "", "s.yaml:21: failures[0]: expected either node and at, or every"),
        ("drain: node-4", "drain: null", "s.yaml:25: changes[1]: nothing changes"),
        ("no evictions of research", "no evicts", "s.yaml:28: assert[1]: 'no evicts' is not an assertion"),
        ("seed: 7", "seed: 7\nseed: 8", "s.yaml:6: the key 'seed' is here twice"),
        ("cluster:", "cluster: [", "s.yaml:"),
        (
            "cycles: both",
            "cycles: never",
            "s.yaml:19: timing.cycles: is 'never', expected one of both, events, interval",
        ),
    ],
)
def test_each_fault_has_its_line_and_path(old: str, new: str, fault: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError) as caught:
        parse_scenario(WHOLE.replace(old, new, 1), Path("s.yaml"))
    assert str(caught.value).startswith(fault)


def test_an_empty_scenario_says_what_it_lacks() -> None:
    with pytest.raises(InputError) as caught:
        parse_scenario("cluster: {}\nworkload: {}\n", Path("s.yaml"))
    assert str(caught.value) == (
        "s.yaml:1: cluster: no nodes, expected nodes, manifests or a trace\n"
        "s.yaml:2: workload: no jobs, expected jobs, manifests or a trace"
    )


@pytest.mark.parametrize(
    ("trace", "fault"),
    [
        ("{format: xyz, file: t}", "s.yaml:2: workload.trace.format: 'xyz' is unknown, expected one of openb, swf,"),
        ("{format: csv, file: t}", "s.yaml:2: workload.trace: a trace in CSV needs `columns`"),
        (
            "{format: csv, file: t, columns: {submit: a, run: b, unit: day}}",
            "s.yaml:2: workload.trace.columns.unit: 'day' is unknown, expected one of s, ms,",
        ),
    ],
)
def test_what_is_wrong_with_a_trace_has_its_line_and_path(trace: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_scenario(f"cluster: {{nodes: 1 x {{cpu: 4}}}}\nworkload: {{trace: {trace}}}\n", Path("s.yaml"))
    assert str(caught.value).startswith(fault)
