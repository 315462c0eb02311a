"""E3: GPU packing by the engine. Five workloads, four policies, ten seeds, against the published means.

Every run is made twice: by `decide` and by a reference in plain numpy. They must agree pod by pod and GPU by GPU; only
random choices differ.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import mean, stdev

import numpy as np

from experiments.data import data_file
from experiments.packers import BestFit, DotProd, Fgd, Random
from experiments.packing import Fleet, Packer, allocation, pack, workload
from experiments.packing_engine import PLUGINS, pack_by_engine, policy_of
from fairway.sim.traces import TraceNode, TraceProblems
from fairway.sim.traces.csv_traces import OpenbPod, read_openb_nodes, read_openb_pods

SEEDS = 10
WORKLOADS = ("default", "cpu100", "gpushare40", "gpuspec10", "multigpu20")
TOLERANCES = {"FGD": 0.30, "BestFit": 0.35, "DotProd": 0.50, "Random": 1.2}
PUBLISHED = {
    "default": {"FGD": (95.23, 95.39), "BestFit": (92.86, 93.08), "DotProd": (90.62, 90.85), "Random": (86.30,
    87.47)}, "cpu100": {"FGD": (95.21, 95.35), "BestFit": (93.26, 93.44), "DotProd": (91.73, 91.95), "Random":
    (87.44, 89.11)}, "gpushare40": {"FGD": (93.96, 94.15), "BestFit": (91.44, 91.69), "DotProd": (89.30,
    89.56), "Random": (84.86, 86.00)}, "gpuspec10": {"FGD": (94.66, 94.95), "BestFit": (93.10, 93.31),
    "DotProd": (90.17, 90.39), "Random": (86.26, 87.43)}, "multigpu20": {"FGD": (95.53, 95.65), "BestFit":
    (93.73, 93.93), "DotProd": (91.85, 92.06), "Random": (86.92, 88.69)},
}  # fmt: skip

MakePacker = Callable[[Sequence[OpenbPod], Fleet, np.random.Generator], Packer]
PACKERS: dict[str, MakePacker] = {
    "FGD": lambda pods, fleet, _: Fgd(pods, fleet),
    "BestFit": lambda *_: BestFit(),
    "DotProd": lambda *_: DotProd(),
    "Random": lambda _, __, dice: Random(dice),
}
DRAWN = "Random"
"""The policy with random choices."""


@dataclass(frozen=True, slots=True)
class Run:
    """GPU allocation in percent when 100 % and 130 % of the capacity had been requested."""

    engine: list[float]
    reference: list[float]
    pods: int
    alike: int
    """Pods that both put on the same node and the same GPUs, or nowhere."""
    seconds: float
    """CPU time of the engine."""


@dataclass(frozen=True, slots=True)
class PackingResult:
    """The runs of all seeds."""

    workload: str
    policy: str
    runs: Sequence[Run]

    @property
    def means(self) -> list[float]:
        return [mean(run.engine[mark] for run in self.runs) for mark in (0, 1)]

    @property
    def deviations(self) -> list[float]:
        return [stdev(run.engine[mark] for run in self.runs) if len(self.runs) > 1 else 0.0 for mark in (0, 1)]

    @property
    def reference(self) -> list[float]:
        return [mean(run.reference[mark] for run in self.runs) for mark in (0, 1)]

    @property
    def off(self) -> list[float]:
        """Points above the published means."""
        return [found - then for found, then in zip(self.means, PUBLISHED[self.workload][self.policy], strict=True)]

    @property
    def within(self) -> bool:
        return all(abs(points) <= TOLERANCES[self.policy] for points in self.off)

    @property
    def alike(self) -> bool:
        return all(run.alike == run.pods for run in self.runs)

    @property
    def seconds(self) -> float:
        return mean(run.seconds for run in self.runs)


def results(seeds: int = SEEDS, workloads: Sequence[str] = WORKLOADS) -> Iterator[PackingResult]:
    """Runs are independent of each other, so all processors work on them."""
    cells = list(product(workloads, PLUGINS))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(_run, ((*cell, seed) for cell in cells for seed in range(seeds)))
        for name, policy in cells:
            yield PackingResult(name, policy, [next(runs) for _ in range(seeds)])


def _run(given: tuple[str, str, int]) -> Run:
    name, policy, seed = given
    return one_run(_nodes(), _listed(name), policy, seed)


def one_run(nodes: Sequence[TraceNode], listed: Sequence[OpenbPod], policy: str, seed: int) -> Run:
    """The seed decides the nodes' order, the pods' order and copies, and what a random policy draws."""
    dice = np.random.default_rng(seed)
    order = dice.permutation(len(nodes)).tolist()
    fleet = Fleet(nodes, order)
    pods = workload(listed, fleet.capacity, dice)
    begin = time.process_time()
    places = pack_by_engine(nodes, order, pods, policy_of(policy, seed))
    seconds = time.process_time() - begin
    expected = pack(fleet, pods, PACKERS[policy](pods, fleet, dice))
    return Run(
        engine=allocation(pods, places, fleet.capacity),
        reference=allocation(pods, expected, fleet.capacity),
        pods=len(pods),
        alike=sum(place == other for place, other in zip(places, expected, strict=True)),
        seconds=seconds,
    )


@lru_cache(maxsize=1)
def _nodes() -> Sequence[TraceNode]:
    return list(read_openb_nodes(data_file("openb", "openb_node_list_gpu_node.csv"), _strict()))


@lru_cache(maxsize=1)
def _listed(name: str) -> Sequence[OpenbPod]:
    return list(read_openb_pods(data_file("openb", f"openb_pod_list_{name}.csv"), _strict()))


def _strict() -> TraceProblems:
    return TraceProblems("openb", strict=True)
