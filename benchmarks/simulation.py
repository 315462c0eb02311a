"""What the simulator costs: processor seconds for two published traces, and against a loop that does nothing but its
heap.

FAIRWAY_DATA=/path/to/data python -m benchmarks.simulation
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from pathlib import Path

from experiments.data import data_file
from experiments.e1 import KTH_PROCESSORS
from experiments.engine import EASY, policy

from benchmarks.timing import clock
from fairway.api.policy import Policy, default_policy
from fairway.errors import InputError
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.report import Speed
from fairway.sim.run import Simulation
from fairway.sim.scenario import parse_scenario


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    speed: Speed
    seconds: float
    """Seconds of CPU time."""
    bare: float
    """Events per second of the bare loop, on as many events."""
    wanted: float
    """Target in seconds."""

    @property
    def ratio(self) -> float:
        """The cost of one event, in events of the bare loop."""
        return self.bare / (self.speed.events / self.seconds)


def costs() -> list[Cost]:
    built_in = default_policy(default_registry().catalog)
    return [
        _cost("openb, built-in policy", _openb(built_in), 20.0),
        _cost("KTH, built-in policy", _kth(built_in), 12.0),
        _cost("KTH, easy backfilling", _kth(policy(EASY, "easy")), 20.0),
    ]


def _cost(name: str, run: Simulation, wanted: float) -> Cost:
    begin = clock()
    speed = run.run().speed
    return Cost(name, speed, clock() - begin, bare_loop(speed.events), wanted)


def _openb(chosen: Policy) -> Simulation:
    nodes, pods = (data_file("openb", f"openb_{name}.csv") for name in ("node_list_all_node", "pod_list_default"))
    scenario = (
        f"cluster: {{trace: {{format: openb, file: {nodes}}}}}\nworkload: {{trace: {{format: openb, file: {pods}}}}}\n"
    )
    return _simulation(scenario, chosen)


def _kth(chosen: Policy) -> Simulation:
    file = data_file("swf", "KTH-SP2-1996-2.1-cln.swf.gz")
    trace = f"{{format: swf, file: {file}, onePod: true, namespace: all}}"
    scenario = f"cluster: {{nodes: 1 x {{cpu: {KTH_PROCESSORS}}}}}\nworkload: {{trace: {trace}}}\n"
    return _simulation(scenario, chosen)


def _simulation(scenario: str, chosen: Policy) -> Simulation:
    """Without an observer: looking at every plan has its own cost."""
    return Simulation(parse_scenario(scenario, Path("experiment.yaml")), chosen)


def bare_loop(events: int, alive: int = 1000) -> float:
    """Events per second of a heap with `alive` entries, each of which is put back once it has happened."""
    heap = [(index, index) for index in range(alive)]
    begin = clock()
    for number in range(events):
        when, _ = heapq.heappop(heap)
        heapq.heappush(heap, (when + alive, number))
    return events / (clock() - begin)


def main() -> None:
    try:
        found = costs()
    except InputError as error:
        print(f"  left out: {error}")
        return
    for cost in found:
        speed = cost.speed
        print(
            f"  {cost.name:32} {cost.seconds:6.1f} s (at most {cost.wanted:g}), {speed.events} events, "
            f"{cost.ratio:.0f} times a bare loop, {100 * speed.decide_seconds / speed.seconds:.0f} % in decide, "
            f"cycle 99 %: {speed.cycle_p99 * 1000:.2f} ms, {speed.peak_memory / 2**20:.0f} MiB"
        )


if __name__ == "__main__":
    main()
