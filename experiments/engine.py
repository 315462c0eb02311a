"""The engine's own easy mode, driven through virtual time, in the form that the references have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from experiments.data import data_file
from experiments.schedule import Job, Start
from fairway.api.policy import Policy, parse_policy
from fairway.clock import Micros, parse_rfc3339
from fairway.drive.change import Bind, Change
from fairway.drive.scheduler_loop import Cycle
from fairway.scheduler.plan import Binding
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.run import RunResult, Simulation
from fairway.sim.scenario import parse_scenario
from fairway.state.cluster import Event

EASY = """\
actions: [enqueue, allocate, {name: backfill, arguments: {mode: easy}}]
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""


def policy(text: str, name: str) -> Policy:
    return parse_policy(text, name, default_registry().catalog)


class Watched:
    """A run, with the start and place of every job."""

    def __init__(self, scenario: str, chosen: Policy) -> None:
        self.simulation = Simulation(parse_scenario(scenario, Path("experiment.yaml")), chosen)
        self.starts: list[Start] = []
        self.simulation.scheduler.listeners.append(self)
        self._promises: dict[str, Micros] = {}
        """By job: its first planned start."""
        self.result: RunResult = self.simulation.run()

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        origin = self.simulation.scenario.start
        for entry in cycle.plan.reservations:
            if entry.planned_start is not None and entry.job not in self._promises:
                self._promises[entry.job] = parse_rfc3339(entry.planned_start) - origin
        for job, binds in groupby(
            (change.binding for change in cycle.changes if isinstance(change, Bind)), lambda binding: binding.job
        ):
            self._start(job, list(binds), cycle.now - origin)

    def _start(self, key: str, bindings: list[Binding], at: Micros) -> None:
        job = self.simulation.cluster.jobs[key]
        facts = Job(
            number=int(key.rpartition("-")[2]),
            submit=job.submit - self.simulation.scenario.start,
            hosts=len(bindings),
            walltime=0,
            run=job.pods[0].run,
        )
        hosts = tuple(sorted(_number(binding.node) for binding in bindings))
        self.starts.append(Start(facts, at, hosts, self._promises.pop(key, None)))


def _number(node: str) -> int:
    """Nodes of a trace are numbered; the only node of a pool is number 0."""
    last = node.rpartition("-")[2]
    return int(last) if last.isdigit() else 0


CONSERVATIVE = EASY.replace("mode: easy", "mode: conservative")
USER_HISTORY = EASY.replace("mode: easy", "mode: easy, estimate: user-history")
USER_HISTORY_SHORTEST = EASY.replace("mode: easy", "mode: easy, estimate: user-history, order: shortest")
DRF = EASY.replace("{name: gang}", "{name: gang}, {name: drf}")
ORDERS = {
    "easy, first come": (EASY, ", namespace: all"),
    "easy, shortest": (EASY.replace("mode: easy", "mode: easy, order: shortest"), ", namespace: all"),
    "easy, drf": (DRF, ""),
    "easy, drf, keepHead": (DRF.replace("mode: easy", "mode: easy, keepHead: true"), ""),
    "conservative, first come": (CONSERVATIVE, ", namespace: all"),
    "conservative, drf": (DRF.replace("mode: easy", "mode: conservative"), ""),
}
"""Policies whose planned starts are counted, and how jobs get their namespaces: drf is an order over users."""


def batsim_run(text: str = EASY) -> Watched:
    trace = f"{{format: batsim, file: {data_file('batsim-medium-late', 'medium_late.json')}}}"
    return Watched(f"cluster: {{trace: {trace}}}\nworkload: {{trace: {trace}}}\n", policy(text, "batsim"))


def kth_run(processors: int, text: str = EASY, first: int = 0, namespaces: str = ", namespace: all") -> Watched:
    """The machine is one pool: a node with all processors; a job is one pod that requests as many as it needs."""
    file = data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz")
    some = f", first: {first}" if first else ""
    trace = f"{{format: swf, file: {file}, onePod: true{namespaces}{some}}}"
    scenario = f"cluster: {{nodes: 1 x {{cpu: {processors}}}}}\nworkload: {{trace: {trace}}}\n"
    return Watched(scenario, policy(text, "kth"))
