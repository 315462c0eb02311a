"""Planning ahead: allocate where the policy's backfill mode is `easy` or `conservative`.

Jobs are placed in the one order. The first that cannot start (with `conservative` every one) is promised the earliest
time at which its nodes are free, by the ends of what runs there. Those behind it may start now if they do not make a
promise later: by ending before it, or by using what it does not need. Promises are made anew in each cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.api.arguments import BackfillArguments
from fairway.clock import Micros
from fairway.resources.columns import IntColumn
from fairway.scheduler.candidates import everybody
from fairway.scheduler.holding.missing import missing_tasks
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.order import Order
from fairway.scheduler.outcome import Step
from fairway.scheduler.placing import Placer
from fairway.scheduler.promising.overdue import evict_overdue
from fairway.scheduler.promising.runtimes import Runtimes
from fairway.scheduler.promising.timeline import FOREVER, Timeline
from fairway.scheduler.session import Session
from fairway.state.shapes import Shape
from fairway.state.tasks import TaskState


def allocate_ahead(session: Session, arguments: BackfillArguments) -> None:
    planner = _Planner(session, arguments)
    planner.open_reserved_nodes()
    deferred = planner.run(everybody(session))
    if session.lends():
        session.lending = True
        deferred = planner.run(deferred)
        session.lending = False
    planner.finish(deferred)


def drop_kept_promises(session: Session) -> None:
    """A job that got places of its own after it was promised a start needs that promise no more."""
    session.promises = {job: promise for job, promise in session.promises.items() if not _has_places(session, job)}


def promise_reservations(session: Session) -> None:
    """Say when the room of reservations will be there, where that is known: whatever the mode, for all to see."""
    waiting = [hold for hold in session.holds if hold.state is TaskState.RESERVED and hold.promise is None]
    if not waiting:
        return
    runtimes = Runtimes(session.state, session.backfill_arguments or BackfillArguments())
    timeline = Timeline(session, runtimes, {hold.row for hold in waiting})
    for job in sorted({hold.job for hold in waiting}, key=lambda job: job.job.identity):
        mine = [hold for hold in waiting if hold.job is job]
        promise = timeline.promise_at(job, tuple((hold.task, hold.row) for hold in mine))
        for hold in mine:
            hold.promise = promise


def _has_places(session: Session, job: JobRun) -> bool:
    holder = session.holders.get(job.job)
    return holder is not None and bool(session.holds.of(holder))


@dataclass(frozen=True, slots=True)
class _Caps:
    """What promises leave; equal ones leave the same."""

    timeline: Timeline
    reach: int | None
    made: int

    def __call__(self, shape: Shape) -> IntColumn | None:
        return self.timeline.caps(shape, self.reach, self.made)


class _Planner:
    def __init__(self, session: Session, arguments: BackfillArguments) -> None:
        self._session = session
        self._runtimes = Runtimes(session.state, arguments)
        self._timeline = Timeline(session, self._runtimes)
        self._placer = Placer(session, remembers=False)
        self._every = arguments.mode == "conservative"
        self._made: dict[JobRun, int] = {}
        """Of jobs that could not start: how many promises stood before them."""
        session.caps_for = self._caps_for

    def open_reserved_nodes(self) -> None:
        """A reservation whose nodes have known ends becomes a promise, past which short jobs may run."""
        for job in sorted(self._session.holders.values(), key=lambda job: job.job.identity):
            waiting = [hold for hold in self._session.holds.of(job) if hold.state is TaskState.RESERVED]
            if waiting:
                promise = self._timeline.promise_at(job, tuple((hold.task, hold.row) for hold in waiting))
                if promise is not None:
                    self._session.holds.open(waiting, promise)

    def run(self, jobs: list[JobRun]) -> list[JobRun]:
        """One pass; returns those who were not allowed."""
        session, deferred = self._session, []
        order = Order(session, jobs)
        while order:
            job, before = order.top(), len(session.bindings)
            step = self._placer.step(job)
            for _, tasks, rows in session.bindings[before:]:
                self._timeline.start_now(tasks, rows)
            if step is Step.PLACED:
                order.replace_top(*self._placer.next_in_line(job))
                continue
            order.replace_top()
            if step is Step.NOT_ALLOWED and self._may_start_later(job):
                deferred.append(job)
            else:
                self._placer.give_up(job, Step.NO_ROOM)
                self._promise(job)
        return deferred

    def _may_start_later(self, job: JobRun) -> bool:
        """Whether a job that is not allowed may still start in this cycle, on what is lent. One that has no room even
        then cannot start: it must have its promise before those behind it are placed.
        """
        session = self._session
        return session.lending or not session.lends() or self._placer.would_fit_if_lent(job)

    def finish(self, deferred: list[JobRun]) -> None:
        for job in deferred:
            self._placer.give_up(job, Step.NOT_ALLOWED)
        self._session.holds.close()
        if self._runtimes.evicts:
            evict_overdue(self._session, self._runtimes, self._timeline)

    def _promise(self, job: JobRun) -> None:
        """A job that cannot start; the first for which a start is in sight is the head of the line."""
        session = self._session
        self._made[job] = len(self._timeline.promises)
        if (session.promises and not self._every) or session.holds.of(job):
            return
        if job.job.topology is not None and job.job.topology.hard:
            return  # when the nodes of one domain are free together is not planned
        tasks = missing_tasks(session, job)
        promise = self._timeline.promise(job, tasks, self._runtimes.of_all(job.waiting)) if tasks else None
        if promise is not None:
            session.promises[job] = promise

    def _caps_for(self, job: JobRun) -> _Caps:
        made = self._made.get(job, len(self._timeline.promises))
        return _Caps(self._timeline, self._timeline.reach(self._window(job), made), made)

    def _window(self, job: JobRun) -> Micros | None:
        """For how long the job may keep what it gets: for ever, if nobody vouches for its end. None if unknown."""
        runtime = self._runtimes.of_all(job.waiting)
        if runtime is None:
            return None
        return FOREVER if runtime.sure is None else runtime.sure
