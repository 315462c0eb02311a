"""Changes of free capacity that are still to come: how much more, or less, each node will have than it has now."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import Vector

AmountsOverTime = NDArray[np.int64]
"""Amounts by (moment, resource, node)."""

_NOTHING = 0
"""The kind of a change that was taken back."""


class Gains:
    """Changes of free capacity, each at a moment, on a node, by a vector, for an owner."""

    def __init__(self, dimensions: int, size: int) -> None:
        self._shape = (dimensions, size)
        self._columns = tuple(array("q") for _ in range(4))
        """Of every change: moment, node, kind and owner."""
        self._kinds: dict[tuple[Vector, int], int] = {((), 0): _NOTHING}
        """The vectors, and whether they are more or less."""
        self._alive = 0
        self._amounts: list[tuple[int, NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return len(self._columns[0])

    def __bool__(self) -> bool:
        """Whether there is any change that was not taken back."""
        return self._alive > 0

    def add(self, moment: Micros, row: int, vector: Vector, sign: int = 1, owner: int = 0) -> None:
        """From this moment on there is as much more (sign 1) or less (sign -1)."""
        moments, rows, kinds, owners = self._columns
        key = (vector, sign)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kinds)
            self._amounts = None
        moments.append(moment)
        rows.append(row)
        kinds.append(kind)
        owners.append(owner)
        self._alive += 1

    def take_back(self, changes: Iterable[int]) -> None:
        """These changes, by the order in which they were added, do not happen."""
        kinds = self._columns[2]
        for change in changes:
            self._alive -= kinds[change] != _NOTHING
            kinds[change] = _NOTHING

    def owner(self, change: int) -> int:
        return self._columns[3][change]

    def at(self, moments: Sequence[Micros], before: int | None = None) -> AmountsOverTime:
        """What all changes up to each of these moments (ascending) come to; of owners below `before` only, if given."""
        rooms = np.zeros((len(moments), *self._shape), dtype=np.int64)
        if not self._alive:
            return rooms
        changed, rows, kinds, owners = (np.frombuffer(column, dtype=np.int64) for column in self._columns)
        place = np.searchsorted(np.array(moments, dtype=np.int64), changed)
        seen = place < len(moments)
        if before is not None:
            seen &= owners < before
        place, rows, kinds = place[seen], rows[seen], kinds[seen]
        for dimension, amounts in self._by_dimension():
            np.add.at(rooms[:, dimension], (place, rows), amounts[kinds])
        return rooms.cumsum(axis=0, out=rooms)

    def _by_dimension(self) -> list[tuple[int, NDArray[np.int64]]]:
        """By resource: how much each kind of change is."""
        if self._amounts is None:
            amounts: dict[int, NDArray[np.int64]] = {}
            for (vector, sign), kind in self._kinds.items():
                for dimension, amount in vector:
                    amounts.setdefault(dimension, np.zeros(len(self._kinds), dtype=np.int64))[kind] = sign * amount
            self._amounts = list(amounts.items())
        return self._amounts


KEPT = 32
"""Moments whose amounts are kept; those that were asked for longest ago go."""


class KeptGains(Gains):
    """Changes that are kept for long and asked for again and again: what they come to at moments that were asked for
    is changed with them.
    """

    def __init__(self, dimensions: int, size: int) -> None:
        super().__init__(dimensions, size)
        self._at: dict[Micros, NDArray[np.int64]] = {}

    def put(self, moment: Micros, row: int, vector: Vector) -> int:
        """Add a change; returns its number."""
        self.add(moment, row, vector)
        self._change(moment, row, vector, 1)
        return len(self) - 1

    def take_back(self, changes: Iterable[int]) -> None:
        if self._at:
            moments, rows, kinds, _ = self._columns
            vectors = [*self._kinds]
            for change in changes:
                vector, sign = vectors[kinds[change]]
                self._change(moments[change], rows[change], vector, -sign)
        super().take_back(changes)

    def _change(self, moment: Micros, row: int, vector: Vector, sign: int) -> None:
        for known, amounts in self._at.items():
            if moment <= known:
                for dimension, amount in vector:
                    amounts[dimension, row] += sign * amount

    def known_moments(self) -> list[Micros]:
        """The moments that cost nothing to ask for, in order."""
        return sorted(self._at)

    def at(self, moments: Sequence[Micros], before: int | None = None) -> AmountsOverTime:
        """As in `Gains`; what it returns for a single moment is not to be written on, and changes with the next
        change."""
        if len(moments) != 1:
            return super().at(moments, before)
        (moment,) = moments
        amounts = self._at.pop(moment, None)
        if amounts is None:
            amounts = super().at(moments)[0]
            if len(self._at) >= KEPT:
                del self._at[next(iter(self._at))]
        self._at[moment] = amounts
        return amounts[np.newaxis]
