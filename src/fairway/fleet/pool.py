"""Which clusters may be chosen: the filters as columns, kept for as long as nothing they depend on changes.

Placements with the same sets, predicates and tolerations in a namespace share a `ClusterPool`, and with it the score
columns that are relative to the clusters that passed. All columns in a pool are written once and never after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairway.api.fleet import ClusterPredicate, ClusterSelector, ManagedCluster, PlacementToleration
from fairway.clock import Micros
from fairway.fleet import taints
from fairway.fleet.expressions import AnswerOf, ExpressionAnswers, Question
from fairway.fleet.rules import Rules
from fairway.fleet.score_columns import ScoreColumn, ScoreSum
from fairway.fleet.scores import WORST, BoolColumn, IntColumn, ScoreOf
from fairway.fleet.sets import ClusterSets, selector_mask
from fairway.fleet.table import ClusterTable


class EligibleSets(NamedTuple):
    """The existing sets bound to a namespace, and those of them that a placement chooses from."""

    bound: tuple[str, ...]
    names: tuple[str, ...]


class TaintColumns:
    """The effect of taints on one list of tolerations, for a cluster that is not chosen yet."""

    def __init__(self, size: int, since: Micros) -> None:
        self.tolerated: BoolColumn = np.ones(size, np.bool_)
        self.penalty: IntColumn | None = None
        self.ends: dict[int, Micros] = {}
        self.since = since
        self.until: Micros | None = None

    def is_valid_at(self, now: Micros) -> bool:
        return self.until is None or self.since <= now < self.until


class ClusterPool:
    """The clusters that passed the filters that do not depend on the placement itself.

    `index` are their slots; columns of scores are in its order, and `positions` maps a slot to its position in them.
    """

    def __init__(
        self,
        sets: EligibleSets,
        candidates: BoolColumn,
        matched: BoolColumn,
        taint: TaintColumns,
        mask: BoolColumn,
    ) -> None:
        self.sets = sets
        self.candidates = candidates
        self.matched = matched
        self.taint = taint
        self.mask = mask
        self.index: IntColumn = np.flatnonzero(mask)
        self.era = 0
        """Of the pools of equal rules: unchanged while the same clusters pass."""
        self.columns: dict[str, ScoreColumn] = {}
        self.sums: dict[str, ScoreSum] = {}
        self._ranks: tuple[IntColumn, IntColumn] | None = None

    @cached_property
    def positions(self) -> IntColumn:
        """By slot; undefined for slots that did not pass."""
        made = np.zeros(self.mask.size, np.int64)
        made[self.index] = np.arange(self.index.size)
        return made

    def positions_of(self, slots: IntColumn) -> IntColumn:
        """The positions of those slots that passed."""
        return self.positions[slots[self.mask[slots]]] if slots.size else slots

    @cached_property
    def penalty(self) -> ScoreColumn | None:
        penalty = self.taint.penalty
        return None if penalty is None else ScoreColumn(penalty[self.index])

    def ranks(self, rank: IntColumn) -> IntColumn:
        """The ranks of the names, from those of all slots. Do not modify."""
        known = self._ranks
        if known is None or known[0] is not rank:
            known = self._ranks = rank, rank[self.index]
        return known[1]

    def narrowed(self, mask: BoolColumn) -> ClusterPool:
        """The same filters with another result, for one placement only."""
        return ClusterPool(self.sets, self.candidates, self.matched, self.taint, mask)


class ClusterPools:
    def __init__(
        self, table: ClusterTable, sets: ClusterSets, clusters: dict[str, ManagedCluster], scores: ScoreOf
    ) -> None:
        self._table = table
        self._sets = sets
        self._cluster_events = 0
        self._eras = 0
        self._pools: dict[bytes, tuple[tuple[int, ...], ClusterPool]] = {}
        self._candidates: dict[bytes, tuple[tuple[int, ...], BoolColumn]] = {}
        self._matched: dict[bytes, tuple[tuple[int, ...], BoolColumn]] = {}
        self._taints: dict[bytes, tuple[int, TaintColumns]] = {}
        self._answers = ExpressionAnswers(table, clusters, scores)

    def cluster_changed(self, slot: int) -> None:
        """Called for any change: an expression may read any field."""
        self._cluster_events += 1
        self._answers.cluster_changed(slot)

    def forget(self, expressions: Collection[str]) -> None:
        """Drops all columns except the results of these expressions, which may have been expensive."""
        for known in (self._pools, self._candidates, self._matched, self._taints):
            known.clear()
        self._answers.keep(expressions)

    # -- expressions -------------------------------------------------------------------------------------------

    def is_answered(self, rules: Rules) -> bool:
        """Whether all expressions are evaluated."""
        return not rules.expressions or next(self._questions(rules), None) is None

    def answer(self, rules: Rules, most: int) -> int:
        """Evaluates expressions of a placement until about this many steps are spent; returns how many were."""
        return self._answers.work_out(self._questions(rules), most)

    def answers_now(self) -> AnswerOf:
        """The known results, valid until a cluster changes."""
        events = self._cluster_events
        return lambda expression, slot: (
            self._answers.known(expression, slot) if events == self._cluster_events else None
        )

    def _questions(self, rules: Rules) -> Iterator[Question]:
        """The unknown results in the order in which they are needed: for clusters that an earlier expression excludes,
        later ones are not evaluated.
        """
        for selector in rules.selectors:
            expressions = selector.cel_selector.cel_expressions
            mask = self._named(selector) & self._table.exists if expressions else self._table.exists
            for expression in expressions:
                yield from self._answers.unknown(expression, mask)
                mask = self._answers.satisfied(expression, mask)

    # -- columns -----------------------------------------------------------------------------------------------

    def of(self, rules: Rules, now: Micros) -> ClusterPool:
        stamp = (
            self._table.selection,
            self._sets.stamp,
            self._cluster_events if rules.expressions else 0,
        )
        known = self._pools.get(rules.selection_key)
        if known is not None and known[0] == stamp and known[1].taint.is_valid_at(now):
            return known[1]
        made = self._make(rules, stamp, now)
        if known is not None and np.array_equal(known[1].mask, made.mask):
            made.columns, made.sums = known[1].columns, known[1].sums
        if known is not None and _are_alike(known[1], made):
            made.era = known[1].era
        else:
            self._eras += 1
            made.era = self._eras
        self._pools[rules.selection_key] = stamp, made
        return made

    def last_era(self, rules: Rules) -> int:
        """The era of the last pool; 0 if there was none."""
        known = self._pools.get(rules.selection_key)
        return 0 if known is None else known[1].era

    def may_choose(self, rules: Rules, slot: int) -> bool:
        """Whether a cluster was eligible in the last pool; true if that is not known."""
        known = self._pools.get(rules.selection_key)
        if known is None or slot >= known[1].mask.size:
            return True
        pool = known[1]
        return bool(pool.mask[slot] or (pool.candidates[slot] and pool.matched[slot]))

    def _eligible(self, rules: Rules) -> EligibleSets:
        bound = self._sets.bound(rules.key[0])
        wanted = rules.placement.spec.cluster_sets
        return EligibleSets(bound, tuple(name for name in bound if name in wanted) if wanted else bound)

    def _make(self, rules: Rules, stamp: tuple[int, ...], now: Micros) -> ClusterPool:
        candidates = self._candidate_column(rules, stamp[:2])
        matched = self._matched_column(rules, (stamp[0], stamp[2]))
        taint = self._taint_columns(rules, now)
        mask = candidates & matched & taint.tolerated & self._table.available
        return ClusterPool(self._eligible(rules), candidates, matched, taint, mask)

    def _candidate_column(self, rules: Rules, stamp: tuple[int, ...]) -> BoolColumn:
        key = rules.sets_key
        known = self._candidates.get(key)
        if known is None or known[0] != stamp:
            members = self._sets.members(self._table, self._eligible(rules).names)
            known = self._candidates[key] = stamp, members & self._table.choosable
        return known[1]

    def _matched_column(self, rules: Rules, stamp: tuple[int, ...]) -> BoolColumn:
        key = rules.predicates_key
        known = self._matched.get(key)
        if known is None or known[0] != stamp:
            known = self._matched[key] = stamp, self._match(rules.placement.spec.predicates)
        return known[1]

    def _match(self, predicates: Sequence[ClusterPredicate]) -> BoolColumn:
        """Any of the terms; no terms match all."""
        if not predicates:
            return np.ones(self._table.size, np.bool_)
        terms = [self._term(predicate.required_cluster_selector) for predicate in predicates]
        matched: BoolColumn = np.logical_or.reduce(terms)
        return matched

    def _term(self, selector: ClusterSelector) -> BoolColumn:
        mask = self._named(selector)
        for expression in selector.cel_selector.cel_expressions:
            mask = self._answers.satisfying(expression, mask & self._table.exists)
        return mask

    def _named(self, selector: ClusterSelector) -> BoolColumn:
        """By labels and claims."""
        labels = selector.label_selector
        mask = selector_mask(self._table, "label", labels.match_labels, labels.match_expressions)
        if selector.claim_selector.match_expressions:
            mask &= selector_mask(self._table, "claim", {}, selector.claim_selector.match_expressions)
        return mask

    def _taint_columns(self, rules: Rules, now: Micros) -> TaintColumns:
        key = rules.tolerations_key
        known = self._taints.get(key)
        if known is None or known[0] != self._table.selection or not known[1].is_valid_at(now):
            made = self._taint(rules.placement.spec.tolerations, now)
            known = self._taints[key] = self._table.selection, made
        return known[1]

    def _taint(self, tolerations: Sequence[PlacementToleration], now: Micros) -> TaintColumns:
        made = TaintColumns(self._table.size, now)
        for slot in sorted(self._table.tainted):
            facts = self._table.facts[slot]
            assert facts is not None
            standing = taints.standing(facts.taints, tolerations, False, now)
            made.tolerated[slot] = not standing.blocked
            if standing.disliked:
                if made.penalty is None:
                    made.penalty = np.zeros(self._table.size, np.int64)
                made.penalty[slot] = WORST
            if standing.until is not None:
                made.ends[slot] = standing.until
        made.until = min(made.ends.values(), default=None)
        return made


def _are_alike(one: ClusterPool, other: ClusterPool) -> bool:
    columns = ((one.mask, other.mask), (one.matched, other.matched), (one.candidates, other.candidates))
    return all(np.array_equal(before, after) for before, after in columns)
