"""Why a job waits, what would start it now, and when it starts anyway.

    explain(Situation(objects, policy, now), "team-a/train") -> Explanation

The objects are never changed: the question is put to copies of the cluster that they describe.
"""

from __future__ import annotations

from collections.abc import Callable

from fairway.app.explain.counterfactual import counterfactual
from fairway.app.explain.forecast import forecast
from fairway.app.explain.model import Explanation, JobStanding
from fairway.app.explain.situation import Situation
from fairway.app.explain.stops import stop_history
from fairway.clock import format_rfc3339
from fairway.scheduler.plan import Binding, ExplainedPlan, Pending
from fairway.state.jobs import READY, Job, TaskState

_ON_NODES = READY - {TaskState.ALLOCATED}
"""States of pods that are bound; one with capacity that is kept for it still waits for its gang."""

__all__ = ["Explanation", "JobStanding", "Situation", "explain"]


def explain(
    situation: Situation,
    name: str,
    *,
    with_changes: bool = True,
    with_forecast: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> Explanation:
    """All there is to say of a job; InputError where there is none of that name.

    What would start it now (`with_changes`) takes some decisions, when it starts (`with_forecast`) up to a thousand:
    what is to be shown before the other is there is worked out by itself. A forecast ends where `stop` says so.
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
    """Of how many pods that wait a place is reserved or nominated; a planned start keeps no node."""
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
