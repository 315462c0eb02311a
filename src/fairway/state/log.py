"""A log of what to look at again. It only grows at the end; readers remember how far they have read."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

_KEPT = 1 << 16


class Log(Generic[T]):
    """Entries with positions that never go back; very old entries are forgotten."""

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._start = 0
        self._entries: list[T] = []

    @property
    def end(self) -> int:
        return self._start + len(self._entries)

    def add(self, entry: T) -> None:
        self._entries.append(entry)
        if len(self._entries) > 2 * _KEPT:
            del self._entries[:_KEPT]
            self._start += _KEPT

    def since(self, position: int) -> list[T] | None:
        """What was logged since a position; None if the log no longer reaches back that far."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]
