"""The cost of reading all reasons of 100,000 pending pods."""

from __future__ import annotations

from benchmarks.live.scene import report
from benchmarks.policies import policy_for
from benchmarks.timing import medians, quiet, seconds
from benchmarks.unschedulable import waiting
from benchmarks.workload import Size, Workload
from fairway.scheduler.decide import OpenCycle

PODS = 100_000


def reading() -> None:
    state, policy = waiting(Workload(Size(nodes=10_000)), PODS), policy_for("binpack")

    def read() -> float:
        with OpenCycle(state, policy, 0) as cycle:
            return seconds(cycle.explain)

    with quiet():
        (took,) = medians([read], 5)
    report(f"reading {PODS:,} reasons, seconds", took, 0.5)
