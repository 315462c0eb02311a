"""The engine's own easy mode, driven through virtual time, in the form that the references have."""

from __future__ import annotations

from pathlib import Path

from experiments.easy import Job, Start
from fairway.api.policy import Policy, parse_policy
from fairway.clock import Micros
from fairway.scheduler.registry import default_registry
from fairway.sim.jobs import SimPod
from fairway.sim.run import RunResult, Simulation
from fairway.sim.scenario import parse_scenario

EASY = """\
actions: [enqueue, allocate, {name: backfill, arguments: {mode: easy}}]
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""


def policy(text: str, name: str) -> Policy:
    return parse_policy(text, name, default_registry().catalog)


class Watched:
    """A run of which every start, and where it was, is known."""

    def __init__(self, scenario: str, chosen: Policy) -> None:
        self.simulation = Simulation(parse_scenario(scenario, Path("experiment.yaml")), chosen)
        self.starts: list[Start] = []
        self._bind = self.simulation.cluster.bind
        self.simulation.cluster.bind = self._watch  # type: ignore[method-assign]
        self.result: RunResult = self.simulation.run()

    def _watch(self, places: list[tuple[SimPod, str, dict[str, str]]]) -> None:
        self._bind(places)
        job, now = places[0][0].job, self.simulation.loop.now
        hosts = tuple(sorted(int(node.rpartition("-")[2]) for _, node, _ in places if node[-1].isdigit()))
        number = int(job.key.rpartition("-")[2])
        submit: Micros = now
        facts = Job(number, submit, len(places), 0, places[0][0].run)
        self.starts.append(Start(facts, now - self.simulation.scenario.start, hosts, None))


def batsim_scenario(file: Path) -> str:
    trace = f"{{format: batsim, file: {file}}}"
    return f"start: 1970-01-01T00:00:00Z\ncluster: {{trace: {trace}}}\nworkload: {{trace: {trace}}}\n"
