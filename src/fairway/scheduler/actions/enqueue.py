"""enqueue: let a group in when its queue can admit its minimum.

The jobs of a line are alike, so the first speaks for all. What a queue's refused jobs ask for does not count as
its request. Without this action every job is in.
"""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.resources.quantity import format_amount
from fairway.scheduler.framework.candidates import queue_verdict
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.jobs import Job
from fairway.state.queues import Amounts, add
from fairway.state.waiting import INQUEUE, EquivalenceClass


def enqueue(session: Session, arguments: Arguments) -> None:
    waiting = session.state.waiting
    for template, key in list(waiting.not_admitted):
        _admit_class(session, template.classes[key])
    _admit_empty(session)
    for job in waiting.started_not_admitted:
        if job not in waiting.with_reservations:  # else it was let in before, and what it claims counts as allocated
            template, pending_job = waiting.started[job]
            _admit(session, session.job_run(pending_job, template), job, 1)


def _admit_empty(session: Session) -> None:
    """A group without pods is let in when its `minResources` (or, without, nothing) fit: only then are pods made.

    What was let in and has no pods yet counts as if it were allocated, so that not all are let in at once.
    """
    empty = sorted(session.state.waiting.empty, key=lambda job: (job.order, job.key))
    ahead: dict[str, Amounts] = {}
    for job in (job for job in empty if job.phase == INQUEUE):
        _count(session, job, ahead)
    for job in (job for job in empty if job.phase in ("", "Pending")):
        if job.held or not queue_verdict(session, job.queue).ok:
            continue
        if why := _too_large(session, job, ahead):
            session.outcomes.refused[job] = Verdict(False, Reason.NOT_ENQUEUED, detail=why)
        else:
            session.outcomes.admitted.add(job)
            _count(session, job, ahead)


def _too_large(session: Session, job: Job, ahead: dict[str, Amounts]) -> str:
    """Which capability its `minResources` would exceed; "" if none."""
    names = session.state.axis.names
    for account in session.accounts.queues[job.queue].ancestry:
        counted = ahead.get(account.name, [])
        for row, amount in job.minimum_resources or ():
            before = counted[row] if row < len(counted) else 0
            if amount and account.allocated[row] + before + amount > account.capability[row]:
                name = names[row]
                amounts = (account.allocated[row], account.capability[row], before, amount)
                have, most, admitted, more = (str(format_amount(name, one)) for one in amounts)
                others = f" and {admitted} admitted for groups without pods" if before else ""
                return (
                    f"queue {account.name} has {have} of {most} {name} allocated{others}; its minResources of {more} "
                    "more would exceed the capability"
                )
    return ""


def _count(session: Session, job: Job, ahead: dict[str, Amounts]) -> None:
    for account in session.accounts.queues[job.queue].ancestry:
        add(ahead.setdefault(account.name, []), job.minimum_resources or ())


def _admit_class(session: Session, job_class: EquivalenceClass) -> None:
    if session.order.can_group_equivalent_jobs:
        _admit(
            session, session.job_run(job_class.jobs[0], job_class.template, job_class), job_class, len(job_class.jobs)
        )
        return
    for position, pending_job in enumerate(job_class.jobs):
        _admit(session, session.job_run(pending_job, job_class.template, job_class, position), pending_job.job, 1)


def _admit(session: Session, job: JobRun, refused: Job | EquivalenceClass, alike: int) -> None:
    verdict = session.rules.enqueueable(job)
    if verdict.ok:
        return
    session.outcomes.refused[refused] = verdict
    for account in job.queue.ancestry:
        add(account.requested, job.template.total, -alike)
