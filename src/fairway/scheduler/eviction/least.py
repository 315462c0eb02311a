"""The set of victims that takes queues the least below what they deserve, found by looking at all sets.

Units are taken in order, so the last one may be larger than what its queue has too much of. Where that takes a queue
below what it deserves and at most `MOST_UNITS` units could go, every set of them is looked at: gangs whole, within
budgets and guarantees. Of those that serve the claimant the one is best that takes queues the least below what they
deserve, then the one that takes the least, then the one of fewest pods, then the first in the order of units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from fairway.scheduler.eviction.claim import EvictionClaim, Found, Place
from fairway.scheduler.eviction.placing import place
from fairway.scheduler.eviction.units import Unit

MOST_UNITS = 10

_Rank = tuple[int, int, int, list[tuple[int, int, int, str]]]


def least_set(claim: EvictionClaim, units: list[Unit], most: int) -> Found | None:
    """The best set that takes queues less than `most` below what they deserve; None if no such set serves."""
    for _, chosen in sorted(_sets(claim, units, most)):
        places = _places(claim, chosen)
        if places is not None:
            return Found(chosen, places, {}, claim.session.nodes.kernel.domain)
    return None


def _sets(claim: EvictionClaim, units: list[Unit], most: int) -> Iterator[tuple[_Rank, list[Unit]]]:
    ordered = sorted(units, key=claim.index.order_of)
    for size in range(1, len(ordered) + 1):
        for combination in combinations(ordered, size):
            chosen = list(combination)
            if not _is_whole(claim, chosen) or not claim.budgets.allow([t for unit in chosen for t in unit.tasks]):
                continue
            taken = claim.nothing_taken()
            below = claim.entitlement.below(chosen, taken)
            if below < most and claim.entitlement.allows_together(taken) and not claim.over_limits(taken):
                amount = claim.entitlement.amount(taken)
                yield (below, amount, taken.pods, [claim.index.order_of(unit) for unit in chosen]), chosen


def _is_whole(claim: EvictionClaim, chosen: list[Unit]) -> bool:
    """Whether all surplus pods of the gangs among them go, too."""
    going = set(chosen)
    along = [surplus for unit in chosen for surplus in unit.surplus_units]
    return all(surplus in going or surplus.tasks[0] in claim.session.decisions.evicted for surplus in along)


def _places(claim: EvictionClaim, chosen: list[Unit]) -> list[Place] | None:
    """Where the claimant would be with these gone; None if they are not enough."""
    trial = claim.session.statement()
    for unit in chosen:
        trial.displace(unit.tasks)
    placed, left = place(trial, claim.runs())
    trial.rollback()
    return placed if left is None else None
