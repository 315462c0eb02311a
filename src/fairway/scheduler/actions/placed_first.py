"""Starving jobs that allocate places anyway need no reservation: when their turn comes they get what it has for them.

Otherwise the reservations of those behind them, which cannot be placed, would close their nodes to them, and a backlog
that starves as a whole would not be shared as allocate shares it.
"""

from __future__ import annotations

from fairway.scheduler.actions.trial import Answer
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservations import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Job, Task
from fairway.state.tasks import TaskState


class PlacedFirst:
    """The first step of every job in an answer of allocate: what makes it ready."""

    def __init__(self, session: Session, answer: Answer) -> None:
        self._session = session
        self._steps: dict[Job, tuple[list[Task], list[int]]] = {}
        for job, tasks, rows in answer.steps:
            self._steps.setdefault(job, (tasks, rows))

    def place(self, job: JobRun) -> bool:
        """Bind a job where allocate would; False if it would not, or if its nodes were reserved meanwhile."""
        step, session = self._steps.get(job.job), self._session
        if step is None or session.reservations.of(job):
            return False
        made: list[TaskReservation] = []
        for task, row in zip(*step, strict=True):
            if self._is_reserved(row) or not session.kernel.fits_now(task.shape, row):
                break
            made.append(session.reservations.add(job, task, row, TaskState.ALLOCATED))
        if len(made) == len(step[0]) and session.job_ready(job):
            job.job_class = None
            session.reserving_jobs[job.job] = job
            session.reservations.bind(job)
            return True
        for reservation in reversed(made):
            session.reservations.cancel(reservation)
        return False

    def _is_reserved(self, row: int) -> bool:
        reserved = self._session.kernel.reserved
        return reserved is not None and bool(reserved[row])
