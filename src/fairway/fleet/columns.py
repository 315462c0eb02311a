"""Scores as columns over the clusters of a pool: what each prioritizer says, and their weighted sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairway.fleet.addons import AddOnColumn
from fairway.fleet.names import PREFER_NO_SELECT
from fairway.fleet.prioritizers import Weights
from fairway.fleet.scores import AmountScale, IntColumn


class ScoreColumn:
    """What one prioritizer says of the clusters of a pool, in the order of its index; right while `stamp` is.

    `scale` is what the scores are relative to, `logged` where the table's log of amounts ended, `seen` how many changes
    of amounts there had been when the stamp was last compared.
    """

    __slots__ = ("addon", "logged", "scale", "seen", "stamp", "values")

    def __init__(
        self,
        values: IntColumn,
        stamp: tuple[int, ...] = (),
        logged: int = 0,
        scale: AmountScale | None = None,
        addon: AddOnColumn | None = None,
    ) -> None:
        self.values = values
        self.stamp = stamp
        self.logged = logged
        self.seen = -1
        self.scale = scale
        self.addon = addon


class PrioritizerScores(NamedTuple):
    name: str
    weight: int
    column: ScoreColumn


class ScoreSum:
    """Columns by weight, and added up when that is asked for; right while `stamp` is. One column more than there are
    weights is a penalty for taints.
    """

    __slots__ = ("_size", "_total", "_weights", "columns", "stamp")

    def __init__(self, size: int, stamp: tuple[int, object], weights: Weights, columns: list[ScoreColumn]) -> None:
        self.stamp = stamp
        self.columns = columns
        self._weights = weights
        self._size = size
        self._total: IntColumn | None = None

    @property
    def parts(self) -> tuple[PrioritizerScores, ...]:
        named = [(prioritizer.name, weight) for prioritizer, weight in self._weights]
        named += [(PREFER_NO_SELECT, 1)] * (len(self.columns) - len(named))
        pairs = zip(named, self.columns, strict=True)
        return tuple(PrioritizerScores(name, weight, column) for (name, weight), column in pairs)

    @property
    def total(self) -> IntColumn:
        """Not to be written to."""
        if self._total is None:
            self._total = self._sum()
        return self._total

    def has_scales_of(self, other: ScoreSum) -> bool:
        """Whether scores are relative to the same, for the same prioritizers."""
        if other is self:
            return True
        for one, another in zip(self.columns, other.columns, strict=True):
            if one is not another and one.scale != another.scale:
                return False
        return True

    def at(self, position: int) -> int:
        """The sum for one cluster."""
        if self._total is not None:
            return int(self._total[position])
        found = 0
        for (_, weight), column in zip(self._weights, self.columns, strict=False):
            found += weight * int(column.values[position])
        if len(self.columns) > len(self._weights):
            found += int(self.columns[-1].values[position])
        return found

    def _sum(self) -> IntColumn:
        total: IntColumn = np.zeros(self._size, np.int64)
        for part in self.parts:
            total += part.column.values if part.weight == 1 else part.weight * part.column.values
        return total
