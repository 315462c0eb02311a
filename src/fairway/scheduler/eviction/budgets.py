"""PodDisruptionBudgets: how many pods of each may still be evicted in this cycle."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.api.affinity import matches
from fairway.api.scheduling import PodDisruptionBudget
from fairway.scheduler.eviction.units import EVICTABLE
from fairway.state.cluster import ClusterState
from fairway.state.jobs import FINISHED, Task


class DisruptionBudgets:
    """What is left of each budget; counted when first asked for."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._left: dict[str, int] | None = None

    def allow(self, tasks: Iterable[Task]) -> bool:
        """Whether all of these may be evicted together."""
        return not self._state.budgets or all(
            count <= self._known()[name] for name, count in self._touched(tasks).items()
        )

    def spend(self, tasks: Iterable[Task], by: int = 1) -> None:
        left = self._known() if self._state.budgets else {}
        for name, count in self._touched(tasks).items():
            left[name] -= by * count

    def _touched(self, tasks: Iterable[Task]) -> dict[str, int]:
        touched: dict[str, int] = {}
        for task in tasks if self._state.budgets else ():
            for name, budget in self._state.budgets.items():
                if _covers(budget, task):
                    touched[name] = touched.get(name, 0) + 1
        return touched

    def _known(self) -> dict[str, int]:
        if self._left is None:
            self._left = {name: self._allowed(budget) for name, budget in self._state.budgets.items()}
        return self._left

    def _allowed(self, budget: PodDisruptionBudget) -> int:
        """What the budget's status says, or what follows from its spec."""
        if budget.status.disruptions_allowed is not None:
            return max(0, budget.status.disruptions_allowed)
        covered = [t for t in self._state.tasks.values() if t.state not in FINISHED and _covers(budget, t)]
        healthy = sum(task.state in EVICTABLE for task in covered)
        spec = budget.spec
        if spec.max_unavailable is not None:
            return max(0, healthy - (len(covered) - _number(spec.max_unavailable, len(covered))))
        least = 0 if spec.min_available is None else _number(spec.min_available, len(covered))
        return max(0, healthy - least)


def _covers(budget: PodDisruptionBudget, task: Task) -> bool:
    return task.job.namespace == budget.metadata.namespace and matches(budget.spec.selector, task.labels)


def _number(value: int | str, of: int) -> int:
    """A count, or a percentage rounded up as Kubernetes does."""
    if isinstance(value, int):
        return value
    return -(-of * int(value.removesuffix("%")) // 100)
