"""The engine's own easy mode, driven through virtual time, in the form that the references have."""

from __future__ import annotations

from pathlib import Path

from experiments.data import data_file
from experiments.easy import Job, Start
from fairway.api.policy import Policy, parse_policy
from fairway.clock import Micros, parse_rfc3339
from fairway.scheduler.plan import Binding, Plan
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
        self.simulation.cycles.on_cycle = self._note_promises
        self._promises: dict[str, Micros] = {}
        """By job: the first start that it was promised."""
        self.result: RunResult = self.simulation.run()

    def _note_promises(self, _: int, __: Micros, plan: Plan) -> None:
        for entry in plan.reservations:
            if entry.promised_start is not None and entry.job not in self._promises:
                self._promises[entry.job] = parse_rfc3339(entry.promised_start) - self.simulation.scenario.start

    def _watch(self, places: list[tuple[SimPod, Binding]]) -> None:
        self._bind(places)
        job, origin = places[0][0].job, self.simulation.scenario.start
        facts = Job(
            number=int(job.key.rpartition("-")[2]),
            submit=job.submit - origin,
            hosts=len(places),
            walltime=0,
            run=places[0][0].run,
        )
        hosts = tuple(sorted(_number(binding.node) for _, binding in places))
        promised = self._promises.pop(job.key, None)
        self.starts.append(Start(facts, self.simulation.loop.now - origin, hosts, promised))


def _number(node: str) -> int:
    """Nodes of a trace are numbered; the only node of a pool is number 0."""
    last = node.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def batsim_run() -> Watched:
    trace = f"{{format: batsim, file: {data_file('batsim-medium-late', 'medium_late.json')}}}"
    return Watched(f"cluster: {{trace: {trace}}}\nworkload: {{trace: {trace}}}\n", policy(EASY, "easy"))


def kth_run(processors: int) -> Watched:
    """The machine is one pool: a node with all processors, a job one pod that asks for as many as it needs."""
    file = data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz")
    trace = f"{{format: swf, file: {file}, onePod: true, namespace: all}}"
    scenario = f"cluster: {{nodes: 1 x {{cpu: {processors}}}}}\nworkload: {{trace: {trace}}}\n"
    return Watched(scenario, policy(EASY, "easy"))
