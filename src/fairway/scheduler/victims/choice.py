"""Choosing victims: the fewest, least important units whose going lets the whole gang of a claimant be placed.

For each node the units there are added in order (least important first) until one more task fits, then spared in
reverse while it still fits. The node whose victims are best (lowest highest priority, then fewest pods, then least
work lost, then by name) is taken, again and again until there is room for the gang. In the end every unit is spared
without which the gang still places: so none of the result can be.

The first look at all nodes is array code over the entries of `VictimIndex`; after that only nodes that changed are
looked at again. `reference.py` beside it does the same with plain loops.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.kernel import INFEASIBLE
from fairway.scheduler.session import Session
from fairway.scheduler.victims.budgets import DisruptionBudgets
from fairway.scheduler.victims.entitlement import Entitlement
from fairway.scheduler.victims.index import VictimIndex
from fairway.scheduler.victims.scratch import Scratch
from fairway.scheduler.victims.units import Taken, Unit
from fairway.state.shapes import Shape

Amounts = NDArray[np.int64]


class Cost(NamedTuple):
    """What one more task on a node costs. Small first; the units are those that would have to go."""

    priority: int
    pods: int
    work: Micros
    rank: int
    row: int
    units: tuple[int, ...] = ()


class Hunt:
    """The search for one claimant and one shape. Units once `taken` are off the nodes, on the scratch."""

    def __init__(
        self,
        session: Session,
        index: VictimIndex,
        eligible: BoolColumn,
        entitlement: Entitlement,
        budgets: DisruptionBudgets,
        taken: Taken,
        scratch: Scratch,
    ) -> None:
        self._session = session
        self._index = index
        self._eligible = eligible.copy()
        self._entitlement = entitlement
        self._budgets = budgets
        self._taken = taken
        self._scratch = scratch
        self._numbers: dict[Unit, int] = {}
        self._entries = self._sorted_entries()
        self._rows = index.entry_row[self._entries]

    def make_room(self, shape: Shape, count: int) -> bool:
        """Take units until `count` tasks of the shape have room. False: all that was taken must be given back."""
        rooms = Rooms(self._session, shape)
        queue = self._first_costs(shape, rooms.open)
        heap: list[Cost] = []
        at = 0
        while rooms.total < count:
            if heap and (at == len(queue) or heap[0][:5] < queue[at][:5]):
                row = heappop(heap).row
            elif at < len(queue):
                row = queue[at].row
                at += 1
            else:
                return False
            cost = self._cost(shape, row)
            if cost is None:
                continue
            if not self._take(cost.units):
                again = self._cost(shape, row)
                if again is not None:
                    heappush(heap, again)
                continue
            for touched in self._touched(cost.units):
                rooms.update(touched)
                another = self._cost(shape, touched) if rooms.open[touched] else None
                if another is not None and another.units:
                    heappush(heap, another)
        return True

    def free(self, missing: dict[int, int]) -> bool:
        """Take units, wherever they are, until they hold this much of what a queue has too much of."""
        order = self._unit_order(np.flatnonzero(self._eligible))
        left = dict(missing)
        for number in order:
            if not left:
                return True
            unit = self._index.units[int(number)]
            if unit is None or not any(row < len(unit.amounts) and unit.amounts[row] for row in left):
                continue
            if self._take((int(number),)):
                for row in list(left):
                    left[row] -= unit.amounts[row] if row < len(unit.amounts) else 0
                    if left[row] <= 0:
                        del left[row]
        return not left

    # -- taking and what it changes ---------------------------------------------------------------------------

    def _take(self, numbers: tuple[int, ...]) -> bool:
        """Take these units, if every one may be; otherwise ban the one that may not, and take none."""
        added: list[Unit] = []
        for number in numbers:
            unit = self._index.units[number]
            assert unit is not None
            if not self._entitlement.allows(unit, self._taken) or not self._budgets.allow(unit.tasks):
                self._eligible[number] = False
                for earlier in added:
                    self._give_back(earlier)
                return False
            self._taken.add(unit)
            self._budgets.spend(unit.tasks)
            self._numbers[unit] = number
            added.append(unit)
        for number in numbers:
            self._eligible[number] = False
            self._scratch.evict(self._index.units[number])
        return True

    def _give_back(self, unit: Unit) -> None:
        self._taken.add(unit, -1)
        self._budgets.spend(unit.tasks, -1)

    def _touched(self, numbers: tuple[int, ...]) -> list[int]:
        units = [self._index.units[number] for number in numbers]
        return sorted({task.node for unit in units if unit is not None for task in unit.tasks})

    # -- costs --------------------------------------------------------------------------------------------------

    def _sorted_entries(self) -> IntColumn:
        """Entries of eligible units, by node and then in the order in which units go."""
        index = self._index
        used = len(index.entry_row)
        live = index.entry_alive.copy()
        live[live] = self._eligible[index.entry_unit[:used][live]]
        entries = np.flatnonzero(live)
        units = index.entry_unit[entries]
        order = np.lexsort((index.rank[units], -index.started[units], index.priority[units], index.entry_row[entries]))
        return entries[order]

    def _unit_order(self, numbers: IntColumn) -> IntColumn:
        index = self._index
        return numbers[np.lexsort((index.rank[numbers], -index.started[numbers], index.priority[numbers]))]

    def _cost(self, shape: Shape, row: int) -> Cost | None:
        """The units to take for one more task on a row, as things stand; None if nothing helps."""
        idle, index = self._session.snapshot.idle, self._index
        short = {d: amount - int(idle[d, row]) for d, amount in shape.vector if int(idle[d, row]) < amount}
        if not short:
            return Cost(-(1 << 62), 0, 0, int(self._session.snapshot.rank[row]), row)
        chosen: list[tuple[int, dict[int, int]]] = []
        missing = dict(short)
        first, last = np.searchsorted(self._rows, (row, row + 1))
        for entry in self._entries[first:last]:
            number = int(index.entry_unit[entry])
            if not self._eligible[number]:
                continue
            gives = {d: int(index.entry_amounts[d, entry]) for d in short if index.entry_amounts[d, entry]}
            if not gives:
                continue
            chosen.append((number, gives))
            for dimension, amount in gives.items():
                missing[dimension] -= amount
            if all(amount <= 0 for amount in missing.values()):
                return self._spared(row, chosen, missing)
        return None

    def _spared(self, row: int, chosen: list[tuple[int, dict[int, int]]], missing: dict[int, int]) -> Cost:
        kept: list[int] = []
        for number, gives in reversed(chosen):
            if all(missing[dimension] + amount <= 0 for dimension, amount in gives.items()):
                for dimension, amount in gives.items():
                    missing[dimension] += amount
            else:
                kept.append(number)
        index, now = self._index, self._session.now
        pods = sum(int(index.pods[number]) for number in kept)
        work = sum(now * int(index.pods[number]) - int(index.begun[number]) for number in kept)
        priority = max(int(index.priority[number]) for number in kept)
        return Cost(priority, pods, work, int(self._session.snapshot.rank[row]), row, tuple(reversed(kept)))

    def _first_costs(self, shape: Shape, open_: BoolColumn) -> list[Cost]:
        """The costs of all nodes at once, cheapest first; their units are worked out when a node is taken."""
        index, idle = self._index, self._session.snapshot.idle
        request = np.array([amount for _, amount in shape.vector], dtype=np.int64)
        dimensions = [dimension for dimension, _ in shape.vector]
        room = idle[dimensions]
        short = room < request[:, None]
        rows, entries = self._rows, self._entries
        given = index.entry_amounts[dimensions][:, entries]
        useful = (short[:, rows] & (given > 0)).any(axis=0) & open_[rows]
        rows, entries, given = rows[useful], entries[useful], given[:, useful]
        if not len(rows):
            return []
        given = np.where(short[:, rows], given, 0)
        running = given.cumsum(axis=1)
        first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        start = np.repeat(first, np.diff(np.r_[first, len(rows)]))
        so_far = running - np.where(start > 0, running[:, start - 1], 0)
        enough = (so_far + room[:, rows] >= request[:, None]).all(axis=0)
        ends = np.flatnonzero(enough)
        nodes, where = np.unique(rows[ends], return_index=True)
        ends = ends[where]
        starts = start[ends]
        return self._rank(nodes, starts, ends, entries, given, so_far[:, ends] + room[:, nodes] - request[:, None])

    def _rank(
        self, nodes: IntColumn, starts: IntColumn, ends: IntColumn, entries: IntColumn, given: Amounts, over: Amounts
    ) -> list[Cost]:
        """Spare in reverse on all nodes in step, then sort. `over` is what is freed beyond the need."""
        index, now = self._index, self._session.now
        pods = np.zeros(len(nodes), dtype=np.int64)
        work = np.zeros(len(nodes), dtype=np.int64)
        units = index.entry_unit[entries]
        for back in range(int((ends - starts).max()) + 1 if len(nodes) else 0):
            at = np.maximum(ends - back, starts)
            there = ends - back >= starts
            gives = given[:, at]
            spare = there & (over >= gives).all(axis=0)
            over = over - np.where(spare, gives, 0)
            kept = there & ~spare
            unit = units[at]
            pods += np.where(kept, index.pods[unit], 0)
            work += np.where(kept, now * index.pods[unit] - index.begun[unit], 0)
        priority, rank = index.priority[units[ends]], self._session.snapshot.rank[nodes]
        order = np.lexsort((rank, work, pods, priority))
        return [Cost(int(priority[i]), int(pods[i]), int(work[i]), int(rank[i]), int(nodes[i])) for i in order]


class Rooms:
    """How many like tasks each node has room for, and all together."""

    def __init__(self, session: Session, shape: Shape) -> None:
        self._session = session
        self._shape = shape
        kernel = session.kernel
        self.open: BoolColumn = kernel.column(shape).base < INFEASIBLE
        if kernel.reserved is not None:
            self.open &= ~kernel.reserved
        rooms = np.full(session.snapshot.size, 1 << 40, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, session.snapshot.idle[dimension] // amount, out=rooms)
        np.maximum(rooms, 0, out=rooms)
        limits = kernel.limits(shape)
        if limits is not None:
            np.minimum(rooms, limits, out=rooms)
        self._rooms = np.where(self.open, rooms, 0)
        self.total = int(self._rooms.sum())

    def update(self, row: int) -> None:
        if self.open[row]:
            room = max(0, self._session.kernel.room(self._shape, row))
            self.total += room - int(self._rooms[row])
            self._rooms[row] = room
