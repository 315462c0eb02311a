"""E4: tenants over time. Three busy days of the Philly trace on fewer GPUs than requested, two ways.

First come, first served puts the jobs of all tenants in one queue; fair share gives each tenant (a virtual cluster) its
own queue and serves the one with the least allocated. Both skip a gang that does not fit now. The metrics count
tenants by the trace's own names in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.data import data_file
from experiments.engine import Watched, policy
from fairway.sim.metrics import Metrics

NODES, GPUS = 30, 8
JOBS = 4898
"""Of the slice."""

FROM, DAYS = "42d", "3d"

FAIR = """\
actions: [enqueue, allocate]
tiers:
- plugins: [{name: gang}, {name: drf}, {name: predicates}, {name: nodeorder}]
"""
FIRST_COME = FAIR.replace("{name: drf}, ", "")


@dataclass(frozen=True, slots=True)
class TenantResult:
    policy: str
    metrics: Metrics
    requested: float
    """GPUs, on average over the days in which jobs arrive."""


def results() -> Iterator[TenantResult]:
    for name, text, in_one_line in (("first come", FIRST_COME, True), ("fair share", FAIR, False)):
        run = Watched(_scenario(in_one_line), policy(text, name))
        gpu_seconds = sum(start.job.hosts * start.job.run for start in run.starts)
        last = max(start.job.submit for start in run.starts)
        yield TenantResult(name, run.result.report.metrics, gpu_seconds / last)


def _scenario(in_one_line: bool) -> str:
    file = data_file("philly", "philly.csv.gz")
    line = ", namespace: all" if in_one_line else ""
    return (
        f"cluster: {{nodes: {NODES} x {{nvidia.com/gpu: {GPUS}}}}}\n"
        f"workload: {{trace: {{format: philly, file: {file}, after: {FROM}, until: {DAYS}{line}}}}}\n"
    )
