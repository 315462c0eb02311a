"""The formulas of the prioritizers over all clusters that passed the filters, and the ranking by their sum.

A score is a whole number from -100 to 100, truncated toward zero. It is computed in whole numbers: in float64 the ratio
19/20 is worth 89 points, though it is exactly 90. An amount of MISSING says that the cluster does not report the
resource.

Ranks go by points, most first, then by name. A cluster that is chosen already counts as `gain` points better
than it is, less a half: another needs at least that much more to take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.api.fleet import AddOnPlacementScore

IntColumn = npt.NDArray[np.int64]
BoolColumn = npt.NDArray[np.bool_]
ScoreOf = Callable[[str, str], AddOnPlacementScore | None]
"""The scores that an add-on published, by cluster and name."""

MISSING: Final = -1
BEST: Final = 100
WORST: Final = -100


@lru_cache(maxsize=1024)
def balance_table(most: int, weight: int = 1) -> IntColumn:
    """Points by the number of other placements that use a cluster, where the most used has `most`."""
    scores = 2 * _truncated(50 * most - 100 * np.arange(most + 1), max(most, 1))
    scores[0] = BEST
    scores *= weight
    scores.flags.writeable = False
    return scores


class AmountScale(NamedTuple):
    """The least and the most that is reported."""

    least: int
    most: int

    def score(self, amount: int) -> int | None:
        """What `by_amount` says of an amount; None where it would not be on this scale."""
        if not self.least <= amount <= self.most or self.least == self.most:
            return None
        return _points_of(amount - self.least, self.most - self.least)


def scale_of(amounts: IntColumn, reports: BoolColumn) -> AmountScale | None:
    """None where no cluster reports anything."""
    compared = amounts[reports]
    return AmountScale(int(compared.min()), int(compared.max())) if compared.size else None


def by_amount(amounts: IntColumn, reports: BoolColumn, scale: AmountScale | None, missing: int) -> IntColumn:
    """From -100 for the least to 100 for the most of those that report; `missing` for those that do not.

    Where all have the same, all of them are best.
    """
    if scale is None:
        return np.full(amounts.shape, missing, np.int64)
    least, most = scale
    if most == least:
        return np.where(reports, BEST, missing)
    scores = _points(np.where(reports, amounts - least, 0), most - least)
    if not reports.all():
        scores[~reports] = missing
    return scores


def by_ratio(allocatable: IntColumn, capacity: IntColumn, missing: int) -> IntColumn:
    """The part of the capacity that is allocatable; more than all of it counts as all."""
    reports = (allocatable >= 0) & (capacity > 0)
    part, whole = np.where(reports, np.minimum(allocatable, capacity), 0), np.where(reports, capacity, 1)
    return np.where(reports, _points(part, whole), missing)


def ratio(allocatable: int, capacity: int, missing: int) -> int:
    """The same for one cluster."""
    if allocatable < 0 or capacity <= 0:
        return missing
    return _points_of(min(allocatable, capacity), capacity)


_MAX_PRODUCT = (1 << 63) // 200
"""Above this 200 times an amount does not fit in 64 bits."""


def _points(part: IntColumn, whole: IntColumn | int) -> IntColumn:
    """(part / whole - 0.5) * 2 * 100, truncated toward zero; a part is at most the whole."""
    if np.max(whole, initial=0) < _MAX_PRODUCT:
        return _truncated(200 * part - 100 * whole, whole)
    wholes = np.broadcast_to(np.asarray(whole), part.shape).tolist()
    found = [_points_of(one, all_) for one, all_ in zip(part.tolist(), wholes, strict=True)]
    return np.array(found, dtype=np.int64)


def _points_of(part: int, whole: int) -> int:
    points = abs(200 * part - 100 * whole) // whole
    return points if 2 * part >= whole else -points


def _truncated(above: IntColumn, below: IntColumn | int) -> IntColumn:
    """The quotient, truncated toward zero, where numpy's own goes down."""
    found: IntColumn = (np.sign(above) * (np.abs(above) // below)).astype(np.int64)
    return found


NEVER: Final = 10**9
"""A gain that no cluster can offer: points are a few thousand at most."""


def span(size: int) -> int:
    """By how much a point outweighs all ranks of names in a table of `size` slots."""
    return size + 1


def preference(totals: IntColumn, ranks: IntColumn, size: int, chosen: IntColumn, gain: int) -> IntColumn:
    """A number for each cluster that is small for the one that comes first. All numbers differ.

    `ranks` are the places of their names among those of all `size` slots; `chosen` says which are chosen already.
    """
    wide = span(size)
    keys = totals * (-2 * wide)
    keys += ranks
    if gain and chosen.size:
        keys[chosen] -= (2 * gain - 1) * wide
    return keys


def best(keys: IntColumn, count: int | None) -> IntColumn:
    """Which `count` are most preferred, in no order."""
    if count is None or count >= keys.size:
        return np.arange(keys.size)
    return keys.argpartition(count)[:count]


def ranked(these: IntColumn, totals: IntColumn, ranks: IntColumn, size: int) -> IntColumn:
    """In rank order: most points first, then by name."""
    return these[(ranks[these] - totals[these] * span(size)).argsort()]
