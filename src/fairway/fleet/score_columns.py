"""Scores as columns over the clusters of a pool: what each prioritizer gives, their weighted sum, and the scores that
add-ons publish as AddOnPlacementScore objects in the namespace of each cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairway.api.fleet import AddOnPlacementScore
from fairway.clock import Micros, from_datetime
from fairway.fleet.names import PREFER_NO_SELECT
from fairway.fleet.scores import BEST, WORST, AmountScale, IntColumn, ScoreOf, Weights
from fairway.fleet.table import ClusterTable


@dataclass(frozen=True, slots=True)
class AddOnColumn:
    """One score over all clusters: 0 where it is missing or expired, for which `problems` has the reason.

    Valid from `since` until `until`, the next expiry.
    """

    values: IntColumn
    problems: dict[str, str]
    expiries: dict[str, Micros]
    since: Micros
    until: Micros | None
    stamp: tuple[int, int]

    def is_valid_at(self, now: Micros) -> bool:
        return self.since <= now and (self.until is None or now < self.until)


class AddOns:
    def __init__(self) -> None:
        self._scores: dict[str, dict[str, AddOnPlacementScore]] = {}
        self._stamps: dict[str, int] = {}
        self._changes = 0
        self._columns: dict[tuple[str, str], AddOnColumn] = {}

    def put(self, score: AddOnPlacementScore) -> bool:
        """Returns whether anything changed."""
        by_cluster = self._scores.setdefault(score.metadata.name, {})
        before = by_cluster.get(score.metadata.namespace)
        by_cluster[score.metadata.namespace] = score
        if before is not None and before.status == score.status:
            return False
        self._touch(score.metadata.name)
        return True

    def remove(self, cluster: str, resource: str) -> bool:
        self._touch(resource)
        by_cluster = self._scores.get(resource, {})
        known = by_cluster.pop(cluster, None) is not None
        if not by_cluster:
            self._forget(resource)
        return known

    def score(self, cluster: str, resource: str) -> AddOnPlacementScore | None:
        """The score that an add-on published for a cluster, expired or not."""
        return self._scores.get(resource, {}).get(cluster)

    def snapshot(self) -> ScoreOf:
        """`score` as of now, unaffected by later changes. The objects are shared; they are immutable."""
        kept = {resource: dict(found) for resource, found in self._scores.items()}
        return lambda cluster, resource: kept.get(resource, {}).get(cluster)

    def column(self, table: ClusterTable, resource: str, score: str, now: Micros) -> AddOnColumn:
        stamp = (self._stamps.get(resource, 0), table.selection)
        known = self._columns.get((resource, score))
        if known is not None and known.stamp == stamp and known.is_valid_at(now):
            return known
        made = self._columns[resource, score] = self._make(table, resource, score, now, stamp)
        return made

    def _make(self, table: ClusterTable, resource: str, score: str, now: Micros, stamp: tuple[int, int]) -> AddOnColumn:
        by_cluster = self._scores.get(resource, {})
        values = np.zeros(table.size, np.int64)
        problems: dict[str, str] = {}
        expiries: dict[str, Micros] = {}
        for name, slot in sorted(table.slots.items()):
            found = by_cluster.get(name)
            value = None if found is None else _value(found, score)
            if found is None or value is None:
                problems[name] = "is missing"
                continue
            valid_until = found.status.valid_until
            if valid_until is not None:
                if from_datetime(valid_until) <= now:
                    problems[name] = "has expired"
                    continue
                expiries[name] = from_datetime(valid_until)
            if not WORST <= value <= BEST:
                problems[name] = f"is {value}, outside {WORST} to {BEST}, and was limited"
            values[slot] = min(max(value, WORST), BEST)
        until = min(expiries.values(), default=None)
        return AddOnColumn(values, problems, expiries, now, until, stamp)

    def forget_columns(self) -> None:
        """They are computed again on demand."""
        self._columns.clear()

    def _touch(self, resource: str) -> None:
        """A stamp is never reused, not even for a resource that was forgotten in between."""
        self._changes += 1
        self._stamps[resource] = self._changes

    def _forget(self, resource: str) -> None:
        """No cluster has it any more."""
        self._scores.pop(resource, None)
        self._stamps.pop(resource, None)
        for known in [known for known in self._columns if known[0] == resource]:
            del self._columns[known]


def _value(found: AddOnPlacementScore, score: str) -> int | None:
    return next((item.value for item in found.status.scores if item.name == score), None)


class ScoreColumn:
    """The scores of one prioritizer for the clusters of a pool, in the order of its index; valid while `stamp` is.

    `scale` is what the scores are relative to, `logged` the end of the table's log of amounts, `seen` the number of
    changes of amounts when the stamp was last compared.
    """

    __slots__ = ("addon", "logged", "scale", "seen", "stamp", "values")

    def __init__(
        self,
        values: IntColumn,
        stamp: tuple[int, ...] = (),
        logged: int = 0,
        scale: AmountScale | None = None,
        addon: AddOnColumn | None = None,
    ) -> None:
        self.values = values
        self.stamp = stamp
        self.logged = logged
        self.seen = -1
        self.scale = scale
        self.addon = addon


class PrioritizerScores(NamedTuple):
    name: str
    weight: int
    column: ScoreColumn


class ScoreSum:
    """Columns by weight, summed on demand; valid while `stamp` is. An additional column without a weight is a penalty
    for taints.
    """

    __slots__ = ("_size", "_total", "_weights", "columns", "stamp")

    def __init__(self, size: int, stamp: tuple[int, object], weights: Weights, columns: list[ScoreColumn]) -> None:
        self.stamp = stamp
        self.columns = columns
        self._weights = weights
        self._size = size
        self._total: IntColumn | None = None

    @property
    def parts(self) -> tuple[PrioritizerScores, ...]:
        named = [(prioritizer.name, weight) for prioritizer, weight in self._weights]
        named += [(PREFER_NO_SELECT, 1)] * (len(self.columns) - len(named))
        pairs = zip(named, self.columns, strict=True)
        return tuple(PrioritizerScores(name, weight, column) for (name, weight), column in pairs)

    @property
    def total(self) -> IntColumn:
        """Do not modify."""
        if self._total is None:
            self._total = self._sum()
        return self._total

    def has_scales_of(self, other: ScoreSum) -> bool:
        """Whether scores have the same scales, for the same prioritizers."""
        if other is self:
            return True
        for one, another in zip(self.columns, other.columns, strict=True):
            if one is not another and one.scale != another.scale:
                return False
        return True

    def at(self, position: int) -> int:
        """The sum for one cluster."""
        if self._total is not None:
            return int(self._total[position])
        found = 0
        for (_, weight), column in zip(self._weights, self.columns, strict=False):
            found += weight * int(column.values[position])
        if len(self.columns) > len(self._weights):
            found += int(self.columns[-1].values[position])
        return found

    def _sum(self) -> IntColumn:
        total: IntColumn = np.zeros(self._size, np.int64)
        for part in self.parts:
            total += part.column.values if part.weight == 1 else part.weight * part.column.values
        return total
