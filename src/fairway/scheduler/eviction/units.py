"""Units of eviction: a surplus pod, or a whole gang.

A job keeps its minimum or loses everything: pods above the minimum (and above their role's) can be evicted one by one,
the rest only together, and when it goes the surplus goes along (its `surplus_units`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fairway.clock import Micros
from fairway.resources.columns import Vector
from fairway.scheduler.framework.system_pods import is_system
from fairway.state.annotations import LAST_CHECKPOINT, is_never_evicted, parse_checkpoint
from fairway.state.jobs import READY, Job, Task, TaskState
from fairway.state.queues import Amounts, add

EVICTABLE = frozenset({TaskState.BOUND, TaskState.RUNNING})


class Unit:
    """Pods that are evicted together.

    `started` is the latest start among them, `youngest` the latest with the surplus units. `grade` orders units by
    priority, and at equal priority all surplus pods before any whole gang. The key orders by the job's name.
    """

    __slots__ = (
        "amounts",
        "cooled",
        "grade",
        "job",
        "key",
        "number",
        "priority",
        "protected",
        "started",
        "surplus",
        "surplus_units",
        "system",
        "tasks",
        "youngest",
    )

    def __init__(self, job: Job, tasks: list[Task], *, surplus: bool, surplus_units: tuple[Unit, ...] = ()) -> None:
        starts = [start_of(task) for task in tasks]
        self.job = job
        self.tasks = tasks
        self.surplus = surplus
        self.surplus_units = surplus_units
        self.number = -1
        """Its number in the index."""
        self.key = f"{job.key}\0{tasks[0].key}" if surplus else f"{job.key}\1{job.alone}"
        self.priority = job.priority
        self.grade = 2 * self.priority + (not surplus)
        self.started: Micros = max(starts)
        self.youngest: Micros = max([*starts, *(mate.youngest for mate in surplus_units)])
        self.cooled: Micros = max([*map(_cooled, tasks), *(mate.cooled for mate in surplus_units)])
        """Until when the cooldown time of one of them, or of the surplus_units, protects it; 0 if none has any."""
        self.protected: bool = is_never_evicted(job.annotations) or any(
            not task.traits.preemptable or task.state not in EVICTABLE for task in tasks
        )
        self.system: bool = any(is_system(task) for task in tasks) or any(mate.system for mate in surplus_units)
        self.amounts: Amounts = []
        for task in tasks:
            add(self.amounts, task.shape.vector)

    def __repr__(self) -> str:
        return f"<Unit {self.job.key} {','.join(task.key for task in self.tasks)}>"


class Taken:
    """Units chosen for one claimant, in the order of their choice, and what they have by queue, namespace and job."""

    def __init__(self, more: Callable[[Task], Vector] | None = None) -> None:
        """`more` tells what a pod has besides what it requests by name."""
        self._more = more
        self._of_job: dict[Job, Amounts] = {}
        self._of_queue: dict[str, Amounts] = {}
        self._of_namespace: dict[str, Amounts] = {}
        self._in_queue: dict[str, int] = {}
        """How many of the units are of each queue."""
        self.units: dict[Unit, None] = {}
        self.pods = 0

    def add(self, unit: Unit) -> None:
        self.units[unit] = None
        self._count(unit, 1)

    def remove(self, unit: Unit) -> None:
        del self.units[unit]
        self._count(unit, -1)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self.units

    def held_by(self, unit: Unit) -> Amounts:
        if self._more is None:
            return unit.amounts
        held = unit.amounts.copy()
        for task in unit.tasks:
            add(held, self._more(task))
        return held

    def of_job(self, job: Job) -> Amounts:
        return self._of_job.get(job, [])

    def of_queue(self, name: str) -> Amounts:
        return self._of_queue.get(name, [])

    def of_namespace(self, name: str) -> Amounts:
        return self._of_namespace.get(name, [])

    def queues(self) -> list[str]:
        """Of which something is taken."""
        return [name for name, units in self._in_queue.items() if units]

    def _count(self, unit: Unit, by: int) -> None:
        self.pods += by * len(unit.tasks)
        job, held = unit.job, self.held_by(unit)
        self._in_queue[job.queue] = self._in_queue.get(job.queue, 0) + by
        _add_all(self._of_job.setdefault(job, []), held, by)
        _add_all(self._of_queue.setdefault(job.queue, []), held, by)
        _add_all(self._of_namespace.setdefault(job.namespace, []), held, by)


def _add_all(amounts: Amounts, more: Amounts, by: int) -> None:
    if len(amounts) < len(more):
        amounts.extend([0] * (len(more) - len(amounts)))
    for row, amount in enumerate(more):
        amounts[row] += by * amount


def with_surplus_units(units: Iterable[Unit]) -> dict[Unit, None]:
    """The units and all that have to go along, surplus_units before their gang."""
    found: dict[Unit, None] = {}
    for unit in units:
        for going in unit.surplus_units:
            found[going] = None
        found[unit] = None
    return found


def start_of(task: Task) -> Micros:
    if task.started is not None:
        return task.started
    return 0 if task.created is None else task.created


def saved_at(task: Task) -> Micros:
    """Since when its work would be lost: its start, or the last checkpoint that it or its group states."""
    since = start_of(task)
    for notes in (task.source.metadata.annotations, task.job.annotations):
        text = notes.get(LAST_CHECKPOINT) if notes else None
        if text is not None:
            since = max(since, parse_checkpoint(text) or 0)
    return since


def _cooled(task: Task) -> Micros:
    return start_of(task) + task.traits.cooldown if task.traits.cooldown else 0


def units_of(job: Job) -> list[Unit]:
    """How a job can be taken apart, in the order in which it would be."""
    placed = [task for task in job.tasks if task.state in READY and task.state is not TaskState.SUCCEEDED]
    if not any(task.state in EVICTABLE for task in placed):
        return []
    surplus = _surplus(job, placed)
    spare = set(surplus)
    rest = [task for task in placed if task not in spare]
    units = [Unit(job, [task], surplus=True) for task in surplus]
    return [*units, Unit(job, rest, surplus=False, surplus_units=tuple(units))] if rest else units


def _surplus(job: Job, placed: list[Task]) -> list[Task]:
    """Pods above the minimum, those with the least time to lose. Protected ones make up the minimum first, as far as
    they go.
    """
    spare = job.ready - job.minimum
    if spare <= 0 or job.evict_whole:
        return []
    least = dict(job.role_minimums)
    have = job.ready_by_role()
    chosen: list[Task] = []
    for task in sorted(placed, key=lambda task: (task.priority, -saved_at(task), -start_of(task), task.key)):
        role = task.traits.role
        if len(chosen) == spare:
            break
        if task.state in EVICTABLE and task.traits.preemptable and have[role] > least.get(role, 0):
            have[role] -= 1
            chosen.append(task)
    return chosen
