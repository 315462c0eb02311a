"""Compare two policies, or two fleets, on the same jobs: which jobs gain, which lose, and by how much.

Runs are paired by seed: both policies see the same arrivals and run times. A difference is the mean over the seeds,
with its 95% confidence interval (Student's t over the paired differences).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Literal

import msgspec

from fairway.sim.metrics import SIZE_CLASSES, Metrics, WaitMetrics
from fairway.sim.report.model import FleetView, RunReport

_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T95_FAR = 1.96


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """A measure under both policies. `lower_is_better` is None where neither direction is better."""

    name: str
    unit: str
    first: float
    second: float
    change: float
    """second - first."""
    margin: float
    """Half the 95% confidence interval of the change; 0 for a single seed."""
    lower_is_better: bool | None
    jobs: int = 0

    @property
    def verdict(self) -> Literal["better", "worse", ""]:
        """Empty where the change is zero or within the margin."""
        if self.lower_is_better is None or self.change == 0 or abs(self.change) <= self.margin:
            return ""
        return "better" if (self.change < 0) == self.lower_is_better else "worse"


class RunComparison(msgspec.Struct, frozen=True, rename="camel"):
    scenario: str
    first: str
    second: str
    seeds: Sequence[int]
    overall: Sequence[Difference]
    queues: Sequence[Difference]
    """Mean wait of each queue's jobs. The next two have it by namespace and by size."""
    namespaces: Sequence[Difference]
    sizes: Sequence[Difference]
    gaining: Sequence[Difference] = ()
    """The first jobs that wait less under the second policy, the largest change first."""
    gaining_jobs: int = 0
    """Number of all such jobs."""
    losing: Sequence[Difference] = ()
    losing_jobs: int = 0
    clusters: Sequence[Difference] = ()
    """Measures of a fleet: moves, jobs without a cluster, utilisation of each cluster."""


MAX_JOBS = 10
"""Listed jobs that gain, and listed jobs that lose."""

Waits = Sequence[Mapping[str, float]]
"""For each run, waits in seconds by job."""


def compare(
    first: Sequence[RunReport], second: Sequence[RunReport], waits: tuple[Waits, Waits] = ((), ())
) -> RunComparison:
    """Compare reports of the same seeds under two policies. `waits` adds the jobs that gain and lose."""
    jobs = _jobs(*waits)
    gaining = sorted((job for job in jobs if job.change < 0), key=lambda job: (job.change, job.name))
    losing = sorted((job for job in jobs if job.change > 0), key=lambda job: (-job.change, job.name))
    a, b = [report.metrics for report in first], [report.metrics for report in second]
    size_order = {name: index for index, (_, name) in enumerate(SIZE_CLASSES)}
    sizes = sorted(_groups(a, b, lambda metrics: metrics.by_size), key=lambda d: size_order.get(d.name, 0))
    return RunComparison(
        scenario=first[0].scenario,
        first=first[0].policy,
        second=second[0].policy,
        seeds=[report.seed for report in first],
        overall=list(_overall(a, b, same_size=first[0].nodes == second[0].nodes)),
        queues=_groups(a, b, lambda metrics: metrics.by_queue),
        namespaces=_groups(a, b, lambda metrics: metrics.by_namespace),
        sizes=sizes,
        clusters=_fleets(first, second),
        gaining=gaining[:MAX_JOBS],
        gaining_jobs=len(gaining),
        losing=losing[:MAX_JOBS],
        losing_jobs=len(losing),
    )


def _jobs(a: Waits, b: Waits) -> list[Difference]:
    """Mean wait of each job that finished in every run."""
    if not a:
        return []
    names = set.intersection(*(set(waits) for waits in (*a, *b)))
    return [
        _difference(name, "s", True, [waits[name] for waits in a], [waits[name] for waits in b])
        for name in sorted(names)
    ]


def _overall(a: Sequence[Metrics], b: Sequence[Metrics], *, same_size: bool) -> Iterator[Difference]:
    """Utilisation has no better direction where the clusters differ in size: the smaller is fuller with equal work."""
    measures: list[tuple[str, str, bool | None, Callable[[Metrics], float]]] = [
        ("wait, mean", "s", True, lambda m: m.wait.mean),
        ("wait, 95 %", "s", True, lambda m: m.wait.p95),
        ("wait, longest", "s", True, lambda m: m.wait.max),
        ("bounded slowdown", "", True, lambda m: m.wait.slowdown_mean),
        ("makespan", "s", True, lambda m: m.makespan),
        ("slowdown weighted by area", "", True, lambda m: m.wait.slowdown_weighted),
        ("wait of users, mean", "s", True, lambda m: m.users.wait.mean),
        ("wait of users, deviation", "s", True, lambda m: m.users.wait.deviation),
        ("normalised user wait", "", True, lambda m: m.users.normalised_wait.mean),
        ("planned starts missed", "", True, lambda m: float(m.planned.missed)),
        ("share deviation", "", True, lambda m: m.deviation_mean),
        ("longest below its share", "s", True, lambda m: m.starvation.namespace_longest),
        ("evictions", "", True, lambda m: float(m.preemption.evictions)),
        ("most stops of one job", "", True, lambda m: float(m.preemption.most_stops)),
        ("dominant hours lost", "", True, lambda m: m.preemption.dominant_hours),
        ("jobs finished", "", False, lambda m: float(m.finished)),
    ]
    for name, unit, lower, measure in measures:
        yield _difference(name, unit, lower, [measure(m) for m in a], [measure(m) for m in b])
    for name in sorted({*a[0].utilisation, *b[0].utilisation}):
        uses = [[_use(m, name) for m in metrics] for metrics in (a, b)]
        yield _difference(f"{name} in use", "%", False if same_size else None, *uses)


def _use(metrics: Metrics, resource: str) -> float:
    """Zero for a resource that the cluster does not have."""
    use = metrics.utilisation.get(resource)
    return 0.0 if use is None else use.to_last_end


def _fleets(first: Sequence[RunReport], second: Sequence[RunReport]) -> list[Difference]:
    """Moves, jobs without a cluster, and utilisation of each cluster; a cluster that only one fleet has counts as
    unused in the other. Empty unless all runs are of fleets.
    """
    a, b = ([report.fleet for report in reports if isinstance(report.fleet, FleetView)] for reports in (first, second))
    if len(a) < len(first) or len(b) < len(second):
        return []
    rows = [
        _difference("moves", "", True, [float(v.moves) for v in a], [float(v.moves) for v in b]),
        _difference("jobs without a cluster", "", True, [float(v.unplaced) for v in a], [float(v.unplaced) for v in b]),
    ]
    for cluster, resource in dict.fromkeys(
        (member.name, name) for view in (a[0], b[0]) for member in view.clusters for name in member.utilisation
    ):
        uses = [[_cluster_use(view, cluster, resource) for view in views] for views in (a, b)]
        rows.append(_difference(f"{cluster}: {resource} in use", "%", None, *uses))
    return rows


def _cluster_use(view: FleetView, cluster: str, resource: str) -> float:
    return next((member.utilisation.get(resource, 0.0) for member in view.clusters if member.name == cluster), 0.0)


def _groups(
    a: Sequence[Metrics], b: Sequence[Metrics], groups: Callable[[Metrics], Mapping[str, WaitMetrics]]
) -> list[Difference]:
    """Mean wait of each group that finished jobs in every run, the largest change first."""
    names = set.intersection(*({n for n, g in groups(m).items() if g.jobs} for m in (*a, *b)))
    rows = [
        msgspec.structs.replace(
            _difference(name, "s", True, [groups(m)[name].mean for m in a], [groups(m)[name].mean for m in b]),
            jobs=round(mean(groups(m)[name].jobs for m in a)),
        )
        for name in sorted(names)
    ]
    return sorted(rows, key=lambda difference: -abs(difference.change))


def _difference(name: str, unit: str, lower: bool | None, a: Sequence[float], b: Sequence[float]) -> Difference:
    changes = [after - before for before, after in zip(a, b, strict=True)]
    return Difference(
        name=name,
        unit=unit,
        first=round(mean(a), 6),
        second=round(mean(b), 6),
        change=round(mean(changes), 6),
        margin=round(margin(changes), 6),
        lower_is_better=lower,
    )


def margin(values: Sequence[float]) -> float:
    """Half the 95 % confidence interval of the mean."""
    if len(values) < 2:
        return 0.0
    quantile = _T95[len(values) - 2] if len(values) - 2 < len(_T95) else _T95_FAR
    return quantile * stdev(values) / sqrt(len(values))
