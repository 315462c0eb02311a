"""Backfilling in the simulator: planned starts are carried, and past runs are learnt from."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.drive.change import Change
from fairway.drive.scheduler_loop import Cycle
from fairway.scheduler.plan import Plan
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario
from fairway.state.cluster import Event
from support.streams import planning, promises

EASY_JOBS = """
cluster: {nodes: 1 x {cpu: 4}}
workload:
  jobs:
  - {name: long, arrive: 0s, request: {cpu: 3}, run: 60s, limit: 100s}
  - {name: wide, arrive: 1s, request: {cpu: 4}, run: 10s, limit: 10s}
  - {name: slow, arrive: 2s, request: {cpu: 1}, run: 5s, limit: 99s}
  - {name: short, arrive: 3s, request: {cpu: 1}, run: 20s, limit: 50s}
"""

LIKE_JOBS = """
cluster: {nodes: 1 x {cpu: 4}}
workload:
  jobs:
  - {name: train, arrive: 0s, request: {cpu: 3}, run: 10s, count: 3, every: 20s}
  - {name: wide, arrive: 41s, request: {cpu: 4}, run: 5s}
"""


class Watched:
    """A run, its plans, and when jobs were bound (seconds after the start)."""

    def __init__(self, text: str, policy: Policy) -> None:
        self.plans: list[Plan] = []
        self.bound: dict[str, int] = {}
        self.simulation = Simulation(parse_scenario(text, Path("s.yaml")), policy)
        self.simulation.scheduler.listeners.append(self)
        self.report = self.simulation.run().report

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self.plans.append(cycle.plan)
        for binding in cycle.plan.bindings:
            at = (cycle.now - self.simulation.scenario.start) // SECOND
            self.bound[binding.job.removeprefix("default/")] = at


def test_planned_starts_are_carried_and_kept():
    found = Watched(EASY_JOBS, planning("easy"))
    assert found.bound == {"long": 0, "short": 3, "wide": 60, "slow": 70}
    planned = found.report.metrics.planned
    assert (planned.kept, planned.missed) == (2, 0)
    assert all(not plan.released for plan in found.plans), "no node was kept, so none is released"
    assert not found.simulation.scheduler.state.reservations.objects(), "what has started is planned no more"


def test_conservative_plans_every_job():
    found = Watched(EASY_JOBS, planning("conservative"))
    assert found.bound == {"long": 0, "short": 3, "wide": 60, "slow": 70}
    planned = found.report.metrics.planned
    assert (planned.kept, planned.missed) == (2, 0)


def test_what_runs_teaches_how_long_its_like_will_run():
    found = Watched(LIKE_JOBS, planning("easy", estimate="user-history"))
    assert found.simulation.scheduler.state.history.mean("default", "train") == 10 * SECOND
    promised = [held for plan in found.plans for held in promises(plan).values()]
    assert {(held.planned_start, held.soft, held.estimated) for held in promised} == {
        ("2026-01-01T00:00:50Z", True, True)
    }


def test_a_clairvoyant_policy_knows_how_long_jobs_will_run():
    """The long job ends after 60 seconds and not after the 100 that it states; the slow one after five."""
    found = Watched(EASY_JOBS, planning("easy", estimate="clairvoyant"))
    assert found.bound == {"long": 0, "slow": 2, "short": 7, "wide": 60}
    assert Watched(EASY_JOBS, planning("easy", estimate={"scale": 1})).bound == found.bound


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_workload_without_run_times_is_said_to_be_one(mode: str):
    (warning,) = Watched(LIKE_JOBS, planning(mode)).report.warnings
    assert warning.startswith(f"backfill {mode}: no job of the workload has a run time")
    assert Watched(EASY_JOBS, planning(mode)).report.warnings == []
    assert Watched(LIKE_JOBS, planning("besteffort")).report.warnings == []
