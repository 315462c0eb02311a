"""Planning ahead: allocate where the policy's backfill mode is `easy` or `conservative`.

Jobs are placed in the one order. The first that cannot start (with `conservative` every one) is promised the earliest
time at which its nodes are free, by the ends of what runs there. Those behind it may start now if they do not make a
promise later: by ending before it, or by using what it does not need. Promises are made anew in each cycle.
"""

from __future__ import annotations

from fairway.api.arguments import BackfillArguments
from fairway.clock import Micros
from fairway.scheduler.candidates import everybody
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.missing import missing_tasks
from fairway.scheduler.order import Order
from fairway.scheduler.outcome import Step
from fairway.scheduler.placing import Placer
from fairway.scheduler.plan import Eviction
from fairway.scheduler.runtimes import Runtimes
from fairway.scheduler.session import Session
from fairway.scheduler.timeline import FOREVER, Promise, Timeline
from fairway.state.tasks import Task, TaskState


def allocate_ahead(session: Session, arguments: BackfillArguments) -> None:
    planner = _Planner(session, arguments)
    planner.keep_reservations()
    deferred = planner.run(everybody(session))
    if session.lends():
        session.lending = True
        deferred = planner.run(deferred)
        session.lending = False
    planner.give_up(deferred)
    session.kernel.cap_for = None


class _Planner:
    def __init__(self, session: Session, arguments: BackfillArguments) -> None:
        self._session = session
        self._runtimes = Runtimes(session.state, arguments)
        self._timeline = Timeline(session, self._runtimes)
        self._placer = Placer(session, remembers=False)
        self._every = arguments.mode == "conservative"
        self._evicts = arguments.overrun == "evict"
        self._has_head = False

    def keep_reservations(self) -> None:
        """A reservation whose nodes have known ends becomes a promise, past which short jobs may run."""
        for job in self._session.holders.values():
            waiting = [hold for hold in self._session.holds.of(job) if hold.state is TaskState.RESERVED]
            if not waiting:
                continue
            promise = self._timeline.promise_at([(hold.task, hold.row) for hold in waiting])
            if promise is not None:
                self._session.holds.promise(waiting, promise.start, soft=promise.soft)

    def run(self, jobs: list[JobRun]) -> list[JobRun]:
        """One pass; returns those who were not allowed."""
        session, deferred = self._session, []
        order = Order(session, jobs)
        while order:
            job = order.top()
            step = self._step(job)
            if step is Step.PLACED:
                order.replace_top(*self._placer.next_in_line(job))
                continue
            order.replace_top()
            if step is Step.NOT_ALLOWED:
                deferred.append(job)
            else:
                self._placer.give_up(job, step)
                self._promise(job)
        return deferred

    def give_up(self, jobs: list[JobRun]) -> None:
        for job in jobs:
            self._placer.give_up(job, Step.NOT_ALLOWED)

    def _step(self, job: JobRun) -> Step:
        session, window = self._session, self._window(job, certain=True)
        session.kernel.cap_for = lambda shape: self._timeline.caps(shape, window)
        before = len(session.bindings)
        step = self._placer.step(job)
        for _, tasks, rows in session.bindings[before:]:
            self._timeline.start_now(tasks, rows)
        return step

    def _promise(self, job: JobRun) -> None:
        if (self._has_head and not self._every) or self._session.holds.of(job):
            return
        tasks = missing_tasks(self._session, job)
        if not tasks:
            return
        self._has_head = True
        promise = self._timeline.promise(tasks, self._window(job, certain=False))
        if promise is not None:
            self._session.promises[job] = promise
            if self._evicts:
                self._evict_overdue(job, promise)

    def _window(self, job: JobRun, *, certain: bool) -> Micros:
        """How long the job will run: for ever, if nobody knows or (where it must be certain) vouches for it."""
        runtime = self._runtimes.of_job(job.waiting)
        if runtime is None or (certain and not runtime.certain):
            return FOREVER
        return runtime.span

    def _evict_overdue(self, job: JobRun, promise: Promise) -> None:
        """Pods that outlive their expected run time on nodes that are promised have to go."""
        session, names = self._session, self._session.snapshot.names
        for row in sorted({row for _, row in promise.places}):
            for task in session.state.nodes.tasks[row]:
                if self._is_overdue(task) and task.key in session.state.tasks and task not in session.evicted:
                    session.evicted.add(task)
                    reason = "it outlived its expected run time on a node that is promised"
                    session.evictions.append(Eviction(task.key, names[row], job.key, "backfill", reason))

    def _is_overdue(self, task: Task) -> bool:
        expected = self._runtimes.expected(task)
        running = task.state is TaskState.RUNNING and task.traits.preemptable
        began = task.started
        return running and expected is not None and began is not None and began + expected <= self._session.now
