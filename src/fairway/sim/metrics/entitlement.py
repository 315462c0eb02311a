"""Weighted dominant resource fairness as a fluid: what each claimant would have if work could be cut at will.

All claimants' dominant shares divided by their weights rise together, the *level*, until a claimant has all
that it asks for or a resource that it needs is used up; then it stops and the others rise on. This is the
yardstick that measured shares are held against. It is a measure, not a decision: floats are good enough, and
the order of the claims decides the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_NEVER = float("inf")


class Demand(Protocol):
    """What a tenant has and waits for, in the order of the capacity's resources."""

    @property
    def weight(self) -> float: ...
    @property
    def demand(self) -> Sequence[int]: ...


def fill(room: Sequence[float], claims: Sequence[Demand], total: Sequence[float]) -> list[float]:
    """For each claim the part of its demand, 0 to 1, that it may have of `room`; shares are of `total`."""
    if len(room) == 1:
        return _fill_one(room[0], claims)
    return _fill_many(room, claims, total)


def _fill_one(room: float, claims: Sequence[Demand]) -> list[float]:
    """One resource: the smallest demand per weight is met first, what is left is divided by weight."""
    order = sorted([(claim.demand[0] / claim.weight, index) for index, claim in enumerate(claims)])
    weight, left = sum([claim.weight for claim in claims]), float(room)
    granted = [1.0] * len(claims)
    for position, (per_weight, first) in enumerate(order):
        if per_weight * weight > left:
            level = left / weight
            for wanted, index in order[position:]:
                granted[index] = level / wanted
            break
        claim = claims[first]
        left -= claim.demand[0]
        weight -= claim.weight
    return granted


def _fill_many(room: Sequence[float], claims: Sequence[Demand], total: Sequence[float]) -> list[float]:
    resources = [index for index, amount in enumerate(total) if amount > 0]
    share = [max((claim.demand[r] / total[r] for r in resources), default=0.0) for claim in claims]
    full = [part / claim.weight for part, claim in zip(share, claims, strict=True)]
    rising = [index for index in range(len(claims)) if share[index] > 0]
    granted = [1.0] * len(claims)
    left = {r: float(room[r]) for r in resources}
    level = 0.0
    while rising:
        # Demand per unit of level: what each resource loses while the level rises by one.
        rate = {r: sum(claims[i].demand[r] / full[i] for i in rising) for r in resources}
        lasts = {r: left[r] / rate[r] if rate[r] > 0 else _NEVER for r in resources}
        step = min(min(full[i] for i in rising) - level, max(0.0, min(lasts.values())))
        level += step
        for r in resources:
            left[r] -= rate[r] * step
        used_up = [r for r in resources if lasts[r] <= step]
        stopped = [i for i in rising if full[i] <= level or any(claims[i].demand[r] for r in used_up)]
        for i in stopped:
            granted[i] = min(1.0, level / full[i])
        gone = set(stopped)
        rising = [i for i in rising if i not in gone]
    return granted
