"""Planning ahead: allocate where the policy's backfill mode is `easy` or `conservative`.

Jobs are placed in the policy's order. The first that cannot start, the *head* (with `conservative` every one), has a
planned start: the earliest time at which its nodes are free, by the ends of what runs there. Those behind it may start
now if they do not make a planned start later: by ending before it, or by using what it does not need.

Planned starts are carried from cycle to cycle. With `easy` a hard one keeps its job the head until it starts.
`conservative` keeps them all; when runs have ended they are compressed: each job in order gives its own up and finds
one again, which is never later, for the old one is still free.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairway.api.arguments import AllocateArguments, BackfillArguments
from fairway.resources.columns import IntColumn
from fairway.scheduler.backfill.carried import CarriedStarts
from fairway.scheduler.backfill.hardness import Hardness
from fairway.scheduler.backfill.lineup import LineUp
from fairway.scheduler.backfill.overdue import evict_overdue
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.scheduler.backfill.timeline import Starts, Timeline
from fairway.scheduler.framework.candidates import every_job
from fairway.scheduler.framework.decisions import Places, PlannedStart, Step
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.jobs.placing import Placer
from fairway.scheduler.jobs.strict_order import Blocks
from fairway.scheduler.reservations.reservable import missing_tasks
from fairway.state.jobs import TaskState
from fairway.state.shapes import Shape


def allocate_ahead(session: Session, arguments: BackfillArguments, allocate: AllocateArguments) -> None:
    planner = Planner(session, arguments, allocate)
    planner.open_reserved_nodes()
    jobs = every_job(session)
    planner.take_up(jobs)
    deferred = planner.run(jobs)
    if session.rules.lends():
        session.rules.lending = True
        deferred = planner.run(deferred)
        session.rules.lending = False
    planner.finish(deferred)


def drop_satisfied(session: Session) -> None:
    """A job that got places of its own after it had a planned start needs that no more."""
    session.decisions.planned = {
        job: planned for job, planned in session.decisions.planned.items() if not _has_places(session, job)
    }


def plan_reservations(session: Session) -> None:
    """Say when the capacity of reservations will be free, where that is known: whatever the mode, for all to see."""
    waiting = [
        reservation
        for reservation in session.reservations.awake()
        if reservation.state is TaskState.RESERVED and reservation.planned_start is None
    ]
    if not waiting:
        return
    runtimes = Runtimes(session.state, session.policy.backfill or BackfillArguments())
    timeline = Timeline(session, runtimes)
    for job in sorted({reservation.job for reservation in waiting}, key=lambda job: job.job.identity):
        mine = [reservation for reservation in waiting if reservation.job is job]
        places = tuple((reservation.task, reservation.row) for reservation in mine)
        start = timeline.when(places)
        planned = None if start is None else timeline.keep(job, places, start, None)
        for reservation in mine:
            reservation.planned_start = planned


def _has_places(session: Session, job: JobRun) -> bool:
    holder = session.reservations.reserving_jobs.get(job.job)
    return holder is not None and bool(session.reservations.of(holder))


@dataclass(frozen=True, slots=True)
class _Caps:
    """What planned starts leave; equal ones leave the same."""

    timeline: Timeline
    met: Starts | None
    before: int | None

    def __call__(self, shape: Shape) -> IntColumn | None:
        return self.timeline.caps(shape, self.met, self.before)


class Planner:
    def __init__(self, session: Session, arguments: BackfillArguments, allocate: AllocateArguments) -> None:
        self._session = session
        self._arguments = arguments
        self._blocks = Blocks(allocate)
        self._runtimes = Runtimes(session.state, arguments)
        self._timeline = Timeline(session, self._runtimes)
        self._placer = Placer(session, remembers=False)
        self._hardness = Hardness(session, arguments)
        self._every = arguments.mode == "conservative"
        self._carried = CarriedStarts(session, self._timeline, self._runtimes, self._hardness, every=self._every)
        self._passes_over = (
            not (session.explains or self._every or allocate.blocked == "wait")
            and not session.plugins.has_external
            and all(session.policy.action(name) is None for name in ("preempt", "reclaim"))
        )
        self._turns: dict[JobRun, int] = {}
        """Of jobs that could not start: how many had been tried before them."""
        self._known: dict[JobRun, Runtime | None] = {}
        session.nodes.caps_for = self._caps_for

    def open_reserved_nodes(self) -> None:
        """A reservation whose nodes have known ends gets a planned start, past which short jobs may run."""
        for job in sorted(self._session.reservations.reserving_jobs.values(), key=lambda job: job.job.identity):
            waiting = [
                reservation
                for reservation in self._session.reservations.of(job)
                if reservation.state is TaskState.RESERVED
            ]
            if waiting:
                places = tuple((reservation.task, reservation.row) for reservation in waiting)
                start = self._timeline.when(places)
                if start is not None:
                    self._session.reservations.open(waiting, self._timeline.keep(job, places, start, None))

    def take_up(self, jobs: list[JobRun]) -> None:
        self._carried.take_up(jobs)

    def run(self, jobs: list[JobRun]) -> list[JobRun]:
        """One pass; returns the jobs that were not allowed."""
        deferred: list[JobRun] = []
        shortest = self._arguments.order == "shortest"
        line = LineUp(self._session.order, self._runtimes, jobs, self._carried.head, shortest=shortest)
        if self._session.decisions.planned:
            self._head_is_found(line)
        while line:
            job = line.top()
            by = self._blocks.before(job)
            if by is not None:
                line.replace_top()
                self._session.outcomes.record_wait_reason(job, self._blocks.verdict(by))
                self._timeline.drop(job)
                continue
            if self._carried.stands(job):
                line.replace_top()
                self._wait(job)
                self._keep(job, *self._carried.places(job))
                self._head_is_found(line)
                continue
            if not self._session.reservations.has(job):
                self._timeline.drop(job)
            step = Step.NO_CAPACITY if self._placer.is_too_large(job) else self._step(job)
            if step is Step.PLACED:
                self._timeline.drop(job)
                line.replace_top(*self._placer.followers(job))
                continue
            if step is Step.NOT_ALLOWED and self._may_start_later(job):
                self._carried.restore(job)
                if self._is_lent_later():
                    deferred += line.put_off_top()
                else:
                    deferred.append(job)
                    line.replace_top()
                continue
            line.replace_top()
            self._wait(job)
            self._plan(job)
            self._blocks.block(job)
            if job in self._session.decisions.planned:
                self._head_is_found(line)
        return deferred

    def _head_is_found(self, line: LineUp) -> None:
        """Of those behind the head, what is too large for any node is too large when its turn comes. Where it need not
        be said what waits, and no job is evicted for another, that is all there is to know of it.
        """
        line.head_is_found()
        if self._passes_over and not self._session.reservations.reserving_jobs:
            line.leave_out(self._is_hopeless)

    def _is_hopeless(self, job: JobRun) -> bool:
        return self._carried.find(job) is None and self._placer.is_too_large(job)

    def _step(self, job: JobRun) -> Step:
        session, before = self._session, len(self._session.decisions.bindings)
        step = self._placer.step(job)
        if step is Step.NO_CAPACITY and self._carried.is_due(job) and self._starts_as_planned(job):
            step = Step.PLACED
        for _, tasks, rows in session.decisions.bindings[before:]:
            self._timeline.start_now(tasks, rows)
        return step

    def _starts_as_planned(self, job: JobRun) -> bool:
        """Scores may send the tasks of a job where not all of them fit: its planned places are there for all."""
        session, statement = self._session, self._session.statement()
        rows = dict(self._carried.places(job)[0])
        for run in job.runs:
            planned = [rows[task] for task in run.tasks[run.placed :] if task in rows]
            for row in planned:
                if session.nodes.kernel.fits_now(run.shape, row):
                    statement.put(job, run, [row])
        if not statement.checkpoint() or not session.rules.job_ready(job):
            statement.rollback()
            return False  # not all of its minimum, or nothing at all of a job that is ready
        statement.commit()
        return True

    def _may_start_later(self, job: JobRun) -> bool:
        """Whether a job that is not allowed may still start in this cycle, on what is lent. One that has no free
        capacity even then cannot start: it must have its planned start before those behind it are placed.
        """
        return not self._is_lent_later() or self._placer.would_fit_if_lent(job)

    def _is_lent_later(self) -> bool:
        """Whether a pass follows in which what is idle is lent."""
        return not self._session.rules.lending and self._session.rules.lends()

    def finish(self, deferred: list[JobRun]) -> None:
        for job in deferred:
            self._timeline.drop(job)
            self._placer.give_up(job, Step.NOT_ALLOWED)
        self._session.reservations.close()
        if self._runtimes.evicts:
            evict_overdue(self._session, self._runtimes, self._timeline)
        if self._every:
            self._session.decisions.runs_on_nodes = self._timeline.runs

    def _wait(self, job: JobRun) -> None:
        self._placer.give_up(job, Step.NO_CAPACITY)
        self._turns.setdefault(job, len(self._turns) + 1)

    def _plan(self, job: JobRun) -> None:
        """A job that cannot start; the first for which a start is in sight is the head of the queue."""
        session = self._session
        if (session.decisions.planned and not self._every) or session.reservations.has(job):
            return
        if job.job.topology is not None and job.job.topology.hard:
            return  # when the nodes of one domain are free together is not planned
        tasks = missing_tasks(session.reservations, job)
        if not tasks:
            return
        found = self._timeline.earliest(tasks, self._runtime(job))
        old = self._carried.find(job)
        if old is not None and (found is None or found[1] > old[1]):
            found = old
        if found is not None:
            self._keep(job, *found)

    def _keep(self, job: JobRun, places: Places, start: int) -> None:
        timeline, runtime = self._timeline, self._runtime(job)
        timeline.drop(job)
        hard = None if self._hardness.possible(job, places) else False
        if hard is None and self._carried.was_hard(job):
            hard = True
        self._session.decisions.planned[job] = timeline.keep(
            job, places, start, runtime, turn=self._turns[job], hard=hard
        )

    # -- what planned starts leave --------------------------------------------------------------------------------

    def _caps_for(self, job: JobRun) -> _Caps:
        """While jobs are being tried every planned start counts, but its own; afterwards, when it is said what a job
        waits for, those of jobs behind it do not."""
        has_places = self._carried.find(job) is not None
        met = self._timeline.met_by(self._runtime(job), has_places=has_places)
        return _Caps(self._timeline, met, self._turns.get(job))

    def _runtime(self, job: JobRun) -> Runtime | None:
        if job not in self._known:
            self._known[job] = self._runtimes.of_all(job.waiting)
        return self._known[job]


__all__ = ["PlannedStart", "Planner", "allocate_ahead", "drop_satisfied", "plan_reservations"]
