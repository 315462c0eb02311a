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
    """Changes of room, each at a moment, on a node, in a resource. They are only ever added."""

    def __init__(self, dimensions: int, size: int) -> None:
        self._shape = (dimensions, size)
        self._columns = tuple(array("q") for _ in range(4))
        """Of every change: moment, resource, node, amount."""

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, moment: Micros, row: int, vector: Vector, sign: int = 1) -> None:
        """From this moment on there is as much more (sign 1) or less (sign -1)."""
        moments, dimensions, rows, amounts = self._columns
        for dimension, amount in vector:
            moments.append(moment)
            dimensions.append(dimension)
            rows.append(row)
            amounts.append(sign * amount)

    def at(self, moments: Sequence[Micros], first: int | None = None) -> Rooms:
        """What all changes up to each of these moments (ascending) come to; of the `first` changes only, if given."""
        changed, dimensions, rows, amounts = (np.frombuffer(c, dtype=np.int64)[:first] for c in self._columns)
        place = np.searchsorted(np.array(moments, dtype=np.int64), changed)
        seen = place < len(moments)
        rooms = np.zeros((len(moments), *self._shape), dtype=np.int64)
        np.add.at(rooms, (place[seen], dimensions[seen], rows[seen]), amounts[seen])
        return rooms.cumsum(axis=0)
