"""A whole `decide` on a made-up backlog, against the baseline kernel on the same nodes and pods in the same process.

`python -m benchmarks.measure` runs it. Each repetition loads the cluster again: baseline kernel, decide, baseline
kernel. The phases of `decide` are measured in one more repetition, because reading the clock so often costs time.
"""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from benchmarks import baseline
from benchmarks.memory import bytes_per_running_pod
from benchmarks.policies import policy_for
from benchmarks.timing import Phases, clock, full_cycle, quiet
from benchmarks.workload import Size, Workload
from fairway.api.policy import Policy
from fairway.scheduler.decide import OpenCycle
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.state.cluster import ClusterState

LIMIT_PODS = 5_000
"""Part of the backlog that the baseline kernel places each time; its cost per pod does not depend on it."""

MEMORY_PODS = 20_000


class Run:
    """One repetition."""

    def __init__(self, workload: Workload, policy: Policy) -> None:
        self.phases = Phases()
        state = ClusterState()
        state.upsert(workload.cluster())
        backlog = list(workload.backlog())
        self.phases = Phases()
        state.upsert(backlog)
        self.phases.mark("apply events")
        del backlog
        sample = workload.requests()[:LIMIT_PODS]
        with quiet():
            self.limit_before = baseline.rate(workload.idle(), sample)
            self.cycle = self._decide(state, policy)
            self.limit_after = baseline.rate(workload.idle(), sample)

    def _decide(self, state: ClusterState, policy: Policy) -> float:
        began = clock()
        plan = full_cycle(state, policy, 0)
        took = clock() - began
        self.placed = plan.placed
        return took

    @property
    def ratio(self) -> float:
        """Seconds per pod of `decide` over those of the baseline kernel, run before and after it."""
        limit_seconds = (1 / self.limit_before + 1 / self.limit_after) / 2
        return self.cycle / max(self.placed, 1) / limit_seconds


class MeteredRun(Run):
    """One more repetition, with a clock in every phase."""

    def _decide(self, state: ClusterState, policy: Policy) -> float:
        phases = Phases()
        with _timed_order() as turns:
            opened = OpenCycle(state, policy, 0, meter=phases)
        self.placed = opened.plan.placed
        self._name(phases.seconds, turns.seconds)
        took = sum(phases.seconds.values())
        opened.explain()
        self.phases.seconds["explain"] = phases.seconds["explain"]
        del opened
        began = clock()
        gc.collect()
        self.phases.seconds["collect garbage"] = clock() - began
        return took

    def _name(self, marks: dict[str, float], turns: float) -> None:
        """The marks of `decide` as phases: choosing the next job counts as order, wherever it happens."""
        place = marks["allocate"] + marks["backfill"] - turns
        self.phases.seconds |= {
            "open session": marks["open"],
            "order": marks["enqueue"] + turns,
            "place": place,
            "make the plan": marks["plan"],
        }


def run(size: Size, score: str, repeat: int) -> dict[str, Any]:
    """What `python -m benchmarks.measure -o json` prints."""
    workload, policy = Workload(size), policy_for(score)
    runs = [Run(workload, policy) for _ in range(repeat)]
    cycle = statistics.median(run.cycle for run in runs)
    ratios = [run.ratio for run in runs]
    return {
        "nodes": size.nodes,
        "pods": size.pods,
        "gang": size.gang,
        "min_member": size.minimum,
        "queues": size.queues,
        "namespaces": size.namespaces,
        "shapes": size.shapes,
        "score": score,
        "repeat": repeat,
        "placed": runs[-1].placed,
        "decisions_per_second": round(runs[-1].placed / cycle),
        "limit_per_second": {
            "before": round(statistics.median(run.limit_before for run in runs)),
            "after": round(statistics.median(run.limit_after for run in runs)),
        },
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "cycle_seconds": round(cycle, 4),
        "phase_seconds": {name: round(took, 4) for name, took in MeteredRun(workload, policy).phases.seconds.items()},
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "bytes_per_running_pod": bytes_per_running_pod(size, MEMORY_PODS),
    }


class _Turns:
    """Wall-clock seconds: reading the CPU clock takes as long as one turn."""

    seconds = 0.0


@contextmanager
def _timed_order() -> Iterator[_Turns]:
    """While open, the time of allocate's `Order` is measured."""
    turns = _Turns()

    class Timed(Order):
        def __init__(self, keys: Any, jobs: list[JobRun]) -> None:
            began = time.perf_counter()
            super().__init__(keys, jobs)
            turns.seconds += time.perf_counter() - began

        def top(self) -> JobRun:
            began = time.perf_counter()
            job = super().top()
            turns.seconds += time.perf_counter() - began
            return job

        def replace_top(self, *jobs: JobRun) -> None:
            began = time.perf_counter()
            super().replace_top(*jobs)
            turns.seconds += time.perf_counter() - began

    module: Any = import_module("fairway.scheduler.actions.allocate")
    module.Order = Timed
    try:
        yield turns
    finally:
        module.Order = Order
