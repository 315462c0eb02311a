"""Scenarios as texts, run under a policy given as text."""

from __future__ import annotations

from pathlib import Path

from fairway.api.policy import default_policy, parse_policy
from fairway.clock import SECOND
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.metrics import JobOutcome
from fairway.sim.run import RunOptions, RunResult, Simulation
from fairway.sim.scenario import parse_scenario
from fairway.state import invariants

PLAIN = "actions: [enqueue, allocate, backfill]"


class Run:
    """A finished run with what its jobs did, in seconds since its start."""

    def __init__(self, text: str, policy: str | None = PLAIN, folder: Path = Path(), seed: int | None = None) -> None:
        catalog = default_registry().catalog
        chosen = default_policy(catalog) if policy is None else parse_policy(policy, "test", catalog)
        self.jobs: dict[str, JobOutcome] = {}
        self.simulation = Simulation(
            parse_scenario(text, folder / "s.yaml"), chosen, RunOptions(seed=seed, on_finish=self._finished)
        )
        self.result: RunResult = self.simulation.run()
        self.metrics = self.result.report.metrics
        invariants.check(self.simulation.state)

    def _finished(self, job: JobOutcome) -> None:
        self.jobs[job.key.removeprefix("default/")] = job

    @property
    def times(self) -> dict[str, tuple[float, float]]:
        """Start and end of each finished job."""
        origin = self.simulation.scenario.start
        return {name: ((job.start - origin) / SECOND, (job.end - origin) / SECOND) for name, job in self.jobs.items()}
