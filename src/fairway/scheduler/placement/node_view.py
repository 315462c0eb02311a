"""Nodes as columns: what a plugin sees of them, and what is kept of its answers.

`NodeView` has all nodes, a few, or some as they would be with tasks added. `Columns` are the keys computed from the
answers, one column for each shape, kept from cycle to cycle: what need not be computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.placement.parking import Parking
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.verdict import Reason
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy

FloatColumn = NDArray[np.float64]

SMALL_TABLE = 12
"""Of so few resources all are looked at at once; classes of devices can make it many."""


class Check(NamedTuple):
    """One test of a filter: where it passes, and what to say of the nodes where it does not."""

    passes: BoolColumn
    text: str
    reason: Reason = Reason.PREDICATE_FAILED


class NodeView:
    """Columns over the nodes in view.

    `rows` are their rows in the state's tables, None for all; `idle`, `allocatable` (resource, node) int64 amounts;
    `percent` the part of the node, in per cent, that one unit of a resource is (0 where it has none). It and `free`
    are asked for one resource at a time: with classes of devices there may be many, of which a task needs few. A view
    is of the moment: it is not to be used after something was placed.
    """

    __slots__ = ("_free", "_idle", "_snapshot", "pods", "rows", "size")

    def __init__(
        self,
        snapshot: WorkingCopy,
        pods: PodCounts,
        rows: IntColumn | None = None,
        idle: NDArray[np.int64] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self.pods = pods
        self.rows = rows
        self._idle = idle
        self._free: dict[int, IntColumn] = {}
        if idle is None:
            if rows is None:
                self._idle = snapshot.idle
            elif len(snapshot.idle) <= SMALL_TABLE:
                self._idle = snapshot.idle.take(rows, axis=1, mode="clip")
        self.size = len(rows) if self._idle is None and rows is not None else self.idle.shape[1]

    @property
    def idle(self) -> NDArray[np.int64]:
        if self._idle is None:
            assert self.rows is not None
            self._idle = self._snapshot.idle.take(self.rows, axis=1, mode="clip")
            for resource, free in self._free.items():
                self._idle[resource] = free
        return self._idle

    def free(self, resource: int) -> IntColumn:
        """One row of `idle`."""
        found: IntColumn
        if self._idle is not None:
            found = self._idle[resource]
        else:
            known = self._free.get(resource)
            if known is not None:
                return known
            assert self.rows is not None
            found = self._free[resource] = self._snapshot.idle[resource].take(self.rows, mode="clip")
        return found

    def filled(self, request: Vector, levels: int) -> NodeView:
        """Each of these nodes with 0, 1, 2... such requests taken off what is free, all nodes for each number."""
        assert self.rows is not None
        added = np.arange(levels)
        many = np.broadcast_to(self.rows, (levels, self.size)).ravel()
        if len(self._snapshot.idle) <= SMALL_TABLE:
            amounts = np.zeros(len(self.idle), dtype=np.int64)
            for resource, amount in request:
                amounts[resource] = amount
            idle = self.idle[:, None, :] - amounts[:, None, None] * added[None, :, None]
            return NodeView(self._snapshot, self.pods, many, idle.reshape(len(amounts), levels * self.size))
        view = NodeView(self._snapshot, self.pods, many)
        for resource, amount in request:
            view._free[resource] = (self.free(resource)[None, :] - amount * added[:, None]).ravel()
        return view

    def percent(self, resource: int) -> NDArray[np.float64]:
        column: NDArray[np.float64] = self._snapshot.percent[resource]
        return column if self.rows is None else column[self.rows]

    @property
    def allocatable(self) -> NDArray[np.int64]:
        whole = self._snapshot.allocatable
        return whole if self.rows is None else whole.take(self.rows, axis=1)

    def row(self, resource: str) -> int | None:
        """Where a resource's amounts stand, or None if it is neither offered nor requested."""
        return self._snapshot.state.axis.find(resource)

    def labels(self, key: str) -> list[str | None]:
        """The nodes' values of a label; slow, where nothing better is needed."""
        nodes = self._snapshot.state.nodes
        return [nodes.labels.at(int(row)).get(key) for row in self.all_rows()]

    def names(self) -> list[str]:
        return [self._snapshot.names[row] for row in self.all_rows()]

    def all_rows(self) -> IntColumn:
        return np.arange(self.size) if self.rows is None else self.rows

    def pick(self, column: NDArray[np.generic]) -> NDArray[np.generic]:
        """The entries of a whole column for the nodes in view."""
        return column[: self.size] if self.rows is None else column[self.rows]

    def counts(self, column: IntColumn) -> IntColumn:
        """The same of numbers."""
        return column[: self.size] if self.rows is None else column[self.rows]

    def picked(self, column: BoolColumn) -> BoolColumn:
        return column[: self.size] if self.rows is None else column[self.rows]

    @property
    def snapshot(self) -> WorkingCopy:
        return self._snapshot


SINGLES = 8
"""Of shapes that a single pod has, so many keep a column: few are ever used again."""


class Base:
    """What does not depend on free capacity, for all shapes that differ in nothing but their request."""

    __slots__ = ("reshaped", "values")

    def __init__(self, values: IntColumn, reshaped: int) -> None:
        self.values = values
        self.reshaped = reshaped


class Column:
    """The keys of one shape, and how far the logs were read when they were computed."""

    __slots__ = ("around", "base", "keys", "pods", "reshaped", "touched")

    def __init__(self, base: IntColumn, keys: IntColumn, *, around: bool) -> None:
        self.base = base
        self.keys = keys
        self.around = around
        self.touched = 0
        self.reshaped = 0
        self.pods = -1


class Columns:
    """The kept columns of one policy on one snapshot, at most so many bytes of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._columns: dict[Shape, Column] = {}
        self._singles: dict[Shape, None] = {}
        self.bases: dict[object, Base] = {}
        self._layout = -1
        self._terms = -1
        self._gone = -1
        self.parking = Parking()
        """What fits on no node, by the same policy."""
        self.device_generation = -1
        """What pods ask of devices meant, when the columns were computed, what it meant at this generation."""
        self.volume_basis: object = None
        """The same of volumes that are not bound yet."""

    def start(self, layout: int, terms: int, gone: int) -> None:
        """A cycle begins; if the rows are no longer what they were, nothing can be kept. Other rules between pods may
        make a shape look around that did not. `gone` counts the shapes that no task has any more.
        """
        if layout != self._layout:
            self.drop(lambda _: True)
        elif gone != self._gone:
            self.drop(lambda shape: not shape.tasks)
        if terms != self._terms:
            self.drop(lambda shape: shape.has_pod_rules)
        self._layout, self._terms, self._gone = layout, terms, gone

    def get(self, shape: Shape) -> Column | None:
        column = self._columns.pop(shape, None)
        if column is not None:
            self._columns[shape] = column
        return column

    def __contains__(self, shape: Shape) -> bool:
        return shape in self._columns

    def put(self, shape: Shape, column: Column) -> None:
        """Keep a column; others go if it is too much."""
        self._columns[shape] = column
        self._bytes += column.keys.nbytes
        if shape.tasks <= 1:
            self._singles[shape] = None
            if len(self._singles) > SINGLES:
                self._remove(next(iter(self._singles)))
        while self._bytes > self._most and len(self._columns) > 1:
            self._remove(next(iter(self._columns)))

    def shapes(self) -> list[Shape]:
        return list(self._columns)

    def drop(self, which: Callable[[Shape], bool]) -> None:
        """Forget the columns of some shapes, and what only they rest on."""
        for shape in list(filter(which, self._columns)):
            self._remove(shape)
        if len(self.bases) > 1:
            used = {id(column.base) for column in self._columns.values()}
            self.bases = {key: base for key, base in self.bases.items() if id(base.values) in used}
        elif not self._columns:
            self.bases = {}

    def _remove(self, shape: Shape) -> None:
        self._bytes -= self._columns.pop(shape).keys.nbytes
        self._singles.pop(shape, None)


class KeptColumns(
    DerivedValue,
    name="columns",
    holds="feasibility and score of every node, packed into one number, by shape of pods",
    inputs=("snapshot", "devices", "rules between pods", "policy", "each plugin's basis"),
    saves="filtering and scoring all nodes for each shape",
):
    """The columns that a state keeps: those of one policy and one set of plugins."""

    def __init__(self, most: int) -> None:
        """At most so many bytes of them."""
        super().__init__()
        self._most = most
        self._basis: object = None
        self._columns = Columns(most)
        self._failures: list[Collection[object]] = []
        """Of the last session and the one before it, which may be the one that the last was a trial of."""

    @classmethod
    def make(cls, state: ClusterState) -> KeptColumns:
        return cls(state.column_bytes)

    def generations(self) -> Generations:
        return (self._basis,)

    def rebuild(self) -> None:
        self._columns = Columns(self._most)

    def under(self, basis: object, failures: Collection[object]) -> Columns:
        """What is kept if all that columns rest on, besides shape and node, is as it was; else new ones.

        A basis of None is never as it was. `failures` of plugins fill as the session goes on: columns in which one has
        failed are not kept, so that it is asked again.
        """
        self._basis = basis
        if basis is None or any(self._failures):
            self.stale()
        self.sync()
        self._failures = [*self._failures[-1:], failures]
        return self._columns
