"""Key columns that are kept from cycle to cycle, one for each shape: what need not be computed again."""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairway.resources.columns import IntColumn
from fairway.scheduler.placement.parking import Parking
from fairway.state.shapes import Shape

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


class KeptColumns:
    """The columns that a state keeps: those of one policy and one set of plugins."""

    def __init__(self, most: int) -> None:
        """At most so many bytes of them."""
        self._most = most
        self._basis: object = None
        self._columns = Columns(most)
        self._failures: list[Collection[object]] = []
        """Of the last session and the one before it, which may be the one that the last was a trial of."""

    def under(self, basis: object, failures: Collection[object]) -> Columns:
        """What is kept if all that columns rest on, besides shape and node, is as it was; else new ones.

        A basis of None is never as it was. `failures` of plugins fill as the session goes on: columns in which one has
        failed are not kept, so that it is asked again.
        """
        if basis is None or self._basis != basis or any(self._failures):
            self._basis, self._columns = basis, Columns(self._most)
        self._failures = [*self._failures[-1:], failures]
        return self._columns
