"""The formulas of the prioritizers over all clusters at once, and the ranking by their sum.

A score is a whole number from -100 to 100, truncated toward zero; the arithmetic inside is float64. An amount
of MISSING says that the cluster does not report the resource. Rows of clusters that did not pass the filters
are computed too, and mean nothing.

Ranks go by points, most first, then by name. A cluster that is chosen already counts as `gain` points better
than it is, less a half: another needs at least that much more to take its place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

IntColumn = npt.NDArray[np.int64]
BoolColumn = npt.NDArray[np.bool_]

MISSING: Final = -1
BEST: Final = 100
WORST: Final = -100


@lru_cache(maxsize=1024)
def balance_table(most: int, weight: int = 1) -> IntColumn:
    """Points by the number of other placements that use a cluster, where the most used has `most`."""
    counts = np.arange(most + 1)
    scores: IntColumn = 2 * (100 * (0.5 - counts / max(most, 1))).astype(np.int64)
    scores[0] = BEST
    scores *= weight
    scores.flags.writeable = False
    return scores


def by_amount(amounts: IntColumn, reports: BoolColumn, among: BoolColumn, missing: int) -> IntColumn:
    """From -100 for the least to 100 for the most `among` those that report; `missing` for those that do not.

    Where all have the same, all of them are best.
    """
    compared = amounts[among & reports]
    if not compared.size:
        return np.full(amounts.shape, missing, np.int64)
    least, most = int(compared.min()), int(compared.max())
    if most == least:
        return np.where(reports, BEST, missing)
    scores = (((amounts - least) / (most - least) - 0.5) * 2 * 100).astype(np.int64)
    scores[~reports] = missing
    return scores


def by_ratio(allocatable: IntColumn, capacity: IntColumn, missing: int) -> IntColumn:
    """The part of the capacity that is allocatable; more than all of it counts as all."""
    reports = (allocatable >= 0) & (capacity > 0)
    part = np.minimum(allocatable, capacity) / np.where(reports, capacity, 1)
    return np.where(reports, ((part - 0.5) * 2 * 100).astype(np.int64), missing)


NEVER: Final = 10**9
"""A gain that no cluster can offer: points are a few thousand at most."""


def preference(totals: IntColumn, rank: IntColumn, index: IntColumn, chosen: IntColumn, gain: int) -> IntColumn:
    """A number for each slot of `index` that is small for the cluster that comes first. All numbers differ."""
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
