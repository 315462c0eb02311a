"""A logged run can be decided again, cycle by cycle, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.api.policy import default_policy, parse_policy
from fairway.app.recordings import read_cycle, read_recorded_policy, recording_to
from fairway.drive.recording import plan_digest
from fairway.errors import InputError
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.run import RunOptions, Simulation
from fairway.sim.scenario import parse_scenario

TEXT = """
cluster: {nodes: 2 x {cpu: 4}, queues: [{name: q}, {name: r}]}
workload:
  jobs:
  - {name: a, queue: q, count: 6, every: exponential 20s, request: {cpu: 2}, run: exponential 60s}
  - {name: g, queue: r, count: 3, every: 30s, tasks: 2, request: {cpu: 3}, run: 40s}
timing: {startDelay: 1s, grace: 3s}
failures: [{node: node-1, at: 1m, lasts: 20s}]
"""


def record(folder: Path) -> int:
    policy = default_policy(default_registry().catalog)
    with recording_to(folder, policy) as log:
        simulation = Simulation(
            parse_scenario(TEXT, Path("s.yaml")), policy, RunOptions(seed=4, recorder_of=lambda cluster: log)
        )
        simulation.run()
    return simulation.scheduler.cycles


def test_every_cycle_is_decided_the_same_again(tmp_path: Path) -> None:
    cycles = record(tmp_path)
    policy = read_recorded_policy(tmp_path, default_registry().catalog)
    assert policy == default_policy(default_registry().catalog)
    assert cycles > 8
    for number in range(cycles):
        logged = read_cycle(tmp_path, number)
        plan = decide_and_explain(logged.state, policy, logged.now)
        assert plan_digest(plan) == logged.digest


def test_reservations_are_logged_and_read_back(tmp_path: Path) -> None:
    """The reference story (spec S6.9): pod-4 has a reservation from the time it starves until it starts."""
    folder = Path(__file__).parents[2] / "examples" / "scenarios"
    scenario = folder / "starving.yaml"
    policy = parse_policy((folder / "reserve-soon.yaml").read_text(), "reserve-soon.yaml", default_registry().catalog)
    with recording_to(tmp_path, policy) as log:
        simulation = Simulation(
            parse_scenario(scenario.read_text(), scenario), policy, RunOptions(recorder_of=lambda cluster: log)
        )
        simulation.run()
    seen: set[tuple[str, str]] = set()
    for number in range(simulation.scheduler.cycles):
        logged = read_cycle(tmp_path, number)
        assert plan_digest(decide_and_explain(logged.state, policy, logged.now)) == logged.digest
        seen.update(logged.state.reservations.objects())
    assert ("default", "pod-pod-4") in seen


def test_the_log_of_the_same_run_is_the_same(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b")
    assert (tmp_path / "a" / "events.jsonl.gz").read_bytes() == (tmp_path / "b" / "events.jsonl.gz").read_bytes()


def test_what_is_no_log_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_cycle(tmp_path, 0)
    cycles = record(tmp_path)
    with pytest.raises(InputError, match=f"there is no cycle {cycles}, its cycles are 0 to {cycles - 1}"):
        read_cycle(tmp_path, cycles)
    (tmp_path / "events.jsonl.gz").write_text('{"upsert": "Pod"}\n')
    with pytest.raises(InputError, match=r"gz:1: not a line of a recording"):
        read_cycle(tmp_path, 0)
