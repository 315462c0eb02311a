"""Planned starts against real ones: how many were kept, how many were missed, and which were soft from the beginning.

A job is held against the earliest hard planned start that it was given; where it was given only soft ones, against the
first of them. It is judged when it starts. A job that is stopped and waits again is planned again, and judged again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairway.clock import Micros


class PlannedStartResult(msgspec.Struct, frozen=True, rename="camel"):
    """A planned start of a job that has started."""

    at: Micros
    hard: bool
    kept: bool


class PlannedStarts:
    """The planned starts of a run."""

    def __init__(self) -> None:
        self.kept = 0
        self.missed = 0
        self.soft_kept = 0
        self.soft_missed = 0
        self.worst: tuple[Micros, str] = (0, "")
        """By how much a hard planned start was missed, and by which job."""
        self._open: dict[str, tuple[Micros, bool]] = {}

    def given(self, key: str, at: Micros, *, hard: bool) -> None:
        """A plan says when a waiting job starts."""
        known = self._open.get(key)
        if known is None or (hard and (not known[1] or at < known[0])):
            self._open[key] = at, hard

    def started(self, key: str, at: Micros) -> PlannedStartResult | None:
        """The job starts: what became of its planned start, if it had one."""
        known = self._open.pop(key, None)
        if known is None:
            return None
        planned, hard = known
        self._count(key, at, planned, hard)
        return PlannedStartResult(planned, hard, at <= planned)

    def forget(self, key: str) -> None:
        """The job was taken back."""
        self._open.pop(key, None)

    def close(self, at: Micros, waiting: Iterable[str]) -> None:
        """The run is over: a planned start of a waiting job that has passed is missed."""
        for key in waiting:
            planned, hard = self._open.get(key, (at, False))
            if planned < at:
                self._count(key, at, planned, hard)

    def _count(self, key: str, at: Micros, planned: Micros, hard: bool) -> None:
        late = at - planned
        if hard:
            self.kept += late <= 0
            self.missed += late > 0
            if late > self.worst[0]:
                self.worst = late, key
        else:
            self.soft_kept += late <= 0
            self.soft_missed += late > 0
