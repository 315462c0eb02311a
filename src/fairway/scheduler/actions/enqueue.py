"""enqueue: admit a group when its queue can take its minimum and, if it states `minResources`, the cluster too.

Only admitted groups are placed, and Volcano's job controller creates pods only for them: so a group is admitted by what
it states, whether it has all of its pods, some or none. Jobs of an equivalence class are judged by their first. What a
queue's refused jobs ask for does not count as its request. Without this action every group is admitted.

A group that states `minResources` asks for more than its minimum of pods: a Spark driver is one pod, and its executors
follow when it runs. What admitted groups have not been allocated of theirs is therefore kept free for them: it counts
against the cluster like an allocation, up to `overcommitFactor` times the cluster (spec S5.4).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from fairway.api.arguments import EnqueueArguments
from fairway.api.settings import Arguments
from fairway.clock import SECOND, Micros
from fairway.resources.columns import Vector
from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.framework.candidates import queue_verdict
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.sla import waiting_limit
from fairway.scheduler.reservations.starvation import threshold
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.jobs import Job, unallocated
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS
from fairway.state.waiting import (
    ADMITTED_PHASES,
    EquivalenceClass,
    GangTemplate,
    PendingJob,
    starvation_override,
)

_NO_PODS = GangTemplate(((), 0, (), None, None))


def enqueue(session: Session, arguments: Arguments) -> None:
    own = arguments if isinstance(arguments, EnqueueArguments) else EnqueueArguments()
    waiting = session.state.waiting
    stating: list[_Candidate] = []
    for template, key in list(waiting.not_admitted):
        job_class = template.classes[key]
        admitted = [head for head in _heads(session, job_class) if _judge(session, head).ok]
        stating += admitted if template.minimum_resources else ()
    for job in waiting.started_not_admitted:
        if job not in waiting.with_reservations:  # else it was let in before, and what it claims counts as allocated
            template, pending_job = waiting.started[job]
            _judge(session, _Candidate(session.job_run(pending_job, template), None))
    stating += _without_pods(session)
    if stating:
        _Admission(session, own).run(stating)


class _Candidate(NamedTuple):
    """A group to be judged; with its class if those behind it are judged alike."""

    run: JobRun
    job_class: EquivalenceClass | None


def _heads(session: Session, job_class: EquivalenceClass) -> list[_Candidate]:
    if session.order.can_group_equivalent_jobs:
        return [_Candidate(session.job_run(job_class.jobs[0], job_class.template, job_class), job_class)]
    return [
        _Candidate(session.job_run(pending_job, job_class.template, job_class, position), None)
        for position, pending_job in enumerate(job_class.jobs)
    ]


def _judge(session: Session, head: _Candidate) -> Verdict:
    """What its queue says."""
    verdict = session.rules.enqueueable(head.run)
    if not verdict.ok:
        job_class = head.job_class
        session.outcomes.refused[head.run.job if job_class is None else job_class] = verdict
        _forget_request(session, head.run, 1 if job_class is None else len(job_class.jobs))
    return verdict


def _forget_request(session: Session, run: JobRun, alike: int) -> None:
    """What refused groups ask for is no request of their queue; that of groups with too few pods never was."""
    if run.template.runs and session.state.waiting.position_of(run.job).class_key.valid:
        for account in run.queue.ancestry:
            add(account.requested, run.template.total, -alike)


def _without_pods(session: Session) -> list[_Candidate]:
    """Groups without pods, or with too few of which none is pending: of those not let in yet, those that state what
    they need. The others are admitted with their queue.
    """
    waiting = session.state.waiting
    found = []
    for job in (*waiting.empty, *waiting.short):
        if job.phase in ADMITTED_PHASES or job.held or not queue_verdict(session, job.queue).ok:
            continue
        if job.minimum_resources and not job.has_started():
            found.append(_Candidate(session.job_run(PendingJob(job, []), _NO_PODS), None))
    return found


class _Admission:
    """Groups that state `minResources`, one after the other in allocate's order."""

    def __init__(self, session: Session, arguments: EnqueueArguments) -> None:
        self._session = session
        self._arguments = arguments
        self._names = session.state.axis.names
        self._total = session.accounts.total
        # A factor is written in decimals: as a fraction of these it is exact, and so is the comparison.
        factor = Fraction(str(arguments.overcommit_factor))
        self._most = [factor * amount for amount in self._total]
        """What may be admitted."""
        if session.policy.compatible:
            # Volcano multiplies the whole capacity of all nodes, tainted ones among them, and takes off afterwards what
            # foreign pods use. The jobs of its users are sized to that.
            nodes = session.nodes.snapshot
            whole, own = nodes.allocatable_without(()), nodes.total_without(())
            self._most = [factor * all_ - (all_ - ours) for all_, ours in zip(whole, own, strict=True)]
        self._allocated = [0] * len(self._total)
        for account in session.accounts.queues.values():
            if account.parent is None:
                add(self._allocated, tuple(enumerate(account.allocated)))
        self._claimed: Amounts = [0] * len(self._total)
        self._refused: dict[EquivalenceClass, list[tuple[PendingJob, Verdict]]] = {}
        self._ahead: dict[str, Amounts] = {}
        """By queue, what groups without pods were let in for."""
        for job, claim in session.state.waiting.unallocated.items():
            add(self._claimed, claim)
            if not job.tasks:
                self._count_ahead(job, claim)

    def run(self, heads: list[_Candidate]) -> None:
        """What does not fit at first does not fit later, for every admission takes more: so only the rest has to be
        put in order, which is little of a long backlog.
        """
        fitting = [head for head in heads if not self._is_hopeless(head)]
        if len({head.run.queue.name for head in fitting}) > 1:
            self._session.accounts.estimate_deserved(self._session.decisions.warnings)
        order = Order(self._session.order, [head.run for head in fitting])
        classes = {head.run: head.job_class for head in fitting}
        while order:
            run = order.top()
            job_class = classes.pop(run)
            following = self._take(run, job_class)
            if following is None:
                order.replace_top()
            else:
                classes[following] = job_class
                order.replace_top(following)
        for job_class, jobs in self._refused.items():
            self._refuse_class(job_class, jobs)

    def _is_hopeless(self, head: _Candidate) -> bool:
        """Whether a group, and all of its class, are refused whatever is admitted before them."""
        job = head.run.job
        verdict = self._verdict(job)
        if verdict.ok or (head.job_class is not None and self._may_be_overdue(job)):
            return False
        if head.job_class is None:
            self._refuse(head.run, verdict)
        else:
            self._refused[head.job_class] = [(one, verdict) for one in head.job_class.jobs]
        return True

    def _take(self, run: JobRun, job_class: EquivalenceClass | None) -> JobRun | None:
        """Judge a group whose turn it is; returns the next of its class."""
        verdict = self._verdict(run.job)
        if verdict.ok:
            self._admit(run.job)
        elif job_class is None:
            self._refuse(run, verdict)
        else:
            refused = self._refused.setdefault(job_class, [])
            refused.append((job_class.jobs[run.position], verdict))
            behind = job_class.jobs[run.position + 1 :]
            if not behind or not self._may_be_overdue(behind[0].job):  # those behind are younger still
                refused += [(one, verdict) for one in behind]
                return None
        return None if job_class is None else self._behind(run, job_class)

    def _behind(self, run: JobRun, job_class: EquivalenceClass) -> JobRun | None:
        position = run.position + 1
        if position >= len(job_class.jobs):
            return None
        return self._session.job_run(job_class.jobs[position], job_class.template, job_class, position)

    def _admit(self, job: Job) -> None:
        claim = unallocated(job)
        add(self._claimed, claim)
        if not job.tasks:
            self._count_ahead(job, claim)

    def _count_ahead(self, job: Job, claim: Vector) -> None:
        if job.queue in self._session.accounts.queues:
            for account in self._session.accounts.queues[job.queue].ancestry:
                add(self._ahead.setdefault(account.name, []), claim)

    def _refuse(self, run: JobRun, verdict: Verdict) -> None:
        self._session.outcomes.refused[run.job] = verdict
        _forget_request(self._session, run, 1)

    def _refuse_class(self, job_class: EquivalenceClass, refused: list[tuple[PendingJob, Verdict]]) -> None:
        """Where only some of a class are refused, each of them stands for itself."""
        session, template = self._session, job_class.template
        if len(refused) == len(job_class.jobs):
            session.outcomes.refused[job_class] = refused[0][1]
        else:
            for pending_job, verdict in refused:
                session.outcomes.refused[pending_job.job] = verdict
                session.outcomes.jobs[session.job_run(pending_job, template)] = verdict
        _forget_request(session, session.job_run(refused[0][0], template, job_class), len(refused))

    def _may_be_overdue(self, job: Job) -> bool:
        """Whether a group has been there long enough to be admitted whatever the factor says."""
        limit = self._limit(job)
        return limit is not None and (job.created is None or self._session.now - job.created > limit)

    def _verdict(self, job: Job) -> Verdict:
        """What the capability of its queues and the cluster say of a group."""
        claim = unallocated(job)
        if not job.tasks and (why := self._above_capability(job, claim)):
            return Verdict(False, Reason.NOT_ENQUEUED, detail=why)
        row = self._short_of(claim)
        if row is None:
            return YES
        limit = self._limit(job)
        if limit is not None and job.waits_since is not None and self._session.now - job.waits_since > limit:
            return YES
        self._recheck(job, limit)
        return Verdict(False, Reason.NOT_ENQUEUED, detail=self._too_much(row, dict(claim)[row]))

    def _short_of(self, claim: Vector) -> int | None:
        """The resource, first by name, of which the cluster has too little for a claim on top of all others."""
        over = [
            row
            for row, amount in claim
            if row != PODS and self._allocated[row] + self._claimed[row] + amount > self._most[row]
        ]
        return min(over, key=lambda row: self._names[row], default=None)

    def _limit(self, job: Job) -> Micros | None:
        """How long the factor may keep a group out; None is for ever."""
        own = self._session.policy.plugin("sla")
        sla = None if own is None else waiting_limit(job, own.arguments)
        if sla is not None:
            return sla
        if self._arguments.admit_after is not None:
            return self._arguments.admit_after * SECOND
        reserve = self._session.policy.reserve
        return None if reserve is None else threshold(reserve, starvation_override(job))

    def _recheck(self, job: Job, limit: Micros | None) -> None:
        if limit is not None and job.waits_since is not None:
            self._session.decisions.rechecks.append(job.waits_since + limit + 1)

    def _above_capability(self, job: Job, claim: Vector) -> str:
        """Which capability a group without pods would exceed; "" if none. Of others the plugins say it."""
        for account in self._session.accounts.queues[job.queue].ancestry:
            counted = self._ahead.get(account.name, [])
            for row, amount in claim:
                before = counted[row] if row < len(counted) else 0
                if account.allocated[row] + before + amount > account.capability[row]:
                    have, most, admitted, more = self._texts(
                        row, account.allocated[row], account.capability[row], before, amount
                    )
                    others = f" and {admitted} admitted for groups without pods" if before else ""
                    return (
                        f"queue {account.name} has {have} of {most} {self._names[row]} allocated{others}; its "
                        f"minResources of {more} more would exceed the capability"
                    )
        return ""

    def _too_much(self, row: int, amount: int) -> str:
        total, have, claimed, more = self._texts(
            row, self._total[row], self._allocated[row], self._claimed[row], amount
        )
        name, factor = self._names[row], self._arguments.overcommit_factor
        return (
            f"the cluster has {total} {name}, {have} allocated and {claimed} more admitted; its minResources of {more} "
            f"more would exceed {factor:g} times the cluster (overcommitFactor)"
        )

    def _texts(self, row: int, *amounts: int) -> list[str]:
        return [str(format_amount(self._names[row], min(max(amount, 0), INT64_MAX))) for amount in amounts]
