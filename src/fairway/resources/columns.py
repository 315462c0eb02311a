"""Amounts of all nodes at once: int64 tables laid out (resource, node).

A row holds one resource over all nodes, so that comparing a request with every node walks memory in order.
That is the layout's whole point: it is many times faster than a row per node. A table knows every dimension
of its axis; a dimension that a node never mentioned is zero there, as in spec S2.5 with `default=zero`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from fairway.resources.algebra import Resource
from fairway.resources.comparison import Default

IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]

Vector = tuple[tuple[int, int], ...]
"""A request on an axis: (row, amount) pairs, sorted by row, zeros left out."""

INFINITE = np.iinfo(np.int64).max


class Axis:
    """The resource names that tables share, each with its row. A row keeps its name until that is freed; a free row
    has the name "" until another name gets it.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self.changes = 0
        """Increases when a name gets a row or is freed: a name that takes a free row does not make the axis longer."""
        for name in names:
            self.row(name)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def row(self, name: str) -> int:
        """The row of a name, which is added if it is new."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = self._new_row()
            self.names[row] = name
            self.changes += 1
        return row

    def free(self, rows: Iterable[int]) -> None:
        """These rows are no longer used by any table or vector."""
        self.changes += 1
        for row in rows:
            del self._rows[self.names[row]]
            self.names[row] = ""
        while self.names and not self.names[-1]:
            self.names.pop()
        self._free = [row for row in range(len(self.names) - 1, -1, -1) if not self.names[row]]

    def _new_row(self) -> int:
        """The lowest free row."""
        if self._free:
            return self._free.pop()
        self.names.append("")
        return len(self.names) - 1

    def find(self, name: str) -> int | None:
        return self._rows.get(name)

    def vector(self, resource: Resource) -> Vector:
        return tuple(sorted((self.row(name), amount) for name, amount in resource.amounts.items() if amount))

    def resource(self, vector: Vector) -> Resource:
        return Resource.of({self.names[row]: amount for row, amount in vector})


class Table:
    """One kind of amount (allocatable, used, ...) of every node."""

    __slots__ = ("_axis", "data")

    def __init__(self, axis: Axis, nodes: int = 0) -> None:
        self._axis = axis
        self.data: NDArray[np.int64] = np.zeros((len(axis), nodes), dtype=np.int64)

    def reach(self, nodes: int) -> None:
        """Extends the table to that many nodes and to every dimension of the axis; new amounts are zero."""
        rows, columns = self.data.shape
        if rows >= len(self._axis) and columns >= nodes:
            return
        grown = np.zeros((max(rows, len(self._axis)), max(columns, nodes)), dtype=np.int64)
        grown[:rows, :columns] = self.data
        self.data = grown

    def fit(self, nodes: int) -> None:
        """Exactly that many nodes, and the dimensions of the axis."""
        self.reach(nodes)
        self.data = self.data[: len(self._axis), :nodes].copy()

    def add(self, node: int, vector: Vector, times: int = 1) -> None:
        for row, amount in vector:
            self.data[row, node] += amount * times

    def subtract(self, node: int, vector: Vector, times: int = 1) -> None:
        for row, amount in vector:
            self.data[row, node] -= amount * times

    def set(self, node: int, vector: Vector) -> None:
        self.data[:, node] = 0
        for row, amount in vector:
            self.data[row, node] = amount

    def at(self, node: int) -> Vector:
        return tuple((row, int(amount)) for row, amount in enumerate(self.data[:, node]) if amount)

    def fits(self, vector: Vector) -> BoolColumn:
        """Where the request is at most the node's amount in every dimension that it requests."""
        fits = np.ones(self.data.shape[1], dtype=np.bool_)
        for row, amount in vector:
            np.logical_and(fits, self.data[row] >= amount, out=fits)
        return fits

    def less_equal(self, limit: Vector, default: Default = Default.ZERO) -> BoolColumn:
        """Where the node is at most the limit in every dimension; `default` stands for one that the limit lacks."""
        below: BoolColumn = np.logical_and.reduce(self.data <= self._dense(limit, default)[:, None], axis=0)
        return below

    def less_partly(self, other: Vector, default: Default = Default.ZERO) -> BoolColumn:
        """Where the node is below the other in some dimension."""
        below: BoolColumn = np.logical_or.reduce(self.data < self._dense(other, default)[:, None], axis=0)
        return below

    def _dense(self, vector: Vector, default: Default) -> NDArray[np.int64]:
        missing = INFINITE if default is Default.INFINITY else 0
        dense = np.full(self.data.shape[0], missing, dtype=np.int64)
        for row, amount in vector:
            dense[row] = amount
        return dense
