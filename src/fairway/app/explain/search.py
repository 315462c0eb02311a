"""Searches for the smallest change that works, where asking whether one works is dear.

All rest on one belief: what is enough stays enough when there is more of it. Where that fails (a scheduler has its
anomalies) the answer may not be the smallest, but it was asked for and works: nothing is returned unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class SearchLimit(Exception):  # noqa: N818 - a limit that was reached, not an error
    """No more questions may be asked."""


class Asker:
    """Counts questions, and refuses those above a limit."""

    def __init__(self, limit: int) -> None:
        self.asked = 0
        self.limit = limit

    def spend(self) -> None:
        if self.asked >= self.limit:
            raise SearchLimit
        self.asked += 1


def largest(low: int, high: int, works: Callable[[int], bool]) -> int | None:
    """The largest number of low..high that works, as those do below one that does; None if not even `low`."""
    if high < low or not works(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if works(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest(low: int, high: int, works: Callable[[int], bool]) -> int | None:
    """The smallest number of low..high that works, as those do above one that does; None if not even `high`."""
    return None if high < low or not works(high) else _least(low, high, works)


def _least(low: int, high: int, works: Callable[[int], bool]) -> int:
    """As `smallest`, where `high` is known to work."""
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high


def smallest_set(items: Sequence[T], works: Callable[[Sequence[T]], bool], rounds: int) -> list[T] | None:
    """A set of items none of which can be spared, of the earliest items that do; None if not even all work.

    The shortest beginning of the list that works ends with an item that is needed. It is kept, and what still has to
    come before it is found in the same way, until the kept ones are enough. After so many `rounds`, which find one
    item each, what is known to be enough is returned, though less may be.
    """
    kept: list[T] = []
    enough = _beginning(items, works)
    if enough is None:
        return None
    while len(kept) < rounds and not works(kept):
        rest = enough[len(kept) :]
        if not rest:
            return enough
        needed = _shortest(kept, rest, works)
        enough = [*kept, rest[needed - 1], *rest[: needed - 1]]
        kept.append(rest[needed - 1])
    return kept if len(kept) < rounds or works(kept) else enough


def _beginning(items: Sequence[T], works: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """A beginning of the list that works, and is not much longer than it must be: long ones are dear to ask about."""
    size = 4
    while size < len(items):
        if works(items[:size]):
            return list(items[:size])
        size *= 4
    return list(items) if items and works(items) else None


def _shortest(kept: list[T], rest: list[T], works: Callable[[Sequence[T]], bool]) -> int:
    """How much of the beginning of `rest` is enough beside what is kept; all of it is known to be."""
    return _least(1, len(rest), lambda count: works([*kept, *rest[:count]]))
