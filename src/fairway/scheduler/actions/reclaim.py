"""reclaim: a queue below what it deserves takes back what others have above theirs."""

from __future__ import annotations

from fairway.api.arguments import EvictionArguments
from fairway.api.settings import Arguments
from fairway.scheduler.eviction.claims import Hopeless
from fairway.scheduler.eviction.entitlement import ReclaimEntitlement
from fairway.scheduler.eviction.evict import evict_for_claimants
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.queues import Amounts


def reclaim(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, EvictionArguments)
    if len(session.state.queues) < 2:
        return  # there is no other queue to take something back from
    session.accounts.compute_deserved()
    if Hopeless(session, arguments).is_all():
        return
    rich = [account for account in session.accounts.queues.values() if account.is_above_deserved()]
    poor = {
        account.name
        for account in session.accounts.queues.values()
        if account.is_below_deserved() and rich not in ([], [account])
    }
    if rich:
        poor |= _waiting_on_nodes(session)
    if not poor:
        return  # no queue has more than it deserves, or none misses it

    def entitlement(job: JobRun, gang: Amounts) -> ReclaimEntitlement | None:
        found = ReclaimEntitlement(session.accounts, session.reservations, job, gang)
        return found if found.may_act() else None

    evict_for_claimants(session, arguments, entitlement, poor)


def _waiting_on_nodes(session: Session) -> set[str]:
    """Queues of jobs that have reserved full nodes: what they wait for there counts as allocated, although they do not
    have it yet, and a reservation must not keep its queue from reclaiming.
    """
    reservations = session.reservations
    return {job.queue.name for job in reservations.reserving_jobs.values() if reservations.waiting_on_nodes(job)}
