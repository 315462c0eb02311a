"""preempt: inside a queue, jobs that are entitled to it take capacity from others."""

from __future__ import annotations

from fairway.api.arguments import PreemptArguments
from fairway.api.settings import Arguments
from fairway.scheduler.eviction.entitlement import PreemptEntitlement
from fairway.scheduler.eviction.evict import evict_for_claimants
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.queues import Amounts


def preempt(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, PreemptArguments)
    by_job_share = arguments.by_job_share

    def entitlement(job: JobRun, gang: Amounts) -> PreemptEntitlement:
        return PreemptEntitlement(session, job, gang, by_job_share=by_job_share)

    evict_for_claimants(session, arguments, entitlement)
