"""Jobs that were evicted for outliving their expected run time, and the jobs that they come after (spec S8.8)."""

from __future__ import annotations

from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Job


def comes_after(session: Session, job: Job) -> Job | None:
    """The job that this one was evicted for, if it has not started yet; None if there is none."""
    if job.overrun is None or job.overrun.after is None:
        return None
    claimant = session.state.job_of(*job.overrun.after)
    if (
        claimant is None
        or claimant is job
        or claimant.ready >= claimant.minimum
        or claimant in session.decisions.bound_jobs()
    ):
        return None
    return claimant
