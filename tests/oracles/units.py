"""What is evicted together, and what protects it: jobs and budgets of the oracle's cluster, read anew each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from fairway.api.kinds import ApiObject
from fairway.api.scheduling import PodDisruptionBudget, PodGroup
from fairway.clock import SECOND, from_datetime
from oracles.cluster import Amounts, Cluster, Job, Task, add_up
from oracles.matching import selects

NEVER = "fairway.dev/never-evict"
PREEMPTABLE = "volcano.sh/preemptable"
CHECKPOINT = "fairway.dev/last-checkpoint"
SYSTEM_PRIORITY = 2_000_000_000


@dataclass(frozen=True, eq=False)
class Unit:
    """Pods that go together: one above its job's minimum, or all the others of the job."""

    job: Job
    tasks: tuple[Task, ...]
    surplus: bool
    along: tuple[Unit, ...] = ()
    """Those that go too when this one goes."""

    @property
    def grade(self) -> tuple[int, bool]:
        """By priority, and at equal priority surplus pods before whole gangs."""
        return self.job.priority, not self.surplus

    def held(self) -> Amounts:
        return add_up(task.request for task in self.tasks)


def start(task: Task) -> int:
    when = task.pod.status.start_time or task.pod.metadata.creation_timestamp
    return 0 if when is None else from_datetime(when)


def saved(task: Task) -> int:
    """Its start, or its last checkpoint."""
    times = [start(task)]
    for notes in (task.pod.metadata.annotations, task.group_notes):
        text = notes.get(CHECKPOINT, "")
        with suppress(ValueError):
            times.append(round(datetime.fromisoformat(text).timestamp() * SECOND))
    return max(times)


@dataclass
class Order:
    """In which order units go, at a time, in a cluster of this size."""

    now: int
    total: Amounts

    def __call__(self, unit: Unit) -> tuple[object, ...]:
        names = unit.job.key, unit.tasks[0].key if unit.surplus else ""
        return unit.grade, self.work(unit.tasks), -max(map(start, unit.tasks)), names

    def work(self, tasks: Iterable[Task]) -> int:
        """Billionths of the cluster, times seconds since the last checkpoint."""
        return sum(self._part(task) * (max(0, self.now - saved(task)) // SECOND) for task in tasks)

    def _part(self, task: Task) -> int:
        have = {name: amount for name, amount in task.request.items() if name != "pods" and self.total.get(name)}
        return max((10**9 * amount // self.total[name] for name, amount in have.items()), default=0)


def runs(task: Task, bound: set[Task]) -> bool:
    return task.holds and task not in bound and task.pod.status.phase in ("Running", "Pending")


def units_of(job: Job, bound: set[Task]) -> list[Unit]:
    """How a job comes apart. One of which the same cycle binds a pod does not: what goes would not have had to."""
    if any(task in bound for task in job.tasks):
        return []
    here = [task for task in job.tasks if runs(task, bound)]
    count = sum(task.ready for task in job.tasks)
    roles = {role: job.ready_tasks(role) for role in {task.role for task in job.tasks}}
    spare: list[Task] = []
    for task in sorted(here, key=lambda task: (task.priority, -saved(task), -start(task), task.key)):
        if count - len(spare) > job.minimum and roles[task.role] > job.roles.get(task.role, 0) and preemptable(task):
            roles[task.role] -= 1
            spare.append(task)
    single = [Unit(job, (task,), surplus=True) for task in spare]
    rest = tuple(task for task in here if task not in spare)
    if not rest:
        return list(single)
    return [*single, Unit(job, rest, surplus=False, along=tuple(single))]


def preemptable(task: Task) -> bool:
    return not _says_never(task.pod.metadata.annotations)


def _says_never(notes: Mapping[str, str]) -> bool:
    return notes.get(NEVER) == "true" or notes.get(PREEMPTABLE) == "false"


class Protections:
    """Who is never evicted, whoever claims."""

    def __init__(self, objects: Iterable[ApiObject], cluster: Cluster) -> None:
        things = list(objects)
        self._cluster = cluster
        self._groups = {
            f"{thing.metadata.namespace}/{thing.metadata.name}"
            for thing in things
            if isinstance(thing, PodGroup) and _says_never(thing.metadata.annotations)
        }
        self._budgets = [thing for thing in things if isinstance(thing, PodDisruptionBudget)]
        self._left = {id(budget): self._allowed(budget) for budget in self._budgets}

    def spare(self, unit: Unit) -> bool:
        marked = not unit.job.alone and unit.job.key in self._groups
        return marked or any(not preemptable(task) or _is_system(task) for task in unit.tasks)

    def allow(self, tasks: Iterable[Task]) -> bool:
        """Whether the budgets let all of these go, besides those that go already."""
        going = list(tasks)
        return all(sum(_covers(budget, task) for task in going) <= self._left[id(budget)] for budget in self._budgets)

    def spend(self, tasks: Iterable[Task], by: int = 1) -> None:
        for task in tasks:
            for budget in self._budgets:
                self._left[id(budget)] -= by * _covers(budget, task)

    def _allowed(self, budget: PodDisruptionBudget) -> int:
        if budget.status.disruptions_allowed is not None:
            return budget.status.disruptions_allowed
        covered = [task for task in self._cluster.tasks() if _covers(budget, task) and not task.finished]
        healthy = sum(runs(task, set()) for task in covered)
        most, least = budget.spec.max_unavailable, budget.spec.min_available
        if most is not None:
            unhealthy = len(covered) - healthy
            return max(0, _number(most, len(covered)) - unhealthy)
        return max(0, healthy - (0 if least is None else _number(least, len(covered))))


def _covers(budget: PodDisruptionBudget, task: Task) -> bool:
    meta = task.pod.metadata
    return meta.namespace == budget.metadata.namespace and selects(budget.spec.selector, meta.labels)


def _number(bound: int | str, of: int) -> int:
    if isinstance(bound, int):
        return bound
    percent = int(bound.rstrip("%")) * of
    return percent // 100 + (percent % 100 > 0)


def _is_system(task: Task) -> bool:
    return task.pod.metadata.namespace == "kube-system" or task.priority >= SYSTEM_PRIORITY
