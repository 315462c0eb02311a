"""Score columns of a pool, made once and shared by the placements that weigh the same prioritizers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.clock import Micros
from fairway.fleet import scores
from fairway.fleet.addons import AddOns
from fairway.fleet.names import PREFER_NO_SELECT
from fairway.fleet.pool import ClusterPool, PrioritizerScores, ScoreSum
from fairway.fleet.prioritizers import By, Prioritizer
from fairway.fleet.rules import Rules
from fairway.fleet.scores import IntColumn
from fairway.fleet.table import ClusterTable, Kind


class Scorer:
    def __init__(self, table: ClusterTable, addons: AddOns) -> None:
        self._table = table
        self._addons = addons
        self._ratios: dict[tuple[str, int], tuple[int, IntColumn]] = {}

    def static(self, rules: Rules, pool: ClusterPool, now: Micros) -> tuple[tuple[PrioritizerScores, ...], IntColumn]:
        """All but Balance and Steady, and their weighted sum; neither may be written to."""
        known = pool.sums.get(rules.static_key)
        stamp = (self._table.amounts_changes, pool.taint)
        if known is not None and known.stamp == stamp and rules.timeless:
            return known.parts, known.total
        parts = [self._part(prioritizer, weight, rules.missing, pool, now) for prioritizer, weight in rules.static]
        if pool.taint.penalty is not None:
            parts.append(PrioritizerScores(PREFER_NO_SELECT, 1, pool.taint.penalty))
        total = known.total if known is not None and _same(known.parts, parts) else self._sum(parts)
        pool.sums[rules.static_key] = ScoreSum(stamp, tuple(parts), total)
        return tuple(parts), total

    def _sum(self, parts: list[PrioritizerScores]) -> IntColumn:
        if not parts:
            return np.zeros(self._table.size, np.int64)
        total: IntColumn = parts[0].weight * parts[0].column
        for part in parts[1:]:
            total += part.weight * part.column
        return total

    def _part(
        self, prioritizer: Prioritizer, weight: int, missing: int, pool: ClusterPool, now: Micros
    ) -> PrioritizerScores:
        if prioritizer.by is By.ADDON:
            addon = self._addons.column(self._table, prioritizer.resource, prioritizer.score, now)
            return PrioritizerScores(prioritizer.name, weight, addon.values, addon)
        if prioritizer.by is By.RATIO:
            return PrioritizerScores(prioritizer.name, weight, self._ratio(prioritizer.resource, missing))
        kind: Kind = "free" if prioritizer.by is By.FREE else "allocatable"
        return PrioritizerScores(prioritizer.name, weight, self._amount(kind, prioritizer, missing, pool))

    def _amount(self, kind: Kind, prioritizer: Prioritizer, missing: int, pool: ClusterPool) -> IntColumn:
        """Relative to the pool. OCM, whose numbers `missing` 0 asks for, also wants the capacity reported."""
        resource, table = prioritizer.resource, self._table
        stamp = (table.amounts_stamp(kind, resource), table.amounts_stamp("capacity", resource), missing)
        known = pool.columns.get(prioritizer.name)
        if known is not None and known[0] == stamp:
            return known[1]
        amounts = table.amounts(kind, resource)
        reports = amounts >= 0
        if missing == 0 and kind == "allocatable":
            reports &= table.amounts("capacity", resource) >= 0
        made = scores.by_amount(amounts, reports, pool.mask, missing)
        pool.columns[prioritizer.name] = stamp, made
        return made

    def _ratio(self, resource: str, missing: int) -> IntColumn:
        known = self._ratios.get((resource, missing))
        if known is None or known[0] != self._table.amounts_changes:
            allocatable = self._table.amounts("allocatable", resource)
            capacity = self._table.amounts("capacity", resource)
            made = scores.by_ratio(allocatable, capacity, missing)
            known = self._ratios[resource, missing] = self._table.amounts_changes, made
        return known[1]


def _same(before: Sequence[PrioritizerScores], after: Sequence[PrioritizerScores]) -> bool:
    """Whether they are of the very same columns; weights are part of the key."""
    return len(before) == len(after) and all(
        one.column is other.column for one, other in zip(before, after, strict=True)
    )
