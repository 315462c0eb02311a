"""What one cycle looks at: what is free on every node, kept from cycle to cycle and brought up to date by generation.

A session writes its placements on a `WorkingCopy` of its own, and nothing of it is left when the session is gone.
Columns that are kept from cycle to cycle are computed from one working copy after the other: `touched` logs the rows
in which these differ, so that just their entries are computed again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.api.pods import Taint
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, RowLog, same

_MANY = 2
"""Where more than one in this many rows changed, all are computed again."""


_FEW = 4
"""So few rows are restored one by one."""


class _OverNodes:
    """What a snapshot and the copies of it have in common."""

    state: ClusterState
    idle: NDArray[np.int64]
    size: int
    touched: RowLog
    _max_idle: list[int]
    _max_idle_read: int

    @property
    def names(self) -> list[str]:
        return self.state.nodes.names

    @property
    def allocatable(self) -> NDArray[np.int64]:
        return self.state.nodes.allocatable.data[:, : self.size]

    @property
    def alive(self) -> BoolColumn:
        return self.state.nodes.alive[: self.size]

    def max_idle(self) -> list[int]:
        """Of every resource, the most that any one node has free: a request for more fits nowhere."""
        if self._max_idle_read != self.touched.end or len(self._max_idle) != len(self.idle):
            self._max_idle_read = self.touched.end
            self._max_idle = _max_of(self.idle)
        return self._max_idle


class Snapshot(
    _OverNodes,
    DerivedValue,
    name="snapshot",
    holds="free capacity, percentages and rank of each node; the cluster's total",
    inputs=("nodes", "devices"),
    saves="reading the free capacity of every node",
):
    """Columns over node rows, all of one length; ghosts and free rows are there, but not `alive`."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.nodes.changed, state.nodes.reshaped)
        self.state = state
        self.idle: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self.percent: NDArray[np.float64] = np.zeros((0, 0))
        self.rank: IntColumn = np.zeros(0, dtype=np.int64)
        self.size = 0
        self.touched = RowLog()
        self.reshaped = RowLog()
        self.layout = 0
        self.total: list[int] = []
        """Of all ready, schedulable nodes. A policy may leave out some of them: see `total_without`."""
        self._totals: dict[tuple[str, ...], list[int]] = {}
        self._size_generation = -1
        self._written: set[int] = set()
        """Rows that working copies have changed since the last `sync`."""
        self._max_idle: list[int] = []
        self._max_idle_read = -1

    def written(self, row: int) -> None:
        """A working copy says something else of a row than it did, or than another copy does."""
        self._written.add(row)
        self.touched.add(row)

    @classmethod
    def make(cls, state: ClusterState) -> Snapshot:
        return cls(state)

    def generations(self) -> Generations:
        nodes = self.state.nodes
        return len(nodes.axis), len(nodes.names), nodes.ranks.epoch

    def sync(self) -> None:
        """Bring everything up to date with the state."""
        self.state.refresh()
        nodes = self.state.nodes
        nodes.reach()
        super().sync()
        if self._written:
            self._log_written()
        if self._size_generation != nodes.size_generation or len(self.total) != len(self.idle):
            self._size_generation = nodes.size_generation
            self._add_up()

    def rebuild(self) -> None:
        nodes = self.state.nodes
        shape = (len(nodes.axis), len(nodes.names))
        self.layout += 1
        self._max_idle_read = -1
        self.size = shape[1]
        self.idle = np.zeros(shape, dtype=np.int64)
        self.percent = np.zeros(shape)
        self.rank = np.zeros(shape[1], dtype=np.int64)
        self._written.clear()
        everything = np.arange(shape[1])
        self._resize(everything)
        self._restore(everything)

    def update(self, changed: list[int], reshaped: list[int]) -> None:
        for rows, renew, log in (
            (reshaped, self._resize, self.reshaped),
            (changed, self._restore, self.touched),
        ):
            if len(rows) > _FEW and len(rows) * _MANY > self.size:
                renew(np.arange(self.size))
                log.add_everything()
            elif rows:
                renew(np.array(rows, dtype=np.int64))
                for row in rows:
                    log.add(row)

    def _log_written(self) -> None:
        """Columns were computed from what working copies said of these rows, and are computed from the state again."""
        if len(self._written) > _FEW and len(self._written) * _MANY > self.size:
            self.touched.add_everything()
        else:
            for row in sorted(self._written):
                self.touched.add(row)
        self._written.clear()

    def check(self) -> None:
        self.sync()
        fresh = Snapshot(self.state)
        fresh.sync()
        same("the cluster's total", self.total, fresh.total)
        alive = fresh.alive
        for name in ("idle", "percent", "rank"):
            column, again = getattr(self, name), getattr(fresh, name)
            same(f"shape of {name}", column.shape, again.shape)
            wrong = np.flatnonzero(alive & np.atleast_2d(column != again).any(axis=0))
            if len(wrong):
                row = int(wrong[0])
                same(f"{name} of node {self.names[row]}", column[..., row].tolist(), again[..., row].tolist())

    def _resize(self, rows: IntColumn) -> None:
        nodes = self.state.nodes
        allocatable = nodes.allocatable.data[:, rows]
        with np.errstate(divide="ignore"):
            self.percent[:, rows] = np.where(allocatable > 0, 100.0 / allocatable, 0.0)
        ranks = nodes.ranks
        self.rank[rows] = [ranks[nodes.names[row]] if nodes.names[row] else 0 for row in rows]

    def _restore(self, rows: IntColumn) -> None:
        """What is free on a node: not used, and not reserved for a nominee out of what is not being released."""
        nodes = self.state.nodes
        if len(rows) <= _FEW:
            for row in rows.tolist():
                self._restore_one(row)
            return
        owed = nodes.pipelined.data[:, rows] - nodes.releasing.data[:, rows]
        np.maximum(owed, 0, out=owed)
        taken = nodes.used.data[:, rows] + nodes.drawn.data[:, rows]
        self.idle[:, rows] = nodes.allocatable.data[:, rows] - taken - owed

    def _restore_one(self, row: int) -> None:
        """The same of one node, in Python ints: an operation on a whole array costs more than a few of them."""
        nodes = self.state.nodes
        amounts = zip(
            nodes.allocatable.data[:, row].tolist(),
            nodes.used.data[:, row].tolist(),
            nodes.drawn.data[:, row].tolist(),
            nodes.pipelined.data[:, row].tolist(),
            nodes.releasing.data[:, row].tolist(),
            strict=True,
        )
        self.idle[:, row] = [
            whole - used - drawn - (owed - released if owed > released else 0)
            for whole, used, drawn, owed, released in amounts
        ]

    def total_without(self, taints: tuple[str, ...]) -> list[int]:
        """The cluster's total, nodes left out that have one of these taints (spec S2.4): pods that tolerate it may
        run there, but what ordinary pods cannot use is nothing to divide among queues.
        """
        if not taints:
            return self.total
        known = self._totals.get(taints)
        if known is None:
            known = self._totals[taints] = self._sum(self._counted() & ~self._tainted(taints))
        return known

    def allocatable_without(self, taints: tuple[str, ...]) -> list[int]:
        """The same nodes' whole capacity, what foreign pods use of it included."""
        key = ("", *taints)
        known = self._totals.get(key)
        if known is None:
            counted = self._counted() & ~self._tainted(taints) if taints else self._counted()
            known = self._totals[key] = _exact_sum(self.state.nodes.allocatable.data[:, : self.size][:, counted])
        return known

    def _tainted(self, patterns: tuple[str, ...]) -> BoolColumn:
        taints = self.state.nodes.taints
        excluded = [any(is_excluded(taint, patterns) for taint in one) for one in taints.sets]
        found: BoolColumn = np.array(excluded, dtype=np.bool_)[taints.codes(self.size)]
        return found

    def _add_up(self) -> None:
        """The cluster's total: ready, schedulable nodes, less what foreign pods use there."""
        self._totals.clear()
        self.total = self._sum(self._counted())

    def _counted(self) -> BoolColumn:
        nodes, size = self.state.nodes, self.size
        counted: BoolColumn = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
        return counted

    def _sum(self, counted: BoolColumn) -> list[int]:
        nodes, size = self.state.nodes, self.size
        ours = nodes.allocatable.data[:, :size] - nodes.foreign.data[:, :size]
        np.maximum(ours, 0, out=ours)
        return _exact_sum(ours[:, counted])


def _exact_sum(amounts: NDArray[np.int64]) -> list[int]:
    """By row. Halves are added up apart: a sum of int64 may not fit into one."""
    high, low = np.divmod(amounts, 1 << 32)
    sums = zip(high.sum(axis=1), low.sum(axis=1), strict=True)
    return [(int(above) << 32) + int(below) for above, below in sums]


class WorkingCopy(_OverNodes):
    """A session's own copy of what is free on the nodes, to write on. All else is the snapshot's, to read."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.state = snapshot.state
        self.idle = snapshot.idle.copy()
        self.percent = snapshot.percent
        self.rank = snapshot.rank
        self.size = snapshot.size
        self.layout = snapshot.layout
        self.total_without = snapshot.total_without
        self.allocatable_without = snapshot.allocatable_without
        self.touched = snapshot.touched
        self.reshaped = snapshot.reshaped
        self._written: set[int] = set()
        self._max_idle, self._max_idle_read = snapshot._max_idle, snapshot._max_idle_read

    def write(self, row: int) -> None:
        """Amounts of this row are about to be written."""
        self._written.add(row)
        self._snapshot._written.add(row)
        self.touched.add(row)

    def resume_after(self, other: WorkingCopy) -> None:
        """Columns were computed from another copy meanwhile: rows in which one of the two was written differ."""
        for row in sorted(self._written | other._written):
            self._snapshot.written(row)


def is_excluded(taint: Taint, patterns: tuple[str, ...]) -> bool:
    """Whether a taint keeps its node out of the cluster's total. A pattern is a key, or ends in `*` and is the
    beginning of keys.
    """
    if taint.effect not in ("NoSchedule", "NoExecute"):
        return False
    return any(
        taint.key.startswith(pattern[:-1]) if pattern.endswith("*") else taint.key == pattern for pattern in patterns
    )


def _max_of(idle: NDArray[np.int64]) -> list[int]:
    most: list[int] = idle.max(axis=1).tolist() if idle.shape[1] else [0] * len(idle)
    return most


def snapshot_of(state: ClusterState) -> Snapshot:
    """The state's own snapshot, up to date."""
    snapshot = state.derived.get(Snapshot)
    snapshot.sync()
    return snapshot
