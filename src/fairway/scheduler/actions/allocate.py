"""allocate: place pending jobs, each step to the smallest (queue, namespace, job) key that is allowed and fits.

Two passes. In the first a queue places within what it deserves; in the second, if shares are lent, what is still idle
goes in the same order to any queue under its capability. What does not fit in the first pass does not fit in the
second either, for capacity only shrinks here; what was merely not allowed is tried again.
"""

from __future__ import annotations

from fairway.api.arguments import AllocateArguments
from fairway.api.settings import Arguments
from fairway.scheduler.backfill.planner import allocate_ahead
from fairway.scheduler.eviction.evict import evict_stale
from fairway.scheduler.framework.candidates import best_effort_candidates, candidates
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.jobs.strict_order import allocate_strictly
from fairway.scheduler.placement.kernel import LENDING, PLAIN, Placing
from fairway.scheduler.reservations.between_cycles import resume


def allocate(session: Session, arguments: Arguments) -> None:
    own = arguments if isinstance(arguments, AllocateArguments) else AllocateArguments()
    session.accounts.compute_deserved()
    if own.stale_gang_timeout and session.state.broken_gangs:
        evict_stale(session, own.stale_gang_timeout)
    if not session.reservations.resumed:
        resume(session)
    ahead = session.policy.backfill
    if ahead is not None and ahead.mode != "besteffort":
        allocate_ahead(session, ahead, own)
        return
    if own.blocked == "wait":
        allocate_strictly(session, own)
        return
    jobs = candidates(session)
    placer = Placer(session)
    deferred = _run(session, placer, jobs, PLAIN)
    if deferred and session.rules.lends():
        deferred = _run(session, placer, deferred, LENDING)
    for job in deferred:
        placer.give_up(job, Step.NOT_ALLOWED)


def _run(session: Session, placer: Placer, jobs: list[JobRun], placing: Placing) -> list[JobRun]:
    """One pass; returns the jobs that were not allowed."""
    deferred: list[JobRun] = []
    order = Order(session.order, jobs)
    while order:
        job = order.top()
        if session.state.broken_gangs:
            gang = order.broken_before(job)
            if gang is not None and placer.would_place(job, placing):
                job = order.put_first(gang)
        step = placer.step(job, placing)
        if step is Step.PLACED:
            order.replace_top(*placer.followers(job))
            continue
        if step is Step.NOT_ALLOWED:
            deferred.append(job)
            order.replace_top(*placer.defer(job))
        else:
            order.replace_top(*placer.give_up(job, step))
    return deferred


def backfill(session: Session, arguments: Arguments) -> None:
    session.accounts.compute_deserved()
    jobs = best_effort_candidates(session)
    if not jobs:
        return
    placer = Placer(session)
    order = Order(session.order, jobs)
    while order:
        job = order.top()
        step = placer.step(job, LENDING)
        if step is Step.PLACED:
            order.replace_top(*placer.followers(job))
        else:
            order.replace_top(*placer.give_up(job, step))
