"""reserve: keep nodes for jobs that have waited too long to fit anywhere (spec S6).

A starving job gets places for its whole minimum or nothing. A place with free capacity is `allocated` at once; a place
without is `reserved`: that node takes no new pod, and when the pods there are gone the job has it. Starving jobs are
looked at in allocate's own order, and each reservation is charged before the next job is looked at.

Starving jobs that allocate places anyway need no reservation: when their turn comes they get what it has for them
(`PlacedFirst`, from a trial on a session of its own, of which nothing remains). Otherwise the reservations of those
behind them, which cannot be placed, would close their nodes to them, and a backlog that starves as a whole would not be
shared as allocate shares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from fairway.api.arguments import ReserveArguments
from fairway.api.settings import Arguments
from fairway.scheduler.actions.allocate import allocate
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.framework.candidates import has_capacity, is_put_off
from fairway.scheduler.framework.effort import RESERVING
from fairway.scheduler.framework.hooks import Key
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.order import Order
from fairway.scheduler.framework.policy_parts import PolicyRules
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.reservations.between_cycles import INCOMPLETE, broken, resume
from fairway.scheduler.reservations.reserving import Places
from fairway.scheduler.reservations.starvation import condition_ready, next_starving, starving
from fairway.state.jobs import Job, Task, TaskState

Steps = list[tuple[Job, list[Task], list[int]]]
"""Jobs with the tasks that a step placed, and on which rows; in the order decided."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What allocate places on the state before reserve, or has placed already where it comes first."""

    highest: int | None = None
    """The highest priority of what is placed; None if nothing is."""
    steps: Steps = field(default_factory=list)
    """What it would place; nothing where it has done so."""


def allocate_would_place(session: Session) -> Answer:
    trial = session.fresh_session()
    allocate(trial, trial.policy.arguments("allocate"))
    highest = max((job.priority for job, _, _ in trial.decisions.bindings), default=None)
    steps: Steps = [(job.job, tasks, rows) for job, tasks, rows in trial.decisions.bindings]
    trial.close()
    session.nodes.snapshot.resume_after(trial.nodes.snapshot)
    session.nodes.kernel.reopen()
    return Answer(highest, steps)


class PlacedFirst:
    """The first step of every job in an answer of allocate: what makes it ready."""

    def __init__(self, nodes: WorkingNodes, reservations: Reservations, rules: PolicyRules, answer: Answer) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._rules = rules
        self._steps: dict[Job, tuple[list[Task], list[int]]] = {}
        for job, tasks, rows in answer.steps:
            self._steps.setdefault(job, (tasks, rows))

    def place(self, job: JobRun, begin: Callable[[], Statement]) -> bool:
        """Bind a job where allocate would; False if it would not, or if its nodes were reserved meanwhile."""
        step, reservations = self._steps.get(job.job) if self._steps else None, self._reservations
        if step is None or reservations.of(job):
            return False
        statement = begin()
        for task, row in zip(*step, strict=True):
            if self._is_reserved(row) or not self._nodes.kernel.fits_now(task.shape, row):
                break
            statement.reserve(job, task, row, TaskState.ALLOCATED)
        if statement.checkpoint() == len(step[0]) and self._rules.job_ready(job):
            job.job_class = None
            reservations.begin(job)
            statement.commit()
            reservations.bind(job)
            return True
        statement.rollback()
        return False

    def _is_reserved(self, row: int) -> bool:
        reserved = self._nodes.kernel.reserved
        return reserved is not None and bool(reserved[row])


def reserve(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, ReserveArguments)
    session.accounts.compute_deserved()
    jobs = _in_budget(session, starving(session, arguments))
    ending = [] if session.reservations.resumed else broken(session)
    answer = _answer(session, [*jobs, *(reservation.job for reservation, _ in ending)])
    before = session.reservations.moves
    if not session.reservations.resumed:
        resume(session, ending)
    if session.reservations.moves != before:
        jobs = _in_budget(session, starving(session, arguments))
    if jobs:
        _Walk(session, arguments, answer).over(jobs)
    _release_parts(session)


def _in_budget(session: Session, jobs: Iterable[JobRun]) -> list[JobRun]:
    """Those that need not wait for a later cycle because their namespaces have cost enough in this one."""
    if session.effort is None:
        return list(jobs)
    return [job for job in jobs if not is_put_off(session, job.template)]


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
            job = order.turn()
            if self._session.effort is not None and not self._session.effort.affords(job, RESERVING):
                order.replace_top()
                continue
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
        if self._placed_first.place(job, self._session.statement):
            return True
        if self._guard is not None and job.priority < self._guard:
            self._session.outcomes.notes[job.job] = (
                "no node is reserved for it while jobs of higher priority are being placed"
            )
            self._session.decisions.rechecks.append(self._session.now + 1)  # the next round is its own
            return False
        if why := self._session.policy.no_reservations:
            self._session.outcomes.notes[job.job] = f"no node is reserved for it: {why}"
            return False
        return self._places.reserve(job)


def _levels(jobs: list[JobRun], arguments: ReserveArguments) -> Iterator[list[JobRun]]:
    """All at once, or by priority before queues."""
    if arguments.order != "priority":
        yield jobs
        return
    for priority in sorted({job.priority for job in jobs}, reverse=True):
        yield [job for job in jobs if job.priority == priority]


def _answer(session: Session, jobs: list[JobRun]) -> Answer:
    """What allocate does in this cycle without reserve, as far as it matters to jobs that starve, or whose reservations
    end so that they may want to reserve again.
    """
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
    for job in list(session.reservations.awake_jobs.values()):
        reserved = [
            reservation for reservation in session.reservations.of(job) if reservation.state is not TaskState.PIPELINED
        ]
        if reserved and not condition_ready(session, job):
            for reservation in reserved:
                session.reservations.release(reservation, INCOMPLETE)
