"""Jobs and tasks of higher priority go first."""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.framework.hooks import (
    EntitledBy,
    Entitles,
    KeyText,
    OrderedBy,
    OrdersJobs,
    OrdersTasks,
    TellsJobKeys,
    TellsOrder,
)
from fairway.scheduler.framework.job_run import JobRun
from fairway.state.jobs import Task


class Priority(OrdersJobs, OrdersTasks, TellsJobKeys, TellsOrder, Entitles):
    """Jobs and tasks of higher priority go first."""

    name = "priority"

    def __init__(self, arguments: Arguments) -> None: ...

    def ordered_by(self) -> tuple[OrderedBy, ...]:
        return (OrderedBy.PRIORITY,)

    def entitled_by(self) -> tuple[EntitledBy, ...]:
        return (EntitledBy.PRIORITY,)

    def job_key(self, job: JobRun) -> int:
        return -job.priority

    def job_key_texts(self, job: JobRun) -> list[KeyText]:
        return [KeyText("priority", -job.priority, str(job.priority))]

    def task_key(self, task: Task) -> int:
        return -task.priority
