"""The slow and obvious twin of `scores` and `cut`: one cluster at a time, for tests to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping

BEST = 100


def balance(count: int, most: int) -> int:
    if count == 0:
        return BEST
    return 2 * int(100 * (0.5 - count / most))


def by_amount(amounts: Mapping[str, int | None], missing: int) -> dict[str, int]:
    known = [amount for amount in amounts.values() if amount is not None]
    scores = {}
    for name, amount in amounts.items():
        if amount is None:
            scores[name] = missing
        elif max(known) == min(known):
            scores[name] = BEST
        else:
            part = float(amount - min(known)) / float(max(known) - min(known))
            scores[name] = int((part - 0.5) * 2 * 100)
    return scores


def by_ratio(allocatable: int | None, capacity: int | None, missing: int) -> int:
    if allocatable is None or not capacity:
        return missing
    return int((float(min(allocatable, capacity)) / float(capacity) - 0.5) * 2 * 100)


def cut(totals: Mapping[str, int], chosen: Collection[str], count: int | None, gain: int) -> list[str]:
    """The best `count`, in rank order; who is chosen already gives way only to `gain` points more."""

    def preferred(name: str) -> tuple[float, str]:
        bonus = gain - 0.5 if gain and name in chosen else 0.0
        return -(totals[name] + bonus), name

    best = sorted(totals, key=preferred)[: len(totals) if count is None else count]
    return sorted(best, key=lambda name: (-totals[name], name))
