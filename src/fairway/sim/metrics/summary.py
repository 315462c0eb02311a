"""The metrics of a run as one value: what the table, the JSON report and the assertions read.

Times are seconds; shares and parts are between 0 and 1. Percentiles are by nearest rank.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairway.clock import SECOND, Micros
from fairway.resources.quantity import AmountUnit, unit_of
from fairway.sim.metrics.outcomes import MILLION, JobGroup, JobOutcome, UserMetrics, user_metrics
from fairway.sim.metrics.recorder import BILLION, MetricsRecorder
from fairway.sim.metrics.tenants import ONE


class WaitMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """How long jobs waited, from submission to their start, and how they were slowed down."""

    jobs: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float
    longest: JobOutcome | None
    slowdown_mean: float
    slowdown_p99: float
    slowdown_weighted: float
    """The mean of bounded slowdowns, each weighted by its job's area: processors times run time."""


class UtilisationMetrics(msgspec.Struct, frozen=True, rename="camel"):
    to_last_end: float
    to_last_submit: float
    to_last_start: float


class PlannedMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """Planned starts of jobs that started, or should have. Missing a hard one is an error of the scheduler."""

    kept: int
    missed: int
    soft_kept: int
    soft_missed: int
    worst: float
    """The largest miss of a hard planned start, in seconds."""
    worst_job: str


class StarvationMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """The longest time that a namespace waited for its share, and a queue for its guarantee."""

    namespace: str
    namespace_longest: float
    queue: str
    queue_longest: float


class PreemptionMetrics(msgspec.Struct, frozen=True, rename="camel"):
    evictions: int
    by_queue: Mapping[str, int]
    lost_work: Mapping[str, float]
    """Amount-seconds of each resource, in its own unit (CPU-seconds, byte-seconds)."""
    dominant_hours: float
    """Work lost by eviction: the dominant share of the evicted pods, times hours. 1 is the whole cluster for an
    hour.
    """
    repeat_victims: int
    """Jobs that were stopped more than once: evictions took them below their minimum."""
    most_stops: int
    most_stopped_job: str
    failures: int
    """Pods that were lost with their node."""
    failed_work: Mapping[str, float]


class Metrics(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that one run is judged by."""

    submitted: int
    finished: int
    running: int
    waiting: int
    withdrawn: int
    longest_waiting: float
    longest_waiting_job: str
    makespan: float
    wait: WaitMetrics
    utilisation: Mapping[str, UtilisationMetrics]
    jain: float | None
    """None unless several namespaces are still waiting at the end: once all is served it only shows how much each
    requested.
    """
    deviation_mean: float
    deviation_p99: float
    fragmentation: float
    """The idle fraction of the most used resource, on average over the time with pending jobs."""
    users: UserMetrics
    planned: PlannedMetrics
    starvation: StarvationMetrics
    preemption: PreemptionMetrics
    by_queue: Mapping[str, WaitMetrics]
    by_namespace: Mapping[str, WaitMetrics]
    by_size: Mapping[str, WaitMetrics]
    service: Mapping[str, float]
    """For each namespace: its dominant share, summed over time, in cluster-seconds."""


def summarize(recorder: MetricsRecorder) -> Metrics:
    """The metrics of a closed recorder."""
    outcomes = recorder.outcomes
    end, first = recorder.at_last_end[0], recorder.first_submit
    return Metrics(
        submitted=outcomes.submitted,
        finished=outcomes.finished,
        running=outcomes.running,
        waiting=outcomes.waiting,
        withdrawn=outcomes.withdrawn,
        longest_waiting=_seconds(outcomes.longest_waiting[0]),
        longest_waiting_job=outcomes.longest_waiting[1],
        makespan=_seconds(end - first) if outcomes.finished and first is not None else 0.0,
        wait=_waits(outcomes.all),
        utilisation=_utilisation(recorder),
        jain=_rounded(jain(_services_by_weight(recorder))) if len(recorder.backlogged_at_end) > 1 else None,
        deviation_mean=_rounded(recorder.deviation.mean() / BILLION),
        deviation_p99=_rounded(recorder.deviation.percentile(99) / BILLION),
        fragmentation=_rounded(recorder.idle_area / BILLION / recorder.backlogged) if recorder.backlogged else 0.0,
        users=user_metrics(outcomes.by_namespace),
        planned=_planned(recorder),
        starvation=_starvation(recorder),
        preemption=_preemption(recorder),
        by_queue=_groups(outcomes.by_queue),
        by_namespace=_groups(outcomes.by_namespace),
        by_size=_groups(outcomes.by_size),
        service={name: _rounded(value / SECOND) for name, value in sorted(_services(recorder).items())},
    )


def jain(values: list[float]) -> float:
    """Jain's index: 1 if all are equal, 1/n if one has everything; 1 if empty."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _services(recorder: MetricsRecorder) -> dict[str, float]:
    found: dict[str, float] = {}
    for queue in recorder.queues.values():
        for name, holder in queue.namespaces.items():
            found[name] = found.get(name, 0.0) + holder.service / ONE
    return found


def _services_by_weight(recorder: MetricsRecorder) -> list[float]:
    return [
        holder.service / ONE / holder.weight
        for _, queue in sorted(recorder.queues.items())
        for _, holder in sorted(queue.namespaces.items())
    ]


def _utilisation(recorder: MetricsRecorder) -> dict[str, UtilisationMetrics]:
    _, used_to_end, had_to_end = recorder.at_last_end
    _, used_to_submit, had_to_submit = recorder.at_last_submit
    _, used_to_start, had_to_start = recorder.at_last_start
    return {
        name: UtilisationMetrics(
            _part(used_to_end[index], had_to_end[index]),
            _part(used_to_submit[index], had_to_submit[index]),
            _part(used_to_start[index], had_to_start[index]),
        )
        for index, name in enumerate(recorder.resources)
    }


def _starvation(recorder: MetricsRecorder) -> StarvationMetrics:
    queues = recorder.queues.values()
    below = [(n.longest_below, f"{queue.name}/{n.name}") for queue in queues for n in queue.namespaces.values()]
    longest, namespace = max(below, default=(0, ""))
    queue_longest, queue_name = max(((queue.longest_below, queue.name) for queue in queues), default=(0, ""))
    return StarvationMetrics(
        namespace if longest else "",
        _seconds(longest),
        queue_name if queue_longest else "",
        _seconds(queue_longest),
    )


def _planned(recorder: MetricsRecorder) -> PlannedMetrics:
    planned = recorder.planned
    late, job = planned.worst
    return PlannedMetrics(planned.kept, planned.missed, planned.soft_kept, planned.soft_missed, _seconds(late), job)


def _preemption(recorder: MetricsRecorder) -> PreemptionMetrics:
    outcomes = recorder.outcomes
    return PreemptionMetrics(
        evictions=outcomes.evictions,
        by_queue=dict(sorted(outcomes.evictions_by_queue.items())),
        lost_work={name: _rounded(work / SECOND / per_unit(name)) for name, work in outcomes.lost_work.items() if work},
        dominant_hours=_rounded(outcomes.lost_dominant / ONE / SECOND / 3600),
        repeat_victims=outcomes.repeat_victims,
        most_stops=outcomes.most_stops[0],
        most_stopped_job=outcomes.most_stops[1],
        failures=outcomes.failures,
        failed_work=_work(outcomes.failed_work),
    )


def _work(amounts: Mapping[str, int]) -> dict[str, float]:
    return {name: _rounded(work / SECOND / per_unit(name)) for name, work in amounts.items() if work}


def per_unit(resource: str) -> int:
    """Kept amounts per unit of a resource, as people count it."""
    return 1000 if unit_of(resource) is AmountUnit.MILLI else 1


def _groups(groups: Mapping[str, JobGroup]) -> dict[str, WaitMetrics]:
    return {name: _waits(groups[name]) for name in sorted(groups)}


def _waits(group: JobGroup) -> WaitMetrics:
    p50, p95, p99 = group.wait.percentiles(50, 95, 99)
    return WaitMetrics(
        jobs=group.wait.count,
        mean=_rounded(group.wait.mean() / SECOND),
        p50=_seconds(p50),
        p95=_seconds(p95),
        p99=_seconds(p99),
        max=_seconds(group.wait.largest),
        longest=group.longest,
        slowdown_mean=_rounded(group.slowdown.mean() / MILLION),
        slowdown_p99=_rounded(group.slowdown.percentile(99) / MILLION),
        slowdown_weighted=_rounded(group.slowed_area / group.area / MILLION) if group.area else 0.0,
    )


def _seconds(span: Micros) -> float:
    return span / SECOND


def _part(part: int, whole: int) -> float:
    return _rounded(part / whole) if whole else 0.0


def _rounded(value: float) -> float:
    return round(value, 6)
