"""The difference that supposed changes make: to the next cycle, or to all that is known to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fairway.app.view.what_if.supposing import supposed

from fairway.app.explain.look_ahead import LookAhead
from fairway.app.explain.situation import Situation
from fairway.app.view.amounts import base_of_text
from fairway.app.view.models.what_if import (
    SupposedJob,
    SupposedQueue,
    SupposedTotals,
    WhatIfAnswer,
    WhatIfRequest,
)
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.decide import decide_and_explain
from fairway.scheduler.plan import ExplainedPlan
from fairway.sim.spans import rounded_span
from fairway.state.cluster import ClusterState
from fairway.state.jobs import ON_NODE

MOST_JOBS = 500
MOST_EVICTIONS = 1_000


@dataclass
class _Outcome:
    """How all jobs fare in one of the two situations."""

    states: dict[str, str]
    queues: dict[str, str]
    messages: dict[str, str]
    plan: ExplainedPlan
    evictions: list[str]
    starts: dict[str, Micros] = field(default_factory=dict)
    complete: bool = True


def answer(situation: Situation, request: WhatIfRequest) -> WhatIfAnswer:
    """InputError where a change cannot be made. `seconds` is left to the caller, who has a clock."""
    changed = supposed(situation, request.changes)
    horizon = situation.now + int(request.horizon_seconds * SECOND)
    look = _decided if request.mode == "decide" else lambda one: _simulated(one, horizon)
    before, after = look(situation), look(changed)
    jobs = _jobs(before, after, request.mode)
    evictions = sorted(set(after.evictions) - set(before.evictions))
    return WhatIfAnswer(
        mode=request.mode,
        sentence=_sentence(before, after, jobs, evictions),
        before=_totals(situation, before),
        after=_totals(changed, after),
        jobs=jobs[:MOST_JOBS],
        jobs_total=len(jobs),
        queues=_queues(before.plan, after.plan),
        evictions=evictions[:MOST_EVICTIONS],
        warnings=[text for text in after.plan.warnings if text not in before.plan.warnings],
        seconds=0.0,
        complete=before.complete and after.complete,
    )


def _decided(situation: Situation) -> _Outcome:
    plan = situation.decide()
    return _outcome(situation.state, plan)


def _outcome(state: ClusterState, plan: ExplainedPlan) -> _Outcome:
    starting = {binding.job for binding in plan.bindings}
    waiting = {entry.job: entry.message for entry in plan.pending}
    evicted = {eviction.pod for eviction in plan.evictions}
    states: dict[str, str] = {}
    queues: dict[str, str] = {}
    for job in state.jobs():
        queues[job.key] = job.queue
        placed = [task for task in job.tasks if task.state in ON_NODE]
        if placed and any(task.key in evicted for task in placed):
            states[job.key] = "evicted"
        elif job.key in starting:
            states[job.key] = "starting"
        else:
            states[job.key] = "waiting" if job.key in waiting and not placed else "running"
    return _Outcome(states, queues, waiting, plan, [eviction.pod for eviction in plan.evictions])


def _simulated(situation: Situation, horizon: Micros) -> _Outcome:
    """All that is known to come, until the horizon: who starts when, and what is allocated then."""
    found = _decided(situation)
    waiting = {job for job, state in found.states.items() if state in ("waiting", "starting")}
    ahead = LookAhead(situation)
    ahead.run(waiting, until=horizon)
    found.starts = {job: at for job, at in ahead.started.items() if job in waiting and at <= horizon}
    found.complete = ahead.now >= horizon or not ahead.goes_on or waiting <= ahead.started.keys()
    found.plan = decide_and_explain(ahead.state, situation.policy, ahead.now)
    found.messages = {entry.job: entry.message for entry in found.plan.pending}
    for job in waiting:
        found.states[job] = "starting" if job in found.starts else "waiting"
    return found


def _jobs(before: _Outcome, after: _Outcome, mode: Literal["decide", "simulate"]) -> list[SupposedJob]:
    found = []
    for job in before.states.keys() | after.states.keys():
        one, two = before.states.get(job, "absent"), after.states.get(job, "absent")
        start, other = before.starts.get(job), after.starts.get(job)
        if (one, start) == (two, other):
            continue
        found.append(
            SupposedJob(
                job=job,
                queue=after.queues.get(job) or before.queues.get(job, ""),
                before=one,
                after=two,
                message=after.messages.get(job, "") if two == "waiting" else "",
                start_before=None if start is None else format_rfc3339(start),
                start_after=None if other is None else format_rfc3339(other),
                earlier_seconds=None if start is None or other is None else (start - other) / SECOND,
            )
        )
    return sorted(found, key=lambda row: (-abs(row.earlier_seconds or 0.0), row.after, row.job))


def _queues(before: ExplainedPlan, after: ExplainedPlan) -> list[SupposedQueue]:
    old, new = ({queue.name: queue for queue in plan.queues} for plan in (before, after))
    found = []
    for name in sorted(old.keys() | new.keys()):
        amounts = [
            base_of_text(getattr(queues[name], part)) if name in queues else {}
            for queues in (old, new)
            for part in ("deserved", "allocated")
        ]
        deserved, allocated, later_deserved, later_allocated = amounts
        for resource in sorted({name for one in amounts for name in one}):
            row = SupposedQueue(
                name,
                resource,
                deserved.get(resource, 0),
                later_deserved.get(resource, 0),
                allocated.get(resource, 0),
                later_allocated.get(resource, 0),
            )
            if (row.deserved_before, row.allocated_before) != (row.deserved_after, row.allocated_after):
                found.append(row)
    return found


def _totals(situation: Situation, found: _Outcome) -> SupposedTotals:
    states = list(found.states.values())
    created = {job.key: job.created for job in situation.state.jobs()}
    waits = [(at - born) / SECOND for job, at in found.starts.items() if (born := created.get(job)) is not None]
    return SupposedTotals(
        waiting=states.count("waiting"),
        started=states.count("starting"),
        evicted=len(found.evictions),
        mean_wait_seconds=round(sum(waits) / len(waits), 3) if waits else None,
        utilisation=_utilisation(situation, found.plan),
    )


def _utilisation(situation: Situation, plan: ExplainedPlan) -> dict[str, float]:
    whole: dict[str, float] = {}
    for node in situation.nodes():
        for name, amount in base_of_text(dict(node.allocatable)).items():
            whole[name] = whole.get(name, 0.0) + amount
    used: dict[str, float] = {}
    tops = {queue.name for queue in plan.queues}
    for queue in plan.queues:
        if queue.parent not in tops:
            for name, amount in base_of_text(queue.allocated).items():
                used[name] = used.get(name, 0.0) + amount
    return {name: round(amount / whole[name], 4) for name, amount in sorted(used.items()) if whole.get(name)}


def _sentence(before: _Outcome, after: _Outcome, jobs: list[SupposedJob], evictions: list[str]) -> str:
    if not jobs and not evictions:
        return "Nothing changes for any job."
    parts = []
    starts = sum(row.after == "starting" and row.before in ("waiting", "absent") for row in jobs)
    waits = sum(row.after == "waiting" and row.before in ("starting", "absent") for row in jobs)
    sooner = [row.earlier_seconds for row in jobs if row.earlier_seconds]
    if starts:
        parts.append(f"{_count(starts)} more would start")
    if waits:
        parts.append(f"{_count(waits)} more would wait")
    if evictions:
        parts.append(f"{len(evictions)} more {'pod' if len(evictions) == 1 else 'pods'} would be evicted")
    for word, chosen in (
        ("earlier", [one for one in sooner if one > 0]),
        ("later", [-one for one in sooner if one < 0]),
    ):
        if chosen:
            most = rounded_span(int(max(chosen) * SECOND))
            parts.append(f"{_count(len(chosen))} would start {word} (at most by {most})")
    return (", ".join(parts) or f"{_count(len(jobs))} would fare otherwise").capitalize() + "."


def _count(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
