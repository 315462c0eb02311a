"""Dividing replicas over the chosen clusters, given in rank order.

Every rule here hands replicas out one after another, so one replica more never takes one away from a cluster.
Rounding all shares at once by the largest remainder lacks that property (a replica more shifts the remainders
and can cost a cluster one), so the largest remainder is applied to each replica in turn. That never exceeds a
share rounded up. For a few lopsided weights it falls behind a share rounded down; for those, and for sums too
large to try, the cluster that has to be served soonest to keep its share is served first. Every cluster is so within
one of its exact share: as unit jobs with a release and a deadline that follow from the shares, all can be
met, and serving by deadline meets all that can be met.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache

MAX_REPLICAS = 100_000
_TRIED = 4096
"""Sums of weights up to this are tried for a whole round."""


def weighted(count: int, weights: Sequence[int], minimum: int = 0) -> list[int]:
    """In proportion to the weights; all zero counts as all equal.

    First every cluster gets the minimum, in rank order: if there are too few replicas for that, the last ones get less.
    After that a cluster gets more once its share exceeds what it has.
    """
    if not weights:
        return []
    given = _minimum(count, [minimum] * len(weights))
    return _in_proportion(given, count, weights if any(weights) else [1] * len(weights))


def free(count: int, room: Sequence[int], minimum: int = 0) -> list[int]:
    """In proportion to how many fit in each cluster, and never more than fit."""
    fitting = min(count, sum(room))
    given = _minimum(fitting, [min(minimum, fits) for fits in room])
    return _in_proportion(given, fitting, room) if fitting else given


def aggregated(count: int, room: Sequence[int | None], minimum: int = 0) -> list[int]:
    """In as few clusters as possible, filled in rank order; None is unlimited capacity."""
    given = _minimum(count, [minimum if fits is None else min(minimum, fits) for fits in room])
    left = count - sum(given)
    for index, fits in enumerate(room):
        more = left if fits is None else min(left, fits - given[index])
        given[index] += more
        left -= more
    return given


def _minimum(count: int, minima: Sequence[int]) -> list[int]:
    given = []
    for minimum in minima:
        given.append(min(minimum, count))
        count -= given[-1]
    return given


def _in_proportion(given: list[int], count: int, weights: Sequence[int]) -> list[int]:
    """Continues from `given` up to `count`. Shares are whole after each round, so full rounds are skipped."""
    divisor = math.gcd(*weights)
    parts = tuple(weight // divisor for weight in weights)
    whole = sum(parts)
    rounds = count // whole
    if all(part * rounds >= have for part, have in zip(parts, given, strict=True)):
        given = [part * rounds for part in parts]
    hand_out = _by_remainder if whole <= _TRIED and _keeps_shares(parts) else _by_deadline
    hand_out(given, count, parts, whole)
    return given


def _by_remainder(given: list[int], count: int, parts: Sequence[int], whole: int) -> None:
    for turn in range(sum(given) + 1, count + 1):
        remainders = [part * turn - have * whole for part, have in zip(parts, given, strict=True)]
        given[remainders.index(max(remainders))] += 1


@lru_cache(maxsize=1024)
def _keeps_shares(parts: tuple[int, ...]) -> bool:
    whole = sum(parts)
    given = [0] * len(parts)
    for turn in range(1, whole):
        _by_remainder(given, turn, parts, whole)
        if any(have < part * turn // whole for part, have in zip(parts, given, strict=True)):
            return False
    return True


def _by_deadline(given: list[int], count: int, parts: Sequence[int], whole: int) -> None:
    """The next replica of a cluster may be assigned once its share exceeds what it has (until then it is `early`), and
    is due when the share is one more than it has.
    """
    early = [(have * whole // part + 1, i) for i, (part, have) in enumerate(zip(parts, given, strict=True)) if part]
    heapq.heapify(early)
    due: list[tuple[int, int]] = []
    for turn in range(sum(given) + 1, count + 1):
        while early and early[0][0] <= turn:
            _, index = heapq.heappop(early)
            heapq.heappush(due, (-(-(given[index] + 1) * whole // parts[index]), index))
        _, index = heapq.heappop(due)
        given[index] += 1
        heapq.heappush(early, (given[index] * whole // parts[index] + 1, index))
