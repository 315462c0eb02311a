"""`JobRun`: a job in a session, with what it still has to place and what it has placed so far.

Broken gangs: they have started, and have fewer pods than their minimum by now (spec S5.5).

A broken gang has resources and does no work. What decides about it is read from the objects alone, so that a restarted
scheduler comes to the same answers: the pods that are left, and when the others were lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.clock import Micros, from_datetime
from fairway.resources.columns import Vector
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.scheduler.verdict import gated
from fairway.state.cluster import ClusterState
from fairway.state.jobs import ACCOUNTED, Job, Task, TaskState
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.waiting import EquivalenceClass, GangTemplate, PendingJob


class TaskRun:
    """Like tasks that follow each other in task order; `placed` of them have a place.

    A run of reserved tasks is not `charged` again: what they request counts as allocated already.
    """

    __slots__ = ("charged", "placed", "role", "shape", "tasks")

    def __init__(self, shape: Shape, role: str, tasks: list[Task], *, charged: bool = True) -> None:
        self.shape = shape
        self.role = role
        self.tasks = tasks
        self.charged = charged
        self.placed = 0

    @property
    def left(self) -> int:
        return len(self.tasks) - self.placed


class JobRun:
    """What hooks see of a job. `ready` counts tasks that count towards the minimum, the session's own included."""

    __slots__ = (
        "_allocated",
        "_done",
        "_more",
        "_runs",
        "_tasks",
        "account",
        "failed",
        "job",
        "job_class",
        "key",
        "minimum",
        "namespace",
        "position",
        "priority",
        "queue",
        "ready",
        "role_ready",
        "started",
        "template",
    )

    def __init__(
        self,
        pending_job: PendingJob,
        queue: QueueAccount,
        account: NamespaceAccount,
        template: GangTemplate,
        job_class: EquivalenceClass | None = None,
        position: int = 0,
    ) -> None:
        job, self._tasks = pending_job
        self.job: Job = job
        self.key = job.key
        self.namespace = job.namespace
        self.priority = job.priority
        self.minimum = job.minimum
        self.queue = queue
        self.account = account
        self.template = template
        self.job_class = job_class
        self.position = position
        self.ready = job.ready
        self.role_ready: dict[str, int] | None = job.ready_by_role() if job.role_minimums else None
        self.started = job_class is None
        self.failed = False
        self._runs: list[TaskRun] | None = None
        self._done: frozenset[Task] = frozenset()
        """Those that had been placed when the rest was put into other runs."""
        self._allocated: Amounts | None = None
        self._more: tuple[tuple[Vector, int], ...] = ()
        """What it was charged for besides its tasks before `allocated` was worked out."""

    @property
    def allocated(self) -> Amounts:
        """What the job has; worked out when first asked for, kept true from then on. Few jobs are ever asked."""
        if self._allocated is None:
            self._allocated = [0] * len(self.queue.allocated)
            if self.started:
                for task in self.job.tasks:
                    if task.state in ACCOUNTED:
                        add(self._allocated, task.shape.vector)
            for run in self.runs:
                add(self._allocated, run.shape.vector, run.placed)
            for vector, count in self._more:
                add(self._allocated, vector, count)
        return self._allocated

    @property
    def runs(self) -> list[TaskRun]:
        """The waiting tasks in task order, in runs of like ones."""
        if self._runs is None:
            done, tasks = self._done, self._tasks
            if len(tasks) == 1 and not done:
                self._runs = [TaskRun(tasks[0].shape, tasks[0].traits.role, [tasks[0]])]
            else:
                self._runs = grouped([task for task in tasks if task not in done] if done else tasks)
        return self._runs

    @property
    def waiting(self) -> list[Task]:
        """The tasks that had no place when the session began."""
        return self._tasks

    @property
    def is_whole(self) -> bool:
        """Whether it has its minimum, and that of each role."""
        roles = self.role_ready
        return self.ready >= self.minimum and (
            roles is None or all(roles.get(role, 0) >= least for role, least in self.job.role_minimums)
        )

    def order_tasks(self, tasks: list[Task]) -> None:
        """Give the waiting tasks another order than the default one."""
        self._tasks = tasks
        self._runs = grouped(tasks)

    def left(self) -> int:
        left = 0
        for run in self.runs:
            left += len(run.tasks) - run.placed
        return left

    def charge(self, run: TaskRun, count: int) -> None:
        """`count` more tasks of a run have a place; negative takes it back."""
        self.ready += count
        if self.role_ready is not None:
            self.role_ready[run.role] = self.role_ready.get(run.role, 0) + count
        if run.charged:
            if self._allocated is not None:
                add(self._allocated, run.shape.vector, count)
            self._charge_above(run.shape.vector, count)

    def count_ready(self, task: Task, by: int) -> None:
        """A reserved task got its capacity, or lost it."""
        self.ready += by
        if self.role_ready is not None:
            self.role_ready[task.traits.role] = self.role_ready.get(task.traits.role, 0) + by

    def count_reserved(self, task: Task, by: int) -> None:
        """A waiting task got a reservation (by 1), or lost it and waits again (by -1)."""
        self._charge(task.shape.vector, by)
        if by > 0:
            self._tasks = [waiting for waiting in self._tasks if waiting is not task]
        else:
            self._tasks = sorted([*self._tasks, task], key=lambda waiting: (-waiting.priority, waiting.key))
        if self._runs is not None:
            self._done = self._done.union(task for run in self._runs for task in run.tasks[: run.placed])
            self._runs = None

    def charge_more(self, vector: Vector, count: int) -> None:
        """What it has besides what its tasks request by name."""
        if vector and self._allocated is None:
            self._more += ((vector, count),)
            self._charge_above(vector, count)
        elif vector:
            self._charge(vector, count)

    def _charge(self, vector: Vector, count: int) -> None:
        add(self.allocated, vector, count)
        self._charge_above(vector, count)

    def _charge_above(self, vector: Vector, count: int) -> None:
        add(self.account.allocated, vector, count)
        self.queue.charge(vector, count)

    def __repr__(self) -> str:
        return f"<JobRun {self.key} {self.ready}/{self.minimum}>"


def grouped(tasks: list[Task]) -> list[TaskRun]:
    runs: list[TaskRun] = []
    for task in tasks:
        shape, role = task.shape, task.traits.role
        if runs and runs[-1].shape is shape and runs[-1].role == role:
            runs[-1].tasks.append(task)
        else:
            runs.append(TaskRun(shape, role, [task]))
    return runs


def gates_of(state: ClusterState, job: Job) -> str:
    """Which of its pods are gated, and by what."""
    keys = [task.key for task in job.tasks if task.state is TaskState.GATED]
    return gated(len(keys), (name for key in keys for name in state.gates[key]))


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
