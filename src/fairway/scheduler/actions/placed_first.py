"""Starving jobs that allocate places anyway need no reservation: when their turn comes they get what it has for them.

Otherwise the reservations of those behind them, which cannot be placed, would close their nodes to them, and a backlog
that starves as a whole would not be shared as allocate shares it.
"""

from __future__ import annotations

from fairway.scheduler.actions.trial import Answer
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservations import Reservations
from fairway.scheduler.framework.rules import PolicyRules
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.state.jobs import Job, Task
from fairway.state.tasks import TaskState


class PlacedFirst:
    """The first step of every job in an answer of allocate: what makes it ready."""

    def __init__(self, nodes: WorkingNodes, reservations: Reservations, rules: PolicyRules, answer: Answer) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._rules = rules
        self._steps: dict[Job, tuple[list[Task], list[int]]] = {}
        for job, tasks, rows in answer.steps:
            self._steps.setdefault(job, (tasks, rows))

    def place(self, job: JobRun, statement: Statement) -> bool:
        """Bind a job where allocate would; False if it would not, or if its nodes were reserved meanwhile."""
        step, reservations = self._steps.get(job.job), self._reservations
        if step is None or reservations.of(job):
            return False
        for task, row in zip(*step, strict=True):
            if self._is_reserved(row) or not self._nodes.kernel.fits_now(task.shape, row):
                break
            statement.reserve(job, task, row, TaskState.ALLOCATED)
        if statement.checkpoint() == len(step[0]) and self._rules.job_ready(job):
            job.job_class = None
            reservations.reserving_jobs[job.job] = job
            statement.commit()
            reservations.bind(job)
            return True
        statement.rollback()
        return False

    def _is_reserved(self, row: int) -> bool:
        reserved = self._nodes.kernel.reserved
        return reserved is not None and bool(reserved[row])
