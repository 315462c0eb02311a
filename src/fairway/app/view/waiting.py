"""All jobs that wait, in the order in which they are considered, with the reason and the estimated start of each."""

from __future__ import annotations

import msgspec

from fairway.app.explain.look_ahead import estimated_starts
from fairway.app.explain.situation import Situation
from fairway.clock import Micros, format_rfc3339


class WaitingJob(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    queue: str
    position: int
    job: str
    namespace: str
    priority: int
    pods: int
    """Pods that wait."""
    minimum: int
    reason: str
    message: str
    since: str | None = None
    """When it was created."""
    waiting_for: Micros | None = None
    starving: bool = False
    estimated_start: str | None = None
    """If nothing else arrives; None where that is not known, or too far ahead."""
    starts_in: Micros | None = None
    planned_start: str | None = None
    """A start that backfill protects."""
    hard: bool = False


def waiting_jobs(situation: Situation, queue: str | None = None) -> list[WaitingJob]:
    """The jobs that still wait after the next cycle, of one queue or of all."""
    plan = situation.decide()
    pending = [entry for entry in plan.pending if queue is None or entry.queue == queue]
    starts = estimated_starts(situation, {entry.job for entry in pending})
    planned = {
        entry.job: (entry.planned_start, not (entry.soft or entry.estimated))
        for entry in plan.reservations
        if entry.planned_start is not None
    }
    created = {job.key: job.created for job in situation.state.jobs()}
    rows = []
    for entry in pending:
        since, start = created.get(entry.job), starts.get(entry.job)
        planned_start, hard = planned.get(entry.job, (None, False))
        rows.append(
            WaitingJob(
                queue=entry.queue,
                position=entry.position,
                job=entry.job,
                namespace=entry.namespace,
                priority=entry.priority,
                pods=entry.waiting,
                minimum=entry.minimum,
                reason=entry.reason,
                message=entry.message,
                since=None if since is None else format_rfc3339(since),
                waiting_for=None if since is None else max(0, situation.now - since),
                starving=entry.starving,
                estimated_start=None if start is None else format_rfc3339(start),
                starts_in=None if start is None else start - situation.now,
                planned_start=planned_start,
                hard=hard,
            )
        )
    return rows
