"""What a job still needs to be ready."""

from __future__ import annotations

from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservations import Reservations
from fairway.state.jobs import Task
from fairway.state.tasks import TaskState


def missing_tasks(reservations: Reservations, job: JobRun) -> list[Task]:
    """The waiting tasks that would make the job ready, roles first."""
    chosen: list[Task] = []
    have = {**(job.role_ready or {})}
    for reservation in reservations.of(job):
        if reservation.state is TaskState.RESERVED:
            have[reservation.task.traits.role] = have.get(reservation.task.traits.role, 0) + 1
    for role, least in job.job.role_minimums:
        of_role = [task for task in job.waiting if task.traits.role == role]
        chosen += of_role[: max(0, least - have.get(role, 0))]
    reserved = sum(reservation.state is TaskState.RESERVED for reservation in reservations.of(job))
    left = job.minimum - job.ready - reserved - len(chosen)
    chosen += [task for task in job.waiting if task not in chosen][: max(0, left)]
    return chosen if len(chosen) >= job.minimum - job.ready - reserved else []
