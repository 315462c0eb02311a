"""Units of eviction: a surplus pod, or a whole gang.

A job keeps its minimum or loses all of it: pods above the minimum (and above their role's) can be evicted one by one,
the rest only together.
"""

from __future__ import annotations

from fairway.clock import Micros
from fairway.state.annotations import NEVER_EVICT
from fairway.state.jobs import Job
from fairway.state.queues import Amounts, add
from fairway.state.reader import SYSTEM_CLASSES
from fairway.state.tasks import READY, Task, TaskState

EVICTABLE = frozenset({TaskState.BOUND, TaskState.RUNNING})
SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = min(SYSTEM_CLASSES.values())


class Unit:
    """Pods that are evicted together. `started` is the latest start among them, `begun` the sum of all starts."""

    __slots__ = ("amounts", "begun", "job", "key", "priority", "protected", "started", "surplus", "system", "tasks")

    def __init__(self, job: Job, tasks: list[Task], *, surplus: bool) -> None:
        starts = [start_of(task) for task in tasks]
        self.job = job
        self.tasks = tasks
        self.surplus = surplus
        self.key = tasks[0].key if surplus or job.alone else f"{job.key}/"
        self.priority = job.priority
        self.started = max(starts)
        self.begun = sum(starts)
        self.protected = (job.annotations or {}).get(NEVER_EVICT) == "true" or any(
            not task.traits.preemptable or task.state not in EVICTABLE for task in tasks
        )
        self.system = any(is_system(task) for task in tasks)
        self.amounts: Amounts = []
        for task in tasks:
            add(self.amounts, task.shape.vector)

    @property
    def order(self) -> tuple[int, Micros, str]:
        """Who goes first: the least important, then the latest to start, then by name."""
        return self.priority, -self.started, self.key

    def __repr__(self) -> str:
        return f"<Unit {self.key} x{len(self.tasks)}>"


class Taken:
    """Units chosen for one claimant, and what they hold by queue, namespace and job."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.pods = 0
        self._sums: dict[object, Amounts] = {}

    def add(self, unit: Unit, by: int = 1) -> None:
        if by > 0:
            self.units.append(unit)
        else:
            self.units.remove(unit)
        self.pods += by * len(unit.tasks)
        for key in (unit.job, ("queue", unit.job.queue), ("namespace", unit.job.namespace)):
            add(self._sums.setdefault(key, []), tuple(enumerate(unit.amounts)), by)

    def of_job(self, job: Job) -> Amounts:
        return self._sums.get(job, [])

    def of_queue(self, name: str) -> Amounts:
        return self._sums.get(("queue", name), [])

    def of_namespace(self, name: str) -> Amounts:
        return self._sums.get(("namespace", name), [])

    def queues(self) -> set[str]:
        return {unit.job.queue for unit in self.units}


def start_of(task: Task) -> Micros:
    if task.started is not None:
        return task.started
    return 0 if task.created is None else task.created


def is_system(task: Task) -> bool:
    return (
        task.job.namespace == SYSTEM_NAMESPACE
        or task.priority >= SYSTEM_PRIORITY
        or task.traits.priority_class in SYSTEM_CLASSES
    )


def units_of(job: Job) -> list[Unit]:
    """How a job can be taken apart, in the order in which it would be."""
    placed = [task for task in job.tasks if task.state in READY and task.state is not TaskState.SUCCEEDED]
    if not any(task.state in EVICTABLE for task in placed):
        return []
    surplus = _surplus(job, placed)
    rest = [task for task in placed if task not in surplus]
    units = [Unit(job, [task], surplus=True) for task in surplus]
    return [*units, Unit(job, rest, surplus=False)] if rest else units


def _surplus(job: Job, placed: list[Task]) -> list[Task]:
    spare = job.ready - job.minimum
    if spare <= 0:
        return []
    least = dict(job.role_minimums)
    have = job.ready_by_role()
    chosen: list[Task] = []
    for task in sorted(placed, key=lambda task: (task.priority, -start_of(task), task.key)):
        role = task.traits.role
        if len(chosen) == spare:
            break
        if task.state in EVICTABLE and have[role] > least.get(role, 0):
            have[role] -= 1
            chosen.append(task)
    return chosen
