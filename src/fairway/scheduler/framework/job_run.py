"""`JobRun`: a job in a session, with what it still has to place and what it has placed so far."""

from __future__ import annotations

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
