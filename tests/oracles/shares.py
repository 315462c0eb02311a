"""What queues deserve, worked out from the definition with fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Share(NamedTuple):
    """Gets weight * level, but at least `low` and at most `high`."""

    name: str
    weight: int
    low: int
    high: int

    def at(self, level: Fraction) -> Fraction:
        return min(Fraction(self.high), max(Fraction(self.low), self.weight * level))


def divide(total: int, shares: list[Share]) -> dict[str, int]:
    """Whole units for each: floors, then one each by largest remainder, then name."""
    exact = _exact(total, shares)
    floors = {name: int(amount) for name, amount in exact.items()}
    left = min(total, int(sum(exact.values()))) - sum(floors.values())
    by_remainder = sorted(exact, key=lambda name: (floors[name] - exact[name], name))
    for name in by_remainder[:left]:
        floors[name] += 1
    return floors


def _exact(total: int, shares: list[Share]) -> dict[str, Fraction]:
    lows = sum(share.low for share in shares)
    if lows > total:
        return {share.name: Fraction(share.low * total, lows) for share in shares}
    level = _level(total, shares)
    return {share.name: share.at(level) for share in shares}


def _level(total: int, shares: list[Share]) -> Fraction:
    """The highest level at which no more than the total is used; between two turning points use grows evenly."""
    turns = sorted({Fraction(bound, share.weight) for share in shares for bound in (share.low, share.high)})
    below = Fraction(0)
    for turn in turns:
        used, used_below = _used(shares, turn), _used(shares, below)
        if used > total:
            return below + (turn - below) * (total - used_below) / (used - used_below)
        below = turn
    return below


def _used(shares: list[Share], level: Fraction) -> Fraction:
    return sum((share.at(level) for share in shares), Fraction(0))
