"""Entitlement of reclaim: a queue takes back, within what it deserves, what others have above theirs.

Queues to take from: lowest `priority` first, then the one furthest above its deserved, by weight. No queue goes below
its guarantee, and reserved amounts do not count as a guarantee met: they are not allocated yet. The last unit taken
from a queue may be larger than what the queue has too much of. Where that takes it below what it deserves, two further
searches look for less (`narrowed`): one in which no queue goes below, and one that takes small units first and no more
of any queue than the first search found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.resources.quantity import INT64_MAX
from fairway.scheduler.eviction.entitlement import minus, plus
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.eviction.units import Taken, Unit
from fairway.scheduler.framework.accounts import SHARE_BITS, QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.cluster import PODS
from fairway.state.queues import Amounts, add
from fairway.state.tasks import TaskState

Floors = Mapping[str, Amounts]
"""By queue, what it must have left."""


class ReclaimEntitlement:
    """Across queues."""

    action = "reclaim"
    lead_adds = False

    def __init__(self, session: Session, claimant: JobRun, gang: Amounts) -> None:
        self._session = session
        self._claimant = claimant
        self._asked = [row for row, amount in enumerate(gang) if amount and row != PODS]
        self._gang = gang
        self._reserved = reserved_amounts(session)

    def may_act(self) -> bool:
        """The claimant's queue stays within what it deserves, in every dimension it asks for."""
        queue = self._claimant.queue
        return queue.deserved is not None and all(
            queue.held[row] + self._gang[row] <= queue.deserved[row] for row in self._asked
        )

    def candidates(self, index: VictimIndex) -> BoolColumn:
        count = len(index.units)
        queues = [index.code(book.name) for book in self._session.queues.values() if self._gives(book, Taken())]
        return index.usable[:count] & np.isin(index.queue[:count], queues)

    def allows(self, unit: Unit, taken: Taken) -> bool:
        book = self._session.queues[unit.job.queue]
        return self._gives(book, taken) and self._keeps_guarantees(book, unit, taken)

    def refuses_alike(self, unit: Unit, taken: Taken) -> bool:
        return True

    def reason(self, unit: Unit) -> str:
        mine, theirs = self._claimant.queue.name, unit.job.queue
        return f"queue {theirs} has more allocated than it deserves, queue {mine} less"

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        """The place of each unit's queue among those to take from; None if there is only one."""
        books = [book for book in self._session.queues.values() if self._gives(book, taken)]
        if len(books) < 2:
            return None
        order = sorted({(book.info.priority, -self._excess(book, taken)) for book in books})
        ranks = np.full(index.codes, len(order), dtype=np.int64)
        for book in books:
            ranks[index.code(book.name)] = order.index((book.info.priority, -self._excess(book, taken)))
        return ranks[index.queue[: len(index.units)]]

    def narrowed(self, units: Iterable[Unit], taken: Taken) -> Iterator[ReclaimEntitlement]:
        """Where these units take a queue below what it deserves: entitlements to less than that."""
        if self.below(units, taken):
            queues = self._session.queues
            yield _Narrowed(self, {name: self._floor(book) for name, book in queues.items()}, small=False)
            lost = {name: taken.of_queue(name) for name in taken.queues()}
            yield _Narrowed(self, {n: minus(self._allocated(queues[n]), lost[n]) for n in lost}, small=True)

    def below(self, units: Iterable[Unit], taken: Taken) -> int:
        """How far these units would take queues below what they deserve, as a sum of parts of the cluster."""
        for unit in units:
            taken.add(unit)
        below = 0
        for name in taken.queues():
            book = self._session.queues[name]
            floor, left = self._floor(book), minus(self._allocated(book), taken.of_queue(name))
            short = [
                (row, floor[row] - left[row]) for row in range(len(left)) if row != PODS and left[row] < floor[row]
            ]
            below += sum(self._part(row, amount) for row, amount in short)
        return below

    def _floor(self, book: QueueAccount) -> Amounts:
        """What the queue deserves, in the dimensions of which it has that much: in others it is below already."""
        assert book.deserved is not None
        have = self._allocated(book)
        return [amount if have[row] >= amount else 0 for row, amount in enumerate(book.deserved)]

    def possible(self, index: VictimIndex, taken: Taken) -> BoolColumn | None:
        return None

    def _gives(self, book: QueueAccount, taken: Taken) -> bool:
        """Above what it deserves in a dimension asked for, what is taken already taken off."""
        if book is self._claimant.queue or book.deserved is None or not self._may_be_taken_from(book):
            return False
        left = minus(self._allocated(book), taken.of_queue(book.name))
        return any(left[row] > book.deserved[row] for row in self._asked)

    def _excess(self, book: QueueAccount, taken: Taken) -> int:
        """How far the queue is above its deserved, weighted, in the dimensions asked for."""
        assert book.deserved is not None
        left = minus(self._allocated(book), taken.of_queue(book.name))
        return max(self._part(row, left[row] - book.deserved[row]) // book.info.weight for row in self._asked)

    def _part(self, row: int, amount: int) -> int:
        return (amount << SHARE_BITS) // max(1, self._session.total[row])

    def _allocated(self, book: QueueAccount) -> Amounts:
        """What the queue has, without what is only reserved."""
        reserved = self._reserved.get(book.name)
        return book.held if reserved is None else minus(book.held, reserved)

    def _may_be_taken_from(self, book: QueueAccount) -> bool:
        """What a queue is marked with holds for those below it, too; `reclaimable` speaks to those outside of it."""
        if any(above.info.never_evict for above in book.line):
            return False
        return all(above.info.reclaimable for above in book.line if above not in self._claimant.queue.line)

    def _keeps_guarantees(self, book: QueueAccount, unit: Unit, taken: Taken) -> bool:
        for above in book.line:
            lost = taken.held_by(unit)
            for name in taken.queues():
                if above in self._session.queues[name].line:
                    lost = plus(lost, taken.of_queue(name))
            gained = self._gang if above in self._claimant.queue.line else []
            left = plus(minus(self._allocated(above), lost), gained)
            if any(amount and left[row] < above.guarantee[row] for row, amount in enumerate(lost)):
                return False
        return True


class _Narrowed(ReclaimEntitlement):
    """A search for less: no queue goes below its floor. With `small`, small units are taken first."""

    def __init__(self, wide: ReclaimEntitlement, floors: Floors, *, small: bool) -> None:
        super().__init__(wide._session, wide._claimant, wide._gang)
        self._floors = floors
        self._small = small
        self._sizes: IntColumn | None = None
        self._amounts: dict[int, IntColumn] = {}
        self.lead_adds = small

    def allows(self, unit: Unit, taken: Taken) -> bool:
        book, floor = self._session.queues[unit.job.queue], self._floors.get(unit.job.queue)
        if floor is None or not (self._small or self._gives(book, taken)):
            return False
        left = minus(self._allocated(book), plus(taken.of_queue(book.name), taken.held_by(unit)))
        enough = all(left[row] >= least for row, least in enumerate(floor) if row != PODS)
        return enough and self._keeps_guarantees(book, unit, taken)

    def lead(self, index: VictimIndex, taken: Taken) -> IntColumn | None:
        if not self._small:
            return super().lead(index, taken)
        if self._sizes is None:
            self._sizes = index.sizes(self._asked, self._session.total)
        return self._sizes

    def possible(self, index: VictimIndex, taken: Taken) -> BoolColumn:
        """Units that do not take their queue below its floor by themselves, after what is taken."""
        count = len(index.units)
        possible = np.zeros(count, dtype=np.bool_)
        for name, floor in self._floors.items():
            left = minus(self._allocated(self._session.queues[name]), taken.of_queue(name))
            mine: BoolColumn = index.queue[:count] == index.code(name)
            for row in range(min(len(floor), len(index.entry_amounts))):
                if row != PODS and floor[row]:
                    mine = mine & (self._amounts_of(index, row) <= min(left[row] - floor[row], INT64_MAX))
            possible |= mine
        return possible

    def _amounts_of(self, index: VictimIndex, row: int) -> IntColumn:
        if row not in self._amounts:
            self._amounts[row] = index.amounts(row)
        return self._amounts[row]

    def narrowed(self, units: Iterable[Unit], taken: Taken) -> Iterator[ReclaimEntitlement]:
        return iter(())


def reserved_amounts(session: Session) -> dict[str, Amounts]:
    """By queue, and for those above, what is reserved and not allocated yet."""
    found: dict[str, Amounts] = {}
    for hold in session.holds:
        if hold.state is TaskState.RESERVED:
            for book in hold.job.queue.line:
                add(found.setdefault(book.name, []), hold.task.shape.vector)
    return found


def above_deserved(book: QueueAccount) -> bool:
    """Whether a queue holds more than it deserves of anything."""
    deserved = book.deserved
    return deserved is not None and any(held > deserved[row] for row, held in enumerate(book.held) if row != PODS)


def below_deserved(book: QueueAccount) -> bool:
    """Whether a queue holds less than it deserves of anything."""
    deserved = book.deserved
    return deserved is not None and any(held < deserved[row] for row, held in enumerate(book.held) if row != PODS)
