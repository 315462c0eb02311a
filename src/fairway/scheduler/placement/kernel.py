"""Packed keys of nodes, of which the smallest is the best node: where infeasible ones begin, and how columns merge.

The array code: which nodes k like tasks should go to, exactly as if they were placed one by one.

For each shape there is one int64 column of packed keys, one entry per node:

    infeasible (a giant) | score, larger is smaller, fixed point | rank by name

so the smallest key is the best node, ties fall by name, and no two keys are equal. Columns are kept from cycle to
cycle. A placement changes one node only, so before a column is used again just the nodes *touched* since then are
computed again (`WorkingCopy.touched`).

k like tasks at once: the key of a node depends on that node alone, so k greedy picks never leave the k best nodes.
Their keys with 0, 1, 2... tasks added are computed in one go and merged. Where a score only rises as a node fills
(packing), the best node is simply filled, then the next.

`reference.py` does the same one task at a time and without any of this; a test holds the two together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.placement.alike import AlikeNodes
from fairway.scheduler.placement.node_view import SMALL_TABLE, Base, Check, Column, Columns, FloatColumn, NodeView
from fairway.scheduler.placement.parking import Parking
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.state.nodes import RANK_BITS
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy
from fairway.state.tables import PODS

GIANT = 1 << 61
"""Added to the key of an infeasible node, at most twice: by what labels say, and by what the capacity says."""

INFEASIBLE = 1 << 60
"""Every key from here on is infeasible."""


def merged(rows: list[int], keys: list[list[int]], count: int) -> list[int]:
    """k times the smallest next key; taking one brings up the same node's next."""
    heap = [(levels[0], index) for index, levels in enumerate(keys)]
    heapq.heapify(heap)
    level = [0] * len(rows)
    chosen: list[int] = []
    while heap and len(chosen) < count:
        key, index = heap[0]
        if key >= INFEASIBLE:
            break
        chosen.append(rows[index])
        level[index] += 1
        if level[index] < len(keys[index]):
            heapq.heapreplace(heap, (keys[index][level[index]], index))
        else:
            heapq.heappop(heap)
    return chosen


_GIANT = np.int64(GIANT)

SCORE_BITS = 16
"""Scores are compared in steps of 2**-16: finer than any meaning, coarser than the noise of a last bit."""

MAX_SCORE = float((1 << 19) - 1)
"""Fixed scores and those that move are each cut at this: their sum must stay below the giant."""

FEW_NODES = 64
"""Of so few nodes what is free on them is looked at before a column is brought up to date for nothing."""

FEW_SINGLES = 16
MANY_NODES = 128
"""After so many shapes of single pods in a session nodes that are alike are put together for the next ones, if there
are so many of them.
"""

_ANYTHING = np.iinfo(np.int64).min
"""Less than any node has free."""


@dataclass(frozen=True)
class NodeHooks:
    """The hooks of a policy's plugins that look at nodes, in the order of the tiers."""

    feasible_static: Sequence[Callable[[Shape, NodeView], Iterable[Check]]] = ()
    feasible: Sequence[Callable[[Shape, NodeView], Iterable[Check]]] = ()
    limit: Sequence[Callable[[Shape, NodeView], IntColumn | None]] = ()
    score_static: Sequence[Callable[[Shape, NodeView], FloatColumn | None]] = ()
    score: Sequence[Callable[[Shape, NodeView], FloatColumn]] = ()
    looks_around: Sequence[Callable[[Shape], bool]] = ()
    trend: int | None = None
    shares_static: bool = False
    """Whether static answers are the same for shapes that differ in nothing but their request."""
    rests_on_amounts: bool = False
    """Whether all other answers about a plain shape rest on what a node has free, and on its size."""


CapFor = Callable[[Shape], IntColumn | None]
"""How many tasks of a shape each node may take; None where nothing limits it."""


@dataclass(frozen=True, slots=True, eq=False)
class Placing:
    """The terms on which tasks are placed: one value that goes from the action down to the kernel.

    It is an argument and not a switch of the session, for a switch stays on after an early return or an error, and a
    reader of a call cannot see how it is set.
    """

    lending: bool = False
    """Whether idle capacity is lent: then the capability of a queue limits it, not what it deserves."""
    domain: BoolColumn | None = None
    """Rows that the choice is confined to, a domain of a topology; None for all nodes."""
    caps: CapFor | None = None
    """What the planned starts of other jobs leave; None where none are planned, or none need be respected."""

    def within(self, domain: BoolColumn | None) -> Placing:
        return Placing(self.lending, domain, self.caps)

    def beside(self, caps: CapFor) -> Placing:
        return Placing(self.lending, self.domain, caps)


PLAIN = Placing()
"""On any node, within what the queue deserves."""
LENDING = Placing(lending=True)


class Kernel:
    """Places like tasks on the snapshot of one session. It chooses; the statement writes."""

    def __init__(self, snapshot: WorkingCopy, hooks: NodeHooks, columns: Columns, pods: PodCounts) -> None:
        self.snapshot = snapshot
        self.hooks = hooks
        self.pods = pods
        self.reserved: BoolColumn | None = None
        """Rows on which a reservation waits for capacity; None if nowhere."""
        self.reserved_slots: IntColumn = np.zeros(0, dtype=np.int64)
        """How many wait there: a BestEffort pod must leave them their slots."""
        self._columns = columns
        self._max_idle: list[int] = []
        self._max_idle_read = -1
        self._request_columns: dict[Shape, NDArray[np.int64]] = {}
        self.uses_devices: Callable[[Shape], bool] = lambda shape: shape.devices is not None
        self._singles = 0
        """How many shapes of single pods had a column of their own in this session."""
        self._alike: AlikeNodes | None = None
        self._took = 0
        """A row that took such a pod when it was last looked for: the first to look at for another."""
        self.reopen()

    def reopen(self) -> None:
        """The snapshot was brought up to date: columns that do not fit it any more are forgotten."""
        state = self.snapshot.state
        self._columns.start(self.snapshot.layout, state.terms.generation, state.compaction.shapes_gone)

    def view(self, rows: IntColumn | None = None, idle: NDArray[np.int64] | None = None) -> NodeView:
        return NodeView(self.snapshot, self.pods, rows, idle)

    @property
    def parking(self) -> Parking:
        """Templates that fit on no node, kept from cycle to cycle."""
        return self._columns.parking

    def kept_shapes(self) -> list[Shape]:
        """Those whose columns are kept, and that some task still has."""
        return [shape for shape in self._columns.shapes() if shape.tasks]

    def looks_around(self, shape: Shape) -> bool:
        return any(looks(shape) for looks in self.hooks.looks_around)

    def base(self, shape: Shape) -> IntColumn:
        """What does not depend on free capacity: where the shape is infeasible whatever is free, and fixed scores."""
        return self._based(shape).base

    def _based(self, shape: Shape) -> Column:
        column = self._columns.get(shape)
        if column is None:
            column = self._new_column(shape)
        elif column.reshaped != self.snapshot.reshaped.end:
            self._rebase(shape, column)
        return column

    def column(self, shape: Shape) -> Column:
        """The shape's column, up to date."""
        column = self._based(shape)
        if column.touched != self.snapshot.touched.end or (column.around and column.pods != self.pods.changes):
            self._catch_up(shape, column)
        return column

    def choose(self, shape: Shape, count: int, placing: Placing) -> list[int]:
        """Rows for up to `count` tasks, in the order in which one by one would pick them.

        A shape that looks around gets one row at a time: ask again after the first was written down.
        """
        if self.snapshot.size <= FEW_NODES and not self.may_fit(shape):
            return []
        if shape.tasks <= 1 and count == 1 and self.snapshot.size >= MANY_NODES:
            alike = self._alike_for(shape, placing)
            if alike is not None:
                return self._first_of(shape, alike)
        column = self.column(shape)
        if placing.caps is not None:
            column = _capped(shape, column, placing.caps)
        if placing.domain is not None:
            column = Column(column.base, column.keys + ~placing.domain * _GIANT, around=column.around)
        if count == 1 or column.around:
            best = int(column.keys.argmin())
            return [best] if column.keys[best] < INFEASIBLE else []
        if self.hooks.trend == 1:
            return self._fill(shape, column, count, placing.caps)
        return self._merge(shape, column, count, placing.caps)

    def _alike_for(self, shape: Shape, placing: Placing) -> AlikeNodes | None:
        """Groups of nodes that a shape of a single pod is compared with; None where a column is computed."""
        if self._singles < FEW_SINGLES or not self._is_plain(shape):
            self._singles += 1
            return None
        if placing.caps is not None or placing.domain is not None or shape in self._columns:
            return None
        base = self._shared_base(shape)
        alike = self._alike
        if alike is None or not alike.fits(base) or not alike.sync(self.reserved):
            alike = self._alike = AlikeNodes(self.snapshot, base, self.reserved)
        if alike.is_worth_it:
            return alike
        self._singles, self._alike = -len(alike.firsts()), None  # not again before long
        return None

    def _is_plain(self, shape: Shape) -> bool:
        """Whether nothing about other pods, ports or devices has a say in where it goes."""
        return (
            self.hooks.rests_on_amounts
            and len(self.snapshot.idle) <= SMALL_TABLE
            and not (shape.has_pod_rules or shape.has_volumes or shape.ports or shape.best_effort)
            and not self.uses_devices(shape)
        )

    def _first_of(self, shape: Shape, alike: AlikeNodes) -> list[int]:
        rows = alike.firsts()
        keys = self._keys(shape, alike.base[rows], self.view(rows))
        best = int(keys.argmin())
        return [int(rows[best])] if keys[best] < INFEASIBLE else []

    def max_idle(self, shape: Shape) -> list[int]:
        """Of every resource, the most that any one node has free for such a task: nothing where others wait for it."""
        if self.reserved is None or shape.best_effort:
            return self.snapshot.max_idle()
        if self._max_idle_read != self.snapshot.touched.end:
            self._max_idle_read = self.snapshot.touched.end
            self._max_idle = self.snapshot.idle.max(axis=1, initial=-1, where=~self.reserved).tolist()
        return self._max_idle

    def may_fit(self, shape: Shape) -> bool:
        """Whether it asks for no more of anything than one node at most has free."""
        if not self.snapshot.size:
            return False
        most = self.max_idle(shape)
        for row, amount in shape.vector:  # noqa: SIM110 - asked of everything that waits
            if amount > most[row]:
                return False
        return True

    def fit_count(self, shape: Shape, row: int, placing: Placing = PLAIN) -> int:
        """How many like tasks a node can take."""
        limits = self._limits(shape, self.view(np.array([row])), placing.caps)
        fits = self._fit_count(shape, row)
        return fits if limits is None else min(fits, int(limits[0]))

    def _fit_count(self, shape: Shape, row: int) -> int:
        """How many the capacity alone allows, in Python ints: one division per resource."""
        idle = self.snapshot.idle
        fits = min([int(idle[dimension, row]) // amount for dimension, amount in shape.vector])
        if shape.best_effort and self.reserved is not None:
            fits = min(fits, int(idle[PODS, row] - self.reserved_slots[row]))
        return fits

    def limits(self, shape: Shape, placing: Placing = PLAIN) -> IntColumn | None:
        """How many like tasks each node can take at most, whatever its capacity; None if that does not limit."""
        return self._limits(shape, self.view(), placing.caps)

    def has_capacity(self, shape: Shape) -> bool:
        """Whether some node could take one task. Of a single pod that is found without its scores: its column is
        computed when it is placed, and not kept until then.
        """
        if not self.snapshot.size:
            return False
        if shape.tasks > 1 or shape in self._columns or self.looks_around(shape):
            return bool(self.column(shape).keys.min() < INFEASIBLE)
        base = self._shared_base(shape)
        if base[self._took] < INFEASIBLE and not self._short_of(shape, self.view(np.array([self._took])))[0]:
            return True
        takes = ~self._short_of(shape, self.view()) & (base < INFEASIBLE)
        self._took = int(takes.argmax())
        return bool(takes[self._took])

    def feasible_rows(self, shape: Shape) -> IntColumn:
        return np.flatnonzero(self.column(shape).keys < INFEASIBLE)

    def feasible(self, shape: Shape, row: int) -> bool:
        """Whether every predicate holds on a node now; capacity and reservations are another matter."""
        view = self.view(np.array([row]))
        if not self.snapshot.alive[row] or shape.volumes.missing:
            return False
        checks = (*self.hooks.feasible_static, *self.hooks.feasible)
        return all(check.passes[0] for feasible in checks for check in feasible(shape, view))

    def fits_now(self, shape: Shape, row: int, placing: Placing = PLAIN) -> bool:
        """Whether a node has everything that one more task needs, capacity too; reservations are another matter."""
        idle = self.snapshot.idle
        enough = all(idle[dimension, row] >= amount for dimension, amount in shape.vector)
        return enough and self.feasible(shape, row) and self.fit_count(shape, row, placing) > 0

    def fits_when_empty(self, shape: Shape, row: int) -> bool:
        """Whether an empty node would do."""
        view = self.view(np.array([row]))
        whole = self.snapshot.allocatable
        if any(int(whole[dimension, row]) < amount for dimension, amount in shape.vector):
            return False
        return all(check.passes[0] for feasible in self.hooks.feasible_static for check in feasible(shape, view))

    # -- keys ---------------------------------------------------------------------------------------------------

    def _new_column(self, shape: Shape) -> Column:
        column = Column(self._shared_base(shape), np.zeros(0, dtype=np.int64), around=self.looks_around(shape))
        column.reshaped = self.snapshot.reshaped.end
        self._renew(shape, column)
        self._columns.put(shape, column)
        return column

    def _rebase(self, shape: Shape, column: Column) -> None:
        """Labels, taints, readiness or size of some nodes changed."""
        rows = self.snapshot.reshaped.since(column.reshaped)
        column.reshaped = self.snapshot.reshaped.end
        column.around = self.looks_around(shape)
        column.base = self._shared_base(shape)
        if rows is None or 2 * len(rows) > self.snapshot.size:
            self._renew(shape, column)
            return
        chosen = np.array(rows, dtype=np.int64)
        column.keys[chosen] = self._keys(shape, column.base[chosen], self.view(chosen))

    def _catch_up(self, shape: Shape, column: Column) -> None:
        rows = self.snapshot.touched.since(column.touched)
        if column.around or rows is None or 2 * len(rows) > self.snapshot.size:
            self._renew(shape, column)
            return
        column.touched = self.snapshot.touched.end
        column.keys[rows] = self._keys(shape, column.base[rows], self.view(rows))

    def _renew(self, shape: Shape, column: Column) -> None:
        column.touched = self.snapshot.touched.end
        column.pods = self.pods.changes
        column.keys = self._keys(shape, column.base, self.view())

    def _shared_base(self, shape: Shape) -> IntColumn:
        """The base of a shape, up to date: one for all shapes that differ in nothing but their request."""
        key = _static_key(shape) if self.hooks.shares_static else shape
        base, end = self._columns.bases.get(key), self.snapshot.reshaped.end
        if base is None:
            base = self._columns.bases[key] = Base(self._base(shape, self.view()), end)
        elif base.reshaped != end:
            rows = self.snapshot.reshaped.since(base.reshaped)
            base.reshaped = end
            if rows is None or 2 * len(rows) > self.snapshot.size:
                base.values[:] = self._base(shape, self.view())
            else:
                chosen = np.array(rows, dtype=np.int64)
                base.values[chosen] = self._base(shape, self.view(chosen))
        return base.values

    def _base(self, shape: Shape, view: NodeView) -> IntColumn:
        """What does not depend on capacity: the rank, fixed scores, and where the shape may not go at all."""
        base: IntColumn = view.pick(self.snapshot.rank).astype(np.int64)
        score: FloatColumn | None = None
        for score_static in self.hooks.score_static:
            part = score_static(shape, view)
            if part is not None:
                score = part if score is None else score + part
        if score is not None:
            base -= fixed_point(score) << RANK_BITS
        if shape.giant or shape.volumes.missing:
            base += GIANT
            return base
        passes = view.picked(self.snapshot.alive)
        for feasible in self.hooks.feasible_static:
            for check in feasible(shape, view):
                passes = passes & check.passes
        base += ~passes * _GIANT
        return base

    def _short_of(self, shape: Shape, view: NodeView) -> BoolColumn:
        """Where a task does not fit as things stand: too little is free, it is reserved, or a predicate fails."""
        short = self._short(shape, view)
        if self.reserved is not None:
            if shape.best_effort:
                short |= view.idle[PODS] <= view.pick(self.reserved_slots)
            else:
                short |= view.picked(self.reserved)
        for feasible in self.hooks.feasible:
            for check in feasible(shape, view):
                short |= ~check.passes
        return short

    def _keys(self, shape: Shape, base: IntColumn, view: NodeView) -> IntColumn:
        short = self._short_of(shape, view)
        scores = self.hooks.score
        if not scores:
            return base + short * _GIANT
        score = scores[0](shape, view)
        for another in scores[1:]:
            score = score + another(shape, view)
        keys = fixed_point(score)
        keys <<= RANK_BITS
        np.subtract(base, keys, out=keys)
        keys += short * _GIANT
        return keys

    def _short(self, shape: Shape, view: NodeView) -> BoolColumn:
        """Where something that is asked for is missing: one look at a small table, else only at what is asked for."""
        if len(self.snapshot.idle) <= SMALL_TABLE:
            missing = view.idle < self._request_column(shape)
            found: BoolColumn = missing[0]
            for another in missing[1:]:  # cheaper than to reduce along the short side
                found |= another
            return found
        short: BoolColumn = np.zeros(view.size, dtype=np.bool_)
        for row, amount in shape.vector:
            short |= view.free(row) < amount
        return short

    def _request_column(self, shape: Shape) -> NDArray[np.int64]:
        """What a node must have of every resource, as one column; of what is not asked for, anything will do."""
        request_column = self._request_columns.get(shape)
        if request_column is None:
            request_column = np.full((self.snapshot.idle.shape[0], 1), _ANYTHING)
            for row, amount in shape.vector:
                request_column[row] = amount
            self._request_columns[shape] = request_column
        return request_column

    def _limits(self, shape: Shape, view: NodeView, cap_for: CapFor | None) -> IntColumn | None:
        found: IntColumn | None = None
        for limit in self.hooks.limit:
            part = limit(shape, view)
            if part is not None:
                found = part if found is None else np.minimum(found, part)
        caps = None if cap_for is None else cap_for(shape)
        if caps is not None:
            part = view.pick(caps).astype(np.int64)
            found = part if found is None else np.minimum(found, part)
        return found

    # -- many at once -----------------------------------------------------------------------------------------

    def _fill(self, shape: Shape, column: Column, count: int, cap_for: CapFor | None) -> list[int]:
        """Packing: a node gets better as it fills, so the best one is filled before the next is looked at."""
        keys, chosen, hidden = column.keys, list[int](), list[tuple[int, int]]()
        limits = self._limits(shape, self.view(), cap_for)
        while len(chosen) < count:
            best = int(keys.argmin())
            key = int(keys[best])
            if key >= INFEASIBLE:
                break
            fits = (
                self._fit_count(shape, best) if limits is None else min(self._fit_count(shape, best), int(limits[best]))
            )
            chosen += [best] * min(fits, count - len(chosen))
            hidden.append((best, key))
            keys[best] = 2 * GIANT
        for row, key in hidden:
            keys[row] = key
        return chosen

    def _merge(self, shape: Shape, column: Column, count: int, cap_for: CapFor | None) -> list[int]:
        """Any score: the k best nodes, each with its keys for one task, two tasks, and so on."""
        rows = self._best(column.keys, count)
        if not len(rows):
            return []
        view = self.view(rows)
        fits = np.full(len(rows), count, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(fits, view.free(dimension) // amount, out=fits)
        limits = self._limits(shape, view, cap_for)
        if limits is not None:
            np.minimum(fits, limits, out=fits)
        levels = int(fits.max())
        table = self._table(shape, column, view, levels)
        table[np.arange(levels)[:, None] >= fits] = 2 * GIANT
        if levels == 1 or (table[1:] >= table[:-1]).all():
            order = table.ravel().argsort(kind="stable")[:count]
            order = order[table.ravel()[order] < INFEASIBLE]
            return [int(row) for row in rows[order % len(rows)]]
        return merged([int(row) for row in rows], table.T.tolist(), count)

    def _best(self, keys: IntColumn, count: int) -> IntColumn:
        if 4 * count < len(keys):
            rows = keys.argpartition(count - 1)[:count]
            return rows[keys[rows] < INFEASIBLE]
        return np.flatnonzero(keys < INFEASIBLE)

    def _table(self, shape: Shape, column: Column, view: NodeView, levels: int) -> NDArray[np.int64]:
        """Keys by (tasks already added, node)."""
        assert view.rows is not None
        if levels == 1:
            return column.keys[view.rows][None, :]
        filled = view.filled(shape.vector, levels)
        return self._keys(shape, column.base[filled.all_rows()], filled).reshape(levels, view.size)


def _capped(shape: Shape, column: Column, cap_for: CapFor) -> Column:
    """The column with those nodes out of reach that planned starts of others leave nothing of."""
    caps = cap_for(shape)
    if caps is None:
        return column
    return Column(column.base, column.keys + (caps <= 0) * _GIANT, around=column.around)


def _static_key(shape: Shape) -> object:
    """What static answers rest on, but for the node."""
    key = shape.key
    return key.node_selector, key.node_affinity, key.tolerations, key.volumes, key.devices, shape.giant


def fixed_point(score: FloatColumn) -> IntColumn:
    """Scores as integers, cut to what a key can hold: that some are too large shows in the sum of their squares."""
    if not score.dot(score) < MAX_SCORE * MAX_SCORE:
        score = score.clip(-MAX_SCORE, MAX_SCORE)
    scaled = score * float(1 << SCORE_BITS)
    return np.rint(scaled, out=scaled).astype(np.int64)
