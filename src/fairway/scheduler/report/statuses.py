"""What the statuses of groups and queues should say after the plan."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fairway.scheduler.actions.enqueue import ADMITTED_PHASES
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    GroupStatus,
    QueueStatus,
    Status,
)
from fairway.scheduler.report.waiting_jobs import Row, WaitingJobs
from fairway.state.jobs import Job
from fairway.state.tasks import TaskState

Counts = dict[TaskState, int]


class Counted(NamedTuple):
    """What the state says now, and may not say any more when somebody asks for statuses."""

    running: dict[str, int]
    """Tasks by queue."""
    groups: dict[Job, Counts]
    """Tasks by state, of the groups that have begun. Those that have not have none to count but failed ones."""


def count(session: Session) -> Counted:
    begun = {run.job for run, _, _ in session.bindings} | session.state.waiting.started.keys()
    return Counted(
        {queue.name: sum(account.tasks for account in queue.accounts.values()) for queue in session.state.queues},
        {job: _counts(job) for job in begun if job.group},
    )


def statuses(session: Session, waiting: WaitingJobs, counted: Counted) -> Status:
    """Statuses of the groups that this plan changes or that wait, and of all queues."""
    bound = {run.job: run for run, _, _ in session.bindings}
    rows: dict[Job, Row] = {}
    runs = dict(bound)
    pending: Counter[str] = Counter()
    for run, row in waiting.standing():
        runs.setdefault(run.job, run)
        rows[run.job] = row
        pending[run.queue.name] += 1
    touched = sorted((run for job, run in runs.items() if job.group), key=lambda run: run.key)
    admitted = session.outcomes.admitted
    groups = tuple(
        _group_status(
            run, run.job in admitted, waiting, rows.get(run.job), counted.groups.get(run.job) or _counts(run.job)
        )
        for run in touched
    )
    started = Counter(run.queue.name for run in bound.values())
    queues = tuple(
        QueueStatus(
            name=name,
            state="Open" if book.info.open else "Closed",
            pending=pending[name],
            running=counted.running[name],
            inqueue=started[name],
        )
        for name, book in sorted(session.queues.items())
        if book.info.exists
    )
    return Status(groups, queues)


def _counts(job: Job) -> Counts:
    return Counter(task.state for task in job.tasks)


def _group_status(run: JobRun, admitted: bool, waiting: WaitingJobs, row: Row | None, counts: Counts) -> GroupStatus:
    job = run.job
    kept_out = row is not None and row.verdict is not None
    if run.ready >= max(run.minimum, 1):
        phase = "Running"
    elif kept_out and not admitted and job.phase not in ADMITTED_PHASES:
        phase = "Pending"
    else:
        phase = "Inqueue"
    conditions: tuple[dict[str, str], ...] = ()
    if row is not None and phase != "Running":
        reason, message, _ = waiting.reason(row)
        conditions = ({"type": "Unschedulable", "status": "True", "reason": reason.value, "message": message},)
    elif phase == "Running":
        conditions = ({"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""},)
    return GroupStatus(
        name=job.key,
        phase=phase,
        running=counts.get(TaskState.RUNNING, 0),
        succeeded=counts.get(TaskState.SUCCEEDED, 0),
        failed=counts.get(TaskState.FAILED, 0),
        scheduled=run.ready,
        conditions=conditions,
    )
