"""Choosing victims: the fewest, least important units whose going lets the whole gang of a claimant be placed.

Units are taken until the gang places, then spared in reverse while it still does: none of the result can be spared.
Everything is tried out on statements, and nothing of it remains.

The set of victims that takes queues the least below what they deserve, found by looking at all sets.

Units are taken in order, so the last one may be larger than what its queue has too much of. Where that takes a queue
below what it deserves and at most `MAX_UNITS` units could go, every set of them is looked at: gangs whole, within
budgets and guarantees. Of those that serve the claimant the one is best that takes queues the least below what they
deserve, then the one that takes the least, then the one of fewest pods, then the first in the order of units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from fairway.scheduler.eviction.claims import EvictionClaim, Found, Place
from fairway.scheduler.eviction.obstacles import FitCounts, passes_now, place
from fairway.scheduler.eviction.search import VictimSearch
from fairway.scheduler.eviction.victims import Taken, Unit
from fairway.scheduler.framework.statement import Statement


def find_victims(claim: EvictionClaim) -> Found | None:
    """Which units have to go for the claim, and where the claimant will be; None if there is no way, or no unit has to
    go.

    Entitlement is judged over the whole move. Where the units found may each go, but not all of them and only them, the
    entitlement's stricter searches follow.
    """
    found = _find(claim)
    if found is None or _is_allowed(claim, found):
        return found
    for entitlement in claim.entitlement.stricter(_taken_by(claim, found)):
        narrower = claim.entitled(entitlement)
        found = _find(narrower)
        if found is not None and _is_allowed(narrower, found):
            return found
    return None


def _is_allowed(claim: EvictionClaim, found: Found) -> bool:
    return claim.entitlement.allows_move(_taken_by(claim, found))


def _taken_by(claim: EvictionClaim, found: Found) -> Taken:
    taken = claim.nothing_taken()
    for unit in found.units:
        taken.add(unit)
    return taken


def _find(claim: EvictionClaim) -> Found | None:
    """Where the victims take queues below what they deserve, the set that does so least is the answer: of all sets, or
    where too many units could go, the first of the entitlement's narrower searches that takes less.
    """
    choice = _Choice(claim)
    units = choice.eligible()
    found = choice.find()
    if found is None:
        return None
    taken = claim.nothing_taken()
    most = claim.entitlement.below(found.units, taken)
    if not most:
        return found
    if len(units) <= MAX_UNITS:
        return least_set(claim, units, most) or found
    for narrower in claim.entitlement.narrowed(taken):
        less = _Choice(claim.entitled(narrower)).find()
        if less is not None and claim.entitlement.below(less.units, claim.nothing_taken()) < most:
            return less
    return found


class _Choice:
    def __init__(self, claim: EvictionClaim) -> None:
        self._claim = claim
        self._session = claim.session
        self._taken = claim.nothing_taken()
        self._trial = claim.session.statement()
        """Where the claimant would be."""
        self._hunt = VictimSearch(claim, self._taken)
        self._runs = claim.runs()
        self._limits: dict[Unit, str] = {}
        """Units that a limit of a queue asks for, and no node."""

    def eligible(self) -> list[Unit]:
        """All units that may go; where that is too many to look at all sets, only so many that this can be seen."""
        return list(islice(self._hunt.eligible_units(), MAX_UNITS + 1))

    def find(self) -> Found | None:
        with self._hide_raised():
            places = self._make_room()
        found = self._spared() if places else None
        units = sorted(self._taken.units, key=self._claim.index.order_of)
        self._hunt.restore_all()
        return None if found is None or not units else Found(units, found, self._limits, self._claim.placing)

    def _hide_raised(self) -> Statement:
        """Free capacity that the move may not use is hidden while units are taken: they have to make up for it all.
        When units are spared it is there again, so none goes that is needed for the entitlement only.
        """
        hidden = self._session.statement()
        rows = self._claim.entitlement.raised()
        if rows:
            idle = self._session.nodes.snapshot.idle
            less = np.zeros_like(idle)
            less[rows] = -np.maximum(idle[rows], 0)
            nodes = np.flatnonzero(less.any(axis=0))
            hidden.assume_free(nodes, less[:, nodes])
        return hidden

    def _make_room(self) -> bool:
        """Take units until the gang's queues may have it, and all of it places."""
        over = self._claim.over_limits(self._taken)
        if over and not self._hunt.free(over):
            return False
        while True:
            _, left = place(self._trial, self._runs, self._claim.placing)
            before = self._taken.pods
            more = left is not None and self._hunt.make_room(left.shape, left.left)
            self._trial.rollback()
            if left is None:
                return True
            if not more or self._taken.pods == before:
                return False

    def _spared(self) -> list[Place] | None:
        """Spare every unit that can be; units that go along with a gang are only tried once the gang is spared."""
        fit_counts = self._countable()
        bound = {mate for gang in self._taken.units for mate in gang.surplus_units}
        again = True
        while again:
            again = False
            for unit in reversed(list(self._taken.units)):
                if unit not in bound and self._spare(unit, fit_counts):
                    bound -= set(unit.surplus_units)
                    again = fit_counts is None  # where rules between pods decide, one that stays may let another stay
        placed, left = place(self._trial, self._runs, self._claim.placing)
        self._trial.rollback()
        return placed if left is None else None

    def _countable(self) -> FitCounts | None:
        """Of like tasks for which nothing but capacity matters it is enough to count the capacity."""
        shape = self._runs[0].shape
        if len(self._runs) > 1 or passes_now(self._session.nodes, shape) is not None:
            return None
        fit_counts = FitCounts(self._session.nodes, shape, self._claim.placing.domain)
        return fit_counts if fit_counts.counts else None

    def _spare(self, unit: Unit, fit_counts: FitCounts | None) -> bool:
        """Whether the unit can stay."""
        if fit_counts is not None and fit_counts.without(unit.tasks) < self._runs[0].left:
            return False
        self._limits.pop(unit, None)
        self._hunt.restore(unit)
        self._hunt.give_back(unit)
        limit = self._claim.limit(self._taken)
        if fit_counts is not None or self._places():
            if not limit:
                if fit_counts is not None:
                    fit_counts.update({task.node for task in unit.tasks})
                return True
            self._limits[unit] = limit
        self._hunt.evict(unit)
        self._taken.add(unit)
        self._claim.budgets.spend(unit.tasks)
        return False

    def _places(self) -> bool:
        _, left = place(self._trial, self._runs, self._claim.placing)
        self._trial.rollback()
        return left is None


MAX_UNITS = 10

_Rank = tuple[int, int, int, list[tuple[int, int, int, str]]]


def least_set(claim: EvictionClaim, units: list[Unit], most: int) -> Found | None:
    """The best set that takes queues less than `most` below what they deserve; None if no such set serves."""
    for _, chosen in sorted(_sets(claim, units, most)):
        places = _places(claim, chosen)
        if places is not None:
            return Found(chosen, places, {}, claim.placing)
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
    with claim.session.statement() as trial:
        for unit in chosen:
            trial.displace(unit.tasks)
        placed, left = place(trial, claim.runs(), claim.placing)
    return placed if left is None else None
