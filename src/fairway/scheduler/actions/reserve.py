"""reserve: keep nodes for jobs that have waited too long to fit anywhere (seed 004).

A starving job gets places for its whole minimum or nothing. A place with free capacity is `allocated` at once; a place
without is `reserved`: that node takes no new pod, and when the pods there are gone the job has it. Starving jobs are
looked at in allocate's own order, and each reservation is charged before the next job is looked at. Those that allocate
places anyway have its answer first.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.arguments import ReserveArguments
from fairway.api.settings import Arguments
from fairway.scheduler.actions.placed_first import PlacedFirst
from fairway.scheduler.actions.trial import Answer, allocate_would_place
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.candidates import has_capacity
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.reservations.reserving import Places
from fairway.scheduler.reservations.resuming import broken, resume
from fairway.scheduler.reservations.starving import condition_ready, next_starving, starving
from fairway.state.tasks import TaskState


def reserve(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, ReserveArguments)
    session.accounts.compute_deserved()
    answer = _answer(session, arguments)
    resume(session)
    jobs = list(starving(session, arguments))
    if jobs:
        _Walk(session, arguments, answer).over(jobs)
    _release_parts(session)


class _Keys:
    """allocate's order of queues and namespaces; inside a namespace priority, then the longest wait."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def queue_key(self, queue: QueueAccount) -> Key:
        return self._session.order.queue_key(queue)

    def namespace_key(self, account: NamespaceAccount) -> Key:
        return self._session.order.namespace_key(account)

    def job_key(self, job: JobRun) -> Key:
        return -job.priority, job.job.waits_since, job.job.order


class _Walk:
    """Gives one starving job after the other what allocate has for it, or reserves for it."""

    def __init__(self, session: Session, arguments: ReserveArguments, answer: Answer) -> None:
        self._session = session
        self._arguments = arguments
        self._guard = answer.highest
        self._placed_first = PlacedFirst(session.nodes, session.reservations, session.rules, answer)
        self._places = Places(session, arguments)
        self._placer = Placer(session)

    def over(self, jobs: list[JobRun]) -> None:
        """As in allocate, queues come first with what they deserve, and then with what is lent to them."""
        for level in _levels(jobs, self._arguments):
            deferred = self._pass(level, within=True)
            if self._session.rules.lends():
                self._pass(deferred, within=False)

    def _pass(self, jobs: list[JobRun], *, within: bool) -> list[JobRun]:
        deferred: list[JobRun] = []
        order = Order(_Keys(self._session), jobs)
        while order:
            job = order.top()
            if within and self._is_only_not_allowed(job):
                deferred.append(job)
                order.replace_top()
                continue
            job_class, place = job.job_class, job.position
            following = None
            if self._serve(job) and job_class is not None:
                following = next_starving(self._session, job_class, place + 1, self._arguments)
            order.replace_top(*([] if following is None else [following]))
        return deferred

    def _is_only_not_allowed(self, job: JobRun) -> bool:
        """Whether the job would start now on what others leave idle: then those come first that need not borrow."""
        return not self._places.within_deserved(job) and self._placer.would_fit_if_lent(job)

    def _serve(self, job: JobRun) -> bool:
        """Whether it was placed, or reserves."""
        if self._placed_first.place(job, self._session.statement()):
            return True
        if self._guard is not None and job.priority < self._guard:
            self._session.outcomes.notes[job.job] = "reserves nothing while jobs of higher priority are being placed"
            self._session.decisions.rechecks.append(self._session.now + 1)  # the next round is its own
            return False
        return self._places.reserve(job)


def _levels(jobs: list[JobRun], arguments: ReserveArguments) -> Iterator[list[JobRun]]:
    """All at once, or by priority before queues."""
    if arguments.order != "priority":
        yield jobs
        return
    for priority in sorted({job.priority for job in jobs}, reverse=True):
        yield [job for job in jobs if job.priority == priority]


def _answer(session: Session, arguments: ReserveArguments) -> Answer:
    """What allocate does in this cycle without reserve, as far as it matters to starving jobs."""
    jobs = [*starving(session, arguments)]
    if not session.reservations.resumed:
        jobs += [reservation.job for reservation, _ in broken(session)]  # they may want to reserve again
    if not jobs:
        return Answer()
    if session.decisions.bindings:
        return Answer(max(job.priority for job, _, _ in session.decisions.bindings))
    least = min(job.priority for job in jobs)
    matters = session.state.waiting.has_priority_above(least) or any(
        has_capacity(session, job.template) for job in jobs
    )
    return allocate_would_place(session) if matters else Answer()


def _release_parts(session: Session) -> None:
    """All or nothing: a gang that lost a place, and found no other, gives up the rest."""
    for job in list(session.reservations.reserving_jobs.values()):
        reserved = [
            reservation for reservation in session.reservations.of(job) if reservation.state is not TaskState.PIPELINED
        ]
        if reserved and not condition_ready(session, job):
            for reservation in reserved:
                session.reservations.release(reservation, "the job has no place for all that it needs any more")
