"""Room that will come or go: how much more, or less, there will be on each node than there is now."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import Vector

Rooms = NDArray[np.int64]
"""Amounts by (moment, resource, node)."""


class Gains:
    """Changes of room, each at a moment, on a node, by a vector. They are only ever added."""

    def __init__(self, dimensions: int, size: int) -> None:
        self._shape = (dimensions, size)
        self._columns = tuple(array("q") for _ in range(3))
        """Of every change: moment, node, and which of the kinds it is."""
        self._kinds: dict[tuple[Vector, int], int] = {}
        """The vectors, and whether they are more or less."""

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, moment: Micros, row: int, vector: Vector, sign: int = 1) -> None:
        """From this moment on there is as much more (sign 1) or less (sign -1)."""
        moments, rows, kinds = self._columns
        moments.append(moment)
        rows.append(row)
        kinds.append(self._kinds.setdefault((vector, sign), len(self._kinds)))

    def at(self, moments: Sequence[Micros], first: int | None = None) -> Rooms:
        """What all changes up to each of these moments (ascending) come to; of the `first` changes only, if given."""
        if not self._kinds:
            return np.zeros((len(moments), *self._shape), dtype=np.int64)
        changed, rows, kinds = (np.frombuffer(column, dtype=np.int64)[:first] for column in self._columns)
        place = np.searchsorted(np.array(moments, dtype=np.int64), changed)
        seen = place < len(moments)
        place, rows, kinds = place[seen], rows[seen], kinds[seen]
        rooms = np.zeros((len(moments), *self._shape), dtype=np.int64)
        for dimension, amounts in self._amounts().items():
            np.add.at(rooms[:, dimension], (place, rows), amounts[kinds])
        return rooms.cumsum(axis=0, out=rooms)

    def _amounts(self) -> dict[int, NDArray[np.int64]]:
        """By resource: how much each kind of change is."""
        amounts: dict[int, NDArray[np.int64]] = {}
        for (vector, sign), kind in self._kinds.items():
            for dimension, amount in vector:
                amounts.setdefault(dimension, np.zeros(len(self._kinds), dtype=np.int64))[kind] = sign * amount
        return amounts
