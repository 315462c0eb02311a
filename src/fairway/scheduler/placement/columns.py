"""Key columns that are kept from cycle to cycle, one for each shape: what need not be computed again."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairway.resources.columns import IntColumn
from fairway.scheduler.placement.parking import Parking
from fairway.state.shapes import Shape

MAX_COLUMNS = 512
"""How many shapes keep a column (160 KB each at 10,000 nodes); the least recently used go."""


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
    """The kept columns of one policy on one snapshot."""

    def __init__(self) -> None:
        self._columns: dict[Shape, Column] = {}
        self._layout = -1
        self._terms = -1
        self._gone = -1
        self.parking = Parking()
        """What fits on no node, by the same policy."""
        self.device_generation = -1
        """What pods ask of devices meant, when the columns were computed, what it meant at this generation."""

    def start(self, layout: int, terms: int, gone: int) -> None:
        """A cycle begins; if the rows are no longer what they were, nothing can be kept. Other rules between pods may
        make a shape look around that did not. `gone` counts the shapes that no task has any more.
        """
        if gone != self._gone:
            self._columns = {shape: column for shape, column in self._columns.items() if shape.tasks}
            self._gone = gone
        if layout != self._layout:
            self._columns.clear()
        elif terms != self._terms:
            self._columns = {shape: column for shape, column in self._columns.items() if not shape.has_pod_rules}
        self._layout, self._terms = layout, terms
        while len(self._columns) > MAX_COLUMNS:
            del self._columns[next(iter(self._columns))]

    def get(self, shape: Shape) -> Column | None:
        column = self._columns.pop(shape, None)
        if column is not None:
            self._columns[shape] = column
        return column

    def put(self, shape: Shape, column: Column) -> None:
        self._columns[shape] = column

    def shapes(self) -> list[Shape]:
        return list(self._columns)

    def drop(self, which: Callable[[Shape], bool]) -> None:
        """Forget the columns of some shapes."""
        for shape in list(filter(which, self._columns)):
            del self._columns[shape]


class KeptColumns:
    """The columns that a state keeps: those of one policy and one set of plugins."""

    def __init__(self) -> None:
        self._basis: object = None
        self._columns = Columns()
        self._failures: list[Collection[object]] = []
        """Of the last session and the one before it, which may be the one that the last was a trial of."""

    def under(self, basis: object, failures: Collection[object]) -> Columns:
        """What is kept if all that columns rest on, besides shape and node, is as it was; else new ones.

        A basis of None is never as it was. `failures` of plugins fill as the session goes on: columns in which one has
        failed are not kept, so that it is asked again.
        """
        if basis is None or self._basis != basis or any(self._failures):
            self._basis, self._columns = basis, Columns()
        self._failures = [*self._failures[-1:], failures]
        return self._columns
