"""Broken gangs: they have started, and have fewer pods than their minimum by now (spec S5.5).

A broken gang has resources and does no work. What decides about it is read from the objects alone, so that a restarted
scheduler comes to the same answers: the pods that are left, and when the others were lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.clock import Micros, from_datetime
from fairway.scheduler.framework.job_run import JobRun
from fairway.state.jobs import Job, Task, TaskState

_NOT_PLACED_YET = frozenset({TaskState.PENDING, TaskState.GATED, TaskState.PIPELINED, TaskState.RESERVED})


def broken_since(job: Job, now: Micros) -> Micros | None:
    """When a broken gang lost the first of its missing pods; None if no object says so.

    The condition `Scheduled` of its group is False since then. As long as it still says True the gang has just broken,
    for it is written after each cycle. Groups without conditions have terminating pods, or pods that were created after
    all that are left.
    """
    if job.broken_at is not None:
        return min(job.broken_at, now)
    if job.last_ready is not None:
        return now
    moments = [from_datetime(gone) for task in job.tasks if (gone := task.source.metadata.deletion_timestamp)]
    left = [task.created for task in job.tasks if task.state not in _NOT_PLACED_YET and task.created is not None]
    newest = max(left, default=now)
    pending = (task.created for task in job.tasks if task.state in _NOT_PLACED_YET and task.created is not None)
    moments += [created for created in pending if created > newest]
    return min(min(moments), now) if moments else None


def is_repaired_by(job: Job, tasks: Iterable[Task]) -> bool:
    """Whether a broken gang had what these tasks request: each requests no more than a pod of its role that was placed
    before, or than any such pod if none of that role is left. What requests more waits its turn like a new job.
    """
    placed = [task for task in job.tasks if task.state not in _NOT_PLACED_YET]
    return all(any(_covers(other, task) for other in alike(placed, task.traits.role)) for task in tasks)


def missing_of(job: JobRun) -> list[Task]:
    """The waiting tasks that make up the minimum; where roles have their own minimums, all that wait."""
    return job.waiting if job.job.role_minimums else job.waiting[: max(0, job.minimum - job.ready)]


def alike(placed: list[Task], role: str) -> list[Task]:
    """Those of a role; all of them if there are none."""
    return [task for task in placed if task.traits.role == role] or placed


def _covers(placed: Task, task: Task) -> bool:
    had = dict(placed.shape.vector)
    return all(amount <= had.get(dimension, 0) for dimension, amount in task.shape.vector)
