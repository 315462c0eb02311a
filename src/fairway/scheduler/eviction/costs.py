"""What one more task on a node costs: the units that would have to go.

On a node, units are added in order (least important first) until the task fits, then spared in reverse while it still
does. Nodes are compared by what the entitlement puts first (`lead`), then by the highest grade among those that go
(priority, and at equal priority a whole gang above surplus pods), then by the work that is lost, then by the number of
pods, then by name.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.index import VictimIndex
from fairway.scheduler.eviction.units import Taken, Unit, with_surplus_units
from fairway.scheduler.framework.session import Session
from fairway.state.shapes import Shape

Amounts = NDArray[np.int64]


class Cost(NamedTuple):
    """Small first."""

    lead: int
    grade: int
    work: int
    pods: int
    rank: int
    row: int


class Lead(NamedTuple):
    """What an entitlement puts before everything else, by number of unit; of several units the sum or the highest."""

    column: IntColumn | None
    adds: bool

    def of(self, units: list[Unit]) -> int:
        if self.column is None:
            return 0
        parts = [int(self.column[unit.number]) for unit in units]
        return sum(parts) if self.adds else max(parts)

    def of_unit(self, unit: Unit) -> int:
        return 0 if self.column is None else int(self.column[unit.number])


def cost_of(session: Session, index: VictimIndex, units: list[Unit], taken: Taken, row: int, lead: Lead) -> Cost:
    """What it costs that these go, and those that go along and are not going already."""
    pods = work = 0
    going, evicted = taken.units, session.decisions.evicted
    for unit in with_surplus_units(units):
        if unit not in going and unit.tasks[0] not in evicted:
            pods += len(unit.tasks)
            work += int(index.work[unit.number])
    grade = max([unit.grade for unit in units])
    return Cost(lead.of(units), grade, work, pods, int(session.nodes.snapshot.rank[row]), row)


class Costs:
    """What capacity on each node costs, the cheapest first."""

    def __init__(self, columns: tuple[IntColumn, ...] = ()) -> None:
        """Columns of lead, grade, work, pods, rank and row."""
        self._columns = columns
        self._order = np.lexsort(columns[4::-1]).tolist() if columns else []
        self._at = 0
        self._heap: list[Cost] = []
        self._next = self._sorted()

    def pop(self) -> Cost | None:
        if self._heap and (self._next is None or self._heap[0] <= self._next):
            return heappop(self._heap)
        cost = self._next
        if cost is not None:
            self._at += 1
            self._next = self._sorted()
        return cost

    def push(self, cost: Cost) -> None:
        heappush(self._heap, cost)

    def _sorted(self) -> Cost | None:
        if self._at >= len(self._order):
            return None
        at = self._order[self._at]
        return Cost(*[int(column[at]) for column in self._columns])


def least_costs(
    session: Session, index: VictimIndex, entries: IntColumn, shape: Shape, open_: BoolColumn, lead: Lead
) -> Costs:
    """For all nodes at once what capacity for a task costs at least: surplus_units are not counted here.

    `entries` are those of eligible units, by node and in order. A node without enough of them is not listed.
    """
    idle, rows = session.nodes.snapshot.idle, index.entry_row[entries]
    usable = open_[rows]
    if not usable.all():
        rows, entries = rows[usable], entries[usable]
    short, given, room = [], [], []
    for dimension, amount in shape.vector:
        missing = amount - idle[dimension]
        if (missing > 0).any():
            short.append(missing > 0)
            given.append(np.where((missing > 0)[rows], index.entry_amounts[dimension, entries], 0))
            room.append(missing)
    if not len(rows) or not short:
        return Costs()
    useful = np.logical_or.reduce([part > 0 for part in given])
    rows, entries = rows[useful], entries[useful]
    if not len(rows):
        return Costs()
    given = [part[useful] for part in given]
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    start = np.repeat(first, np.diff(np.r_[first, len(rows)]))
    over, enough = [], np.ones(len(rows), dtype=np.bool_)
    for part, missing in zip(given, room, strict=True):
        running = part.cumsum()
        left = running - (running[start] - part[start]) - missing[rows]
        over.append(left)
        enough &= left >= 0
    ends = np.flatnonzero(enough)
    if not len(ends):
        return Costs()
    ends = ends[np.r_[True, rows[ends][1:] != rows[ends][:-1]]]
    left_over = np.stack([part[ends] for part in over])
    units = index.entry_unit[entries]
    return _ranked(session, index, start[ends], ends, units, np.stack(given), left_over, rows[ends], lead)


def _ranked(
    session: Session,
    index: VictimIndex,
    starts: IntColumn,
    ends: IntColumn,
    units: IntColumn,
    given: Amounts,
    over: Amounts,
    nodes: IntColumn,
    lead: Lead,
) -> Costs:
    """Spare in reverse on all nodes in step. `over` is what is freed beyond the need."""
    pods = np.zeros(len(nodes), dtype=np.int64)
    work = np.zeros(len(nodes), dtype=np.int64)
    grade = index.grade[units[ends]]
    first = np.zeros(len(nodes), dtype=np.int64)
    for back in range(int((ends - starts).max()) + 1):
        at = np.maximum(ends - back, starts)
        there = ends - back >= starts
        gives = given[:, at]
        spare = there & (over >= gives).all(axis=0)
        over = over - gives * spare
        unit = units[at]
        goes = there & ~spare
        pods += goes * index.pods[unit]
        work += goes * index.work[unit]
        if lead.column is not None:
            grade = np.maximum(grade, np.where(goes, index.grade[unit], grade))
            led = np.where(goes, lead.column[unit], 0)
            first = first + led if lead.adds else np.maximum(first, led)
    return Costs((first, grade, work, pods, session.nodes.snapshot.rank[nodes], nodes))
