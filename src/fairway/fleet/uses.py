"""How many placements use each cluster, as far as one run has come."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fairway.fleet.scores import IntColumn


class UseCounts:
    """By slot. `moved` are the slots whose counts the run has changed, as `FleetState.apply` will change them."""

    def __init__(self, counts: IntColumn) -> None:
        self.counts = counts.copy()
        self.moved: list[int] = []
        self._lent = False
        self._busiest: tuple[int, frozenset[int]] | None = None

    def lend(self) -> IntColumn:
        """As they are now, for ever."""
        self._lent = True
        return self.counts

    def move(self, before: IntColumn, chosen: IntColumn) -> None:
        """A placement goes from the ones to the others."""
        if self._lent:
            self.counts, self._lent = self.counts.copy(), False
        self.counts[before] -= 1
        self.counts[chosen] += 1
        self.moved += set(before.tolist()).symmetric_difference(chosen.tolist())
        self._busiest = None

    def max_without(self, own: Collection[int]) -> int:
        """How often other placements use the cluster that they use most; `own` are those that one uses itself."""
        if not own:
            return int(np.maximum.reduce(self.counts))
        if self._busiest is None:
            most = int(np.maximum.reduce(self.counts))
            self._busiest = most, frozenset((self.counts == most).nonzero()[0].tolist())
        most, slots = self._busiest
        if len(slots) > len(own) or not slots.issubset(own):
            return most
        others = self.counts.copy()
        others[list(own)] -= 1
        return int(np.maximum.reduce(others))
