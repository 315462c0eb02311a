"""A log of what to look at again. It only grows at the end; readers remember how far they have read."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from fairway.resources.columns import IntColumn

T = TypeVar("T")

_KEPT = 1 << 16


class Log(Generic[T]):
    """Entries with positions that never go back; very old entries are forgotten."""

    __slots__ = ("_entries", "_start", "end")

    def __init__(self) -> None:
        self.end = 0
        self._start = 0
        self._entries: list[T] = []

    def add(self, entry: T) -> None:
        self._entries.append(entry)
        self.end += 1
        if self.end - self._start > 2 * _KEPT:
            del self._entries[:_KEPT]
            self._start += _KEPT

    def keep_last(self, count: int) -> None:
        """Forget older entries once there are twice as many, so that forgetting costs little per entry."""
        length = self.end - self._start
        if length > 2 * count:
            del self._entries[: length - count]
            self._start = self.end - count

    def since(self, position: int) -> list[T] | None:
        """What was logged since a position; None if the log no longer reaches back that far."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]


class RowLog:
    """A log of node rows in an array: what was logged since a position is a slice of it, ready to index with."""

    __slots__ = ("_rows", "_start", "end")

    def __init__(self) -> None:
        self.end = 0
        self._start = 0
        self._rows = np.zeros(2 * _KEPT, dtype=np.int64)

    def add(self, row: int) -> None:
        at = self.end - self._start
        if at == len(self._rows):
            at = self._forget()
        self._rows[at] = row
        self.end += 1

    def add_everything(self) -> None:
        """All rows are to be looked at again: no reader finds what it has read up to."""
        self.end += 1
        self._start = self.end

    def since(self, position: int) -> IntColumn | None:
        """As in `Log`. What it returned stays as it is, whatever is logged later."""
        if position < self._start:
            return None
        return self._rows[position - self._start : self.end - self._start]

    def _forget(self) -> int:
        """Keep the younger half, in an array of its own."""
        rows = np.zeros(2 * _KEPT, dtype=np.int64)
        rows[:_KEPT] = self._rows[_KEPT:]
        self._rows = rows
        self._start += _KEPT
        return _KEPT
