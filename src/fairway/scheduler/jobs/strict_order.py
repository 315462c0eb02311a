"""Strict order: nothing starts behind a job that cannot (`allocate` with `blocked: wait`, spec S8.7).

Between queues that share, the first pass serves what each deserves. A job that its share does not allow yet, but that
would fit on what is lent, holds up its own queue until the second pass; one that does not fit at all holds up all that
comes after it, or with `perQueue` its own queue.
"""

from __future__ import annotations

from fairway.api.arguments import AllocateArguments
from fairway.scheduler.framework.candidates import first_of_each_class
from fairway.scheduler.framework.decisions import Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.placement.kernel import LENDING, PLAIN, Placing
from fairway.scheduler.verdict import Reason, Verdict


class Blocks:
    """Which queues are held up, and by which job."""

    def __init__(self, arguments: AllocateArguments) -> None:
        self._strict = arguments.blocked == "wait"
        self._per_queue = arguments.per_queue
        self._by: dict[str | None, str] = {}

    def block(self, job: JobRun) -> None:
        """The job cannot start: nothing behind it may, where order is strict."""
        if self._strict:
            self._by.setdefault(job.queue.name if self._per_queue else None, job.key)

    def before(self, job: JobRun) -> str | None:
        """The job that holds this one up."""
        return self._by.get(job.queue.name if self._per_queue else None) if self._by else None

    @staticmethod
    def verdict(by: str) -> Verdict:
        detail = f"job {by} is before it in the queue and cannot start (allocate: blocked: wait)"
        return Verdict(False, Reason.BLOCKED, detail=detail)


def allocate_strictly(session: Session, arguments: AllocateArguments) -> None:
    strict = _Strict(session, arguments)
    lends = session.rules.lends()
    deferred = strict.run(first_of_each_class(session), PLAIN, last=not lends)
    if deferred:
        strict.run(deferred, LENDING, last=True)


class _Strict:
    def __init__(self, session: Session, arguments: AllocateArguments) -> None:
        self._session = session
        self._placer = Placer(session)
        self._blocks = Blocks(arguments)

    def run(self, jobs: list[JobRun], placing: Placing, *, last: bool) -> list[JobRun]:
        """One pass; returns the jobs that may start in the next one."""
        order, deferred = Order(self._session.order, jobs), list[JobRun]()
        held_up: set[str] = set()
        while order:
            job = order.turn()
            by = self._blocks.before(job)
            if by is not None:
                order.replace_top()
                self._session.outcomes.record_wait_reason(job, self._blocks.verdict(by))
                continue
            if job.queue.name in held_up:
                order.replace_top()
                deferred.append(job)
                continue
            step = self._placer.step(job, placing)
            if step is Step.PLACED:
                order.replace_top(*self._placer.followers(job))
                continue
            if step is Step.NOT_ALLOWED and not last and self._placer.would_fit_if_lent(job):
                order.replace_top()
                held_up.add(job.queue.name)
                deferred.append(job)
                continue
            if step is not Step.PUT_OFF:  # a tenant's heavy job may not hold up the others
                self._blocks.block(job)
            order.replace_top(*self._placer.give_up(job, step))
        return deferred
