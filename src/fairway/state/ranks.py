"""Ranks that order nodes by name, with gaps, so that a new node seldom moves the others.

A rank stands in the low bits of every packed score key (scheduler.kernel), where it breaks ties by name. If all
nodes were renumbered for each new one, every kept column would be stale; `epoch` counts the times that had to be.
"""

from __future__ import annotations

from bisect import bisect_left, insort

RANK_BITS = 24
_TOP = 1 << RANK_BITS


class NameRanks:
    """A rank in [0, 2**RANK_BITS) for each name, in string order."""

    def __init__(self) -> None:
        self.epoch = 0
        self._names: list[str] = []
        self._ranks: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._ranks[name]

    def __contains__(self, name: str) -> bool:
        return name in self._ranks

    def add(self, names: list[str]) -> None:
        """Add new names. Many at once are cheaper to renumber than to squeeze in."""
        if 4 * len(names) > len(self._names):
            self._names = sorted([*self._names, *names])
            self._renumber()
            return
        for name in names:
            self._squeeze_in(name)

    def remove(self, name: str) -> None:
        del self._ranks[name]
        del self._names[bisect_left(self._names, name)]

    def _squeeze_in(self, name: str) -> None:
        insort(self._names, name)
        place = bisect_left(self._names, name)
        below = self._ranks[self._names[place - 1]] if place else -1
        above = self._ranks[self._names[place + 1]] if place + 1 < len(self._names) else _TOP
        if above - below < 2:
            self._renumber()
        else:
            self._ranks[name] = (above + below) // 2

    def _renumber(self) -> None:
        self.epoch += 1
        gap = _TOP // (len(self._names) + 1)
        if not gap:
            raise OverflowError(f"more than {_TOP} nodes")
        self._ranks = {name: gap * (index + 1) for index, name in enumerate(self._names)}
