"""Why a job is pending, which changes would start it now, and when it will start.

    explain(Situation(objects, policy, now), "team-a/train") -> Explanation

The objects are never changed: everything is tried on copies of the cluster. `situation` is such a copy. `search` finds
smallest changes, `changes` lists the kinds of change, and `counterfactual` tries all of them. `look_ahead` rolls a copy
forward in time.
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.api.arguments import EvictionArguments
from fairway.api.policy import Policy
from fairway.app.explain.counterfactual import counterfactual
from fairway.app.explain.look_ahead import forecast
from fairway.app.explain.model import Counterfactual, Explanation, Forecast, JobStanding, StopHistory
from fairway.app.explain.situation import PastRun, Situation
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.eviction.protections import protection
from fairway.scheduler.plan import Binding, ExplainedPlan, Pending
from fairway.state.cluster import ClusterState
from fairway.state.jobs import READY, Job, TaskState

_ON_NODES = READY - {TaskState.ALLOCATED}
"""States of bound pods; an ALLOCATED pod is still waiting for the rest of its gang."""

__all__ = [
    "Counterfactual",
    "Explanation",
    "Forecast",
    "JobStanding",
    "PastRun",
    "Situation",
    "explain",
    "forecast",
    "stop_history",
]


def explain(
    situation: Situation,
    name: str,
    *,
    with_changes: bool = True,
    with_forecast: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> Explanation:
    """Explain a job; InputError if there is no job of that name.

    Searching for changes that would start it now takes some hundred runs of `decide`, a forecast up to a thousand. A
    caller that shows one before the other leaves one of them out (`with_changes`, `with_forecast`). A forecast ends
    early once `stop` returns True.
    """
    key = situation.find_job(name)
    plan = situation.decide()
    state = situation.state
    job = next(job for job in state.jobs() if job.key == key)
    line = [pending for pending in plan.pending if pending.queue == job.queue]
    pending = next((pending for pending in line if pending.job == key), None)
    evicted = tuple(eviction.pod for eviction in plan.evictions if eviction.for_ == key)
    standing = _standing(plan, job, pending, evicted)
    reserved = _reserved(plan, job)
    return Explanation(
        job=key,
        now=format_rfc3339(situation.now),
        standing=standing,
        reason=pending.reason if pending else "",
        message=pending.message if pending else "",
        nodes=pending.nodes if pending else {},
        queue=next((queue for queue in plan.queues if queue.name == job.queue), None),
        namespace=next((n for n in plan.namespaces if (n.queue, n.namespace) == (job.queue, job.namespace)), None),
        waiting=max(0, pending.waiting - reserved) if pending else 0,
        allocated=sum(task.state in _ON_NODES for task in job.tasks),
        reserved=reserved,
        minimum=job.minimum,
        priority=job.priority,
        position=pending.position if pending else 0,
        line=len(line),
        starving=pending.starving if pending else False,
        since=None if job.created is None else format_rfc3339(job.created),
        places=_places(situation, plan, job),
        reservations=tuple(reservation for reservation in plan.reservations if reservation.job == key),
        evictions=evicted,
        stopped=stop_history(state, situation.policy, job, situation.now),
        counterfactual=counterfactual(situation, plan, key, job.queue)
        if with_changes and standing is JobStanding.WAITING
        else None,
        forecast=forecast(situation, key, stop) if with_forecast and standing.waits else None,
        warnings=plan.warnings,
    )


def _reserved(plan: ExplainedPlan, job: Job) -> int:
    """The number of pending pods with a reserved or nominated node; a planned start reserves no node."""
    kept = {reservation.pod for reservation in plan.reservations if not reservation.anew}
    kept |= {nomination.pod for nomination in plan.nominations}
    return sum(task.key in kept for task in job.tasks)


def _standing(plan: ExplainedPlan, job: Job, pending: Pending | None, evicted: tuple[str, ...]) -> JobStanding:
    if any(binding.job == job.key for binding in plan.bindings):
        return JobStanding.STARTING
    if evicted:
        return JobStanding.EVICTING
    return JobStanding.RUNNING if pending is None else JobStanding.WAITING


def _places(situation: Situation, plan: ExplainedPlan, job: Job) -> tuple[Binding, ...]:
    names = situation.state.nodes.names
    there = [
        Binding(pod=task.key, node=names[task.node], job=job.key)
        for task in sorted(job.tasks, key=lambda task: task.key)
        if task.state in _ON_NODES and task.node >= 0
    ]
    return (*there, *(binding for binding in plan.bindings if binding.job == job.key))


def stop_history(state: ClusterState, policy: Policy, job: Job, now: Micros) -> StopHistory | None:
    """The evictions of a job; None if there were none. If preempt and reclaim differ, the shorter protection counts."""
    record = state.eviction_records.stops(job, now)
    if record is None:
        return None
    times = "once" if record.stops == 1 else f"{record.stops} times"
    spans = [
        protection(action.arguments, record.stops)
        for action in policy.actions
        if isinstance(action.arguments, EvictionArguments)
    ]
    span = min(spans, default=None)
    if span is None:
        return StopHistory(record.stops, text=f"evicted {times}")
    if record.since is None:
        seconds = span // SECOND
        text = f"evicted {times}; protected for {seconds} s from its next start"
        return StopHistory(record.stops, protected_for=seconds, text=text)
    until = format_rfc3339(record.since + span)
    verb = "protected until" if record.since + span > now else "was protected until"
    return StopHistory(record.stops, until, text=f"evicted {times}, {verb} {until}")
