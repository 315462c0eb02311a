"""What the simulator costs: seconds for two published traces, and against a loop that does nothing but its heap."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.data import data_file
from experiments.e1 import KTH_PROCESSORS
from experiments.engine import EASY, policy
from fairway.api.policy import Policy, default_policy
from fairway.scheduler.registry import default_registry
from fairway.sim.report import Speed
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    speed: Speed
    bare: float
    """Events per second of the bare loop, on as many events."""
    limit: float
    """Seconds that it may take at most."""

    @property
    def ratio(self) -> float:
        """How many events of the bare loop one event costs."""
        return self.bare / (self.speed.events / self.speed.seconds)


def costs() -> list[Cost]:
    return [_cost("openb default, built-in policy", _openb(), 20.0), _cost("KTH, easy", _kth(), 10.0)]


def _cost(name: str, run: Simulation, limit: float) -> Cost:
    speed = run.run().speed
    return Cost(name, speed, bare_loop(speed.events), limit)


def _openb() -> Simulation:
    nodes, pods = (data_file("openb", f"openb_{name}.csv") for name in ("node_list_all_node", "pod_list_default"))
    scenario = (
        f"cluster: {{trace: {{format: openb, file: {nodes}}}}}\nworkload: {{trace: {{format: openb, file: {pods}}}}}\n"
    )
    return _simulation(scenario, default_policy(default_registry().catalog))


def _kth() -> Simulation:
    file = data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz")
    trace = f"{{format: swf, file: {file}, onePod: true, namespace: all}}"
    scenario = f"cluster: {{nodes: 1 x {{cpu: {KTH_PROCESSORS}}}}}\nworkload: {{trace: {trace}}}\n"
    return _simulation(scenario, policy(EASY, "easy"))


def _simulation(scenario: str, chosen: Policy) -> Simulation:
    """Not watched: who looks at every plan pays for it."""
    return Simulation(parse_scenario(scenario, Path("experiment.yaml")), chosen)


def bare_loop(events: int, alive: int = 1000) -> float:
    """Events per second of a heap with `alive` entries, each of which is put back once it has happened."""
    heap = [(index, index) for index in range(alive)]
    begin = time.perf_counter()
    for number in range(events):
        when, _ = heapq.heappop(heap)
        heapq.heappush(heap, (when + alive, number))
    return events / (time.perf_counter() - begin)
