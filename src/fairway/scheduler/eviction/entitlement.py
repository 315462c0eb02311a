"""What the author of a policy should know of its preempt.

Which jobs are entitled to whose capacity: one comparison, in allocate's own order.

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

Entitlement of reclaim: a queue takes back, within what it deserves, what others have above theirs.

Queues to take from: lowest `priority` first, then the one furthest above its deserved, by weight. No queue goes below
its guarantee, and reserved amounts do not count as a guarantee met: they are not allocated yet. The last unit taken
from a queue may be larger than what the queue has too much of. Where that takes it below what it deserves, all sets of
units are looked at (`least`). Where there are too many, two further searches look for less (`narrowed`): one in which
no queue goes below, and one that takes small units first and no more of any queue than the first search found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from operator import ge
from typing import NamedTuple, Protocol

import numpy as np

from fairway.api.arguments import PreemptArguments
from fairway.api.policy import Policy
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.victims import Taken, Unit, VictimIndex
from fairway.scheduler.framework.accounts import SHARE_BITS, NamespaceAccount, QueueAccount, share
from fairway.scheduler.framework.hooks import EntitledBy
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import ACCOUNTED, Job, TaskState
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS


def preempt_warnings(policy: Policy) -> Iterator[str]:
    """Job shares are compared where drf is in the policy; they may end plain Jobs that tolerate no lost pod."""
    action = policy.action("preempt")
    arguments = None if action is None else action.arguments
    if isinstance(arguments, PreemptArguments) and arguments.by_job_share and policy.plugin("drf") is not None:
        yield (
            "preempt: with byJobShare, a job may lose pods above its minimum to jobs of the same priority that have a "
            "smaller share; a plain Job with backoffLimit 0 fails when it loses a pod: set byJobShare: false where "
            "such jobs run"
        )


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


Floors = Mapping[str, Amounts]
"""By queue, what it must have left."""


class ReclaimEntitlement:
    """Across queues."""

    action = "reclaim"
    lead_adds = False

    def __init__(self, accounts: SessionAccounts, reservations: Reservations, claimant: JobRun, gang: Amounts) -> None:
        self._accounts = accounts
        self._reservations = reservations
        self._claimant = claimant
        self._asked = [row for row, amount in enumerate(gang) if amount and row != PODS]
        self._gang = gang
        self._reserved = reserved_amounts(reservations)
        self._whole: int | None = None
        self._open: dict[QueueAccount, bool] = {}
        self._guaranteed: dict[QueueAccount, list[tuple[int, int]]] = {}

    def may_act(self) -> bool:
        """The claimant's queue stays within what it deserves, in every dimension it asks for."""
        queue = self._claimant.queue
        return queue.deserved is not None and all(
            queue.allocated[row] + self._gang[row] <= queue.deserved[row] for row in self._asked
        )

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        queues = [
            index.code(account.name) for account in self._accounts.queues.values() if self._gives(account, Taken())
        ]
        return index.usable[:count] & np.isin(index.queue[:count], queues)

    def assume_eligible(self, index: VictimIndex, eligible: BoolColumn) -> None:
        """Nothing is counted on."""

    def allows(self, unit: Unit, taken: Taken) -> bool:
        account = self._accounts.queues[unit.job.queue]
        return self._gives(account, taken) and self._keeps_guarantees(account, taken.held_by(unit), taken)

    def alike(self, index: VictimIndex) -> IntColumn:
        """Only the queue of a unit and what it has matter."""
        return index.load

    def allows_alike(self, unit: Unit, taken: Taken) -> bool:
        return self.allows(unit, taken)

    def touched(self, index: VictimIndex, units: Iterable[Unit]) -> BoolColumn | None:
        return None  # a guarantee counts what is taken from all queues below it

    def reason(self, unit: Unit) -> str:
        mine, theirs = self._claimant.queue.name, unit.job.queue
        return f"queue {theirs} has more allocated than it deserves, queue {mine} less"

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        """The place of each unit's queue among those to take from; None if there is only one."""
        accounts = [account for account in self._accounts.queues.values() if self._gives(account, taken)]
        if len(accounts) < 2:
            return None
        order = sorted({(account.info.priority, -self._excess(account, taken)) for account in accounts})
        ranks = np.full(index.codes, len(order), dtype=np.int64)
        for account in accounts:
            ranks[index.code(account.name)] = order.index((account.info.priority, -self._excess(account, taken)))
        return ranks[index.queue[: len(index.units)]]

    def narrowed(self, taken: Taken) -> Iterator[ReclaimEntitlement]:
        """Where what is taken brings a queue below what it deserves: entitlements to less than that."""
        queues = self._accounts.queues
        yield _Narrowed(self, {name: self._floor(account) for name, account in queues.items()}, small=False)
        lost = {name: taken.of_queue(name) for name in taken.queues()}
        yield _Narrowed(self, {n: minus(self._allocated(queues[n]), lost[n]) for n in lost}, small=True)

    def below(self, units: Iterable[Unit], taken: Taken) -> int:
        """How far these units would take queues below what they deserve: exactly, as a sum of parts of the cluster."""
        for unit in units:
            taken.add(unit)
        below = 0
        for name in taken.queues():
            account = self._accounts.queues[name]
            floor, left = self._floor(account), minus(self._allocated(account), taken.of_queue(name))
            short = [
                (row, floor[row] - left[row]) for row in range(len(left)) if row != PODS and left[row] < floor[row]
            ]
            below += sum(amount * self._unit(row) for row, amount in short)
        return below

    def allows_together(self, taken: Taken) -> bool:
        """Only from queues above what they deserve, never below a guarantee."""
        queues = [self._accounts.queues[name] for name in sorted(taken.queues())]
        nothing = Taken()
        return all(self._gives(queue, nothing) and self._keeps_guarantees(queue, [], taken) for queue in queues)

    def allows_move(self, taken: Taken) -> bool:
        return True  # what each unit may be taken for already counts all the others

    def stricter(self, taken: Taken) -> Iterator[ReclaimEntitlement]:
        return iter(())

    def raised(self) -> list[int]:
        return []

    def amount(self, taken: Taken) -> int:
        lost = [taken.of_queue(name) for name in taken.queues()]
        return sum(amounts[row] * self._unit(row) for amounts in lost for row in self._asked if row < len(amounts))

    def _unit(self, row: int) -> int:
        """What one of a resource is, where the product of all totals is the whole cluster."""
        if self._whole is None:
            self._whole = prod(total for total in self._accounts.total if total > 0)
        return self._whole // max(1, self._accounts.total[row])

    def _floor(self, account: QueueAccount) -> Amounts:
        """What the queue deserves, in the dimensions of which it has that much: in others it is below already."""
        assert account.deserved is not None
        have = self._allocated(account)
        return [amount if have[row] >= amount else 0 for row, amount in enumerate(account.deserved)]

    def _gives(self, account: QueueAccount, taken: Taken) -> bool:
        """Above what it deserves in a dimension asked for, what is taken already taken off."""
        if account is self._claimant.queue or account.deserved is None or not self._may_be_taken_from(account):
            return False
        have, gone, deserved = self._allocated(account), taken.of_queue(account.name), account.deserved
        for row in self._asked:  # noqa: SIM110 - asked once for each unit that may be taken
            if have[row] - (gone[row] if row < len(gone) else 0) > deserved[row]:
                return True
        return False

    def _excess(self, account: QueueAccount, taken: Taken) -> int:
        """How far the queue is above its deserved, weighted, in the dimensions asked for."""
        assert account.deserved is not None
        left = minus(self._allocated(account), taken.of_queue(account.name))
        return max(self._part(row, left[row] - account.deserved[row]) // account.info.weight for row in self._asked)

    def _part(self, row: int, amount: int) -> int:
        return (amount << SHARE_BITS) // max(1, self._accounts.total[row])

    def _allocated(self, account: QueueAccount) -> Amounts:
        """What the queue has, without what is only reserved."""
        reserved = self._reserved.get(account.name)
        return account.allocated if reserved is None else minus(account.allocated, reserved)

    def _may_be_taken_from(self, account: QueueAccount) -> bool:
        """What a queue is marked with holds for those below it, too; `reclaimable` speaks to those outside of it."""
        if account not in self._open:
            inside = self._claimant.queue.ancestry
            self._open[account] = not any(above.info.never_evict for above in account.ancestry) and all(
                above.info.reclaimable for above in account.ancestry if above not in inside
            )
        return self._open[account]

    def _keeps_guarantees(self, account: QueueAccount, more: Amounts, taken: Taken) -> bool:
        """Whether no guarantee is broken when so much more is taken of the queue."""
        for above in account.ancestry:
            guaranteed = self._guarantees_of(above)
            if not guaranteed:
                continue
            lost = more
            for name in taken.queues():
                if above in self._accounts.queues[name].ancestry:
                    lost = plus(lost, taken.of_queue(name))
            gained = self._gang if above in self._claimant.queue.ancestry else []
            left = plus(minus(self._allocated(above), lost), gained)
            if any(row < len(lost) and lost[row] and left[row] < least for row, least in guaranteed):
                return False
        return True

    def _guarantees_of(self, account: QueueAccount) -> list[tuple[int, int]]:
        """Of what, and how much. Where nothing is guaranteed nothing can be broken: no queue loses what it has not."""
        if account not in self._guaranteed:
            self._guaranteed[account] = [(row, least) for row, least in enumerate(account.guarantee) if least > 0]
        return self._guaranteed[account]


class _Narrowed(ReclaimEntitlement):
    """A search for less: no queue goes below its floor. With `small`, small units are taken first."""

    def __init__(self, wide: ReclaimEntitlement, floors: Floors, *, small: bool) -> None:
        super().__init__(wide._accounts, wide._reservations, wide._claimant, wide._gang)
        self._floors = floors
        self._small = small
        self._sizes: IntColumn | None = None
        self.lead_adds = small

    def allows(self, unit: Unit, taken: Taken) -> bool:
        account, floor = self._accounts.queues[unit.job.queue], self._floors.get(unit.job.queue)
        if floor is None or not (self._small or self._gives(account, taken)):
            return False
        held = taken.held_by(unit)
        left = minus(minus(self._allocated(account), taken.of_queue(account.name)), held)
        left[PODS] = floor[PODS]  # what a queue deserves of pods is not counted
        return all(map(ge, left, floor)) and self._keeps_guarantees(account, held, taken)

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        if not self._small:
            return super().lead(index, taken)
        if self._sizes is None:
            self._sizes = index.sizes(self._asked, self._accounts.total)
        return self._sizes

    def narrowed(self, taken: Taken) -> Iterator[ReclaimEntitlement]:
        return iter(())


def reserved_amounts(reservations: Reservations) -> dict[str, Amounts]:
    """By queue, and for those above, what is reserved and not allocated yet."""
    found: dict[str, Amounts] = {}
    for reservation in reservations:
        if reservation.state is TaskState.RESERVED:
            for account in reservation.job.queue.ancestry:
                add(found.setdefault(account.name, []), reservation.task.shape.vector)
    return found
