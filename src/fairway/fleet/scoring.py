"""Score columns of a pool, made once and shared by the placements that weigh the same prioritizers.

Where the amounts of a few clusters changed, a column is repaired: a copy with their scores in it. That is possible
while the least and the most, which all scores are relative to, stay what they are.
"""

from __future__ import annotations

from fairway.clock import Micros
from fairway.fleet import scores
from fairway.fleet.pool import ClusterPool
from fairway.fleet.rules import Rules
from fairway.fleet.score_columns import AddOns, ScoreColumn, ScoreSum
from fairway.fleet.scores import BEST, WORST, AmountScale, By, IntColumn, Prioritizer
from fairway.fleet.table import ClusterTable, Kind

FEW = 8
"""Up to this many clusters are repaired one by one."""


class Scorer:
    def __init__(self, table: ClusterTable, addons: AddOns) -> None:
        self._table = table
        self._addons = addons

    def static(self, rules: Rules, pool: ClusterPool, now: Micros) -> ScoreSum:
        """All but Balance and Steady, and their weighted sum."""
        known = pool.sums.get(rules.static_key)
        stamp = (self._table.amounts_changes, pool.taint)
        if known is not None and known.stamp == stamp and rules.timeless:
            return known
        columns = []
        for key, (prioritizer, _) in zip(rules.column_keys, rules.static, strict=True):
            column = pool.columns.get(key)
            if column is None or column.seen != stamp[0]:
                column = self._column(key, prioritizer, rules.missing, pool, now)
            columns.append(column)
        if pool.penalty is not None:
            columns.append(pool.penalty)
        if known is not None and known.columns == columns:
            known.stamp = stamp
            return known
        made = pool.sums[rules.static_key] = ScoreSum(pool.index.size, stamp, rules.static, columns)
        return made

    def _column(self, key: str, prioritizer: Prioritizer, missing: int, pool: ClusterPool, now: Micros) -> ScoreColumn:
        known = pool.columns.get(key)
        if prioritizer.by is By.ADDON:
            addon = self._addons.column(self._table, prioritizer.resource, prioritizer.score, now)
            if known is None or known.addon is not addon:
                known = pool.columns[key] = ScoreColumn(addon.values[pool.index], addon=addon)
            return known
        kind: Kind = "free" if prioritizer.by is By.FREE else "allocatable"
        table, resource = self._table, prioritizer.resource
        stamp = (table.amounts_stamp(kind, resource), table.amounts_stamp("capacity", resource))
        if known is not None and known.stamp == stamp:
            known.seen = table.amounts_changes
            return known
        made = None if known is None else self._repaired(known, kind, prioritizer, missing, pool)
        if made is None:
            made = self._made(kind, prioritizer, missing, pool)
        made.stamp, made.logged, made.seen = stamp, table.amounts_log.end, table.amounts_changes
        pool.columns[key] = made
        return made

    def _made(self, kind: Kind, prioritizer: Prioritizer, missing: int, pool: ClusterPool) -> ScoreColumn:
        amounts = self._table.amounts(kind, prioritizer.resource)[pool.index]
        capacity = self._table.amounts("capacity", prioritizer.resource)[pool.index]
        if prioritizer.by is By.RATIO:
            return ScoreColumn(scores.by_ratio(amounts, capacity, missing))
        reports = amounts >= 0
        if _wants_capacity(prioritizer, missing):
            reports &= capacity >= 0
        scale = scores.scale_of(amounts, reports)
        return ScoreColumn(scores.by_amount(amounts, reports, scale, missing), scale=scale)

    def _repaired(
        self, known: ScoreColumn, kind: Kind, prioritizer: Prioritizer, missing: int, pool: ClusterPool
    ) -> ScoreColumn | None:
        """With the scores of the clusters that changed since; None if it has to be computed again."""
        slots = self._table.amounts_log.since(known.logged)
        if slots is None or len(slots) > FEW:
            return None
        values: IntColumn | None = None
        for slot in slots:
            if not pool.mask[slot]:
                continue
            position = pool.positions[slot]
            score = self._score(slot, int(known.values[position]), known.scale, kind, prioritizer, missing)
            if score is None:
                return None
            values = known.values.copy() if values is None else values
            values[position] = score
        return known if values is None else ScoreColumn(values, scale=known.scale)

    def _score(
        self, slot: int, before: int, scale: AmountScale | None, kind: Kind, prioritizer: Prioritizer, missing: int
    ) -> int | None:
        """The score of one cluster that had the score `before`; None if it was, or becomes, an end of the scale."""
        amount = int(self._table.amounts(kind, prioritizer.resource)[slot])
        capacity = int(self._table.amounts("capacity", prioritizer.resource)[slot])
        if prioritizer.by is By.RATIO:
            return scores.ratio(amount, capacity, missing)
        reports = amount >= 0 and (capacity >= 0 or not _wants_capacity(prioritizer, missing))
        if scale is None or not reports or not WORST < before < BEST:
            return None
        return scale.score(amount)


def _wants_capacity(prioritizer: Prioritizer, missing: int) -> bool:
    """OCM, whose numbers `missing` 0 selects, also requires the reported capacity."""
    return missing == 0 and prioritizer.by is By.ALLOCATABLE
