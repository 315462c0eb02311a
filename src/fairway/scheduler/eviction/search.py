"""What one more task on a node costs: the units that would have to go.

On a node, units are added in order (least important first) until the task fits, then spared in reverse while it still
does. Nodes are compared by what the entitlement puts first (`lead`), then by the highest grade among those that go
(priority, and at equal priority a whole gang above surplus pods), then by the work that is lost, then by the number of
pods, then by name.

The search for capacity on behalf of one claimant: node after node, the cheapest first.

Costs of all nodes are first worked out by array code, as what they are at least (`least_costs`); the cheapest is then
looked at exactly. If it is dearer than it seemed it goes back among the others, so that in the end the truly cheapest
node is taken, and only few are ever looked at one by one. `reference.py` beside it looks at all of them, each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from operator import add, sub
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.eviction.claims import EvictionClaim
from fairway.scheduler.eviction.obstacles import Blockers, FitCounts, passes_now
from fairway.scheduler.eviction.victims import Taken, Unit, VictimIndex, with_surplus_units
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import JournalEntry
from fairway.state.jobs import Job
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


Around = Callable[[int], set[Unit]]


class VictimSearch:
    """Units once `taken` are off the nodes, on a statement of its own."""

    def __init__(self, claim: EvictionClaim, taken: Taken) -> None:
        self._claim = claim
        self._session = claim.session
        self._index = claim.index
        self._eligible = claim.eligible.copy()
        self._taken = taken
        self._evicted = claim.session.statement()
        self._entries_of: dict[Unit, JournalEntry] = {}
        self._blockers: dict[Shape, tuple[Blockers, Around]] = {}
        self._counted: dict[Job, set[int]] = {}
        """Rows whose cost was worked out with surplus_units of a gang of this job."""
        self._lead = Lead(None, adds=False)
        self._entries = self._rows = self._numbers = claim.index.in_order()
        self._bounds: list[int] = []
        """Of each row, where its entries begin; they end where those of the next one begin."""
        self._asked_with = -1
        """How many units were taken when all were last asked whether they may go."""
        claim.entitlement.assume_eligible(claim.index, claim.eligible)
        self._drop_refused()
        self._sort()

    def make_room(self, shape: Shape, count: int) -> bool:
        """Take units until more tasks of the shape fit: `count` of them, or one where not only capacity decides.

        All that fit without have been placed. False: there is no way.
        """
        self._sort_again()
        self._drop_ineligible()
        passes = passes_now(self._session.nodes, shape)
        if passes is None:
            return self._make_rooms(shape, count)
        return self._make_one_room(shape, passes)

    def free(self, missing: dict[int, int]) -> bool:
        """Take units, wherever they are, until they have this much of what a queue has too much of."""
        left = dict(missing)
        for unit in self.eligible_units():
            if not left:
                return True
            held = self._taken.held_by(unit)
            if any(row < len(held) and held[row] for row in left) and self._take([unit]):
                over = self._claim.over_limits(self._taken)
                left = {row: over[row] for row in left if row in over}
        return not left

    # -- where only capacity decides --------------------------------------------------------------------------------

    def _make_rooms(self, shape: Shape, count: int) -> bool:
        fit_counts = FitCounts(self._session.nodes, shape, self._claim.placing.domain)
        if self._most_rooms(shape, fit_counts.open) < count:
            return False
        costs = self._all_costs(shape, fit_counts, ())
        changed: set[int] = set()
        while fit_counts.total < count:
            seemed = costs.pop()
            if seemed is None:
                return False
            found = self._units_on(shape, seemed.row, fit_counts.at(seemed.row))
            if found is None:
                continue
            cost = self._cost(found, seemed.row)
            if cost > seemed:
                costs.push(cost)
            elif not self._take(found):
                costs = self._all_costs(shape, fit_counts, changed)
            else:
                before, rows = fit_counts.at(seemed.row), self._rows_changed_by(found)
                changed |= rows
                fit_counts.update(rows)
                if fit_counts.at(seemed.row) == before:
                    fit_counts.open[seemed.row] = False  # something else limits it
                if self._sort_again():
                    costs = self._all_costs(shape, fit_counts, changed)
                else:
                    self._look_again(shape, rows, fit_counts, costs)
        return True

    def _all_costs(self, shape: Shape, fit_counts: FitCounts, changed: Iterable[int]) -> Costs:
        """What all nodes cost now; those where a unit was taken are looked at one by one."""
        self._drop_ineligible()
        untouched = fit_counts.open.copy()
        untouched[list(changed)] = False
        costs = least_costs(self._session, self._index, self._entries, shape, untouched, self._lead)
        self._look_again(shape, changed, fit_counts, costs)
        return costs

    def _look_again(self, shape: Shape, rows: Iterable[int], fit_counts: FitCounts, costs: Costs) -> None:
        for row in rows:
            found = self._units_on(shape, row, fit_counts.at(row)) if fit_counts.open[row] else None
            if found is not None:
                costs.push(self._cost(found, row))

    def _cost(self, units: list[Unit], row: int) -> Cost:
        """What capacity on a row costs, and a note of whose surplus_units are counted in it."""
        for unit in units:
            if unit.surplus_units:
                self._counted.setdefault(unit.job, set()).add(row)
        return cost_of(self._session, self._index, units, self._taken, row, self._lead)

    def _rows_changed_by(self, taken: list[Unit]) -> set[int]:
        """Rows where free capacity costs something else now: those of the taken units, and of their surplus units."""
        rows: set[int] = set()
        for unit in with_surplus_units(taken):
            rows.update([task.node for task in unit.tasks], self._counted.pop(unit.job, ()))
        return rows

    def _most_rooms(self, shape: Shape, open_: BoolColumn) -> int:
        """How many tasks would fit if all that are eligible were gone."""
        if not len(self._rows):
            return 0
        most = np.full(len(open_), 1 << 40, dtype=np.int64)
        first = np.flatnonzero(np.r_[True, self._rows[1:] != self._rows[:-1]])
        for dimension, amount in shape.vector:
            idle = self._session.nodes.snapshot.idle[dimension].copy()
            idle[self._rows[first]] += np.add.reduceat(self._index.entry_amounts[dimension, self._entries], first)
            np.minimum(most, idle // amount, out=most)
        return int(np.maximum(most, 0)[open_].sum())

    def _units_on(self, shape: Shape, row: int, room: int) -> list[Unit] | None:
        """The units to take for one more task on a row than it has free capacity for; None if nothing helps."""
        idle, index = self._session.nodes.snapshot.idle, self._index
        missing = [amount * (room + 1) - int(idle[dimension, row]) for dimension, amount in shape.vector]
        short = [dimension for (dimension, _), lacks in zip(shape.vector, missing, strict=True) if lacks > 0]
        if not short:
            return None
        entries = self._entries_on(row)
        given = zip(*[index.entry_amounts[dimension].take(entries).tolist() for dimension in short], strict=True)
        chosen: list[tuple[int, tuple[int, ...]]] = []
        left = [lacks for lacks in missing if lacks > 0]
        for number, gives in zip(index.entry_unit.take(entries).tolist(), given, strict=True):
            if not any(gives):
                continue
            chosen.append((number, gives))
            left = list(map(sub, left, gives))
            if max(left) <= 0:
                return [index.unit(number) for number in _spared(chosen, left)]
        return None

    # -- where other pods matter too ----------------------------------------------------------------------------

    def _make_one_room(self, shape: Shape, passes: BoolColumn) -> bool:
        open_ = FitCounts(self._session.nodes, shape, self._claim.placing.domain).open
        blockers, around = self._blockers_of(shape)
        depends_on_other_pods = bool(shape.rules.affinity or shape.rules.spread)
        known = np.zeros(len(open_), dtype=np.bool_) if depends_on_other_pods else passes & open_
        costs = least_costs(self._session, self._index, self._entries, shape, known, self._lead)
        for row in np.flatnonzero(open_ & ~known):
            found = self._units_for(shape, int(row), blockers, around(int(row)))
            if found:
                costs.push(cost_of(self._session, self._index, found, self._taken, int(row), self._lead))
        while (seemed := costs.pop()) is not None:
            found = self._units_for(shape, seemed.row, blockers, around(seemed.row))
            if not found:
                continue
            cost = cost_of(self._session, self._index, found, self._taken, seemed.row, self._lead)
            if cost > seemed:
                costs.push(cost)
            elif self._take(found):
                return True
            else:
                return self._make_one_room(shape, passes)  # a unit is out now: everything may cost something else
        return False

    def _blockers_of(self, shape: Shape) -> tuple[Blockers, Around]:
        if shape not in self._blockers:
            blockers = Blockers(self._session.nodes, shape)
            units = (self._index.unit(number) for number in np.flatnonzero(self._eligible).tolist())
            self._blockers[shape] = blockers, blockers.by_domain(units)
        return self._blockers[shape]

    def _units_for(self, shape: Shape, row: int, blockers: Blockers, around: set[Unit]) -> list[Unit] | None:
        """The units to take for a task on a row; None if nothing helps. Tried out on the statement."""
        kernel, index, idle = self._session.nodes.kernel, self._index, self._session.nodes.snapshot.idle
        short = [dimension for dimension, amount in shape.vector if idle[dimension, row] < amount]
        helpful = {unit for unit in around if self._eligible[unit.number]}
        for entry in self._entries_on(row).tolist():
            unit = index.unit(int(index.entry_unit[entry]))
            if any(index.entry_amounts[d, entry] > 0 for d in short) or any(
                blockers.blocks(t, row) for t in unit.tasks
            ):
                helpful.add(unit)
        trial: list[Unit] = []
        for unit in sorted(helpful, key=lambda unit: (self._lead.of_unit(unit), self._index.order_of(unit))):
            if kernel.fits_now(shape, row):
                break
            passed = kernel.feasible(shape, row)
            self.evict(unit)
            if passed and not kernel.feasible(shape, row):
                self.restore(unit)  # a pod that the task has affinity to
            else:
                trial.append(unit)
        kept: list[Unit] | None = None
        if kernel.fits_now(shape, row):
            kept = []
            for unit in reversed(trial):
                self.restore(unit)
                if not kernel.fits_now(shape, row):
                    self.evict(unit)
                    kept.insert(0, unit)
        for unit in trial if kept is None else kept:
            self.restore(unit)
        return kept

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _sort(self) -> None:
        """Entries in the order in which units go, as the entitlement sees it now."""
        entitlement = self._claim.entitlement
        self._lead = Lead(entitlement.lead(self._index, self._taken), entitlement.lead_adds)
        self._keep(self._index.in_order(self._lead.column))
        self._drop_ineligible()

    def _sort_again(self) -> bool:
        """Whether what was taken has changed which queue comes first; then the entries are in another order."""
        now, was = self._claim.entitlement.lead(self._index, self._taken), self._lead.column
        if now is was or (now is not None and was is not None and np.array_equal(now, was)):
            return False
        self._sort()
        return True

    def _drop_refused(self) -> None:
        """Units that may not go, beside those that are taken, are out: they count on no node."""
        before, self._asked_with = self._asked_with, len(self._taken.units)
        if before == self._asked_with:
            return
        index, entitlement, may_go = self._index, self._claim.entitlement, self._eligible
        if before >= 0:
            touched = entitlement.touched(index, islice(self._taken.units, before, None))
            may_go = may_go if touched is None else may_go & touched
        numbers = np.flatnonzero(may_go)
        alike = entitlement.alike(index)[numbers]
        one_of = np.full(index.codes, -1, dtype=np.int64)
        one_of[alike] = numbers
        refused, unsure = np.zeros(index.codes, dtype=np.bool_), np.zeros(index.codes, dtype=np.bool_)
        for code in np.flatnonzero(one_of >= 0).tolist():
            answer = entitlement.allows_alike(index.unit(int(one_of[code])), self._taken)
            refused[code], unsure[code] = answer is False, answer is None
        self._eligible[numbers[refused[alike]]] = False
        for number in numbers[unsure[alike]].tolist():
            self._eligible[number] = entitlement.allows(index.unit(number), self._taken)

    def _drop_ineligible(self) -> None:
        still = self._eligible[self._numbers]
        if not still.all():
            self._keep(self._entries[still])

    def _keep(self, entries: IntColumn) -> None:
        self._entries, self._rows = entries, self._index.entry_row[entries]
        self._numbers = self._index.entry_unit[entries]
        self._bounds = self._rows.searchsorted(np.arange(self._session.nodes.snapshot.size + 1)).tolist()

    def _entries_on(self, row: int) -> IntColumn:
        """The entries of units that are still eligible, in order."""
        there = slice(self._bounds[row], self._bounds[row + 1])
        return self._entries[there][self._eligible[self._numbers[there]]]

    def eligible_units(self) -> Iterator[Unit]:
        """In order."""
        index, numbers = self._index, np.flatnonzero(self._eligible)
        keys = [index.rank[numbers], -index.started[numbers], index.work[numbers], index.grade[numbers]]
        if self._lead.column is not None:
            keys.append(self._lead.column[numbers])
        order: IntColumn = np.lexsort(keys)
        for number in numbers[order].tolist():
            if self._eligible[number]:
                yield index.unit(number)

    def _take(self, units: list[Unit]) -> bool:
        """Take these units and those that go along, if every one may be; else those that may not are out, and none
        goes.
        """
        added: list[Unit] = []
        for unit in units:
            for going in with_surplus_units([unit]):
                if going in self._taken or going.tasks[0] in self._session.decisions.evicted:
                    continue
                if not self._eligible[going.number] or not self._claim.allows(going, self._taken):
                    self._eligible[unit.number] = self._eligible[going.number] = False
                    for earlier in added:
                        self.give_back(earlier)
                    self._drop_refused()
                    return False
                self._taken.add(going)
                self._claim.budgets.spend(going.tasks)
                added.append(going)
        for unit in added:
            self._eligible[unit.number] = False
            self.evict(unit)
        return True

    def evict(self, unit: Unit) -> None:
        """Pretend that the unit's pods are gone."""
        self._entries_of[unit] = self._evicted.displace(unit.tasks)

    def restore(self, unit: Unit) -> None:
        """They are back."""
        self._evicted.take_back(self._entries_of.pop(unit))

    def restore_all(self) -> None:
        """Nothing of it happened. What was taken stays noted, for it is what was found."""
        self._claim.budgets.spend((task for unit in self._taken.units for task in unit.tasks), -1)
        self._evicted.rollback()
        self._entries_of.clear()

    def give_back(self, unit: Unit) -> None:
        self._taken.remove(unit)
        self._claim.budgets.spend(unit.tasks, -1)


def _spared(chosen: list[tuple[int, tuple[int, ...]]], left: list[int]) -> list[int]:
    """Which of the chosen are really needed. `left` is what is still missing, less than nothing where there is more."""
    kept: list[int] = []
    for number, gives in reversed(chosen):
        without = list(map(add, left, gives))
        if max(without) <= 0:
            left = without
        else:
            kept.append(number)
    return kept[::-1]
