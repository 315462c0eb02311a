"""PodDisruptionBudgets: how many pods of each may still be evicted in this cycle.

Back-off: a job that was stopped is protected from preempt and reclaim for a while after it starts again.

After its n-th stop that is `minRuntime` * 2^n, at least 60 s * 2^n and at most a day (spec S7.6). The protection
holds for the whole job, its surplus pods too, once for each stop: the time runs from the moment at which the job first
has its minimum again, and pods of it that restart later do not prolong it. So a job does a growing amount of work
between two stops, and a claimant waits a day at most for a victim that it is entitled to.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairway.api.arguments import EvictionArguments
from fairway.api.pods import matches
from fairway.api.scheduling import PodDisruptionBudget
from fairway.clock import SECOND, Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.victims import EVICTABLE, VictimIndex
from fairway.scheduler.framework.session import Session
from fairway.state.cluster import ClusterState
from fairway.state.eviction_records import StopRecord
from fairway.state.jobs import FINISHED, Job, Task


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


LEAST: Micros = 60 * SECOND
LONGEST: Micros = 86_400 * SECOND
_DOUBLINGS = LONGEST.bit_length()
"""More of them change nothing: the longest time is reached."""


def protection(arguments: EvictionArguments, stops: int) -> Micros:
    """For how long a job is protected after it started again."""
    base = max(arguments.min_runtime * SECOND, LEAST)
    return min(LONGEST, base << min(stops, _DOUBLINGS))


class StopProtections:
    """The protections of one action in one cycle, by number of unit in an index that is up to date."""

    def __init__(self, session: Session, arguments: EvictionArguments, index: VictimIndex) -> None:
        self._now = session.now
        self._until: IntColumn = np.zeros(len(index.units), dtype=np.int64)
        records, now = session.state.eviction_records, session.now
        for _, record in records:
            if record.restarted_at is not None and record.restarted_at + LONGEST <= now:
                continue  # most records are old, and looking for their jobs costs more than this
            for job in _jobs(session.state, index, record):
                stops = records.stops(job, now)
                if stops is not None and stops.since is not None:
                    self._until[index.of_job(job)] = stops.since + protection(arguments, stops.stops)

    def take_out(self, eligible: BoolColumn, rechecks: list[Micros]) -> BoolColumn:
        """Take protected units out of those that are eligible; returns those that were. The first moment at which one
        of them is protected no more is added to `rechecks`.
        """
        protected: BoolColumn = eligible & (self._until > self._now)
        if protected.any():
            rechecks.append(self.ends(protected))
            eligible &= ~protected
        return protected

    def ends(self, units: BoolColumn) -> Micros:
        """When the first of these protections ends."""
        return int(self._until[units].min())


def _jobs(state: ClusterState, index: VictimIndex, record: StopRecord) -> Iterable[Job]:
    """The jobs with units that a record may speak for: `EvictionRecords.stops` says whether it does."""
    named, namespace = record.object.spec.job_ref, record.object.metadata.namespace
    job = state.groups.get(f"{namespace}/{named.name}")
    return [job] if job is not None else index.lone_jobs_of(record.uid)
