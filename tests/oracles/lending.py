"""Who may borrow (spec S5.6): pods that nothing can evict never do. Read from the objects, one budget at a time."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.api.kinds import ApiObject
from fairway.api.scheduling import PodDisruptionBudget, PodGroup, Queue
from oracles.cluster import Cluster, Job, Task
from oracles.matching import selects

MARKS = ("fairway.dev/never-evict", "true"), ("volcano.sh/preemptable", "false")


class Borrowing:
    def __init__(self, objects: Iterable[ApiObject], cluster: Cluster) -> None:
        things = list(objects)
        self._cluster = cluster
        self._budgets = [thing for thing in things if isinstance(thing, PodDisruptionBudget)]
        groups = [thing for thing in things if isinstance(thing, PodGroup) and _is_marked(thing)]
        self._groups = {f"{group.metadata.namespace}/{group.metadata.name}" for group in groups}
        queues = [thing for thing in things if isinstance(thing, Queue)]
        name, value = MARKS[0]
        self._queues = {queue.metadata.name for queue in queues if queue.metadata.annotations.get(name) == value}

    def allows(self, job: Job, tasks: list[Task], line: Iterable[str], *, together: bool) -> bool:
        """Whether these may be placed on what is lent: all can be evicted, together or one by one."""
        counted = [task for task in tasks if not task.best_effort and not _is_system(task)]
        if not counted:
            return True
        if self._queues & set(line) or (not job.alone and job.key in self._groups):
            return False
        if any(_is_marked(task.pod) for task in counted):
            return False
        for budget in self._budgets:
            covered = sum(_covers(budget, task) for task in counted)
            if covered and (covered if together else 1) > self._at_best(budget):
                return False
        return True

    def _at_best(self, budget: PodDisruptionBudget) -> int:
        """What a budget allows when all its pods are healthy."""
        pods = sum(_covers(budget, task) for task in self._cluster.tasks() if not task.finished)
        most, least = budget.spec.max_unavailable, budget.spec.min_available
        if most is not None:
            return min(pods, _number(most, pods))
        return pods - (0 if least is None else _number(least, pods))


def _number(text: int | str, pods: int) -> int:
    if isinstance(text, int):
        return text
    percent = int(text.rstrip("%"))
    return (pods * percent + 99) // 100


def _covers(budget: PodDisruptionBudget, task: Task) -> bool:
    meta = task.pod.metadata
    return meta.namespace == budget.metadata.namespace and selects(budget.spec.selector, meta.labels)


def _is_marked(thing: ApiObject) -> bool:
    notes, labels = thing.metadata.annotations, thing.metadata.labels
    return notes.get(MARKS[0][0]) == "true" or notes.get(MARKS[1][0], labels.get(MARKS[1][0])) == "false"


def _is_system(task: Task) -> bool:
    spec = task.pod.spec
    return (
        task.pod.metadata.namespace == "kube-system"
        or task.priority >= 2_000_000_000
        or spec.priority_class_name in ("system-cluster-critical", "system-node-critical")
    )
