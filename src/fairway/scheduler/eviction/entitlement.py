"""Which jobs are entitled to whose capacity: one comparison, in allocate's own order.

preempt, inside a queue: by default weighted namespace share first; inside one namespace or at equal shares job
priority, then job share. With `priorityFirst` job priority comes first. In the priority step the claimant must be
strictly higher. In a share step it must be strictly lower before the move, and lower or equal after it, with the
claimant's gang added and the victims removed: six and four become five and five, and no move leads back. For the same
reason two namespaces are level only where the move leaves their shares equal: what priority took otherwise, share
could take back.

reclaim, across queues: see `reclaiming`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.eviction.units import Taken, Unit
from fairway.scheduler.framework.accounts import NamespaceAccount, share
from fairway.scheduler.framework.hooks import EntitledBy
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import ACCOUNTED, Job
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS


class Entitlement(Protocol):
    """Which units a claimant may take. `candidates` is a first sieve; `allows` is exact, given what is taken."""

    action: str
    lead_adds: bool
    """Whether of several units the sum of their leads counts, not the highest."""

    def candidates(self, index: VictimIndex) -> BoolColumn: ...
    def allows(self, unit: Unit, taken: Taken) -> bool: ...
    def alike(self, index: VictimIndex) -> IntColumn:
        """By number of unit, a code that units have in common for which one answer may be enough."""

    def allows_alike(self, unit: Unit, taken: Taken) -> bool | None:
        """The answer for all units that are alike; None if each has to be asked."""

    def touched(self, index: VictimIndex, units: Iterable[Unit]) -> BoolColumn | None:
        """By number, the units that may get another answer once these are taken; None if all may."""

    def reason(self, unit: Unit) -> str: ...
    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        """By number of unit, what comes before priority and start in the order of units and nodes; None if nothing."""

    def narrowed(self, taken: Taken) -> Iterable[Entitlement]:
        """Where what is taken is more than the claimant should take: entitlements to less, the best first."""

    def below(self, units: Iterable[Unit], taken: Taken) -> int:
        """How much too much these units are, once they are added to what is taken."""

    def allows_together(self, taken: Taken) -> bool:
        """Whether all that is taken may go as one set."""

    def amount(self, taken: Taken) -> int:
        """How much is taken of what the claimant asks for, to compare sets by."""


class PreemptEntitlement:
    """Inside a queue."""

    action = "preempt"
    lead_adds = False

    def __init__(self, session: Session, claimant: JobRun, gang: Amounts) -> None:
        self._session = session
        self._claimant = claimant
        self._gang = gang
        self._total = session.accounts.share_total
        entitled = {step for steps in session.plugins.combined("entitled_by")() for step in steps}
        self._by_share = EntitledBy.SHARE in entitled
        self._by_priority = EntitledBy.PRIORITY in entitled
        self._priority_first = EntitledBy.PRIORITY_FIRST in entitled
        self._mine = self._weighted(claimant.account)
        self._mine_after = self._weighted(claimant.account, more=gang)
        self._allocated_by_job: dict[Job, Amounts] = {}
        self._has_more: dict[str, bool] = {}
        """By namespace, whether its share is higher than the claimant's, nothing taken."""

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        if any(account.info.never_evict for account in self._claimant.queue.ancestry):
            return np.zeros(count, dtype=np.bool_)
        chosen: BoolColumn = index.usable[:count] & (index.queue[:count] == index.code(self._claimant.queue.name))
        chosen[index.of_job(self._claimant.job)] = False
        lower = index.priority[:count] < self._claimant.priority if self._by_priority else np.zeros(count, np.bool_)
        same = index.priority[:count] == self._claimant.priority if self._by_priority else np.ones(count, np.bool_)
        by_share, tied = self._namespaces(index, count)
        rest = same & index.surplus[:count] if self._by_share else np.zeros(count, np.bool_)
        if self._priority_first:
            return chosen & (lower | (same & by_share) | (tied & rest))
        return chosen & (by_share | (tied & (lower | rest)))

    def allows(self, unit: Unit, taken: Taken) -> bool:
        if unit.job is self._claimant.job:
            return False
        first = self._first_steps(unit, taken)
        return bool(self._job_step(unit, taken)) if first is None else first

    def alike(self, index: VictimIndex) -> IntColumn:
        return index.kind

    def allows_alike(self, unit: Unit, taken: Taken) -> bool | None:
        return self._first_steps(unit, taken)

    def touched(self, index: VictimIndex, units: Iterable[Unit]) -> BoolColumn | None:
        """What is taken counts against the namespace, and the job, that it is taken from."""
        return np.isin(index.namespace[: len(index.units)], [index.code(unit.job.namespace) for unit in units])

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        return None

    def narrowed(self, taken: Taken) -> Iterable[Entitlement]:
        return ()

    def below(self, units: Iterable[Unit], taken: Taken) -> int:
        return 0

    def allows_together(self, taken: Taken) -> bool:
        return False  # sets are only looked at where queues are taken below what they deserve

    def amount(self, taken: Taken) -> int:
        return taken.pods

    def _first_steps(self, unit: Unit, taken: Taken) -> bool | None:
        """What namespaces and priorities say; None if they say nothing."""
        steps = [self._namespace_step, self._priority_step]
        for step in reversed(steps) if self._priority_first else steps:
            answer = step(unit, taken)
            if answer is not None:
                return answer
        return None

    def reason(self, unit: Unit) -> str:
        """By which step the claimant is entitled."""
        claimant, theirs = self._claimant, unit.job
        by_namespace = f"namespace {claimant.namespace} has a lower weighted share than {theirs.namespace}"
        by_priority = f"priority {claimant.priority} is higher than {theirs.priority}"
        namespace = self._namespace_step(unit, Taken()) is True
        priority = self._priority_step(unit, Taken()) is True
        if self._priority_first:
            return by_priority if priority else by_namespace if namespace else "its job has a smaller share"
        return by_namespace if namespace else by_priority if priority else "its job has a smaller share"

    def _namespaces(self, index: VictimIndex, count: int) -> tuple[BoolColumn, BoolColumn]:
        """Which units belong to a namespace with a higher share than the claimant's, and which to one that is level."""
        more: list[int] = []
        level = [index.code(self._claimant.namespace)]
        for namespace in self._claimant.queue.info.accounts if self._by_share else ():
            if namespace == self._claimant.namespace:
                continue
            theirs = self._weighted(self._session.accounts.of(self._claimant.queue, namespace))
            if self._mine_after <= theirs:
                (more if self._mine < theirs else level).append(index.code(namespace))
        column = index.namespace[:count]
        tied = np.isin(column, level) if self._by_share else np.ones(count, dtype=np.bool_)
        return np.isin(column, more), tied

    def _namespace_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_share or unit.job.namespace == self._claimant.namespace:
            return None
        account = self._session.accounts.of(self._claimant.queue, unit.job.namespace)
        gone = taken.of_namespace(unit.job.namespace)
        if self._mine_after > self._weighted(account, less=plus(gone, taken.held_by(unit))):
            return False
        if unit.job.namespace not in self._has_more:
            self._has_more[unit.job.namespace] = self._mine < self._weighted(account)
        return True if self._has_more[unit.job.namespace] else None

    def _priority_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_priority or unit.priority == self._claimant.priority:
            return None
        return unit.priority < self._claimant.priority

    def _job_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_share:
            return None
        lost = plus(taken.of_job(unit.job), taken.held_by(unit))
        mine = share(plus(self._claimant.allocated, self._gang), self._total, 1, PODS)
        allocated = self._held(unit.job)
        before = share(self._claimant.allocated, self._total, 1, PODS) < share(allocated, self._total, 1, PODS)
        return before and mine <= share(minus(allocated, lost), self._total, 1, PODS)

    def _held(self, job: Job) -> Amounts:
        """What a job has allocated, without those of it that were evicted for others."""
        allocated = self._allocated_by_job.get(job)
        if allocated is None:
            allocated = self._allocated_by_job[job] = []
            for task in job.tasks:
                if task.state in ACCOUNTED and task not in self._session.decisions.evicted:
                    add(allocated, task.shape.vector)
                    add(allocated, self._session.nodes.devices.kinds(task))
        return allocated

    def _weighted(self, account: NamespaceAccount, more: Amounts | None = None, less: Amounts | None = None) -> int:
        allocated = plus(account.allocated, more) if more else account.allocated
        return share(minus(allocated, less) if less else allocated, self._total, account.weight, PODS)


def plus(allocated: Amounts, more: Amounts) -> Amounts:
    longer, shorter = (allocated, more) if len(allocated) >= len(more) else (more, allocated)
    summed = longer.copy()
    for row, amount in enumerate(shorter):
        summed[row] += amount
    return summed


def minus(allocated: Amounts, less: Amounts) -> Amounts:
    left = allocated.copy()
    for row, amount in enumerate(less[: len(left)]):
        left[row] -= amount
    return left
