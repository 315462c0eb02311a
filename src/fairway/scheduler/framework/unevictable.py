"""System pods: nothing evicts them, and they may borrow though what they borrow cannot be taken back.

Which pods nothing can evict: what cannot be taken back is never lent to them (spec S5.6).

A pod is never evicted if it, its job or a queue above it is marked so, or if a PodDisruptionBudget covers it that
allows no disruption even when all its pods are healthy. A gang goes as a whole, so it is not evicted if its budget does
not allow the disruption of its whole minimum. System pods are exempt: they run whatever they borrow.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.api.pods import matches
from fairway.api.scheduling import PodDisruptionBudget
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.verdict import Reason, Verdict
from fairway.state.annotations import is_never_evicted
from fairway.state.cluster import ClusterState
from fairway.state.jobs import FINISHED, Task
from fairway.state.reader import SYSTEM_CLASSES

SYSTEM_NAMESPACE = "kube-system"
SYSTEM_PRIORITY = min(SYSTEM_CLASSES.values())


def is_system(task: Task) -> bool:
    """Whether a pod is in kube-system, or has a system-critical priority or priority class."""
    return (
        task.job.namespace == SYSTEM_NAMESPACE
        or task.priority >= SYSTEM_PRIORITY
        or task.traits.priority_class in SYSTEM_CLASSES
    )


class Unevictable:
    """Asked in one session; what budgets allow is counted when first asked for."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._allowed: dict[str, int] = {}

    def verdict(self, job: JobRun, tasks: Iterable[Task], *, together: bool) -> Verdict | None:
        """Why the queue may not borrow for these tasks, which are evicted `together` or one by one; None if it may."""
        why = self.why(job, tasks, together=together)
        if not why:
            return None
        detail = f"{why}, so it is placed only within what queue {job.queue.name} deserves, never on borrowed capacity"
        return Verdict(False, Reason.QUEUE_OVERUSED, detail=detail)

    def why(self, job: JobRun, tasks: Iterable[Task], *, together: bool) -> str:
        """What protects one of these tasks from every eviction; "" if nothing does."""
        marked = next((queue.name for queue in job.queue.ancestry if queue.info.never_evict), "")
        of_job = is_never_evicted(job.job.annotations)
        touched: dict[str, int] = {}
        for task in tasks:
            if task.shape.best_effort or is_system(task):
                continue
            if marked:
                return f"pods of queue {marked} are never evicted"
            if of_job or not task.traits.preemptable:
                return f"{'the job' if of_job else task.key} is marked as never to be evicted"
            for name, budget in self._state.budgets.items():
                if covers(budget, task):
                    touched[name] = touched.get(name, 0) + 1 if together else 1
        name = next((name for name, count in touched.items() if count > self._at_best(name)), "")
        return f"PodDisruptionBudget {name} allows no eviction of it" if name else ""

    def _at_best(self, name: str) -> int:
        """How many disruptions a budget allows when all pods that it covers are healthy."""
        known = self._allowed.get(name)
        if known is None:
            budget = self._state.budgets[name]
            covered = sum(covers(budget, t) for t in self._state.tasks.values() if t.state not in FINISHED)
            spec = budget.spec
            if spec.max_unavailable is not None:
                known = min(covered, number(spec.max_unavailable, covered))
            else:
                known = covered - (0 if spec.min_available is None else number(spec.min_available, covered))
            self._allowed[name] = known
        return known


def covers(budget: PodDisruptionBudget, task: Task) -> bool:
    return task.job.namespace == budget.metadata.namespace and matches(budget.spec.selector, task.labels)


def number(value: int | str, of: int) -> int:
    """A count, or a percentage rounded up as Kubernetes does."""
    if isinstance(value, int):
        return value
    return -(-of * int(value.removesuffix("%")) // 100)
