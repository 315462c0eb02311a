"""Which slots changed, in order, so that what was worked out earlier is repaired and not made again."""

from __future__ import annotations

from typing import Final

KEPT: Final = 512
"""Older changes are forgotten: a reader that needs them works everything out again."""


class SlotLog:
    def __init__(self) -> None:
        self._slots: list[int] = []
        self._forgotten = 0

    @property
    def end(self) -> int:
        """Where the next change will be."""
        return self._forgotten + len(self._slots)

    def append(self, slot: int) -> None:
        if len(self._slots) >= 2 * KEPT:
            del self._slots[:KEPT]
            self._forgotten += KEPT
        self._slots.append(slot)

    def forget(self) -> None:
        """No place before this one can be asked about any more."""
        self._forgotten = self.end + 1
        self._slots.clear()

    def since(self, place: int) -> frozenset[int] | None:
        """The slots that changed at `place` or after it; None where that is forgotten."""
        if place < self._forgotten:
            return None
        return frozenset(self._slots[place - self._forgotten :])
