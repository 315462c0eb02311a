"""Water-filling: an amount shared out by weight between lower and upper bounds, in exact integers."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple


class Claim(NamedTuple):
    """A sharer: gets at least `low`, at most `high`, and between them in proportion to `weight`."""

    name: str
    weight: int
    low: int
    high: int


def fill(total: int, claims: list[Claim]) -> list[int]:
    """What each claim gets: min(high, max(low, weight * level)) for the level at which `total` is used up.

    Whole units only: fractions are floored, and the units that are left go one each by largest remainder, then name.
    The sum never exceeds the total; lower bounds that together do are scaled down.
    """
    lows = sum(claim.low for claim in claims)
    if lows > total:
        return _scaled_lows(total, lows, claims)
    if sum(claim.high for claim in claims) <= total:
        return [claim.high for claim in claims]
    numerator, denominator = _level(total, claims)
    got: list[int] = []
    remainders: list[tuple[int, str, int]] = []
    for place, claim in enumerate(claims):
        whole, rest = divmod(claim.weight * numerator, denominator)
        if claim.low <= whole < claim.high:
            remainders.append((-rest, claim.name, place))
            got.append(whole)
        else:
            got.append(min(claim.high, max(claim.low, whole)))
    left = total - sum(got)
    for _, _, place in sorted(remainders)[:left]:
        got[place] += 1
    return got


def _level(total: int, claims: list[Claim]) -> tuple[int, int]:
    """The level, as a fraction, at which the claims add up to the total.

    As the level rises from 0 a claim stays at `low`, grows by its weight, then stays at `high`. The turning points are
    compared over one common denominator, so they are integers.
    """
    common = lcm(*(claim.weight for claim in claims))
    turns = sorted(
        turn
        for claim in claims
        for turn in (
            (claim.low * (common // claim.weight), claim.weight),
            (claim.high * (common // claim.weight), -claim.weight),
        )
    )
    amount, slope, reached = sum(claim.low for claim in claims) * common, 0, 0
    for point, change in turns:
        after = amount + slope * (point - reached)
        if after >= total * common:
            break
        amount, slope, reached = after, slope + change, point
    return (total * common - amount + slope * reached, slope * common) if slope else (reached, common)


def _scaled_lows(total: int, lows: int, claims: list[Claim]) -> list[int]:
    got = [claim.low * total // lows for claim in claims]
    remainders = sorted((-(claim.low * total % lows), claim.name, place) for place, claim in enumerate(claims))
    for _, _, place in remainders[: total - sum(got)]:
        got[place] += 1
    return got
