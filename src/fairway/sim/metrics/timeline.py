"""What a plot over time needs, in memory that does not grow with the length of the run.

Snapshots are taken at a regular step of virtual time. When there are twice as many as wanted, every second
one is dropped and the step doubles. A snapshot holds sums over time, not values: the mean between any two
that are left is exact, whatever was dropped between them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import msgspec

from fairway.clock import SECOND, Micros

WANTED = 300


class UsageSnapshot(msgspec.Struct, frozen=True):
    """Sums over time since the start, and what stood at that moment, in the order of the caller's columns.

    Columns are only ever added: what an older snapshot is too short for was zero.
    """

    at: Micros
    sums: array[float]
    stands: array[float]


class UsageTimeline:
    """Snapshots of a run at a step that grows with it."""

    def __init__(self, start: Micros, take: Callable[[Micros], UsageSnapshot], wanted: int = WANTED) -> None:
        self._take = take
        self._wanted = wanted
        self.step = SECOND
        self.next = start + self.step
        self.snapshots = [take(start)]

    def reach(self, at: Micros) -> None:
        """Take the snapshots that are due up to `at`, before anything changes at `at`."""
        if self.next > at:
            return
        while self.next <= at:
            if (at - self.next) // self.step >= 2 * self._wanted:
                self._thin()
                continue
            self.snapshots.append(self._take(self.next))
            self.next += self.step
            if len(self.snapshots) > 2 * self._wanted:
                self._thin()

    def close(self, at: Micros) -> None:
        """The last snapshot, at the end of the run."""
        self.reach(at)
        if self.snapshots[-1].at < at:
            self.snapshots.append(self._take(at))

    def _thin(self) -> None:
        self.snapshots = self.snapshots[::2]
        self.step *= 2
        self.next = self.snapshots[-1].at + self.step
