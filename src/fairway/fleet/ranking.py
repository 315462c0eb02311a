"""The columns behind a decision: what each prioritizer gave, their sum, and how often others use each cluster."""

from __future__ import annotations

from typing import NamedTuple

from fairway.clock import Micros
from fairway.fleet.capacity import ClusterCapacity
from fairway.fleet.pool import ClusterPool
from fairway.fleet.rules import Rules
from fairway.fleet.score_columns import PrioritizerScores, ScoreSum
from fairway.fleet.scores import BEST, IntColumn, balance_table


class Ranking(NamedTuple):
    """Columns over the clusters that passed, in the order of `pool.index`. `gain` is the advantage that a new cluster
    needed.

    `uses` is how many other placements use each cluster; `max_uses` the maximum of any cluster, passed or not.
    """

    pool: ClusterPool
    static: ScoreSum
    uses: IntColumn
    max_uses: int
    totals: IntColumn
    gain: int
    cooldown_until: Micros | None
    capacity: ClusterCapacity | None

    @property
    def parts(self) -> tuple[PrioritizerScores, ...]:
        return self.static.parts

    def at(self, slots: IntColumn) -> IntColumn:
        """The positions of these clusters, which passed, in the columns."""
        return self.pool.positions[slots]

    def points(self, slot: int) -> int:
        return int(self.totals[self.pool.positions[slot]])


class RankingBasis(NamedTuple):
    """All that a ranking is computed from. `before` are the slots chosen so far, `counts` is by slot.

    It is immutable, so a ranking that is never read need not be computed.
    """

    rules: Rules
    pool: ClusterPool
    static: ScoreSum
    counts: IntColumn
    before: IntColumn
    max_uses: int
    gain: int
    cooldown_until: Micros | None = None
    capacity: ClusterCapacity | None = None

    def ranking(self) -> Ranking:
        pool, rules = self.pool, self.rules
        own = pool.positions_of(self.before)
        uses: IntColumn = self.counts[pool.index]
        if own.size:
            uses[own] -= 1
        totals = self.static.total
        if rules.balance:
            totals = totals + balance_table(self.max_uses, rules.balance)[uses]
        if rules.steady and own.size:
            totals = totals if rules.balance else totals.copy()
            totals[own] += BEST * rules.steady
        return Ranking(pool, self.static, uses, self.max_uses, totals, self.gain, self.cooldown_until, self.capacity)
