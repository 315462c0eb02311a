"""The slow and obvious twin of `scores` and `cut`: one cluster at a time, for tests to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction

BEST = 100


def balance(count: int, most: int) -> int:
    if count == 0:
        return BEST
    return 2 * int(100 * (Fraction(1, 2) - Fraction(count, most)))


def by_amount(amounts: Mapping[str, int | None], missing: int) -> dict[str, int]:
    known = [amount for amount in amounts.values() if amount is not None]
    scores = {}
    for name, amount in amounts.items():
        if amount is None:
            scores[name] = missing
        elif max(known) == min(known):
            scores[name] = BEST
        else:
            part = Fraction(amount - min(known), max(known) - min(known))
            scores[name] = int((part - Fraction(1, 2)) * 2 * 100)
    return scores


def by_ratio(allocatable: int | None, capacity: int | None, missing: int) -> int:
    if allocatable is None or not capacity:
        return missing
    return int((Fraction(min(allocatable, capacity), capacity) - Fraction(1, 2)) * 2 * 100)


def cut(totals: Mapping[str, int], chosen: Collection[str], count: int | None, gain: int) -> list[str]:
    """The best `count`, in rank order; who is chosen already gives way only to `gain` points more."""

    def preferred(name: str) -> tuple[float, str]:
        bonus = gain - 0.5 if gain and name in chosen else 0.0
        return -(totals[name] + bonus), name

    best = sorted(totals, key=preferred)[: len(totals) if count is None else count]
    return sorted(best, key=lambda name: (-totals[name], name))
