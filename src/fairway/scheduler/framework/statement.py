"""The statement: a journal of what a session tries out. Nothing else changes the session.

Every entry knows how to be taken back. An action writes on a statement until a job is ready, then commits it;
or it finds that the job cannot be, and rolls back to where it began.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from fairway.scheduler.framework.job_run import JobRun, TaskRun
from fairway.scheduler.framework.reservations import Reservations
from fairway.scheduler.framework.view import Workspace
from fairway.state.jobs import Task


class _Session(Workspace, Protocol):
    @property
    def reservations(self) -> Reservations: ...


class Placed(NamedTuple):
    """Some tasks of a run were given rows."""

    job: JobRun
    run: TaskRun
    tasks: list[Task]
    rows: list[int]


class Statement:
    """One attempt. Commit or roll back; an attempt that is left open is a fault."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._entries: list[Placed] = []

    def checkpoint(self) -> int:
        return len(self._entries)

    def allocate(self, job: JobRun, run: TaskRun, count: int) -> int:
        """Place up to `count` of the run's next tasks; returns how many found a node."""
        kernel = self._session.kernel
        rows = kernel.choose(run.shape, count)
        if not rows:
            return 0
        self.put(job, run, rows)
        if len(rows) < count and kernel.column(run.shape).around:
            return len(rows) + self.allocate_each(job, run, count - len(rows))
        return len(rows)

    def allocate_each(self, job: JobRun, run: TaskRun, count: int) -> int:
        """One at a time, for shapes whose nodes mind each other."""
        for placed in range(count):
            rows = self._session.kernel.choose(run.shape, 1)
            if not rows:
                return placed
            self.put(job, run, rows)
        return count

    def put(self, job: JobRun, run: TaskRun, rows: list[int]) -> None:
        """Place the run's next tasks on these rows."""
        tasks = run.tasks[run.placed : run.placed + len(rows)]
        self._entries.append(Placed(job, run, tasks, rows))
        self._session.write(run.shape, tasks, rows, 1)
        run.placed += len(rows)
        job.charge(run, len(rows))
        self._session.charge_kinds(job, tasks, 1)
        self._session.on_allocate(job, run.shape, len(rows))

    def rollback(self, checkpoint: int = 0) -> None:
        """Take back everything since the checkpoint, last first."""
        while len(self._entries) > checkpoint:
            job, run, tasks, rows = self._entries.pop()
            self._session.charge_kinds(job, tasks, -1)
            self._session.write(run.shape, tasks, rows, -1)
            run.placed -= len(rows)
            job.charge(run, -len(rows))
            self._session.on_allocate(job, run.shape, -len(rows))

    def commit(self) -> None:
        """Keep it: the tasks are bound in the order in which they were placed."""
        for job, run, tasks, rows in self._entries:
            if not run.charged:
                self._session.reservations.move(run.tasks[0])
            self._session.bind(job, tasks, rows)
        self._entries.clear()
