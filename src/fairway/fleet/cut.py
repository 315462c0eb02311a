"""Who is chosen of those that passed: rank by points, and let chosen clusters give way only for a gain.

Ranks go by points, most first, then by name. A cluster that is chosen already counts as `gain` points better
than it is, less a half: somebody else needs at least that much more to take its place.
"""

from __future__ import annotations

from typing import Final

from fairway.fleet.scores import IntColumn

NEVER: Final = 10**9
"""A gain that nobody can offer: points are a few thousand at most."""


def preference(totals: IntColumn, rank: IntColumn, index: IntColumn, chosen: IntColumn, gain: int) -> IntColumn:
    """A number for each slot of `index` that is small for who comes first. All numbers differ."""
    halves = totals + totals
    if gain and chosen.size:
        halves[chosen] += 2 * gain - 1
    keys: IntColumn = rank[index] - halves[index] * (rank.size + 1)
    return keys


def best(keys: IntColumn, index: IntColumn, count: int | None) -> IntColumn:
    """The slots of the `count` most preferred, in no order; `keys` are those of `index`."""
    if count is None or count >= index.size:
        return index
    return index[keys.argpartition(count)[:count]]


def ranked(slots: IntColumn, totals: IntColumn, rank: IntColumn) -> IntColumn:
    """In rank order: most points first, then by name."""
    return slots[(rank[slots] - totals[slots] * (rank.size + 1)).argsort()]
