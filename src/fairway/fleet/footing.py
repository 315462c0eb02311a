"""What a decision stands on, so that a change of a few clusters can be compared with it instead of deciding again.

A placement that chooses by points alone keeps its decision, and all its points, if

- it chooses among the same clusters, and what their scores are relative to is the same;
- nothing changed in the clusters that it chose;
- no cluster that did change comes before the last one that it chose.

That is exact, and it takes one comparison for each cluster that changed. `Footing` is made when a decision turns out to
be the one that was there before: only then are the points that chosen clusters have for being chosen in it. It goes on
when that decision stands again, with nothing altered but where the logs of changes are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.fleet.columns import ScoreSum
from fairway.fleet.pool import ClusterPool
from fairway.fleet.rules import Rules
from fairway.fleet.scores import IntColumn, balance_table, span
from fairway.fleet.uses import UseCounts

MOST_CHANGED = 16
"""More clusters are not compared one by one."""


@dataclass(slots=True, eq=False)
class Footing:
    """`chosen` are the slots of the decision; `last` is the key of the one of them that comes last, None where nothing
    can come before it (all clusters are chosen, or none is to be). `amounts_at` and `counts_at` are places in the logs
    of changes.
    """

    pool: ClusterPool
    chosen: frozenset[int]
    rank: IntColumn
    static: ScoreSum
    max_uses: int
    last: int | None
    amounts_at: int = -1
    counts_at: int = -1

    def holds(self, rules: Rules, static: ScoreSum, uses: UseCounts, changed: Iterable[int]) -> bool:
        """Whether the decision stands; `changed` are slots that it did not choose, `static` are the scores now."""
        most = uses.max_without(self.chosen) if rules.balance else 0
        if most != self.max_uses or not static.has_scales_of(self.static):
            return False
        if self.last is None:
            return True
        given = balance_table(most, rules.balance) if rules.balance else None
        pool, wide = self.pool, 2 * span(self.rank.size)
        for slot in changed:
            if pool.mask[slot]:
                points = static.at(int(pool.positions[slot]))
                if given is not None:
                    points += int(given[uses.counts[slot]])
                if int(self.rank[slot]) - points * wide < self.last:
                    return False
        return True
