"""What the statuses of groups and queues should say after the plan."""

from __future__ import annotations

from collections import Counter

from fairway.scheduler.framework.candidates import is_let_in
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    GroupStatus,
    QueueStatus,
    Status,
)
from fairway.scheduler.report.waiting_jobs import Row, WaitingJobs
from fairway.state.jobs import Job, TaskState


def statuses(session: Session, waiting: WaitingJobs) -> Status:
    """Statuses of the groups that this plan changes or that wait, and of all queues."""
    bound = {run.job: run for run, _, _ in session.decisions.bindings}
    rows: dict[Job, Row] = {}
    runs = dict(bound)
    pending: Counter[str] = Counter()
    for block in waiting.blocks():
        pending[waiting.run(block.row).queue.name] += len(block.jobs)
        for each in block.jobs:
            if each.job.group:
                row = rows[each.job] = block.row._replace(pending_job=each)
                if each.job not in runs:
                    runs[each.job] = waiting.run(row)
    touched = sorted((run for job, run in runs.items() if job.group), key=lambda run: run.key)
    groups = tuple(_group_status(run, is_let_in(session, run), waiting, rows.get(run.job)) for run in touched)
    started = Counter(run.queue.name for run in bound.values())
    queues = tuple(
        QueueStatus(
            name=name,
            state="Open" if account.info.open else "Closed",
            pending=pending[name],
            running=sum(namespace.tasks for namespace in account.info.accounts.values()),
            inqueue=started[name],
        )
        for name, account in sorted(session.accounts.queues.items())
        if account.info.exists
    )
    return Status(groups, queues)


def _group_status(run: JobRun, admitted: bool, waiting: WaitingJobs, row: Row | None) -> GroupStatus:
    job = run.job
    counts = Counter(task.state for task in job.tasks)
    if run.ready >= max(run.minimum, 1):
        phase = "Running"
    else:
        phase = "Inqueue" if admitted else "Pending"
    conditions: tuple[dict[str, str], ...] = ()
    if row is not None and phase != "Running":
        reason, message, _ = waiting.reason(row)
        conditions = ({"type": "Unschedulable", "status": "True", "reason": reason.value, "message": message},)
    elif phase == "Running":
        conditions = ({"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""},)
    return GroupStatus(
        name=job.key,
        phase=phase,
        running=counts[TaskState.RUNNING],
        succeeded=counts[TaskState.SUCCEEDED],
        failed=counts[TaskState.FAILED],
        scheduled=run.ready,
        conditions=conditions,
    )
