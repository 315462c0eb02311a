"""Entitlement of reclaim: a queue takes back, within what it deserves, what others have above theirs.

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

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.entitlement import minus, plus
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.eviction.units import Taken, Unit
from fairway.scheduler.framework.accounts import SHARE_BITS, QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservations import Reservations
from fairway.state.jobs import TaskState
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS

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
