"""Which jobs are entitled to whose capacity: one comparison, in allocate's own order.

preempt, inside a queue: by default weighted namespace share first; inside one namespace or at equal shares job
priority, then job share. With `priorityFirst` job priority comes first. In the priority step the claimant must be
strictly higher.

A whole move is compared: the gang added, all its victims removed. A share step between namespaces needs two things:
the claimant's namespace is not above the victim's after the move, and the victim's weighted share falls. Six and four
become five and five, and no move leads back; CPUs of a namespace whose share rests on its GPUs are not taken, because
that would change nothing. For the same reason two namespaces are level only where the move leaves their shares equal,
and a priority step inside a namespace does not raise its share, unless it stays at or below another namespace's, from
which it could have taken by share. Job shares are compared the same way, and only surplus pods are taken for them.

Units are chosen one by one, and a move is known only when all of them are. So the first search uses what single units
can tell, and its result is checked as a whole (`allows_move`); if it is refused, stricter searches follow (`stricter`).

reclaim, across queues: see `reclaiming`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

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
    def assume_eligible(self, index: VictimIndex, eligible: BoolColumn) -> None:
        """By number, the units that a search begins with; answers for single units may count on them."""

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

    def allows_move(self, taken: Taken) -> bool:
        """Whether the claimant may have its place at the cost of all that is taken, and of nothing else."""

    def stricter(self, taken: Taken) -> Iterable[Entitlement]:
        """For a move that is not allowed: entitlements to search with instead, in this order."""

    def raised(self) -> list[int]:
        """Dimensions whose free capacity a search may not count on: a move that used it would not be allowed."""

    def amount(self, taken: Taken) -> int:
        """How much is taken of what the claimant asks for, to compare sets by."""


class _ShareSearch(NamedTuple):
    """How a search for a move reads the rules for single units."""

    counts_own: bool = True
    """Units of another namespace may go if they may beside all victims of the claimant's own that could go."""
    own_first: bool = False
    """The claimant's own namespace gives before others."""
    each_falls: bool = False
    """Every single unit lowers the share of whom it is taken from, so that any number of them does."""
    raised: tuple[int, ...] = ()


_FIRST_SEARCH = _ShareSearch()


class PreemptEntitlement:
    """Inside a queue."""

    action = "preempt"
    lead_adds = False

    def __init__(
        self,
        session: Session,
        claimant: JobRun,
        gang: Amounts,
        *,
        by_job_share: bool = True,
        search: _ShareSearch = _FIRST_SEARCH,
    ) -> None:
        self._session = session
        self._claimant = claimant
        self._gang = gang
        self._by_job_share = by_job_share
        self._search = search
        self._total = session.accounts.share_total
        entitled = {step for steps in session.plugins.combined("entitled_by")() for step in steps}
        self._by_share = EntitledBy.SHARE in entitled
        self._by_priority = EntitledBy.PRIORITY in entitled
        self._priority_first = EntitledBy.PRIORITY_FIRST in entitled
        self._mine = self._weighted(claimant.account)
        self._mine_after = self._weighted(claimant.account, more=gang)
        """The share of the claimant's namespace after the move, as low as the search assumes it may be."""
        self._allocated_by_job: dict[Job, Amounts] = {}
        self._before: dict[str, int] = {}
        """The weighted shares of other namespaces, nothing taken."""

    # -- single units -----------------------------------------------------------------------------------------------

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        if any(account.info.never_evict for account in self._claimant.queue.ancestry):
            return np.zeros(count, dtype=np.bool_)
        chosen: BoolColumn = index.usable[:count] & (index.queue[:count] == index.code(self._claimant.queue.name))
        chosen[index.of_job(self._claimant.job)] = False
        lower = index.priority[:count] < self._claimant.priority if self._by_priority else np.zeros(count, np.bool_)
        same = index.priority[:count] == self._claimant.priority if self._by_priority else np.ones(count, np.bool_)
        by_job = same & index.surplus[:count] if self._compares_jobs else np.zeros(count, np.bool_)
        own = index.namespace[:count] == index.code(self._claimant.namespace)
        self._count_own(index, chosen & own & (lower | by_job))
        by_share, tied = self._namespaces(index, own)
        if self._priority_first:
            return chosen & (lower | (same & by_share) | (tied & by_job))
        return chosen & (by_share | (tied & (lower | by_job)))

    def assume_eligible(self, index: VictimIndex, eligible: BoolColumn) -> None:
        own = index.namespace[: len(eligible)] == index.code(self._claimant.namespace)
        self._count_own(index, eligible & own)

    def allows(self, unit: Unit, taken: Taken) -> bool:
        if unit.job is self._claimant.job:
            return False
        first = self._first_steps(unit, taken)
        return self._job_step(unit, taken) if first is None else first

    def alike(self, index: VictimIndex) -> IntColumn:
        return index.kind

    def allows_alike(self, unit: Unit, taken: Taken) -> bool | None:
        return self._first_steps(unit, taken)

    def touched(self, index: VictimIndex, units: Iterable[Unit]) -> BoolColumn | None:
        """What is taken counts against the namespace, and the job, that it is taken from."""
        return np.isin(index.namespace[: len(index.units)], [index.code(unit.job.namespace) for unit in units])

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        if not self._search.own_first:
            return None
        others: IntColumn = (index.namespace != index.code(self._claimant.namespace)).astype(np.int64)
        return others[: len(index.units)]

    def narrowed(self, taken: Taken) -> Iterable[Entitlement]:
        return ()

    def below(self, units: Iterable[Unit], taken: Taken) -> int:
        return 0

    def allows_together(self, taken: Taken) -> bool:
        return False  # sets are only looked at where queues are taken below what they deserve

    def amount(self, taken: Taken) -> int:
        return taken.pods

    # -- whole moves --------------------------------------------------------------------------------------------------

    def allows_move(self, taken: Taken) -> bool:
        return all(self._move_step(unit, taken) for unit in taken.units) and not self._raises(taken)

    def stricter(self, taken: Taken) -> Iterable[Entitlement]:
        """First with the claimant's own namespace before others, if it gives at all: then others may have to give.
        Then with nothing but units each of which may go by itself, whichever of them stay in the end.
        """
        mine = self._claimant.namespace
        if any(unit.job.namespace == mine for unit in taken.units) and self._has_others(taken):
            yield self._with(_ShareSearch(own_first=True, each_falls=True))
        raised = tuple(self._exceeding(taken)) if self._raises(taken) else ()
        yield self._with(_ShareSearch(counts_own=False, each_falls=True, raised=raised))

    def raised(self) -> list[int]:
        return list(self._search.raised)

    def _with(self, search: _ShareSearch) -> PreemptEntitlement:
        return PreemptEntitlement(
            self._session, self._claimant, self._gang, by_job_share=self._by_job_share, search=search
        )

    def _has_others(self, taken: Taken) -> bool:
        return any(unit.job.namespace != self._claimant.namespace for unit in taken.units)

    def _move_step(self, unit: Unit, taken: Taken) -> bool:
        """Whether this unit may go in a move that takes all of these."""
        namespace = unit.job.namespace
        if self._priority_first and self._by_priority and unit.priority != self._claimant.priority:
            return unit.priority < self._claimant.priority
        if self._by_share and namespace != self._claimant.namespace:
            before = self._share_of(namespace)
            after = self._after(namespace, taken)
            if self._own_after(taken) > after:
                return False
            if self._mine != before:
                return after < before
        if self._by_priority and unit.priority != self._claimant.priority:
            return unit.priority < self._claimant.priority
        return self._job_share_falls(unit, taken, taken.of_job(unit.job))

    def _raises(self, taken: Taken) -> bool:
        """Whether a priority step inside the claimant's namespace raises its share above that of all others. With
        `priorityFirst` no share takes back what priority took; where no other namespace has anything, none could.
        """
        mine = self._claimant.namespace
        if self._priority_first or not self._by_share or not self._by_priority:
            return False
        by_priority = [u for u in taken.units if u.job.namespace == mine and u.priority < self._claimant.priority]
        if not by_priority or self._own_after(taken) <= self._mine:
            return False
        return 0 < max(self._others_after(taken), default=0) < self._own_after(taken)

    def _exceeding(self, taken: Taken) -> Iterable[int]:
        """Dimensions in which the claimant's namespace would have more than it had, as its share counts."""
        account = self._claimant.account
        after = minus(plus(account.allocated, self._gang), taken.of_namespace(self._claimant.namespace))
        for row, amount in enumerate(self._gang):
            alone = [after[row] if at == row else 0 for at in range(len(after))]
            if amount and share(alone, self._total, account.weight, PODS) > self._mine:
                yield row

    def _own_after(self, taken: Taken) -> int:
        less = taken.of_namespace(self._claimant.namespace)
        return self._weighted(self._claimant.account, more=self._gang, less=less)

    def _after(self, namespace: str, taken: Taken) -> int:
        account = self._session.accounts.of(self._claimant.queue, namespace)
        return self._weighted(account, less=taken.of_namespace(namespace))

    def _others_after(self, taken: Taken) -> Iterable[int]:
        """Of every other namespace of the queue, those included whose first pods are bound by this very cycle."""
        queue = self._claimant.queue
        for namespace in {**queue.info.accounts, **queue.accounts}:
            if namespace != self._claimant.namespace:
                yield self._after(namespace, taken)

    # -- the steps for a single unit ----------------------------------------------------------------------------------

    @property
    def _compares_jobs(self) -> bool:
        return self._by_share and self._by_job_share

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

    def _count_own(self, index: VictimIndex, own: BoolColumn) -> None:
        """What the claimant's namespace would have if all of these went."""
        others = any(name != self._claimant.namespace for name in self._claimant.queue.info.accounts)
        if self._search.counts_own and self._by_share and others:
            less = index.total_of(own) if own.any() else None
            self._mine_after = self._weighted(self._claimant.account, more=self._gang, less=less)

    def _namespaces(self, index: VictimIndex, own: BoolColumn) -> tuple[BoolColumn, BoolColumn]:
        """Which units belong to a namespace that may have to give by share, and which to one that is level."""
        if not self._by_share:
            return np.zeros(len(own), dtype=np.bool_), np.ones(len(own), dtype=np.bool_)
        more: list[int] = []
        level: list[int] = []
        for namespace in self._claimant.queue.info.accounts:
            if namespace != self._claimant.namespace and self._mine_after <= self._share_of(namespace):
                (level if self._share_of(namespace) == self._mine else more).append(index.code(namespace))
        column = index.namespace[: len(own)]
        return np.isin(column, more), own | np.isin(column, level)

    def _share_of(self, namespace: str) -> int:
        before = self._before.get(namespace)
        if before is None:
            account = self._session.accounts.of(self._claimant.queue, namespace)
            before = self._before[namespace] = self._weighted(account)
        return before

    def _namespace_step(self, unit: Unit, taken: Taken) -> bool | None:
        namespace = unit.job.namespace
        if not self._by_share or namespace == self._claimant.namespace:
            return None
        account = self._session.accounts.of(self._claimant.queue, namespace)
        held, before = taken.held_by(unit), self._share_of(namespace)
        if self._mine_after > self._weighted(account, less=plus(taken.of_namespace(namespace), held)):
            return False
        if before == self._mine:
            return None
        return not self._search.each_falls or self._weighted(account, less=held) < before

    def _priority_step(self, unit: Unit, taken: Taken) -> bool | None:
        if not self._by_priority or unit.priority == self._claimant.priority:
            return None
        return unit.priority < self._claimant.priority

    def _job_step(self, unit: Unit, taken: Taken) -> bool:
        held = taken.held_by(unit)
        if self._search.each_falls and not self._job_share_falls(unit, taken, held):
            return False
        return self._job_may_give(unit, plus(taken.of_job(unit.job), held))

    def _job_share_falls(self, unit: Unit, taken: Taken, lost: Amounts) -> bool:
        allocated = self._held(unit.job)
        before, after = (share(amounts, self._total, 1, PODS) for amounts in (allocated, minus(allocated, lost)))
        return after < before and self._job_may_give(unit, lost)

    def _job_may_give(self, unit: Unit, lost: Amounts) -> bool:
        """Whether a surplus pod may go for the sake of job shares, with all that its job then has lost: the job keeps a
        pod at least, and as much as the claimant gets.
        """
        if not self._compares_jobs or not unit.surplus:
            return False
        left = minus(self._held(unit.job), lost)
        mine = share(plus(self._claimant.allocated, self._gang), self._total, 1, PODS)
        return left[PODS] > 0 and mine <= share(left, self._total, 1, PODS)

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
