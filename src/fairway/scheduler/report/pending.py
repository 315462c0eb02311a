"""The list of all jobs that wait, in the order of consideration: `Plan.pending`.

There may be a hundred thousand of them, of a few hundred classes. What jobs of a class have in common (their keys but
for the tie rule, the reason, the nodes that were counted) is worked out once for the class.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Pending
from fairway.scheduler.report.waiting_jobs import WaitingBlock, WaitingJobs, put_heads
from fairway.scheduler.verdict import Reason
from fairway.state.jobs import JobOrder
from fairway.state.waiting import PendingJob


def pending_jobs(session: Session, waiting: WaitingJobs) -> list[Pending]:
    """Queue by queue, in order of consideration."""
    makers = [_EntryMaker(session, waiting, block) for block in waiting.blocks()]
    keys = [session.order.job_key(maker.run) for maker in makers]
    put_heads((key, maker.run) for key, maker in zip(keys, makers, strict=True))
    groups: dict[Key, list[_EntryMaker]] = {}
    for key, maker in zip(keys, makers, strict=True):
        run = maker.run
        groups.setdefault((run.queue.name, waiting.namespace_key(run), key[:-1]), []).append(maker)
    found: list[Pending] = []
    before, queue = 0, None
    for key in sorted(groups):
        if key[0] != queue:
            before, queue = len(found), key[0]
        for maker, job in _in_order(groups[key]):
            found.append(maker.entry(job, len(found) - before + 1))
    return found


def _in_order(group: list[_EntryMaker]) -> Iterator[tuple[_EntryMaker, PendingJob]]:
    """Jobs that only the tie rule tells apart."""
    if len(group) == 1:
        return ((group[0], job) for job in group[0].jobs)
    orders: list[tuple[JobOrder, _EntryMaker, PendingJob]] = [
        (job.job.order, maker, job) for maker in group for job in maker.jobs
    ]
    orders.sort(key=lambda found: found[0])
    return ((maker, job) for _, maker, job in orders)


class _EntryMaker:
    """Makes the entries of jobs that are alike."""

    __slots__ = ("_message", "_nodes", "_notes", "_reason", "_row", "_starving", "_waiting", "jobs", "run")

    def __init__(self, session: Session, waiting: WaitingJobs, block: WaitingBlock) -> None:
        self._waiting = waiting
        self._row, self.jobs = block
        self.run = waiting.run(self._row)
        reason, self._message, self._nodes = waiting.bare_reason(self._row)
        own = self._row.run is not None or reason is Reason.GANG_NOT_READY or self._row.has_own_text
        self._reason = "" if own else reason.value
        """Nothing where a job stands for itself, or where the message names its group or one of its pods."""
        self._notes = waiting.may_have_notes
        self._starving = session.policy.reserve is not None

    def entry(self, job: PendingJob, position: int) -> Pending:
        if not self._reason:
            row = self._row._replace(pending_job=job)
            return self._waiting.entry(self.run if row.run else self._waiting.run(row), row, position)
        run, own = self.run, job.job
        return Pending(
            own.key,
            self._reason,
            self._waiting.with_notes(self._message, own) if self._notes else self._message,
            self._nodes,
            run.queue.name,
            own.namespace,
            position,
            len(job.tasks),
            run.ready,
            run.minimum,
            run.priority,
            self._waiting.starves(own, run.ready) if self._starving else False,
            own.kind,
        )
