"""Backfilling in the simulator: promises are not carried as reservations, and past runs are learnt from."""

from pathlib import Path

from fairway.api.policy import Policy
from fairway.clock import SECOND
from fairway.scheduler.plan import Plan
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario
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
        self.simulation.cycles.on_cycle = self._watch
        self.simulation.run()

    def _watch(self, number: int, at: int, plan: Plan) -> None:
        self.plans.append(plan)
        for binding in plan.bindings:
            self.bound[binding.job.removeprefix("default/")] = (at - self.simulation.scenario.start) // SECOND


def test_promises_are_made_anew_and_never_written_down():
    reserve = ("reserve", {"starvingJobTimeThreshold": 9999})
    found = Watched(EASY_JOBS, planning("easy", reserve))
    assert found.bound == {"long": 0, "short": 3, "wide": 60, "slow": 70}
    assert any(plan.reservations for plan in found.plans)
    assert all(not plan.released for plan in found.plans), "what was never carried is never released"


def test_what_runs_teaches_how_long_its_like_will_run():
    found = Watched(LIKE_JOBS, planning("easy", estimate="user-history"))
    assert found.simulation.state.history.median("default", "train") == 10 * SECOND
    promised = [held for plan in found.plans for held in promises(plan).values()]
    assert {(held.promised_start, held.soft, held.estimated) for held in promised} == {
        ("2026-01-01T00:00:55Z", True, True)
    }
