"""`place`: decide every affected placement of a fleet, in order, each seeing the decisions before it.

Filter, score, rank, cut, spread, divide replicas: on columns, one placement at a time. Nothing of the fleet
is changed; counts and ledger are worked on as copies. Where a few clusters changed, a placement first tries whether its
decision stands as it is (see `footing`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.clock import Micros
from fairway.fleet import capacity, replicas, spread, taints
from fairway.fleet.capacity import ClusterCapacity
from fairway.fleet.decided import View
from fairway.fleet.ledger import Ledger
from fairway.fleet.plan import FleetPlan, Outcome
from fairway.fleet.pool import ClusterPool
from fairway.fleet.ranking import Ranking, RankingBasis
from fairway.fleet.records import MAX_CHANGED, Footing, Record, UseCounts
from fairway.fleet.rules import Key, Rules
from fairway.fleet.scores import NEVER, IntColumn, best, preference, ranked
from fairway.fleet.state import FleetState
from fairway.resources import Resource

_CPU = Resource({"cpu": 1})
"""Without a size per replica, Free divides by free CPU."""


def place(fleet: FleetState, now: Micros, keys: Sequence[Key] | None = None) -> FleetPlan:
    """Decides the placements that an event, or time, affected. The same fleet and instant give the same plan.

    `keys` are the first of those to decide: deciding and applying them in several plans gives the same as one plan.
    """
    keys = fleet.affected(now) if keys is None else keys
    fleet.read_decisions()
    run = _Run(fleet, now)
    outcomes = tuple(run.decide(fleet.records[key]) for key in keys)
    decided = frozenset(keys)
    instants = [outcome.recheck_at for outcome in outcomes if outcome.recheck_at is not None]
    instants += [instant for key, instant in fleet.rechecks() if key not in decided]
    warnings = [*sorted(fleet.table.warnings()), *fleet.aside.warnings()]
    return FleetPlan(now, outcomes, min(instants, default=None), tuple(warnings))


class _Run:
    """One call of `place`: the fleet, and the decisions of this run so far."""

    def __init__(self, fleet: FleetState, now: Micros) -> None:
        table = fleet.table
        self.fleet = fleet
        self.now = now
        self.uses = UseCounts(fleet.counts)
        self.view = View(
            tuple(table.names),
            tuple(table.facts),
            dict(fleet.clusters),
            fleet.addons.snapshot(),
            table.rank,
            table.exists.copy(),
            table.available.copy(),
            fleet.events,
            table.amounts_log.end,
            fleet.pools.answers_now(),
        )
        self._ledger: Ledger | None = None
        self._changed: dict[tuple[int, int], frozenset[int] | None] = {}

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self.fleet.ledger.copy()
        return self._ledger

    def decide(self, record: Record) -> Outcome:
        rules = record.rules
        assert rules is not None
        if rules.kept:
            return self._keep(record, rules)
        before = record.chosen
        shared = self.fleet.pools.of(rules, self.now)
        if record.footing is not None:
            standing = self._stand(record, rules, shared, record.footing)
            if standing is not None:
                return standing
        pool = self._readmit(rules, before, shared)
        found = None
        if rules.requires:
            found = capacity.find(rules, self.fleet.table, self.ledger)
            pool = pool.narrowed(pool.mask & found.enough)
        ranking = self._rank(record, rules, pool, found)
        own = pool.positions_of(before)
        keys = preference(ranking.totals, pool.ranks(self.view.rank), self.view.rank.size, own, ranking.gain)
        chosen = self._choose(rules, ranking, keys)
        changed = _differ(before, chosen)
        outcome = self._outcome(record, rules, ranking, chosen, changed)
        if changed:
            self.uses.move(before, chosen)
            self._changed.clear()
        elif rules.plain and pool is shared and not record.reserved and not pool.taint.ends:
            outcome.footing = self._footing(rules, ranking, chosen, keys)
        return outcome

    def _footing(self, rules: Rules, ranking: Ranking, chosen: IntColumn, keys: IntColumn) -> Footing:
        last = None
        if 0 < chosen.size < keys.size:
            last = int(keys[ranking.at(chosen)].max())
        slots = frozenset(chosen.tolist())
        return Footing(ranking.pool, slots, self.view.rank, ranking.static, ranking.max_uses, last)

    def _stand(self, record: Record, rules: Rules, pool: ClusterPool, footing: Footing) -> Outcome | None:
        """The previous decision, if no change can alter it."""
        if footing.pool is not pool or footing.rank is not self.view.rank:
            return None
        changed = self._changed_since(footing)
        if changed is None or not changed.isdisjoint(footing.chosen):
            return None
        static = self.fleet.scorer.static(rules, pool, self.now)
        if not footing.holds(rules, static, self.uses, changed):
            return None
        chosen = record.chosen
        basis = RankingBasis(rules, pool, static, self.uses.lend(), chosen, footing.max_uses, rules.gain)
        made = Outcome(rules, self.now, self.view, basis, chosen, chosen, record.slices, None, None, {})
        made.footing, made.stands = footing, True
        return made

    def _changed_since(self, footing: Footing) -> frozenset[int] | None:
        """The slots in which amounts or counts have changed; None if there are too many."""
        key = (footing.amounts_at, footing.counts_at)
        if key not in self._changed:
            amounts = self.fleet.table.amounts_log.since(footing.amounts_at)
            counts = self.fleet.counts_log.since(footing.counts_at)
            found = None if amounts is None or counts is None else amounts.union(counts, self.uses.moved)
            self._changed[key] = None if found is None or len(found) > MAX_CHANGED else found
        return self._changed[key]

    def _keep(self, record: Record, rules: Rules) -> Outcome:
        """Keeps the last good decisions."""
        return Outcome(
            rules=rules,
            now=self.now,
            view=self.view,
            basis=None,
            chosen=record.chosen,
            before=record.chosen,
            existing=record.slices,
            moved_at=record.moved_at,
            recheck_at=None,
            reserved={self.view.names[slot]: amounts for slot, amounts in record.reserved.items()},
        )

    def _readmit(self, rules: Rules, before: IntColumn, pool: ClusterPool) -> ClusterPool:
        """Chosen clusters stay where only new ones are excluded: unavailable, or tainted NoSelectIfNew."""
        if not before.size or pool.mask[before].all():
            return pool
        again = []
        for slot in before[~pool.mask[before]].tolist():
            facts = self.view.facts[slot]
            if facts is None or not (pool.candidates[slot] and pool.matched[slot]):
                continue
            tolerations = rules.placement.spec.tolerations
            if not taints.standing(facts.taints, tolerations, True, self.now).blocked:
                again.append(slot)
        if not again:
            return pool
        mask = pool.mask.copy()
        mask[again] = True
        return pool.narrowed(mask)

    def _rank(self, record: Record, rules: Rules, pool: ClusterPool, found: ClusterCapacity | None) -> Ranking:
        static = self.fleet.scorer.static(rules, pool, self.now)
        most = self.uses.max_without(record.chosen.tolist()) if rules.balance else 0
        gain, cooldown_until = rules.gain, None
        if rules.cooldown and record.moved_at is not None and self.now < record.moved_at + rules.cooldown:
            gain, cooldown_until = NEVER, record.moved_at + rules.cooldown
        before = record.chosen
        return RankingBasis(rules, pool, static, self.uses.counts, before, most, gain, cooldown_until, found).ranking()

    def _choose(self, rules: Rules, ranking: Ranking, keys: IntColumn) -> IntColumn:
        """The slots, in rank order. `keys` are by `preference`."""
        pool, rank, count = ranking.pool, self.view.rank, rules.placement.spec.number_of_clusters
        if rules.constraints:
            these = pool.positions[self._spread(rules, pool.index[keys.argsort()], count)]
        else:
            these = best(keys, count)
        return pool.index[ranked(these, ranking.totals, pool.ranks(rank), rank.size)]

    def _spread(self, rules: Rules, ordered: IntColumn, count: int | None) -> IntColumn:
        slots = ordered.tolist()
        places = []
        for slot in slots:
            facts = self.view.facts[slot]
            assert facts is not None
            places.append(tuple(spread.topology(constraint, facts) for constraint in rules.constraints))
        return np.array(spread.choose(slots, places, rules.constraints, count), np.int64)

    def _outcome(self, record: Record, rules: Rules, ranking: Ranking, chosen: IntColumn, changed: bool) -> Outcome:
        names, slots = self.view.names, chosen.tolist()
        overdrawn: list[str] = []
        if record.reserved or rules.requires:
            self._reserve(record, rules, slots)
            overdrawn = capacity.overdrawn(rules, self.fleet.table, self.ledger, slots)
        shares = None
        if rules.placement.spec.replicas is not None:
            shares = self._divide(rules, rules.placement.spec.replicas, slots)
        return Outcome(
            rules=rules,
            now=self.now,
            view=self.view,
            basis=ranking,
            chosen=chosen,
            before=record.chosen,
            existing=record.slices,
            moved_at=self._moved_at(record, rules, changed),
            recheck_at=self._recheck_at(record, rules, ranking, chosen),
            reserved={names[slot]: rules.requirements for slot in slots} if rules.requires else {},
            overdrawn=tuple(overdrawn),
            replicas=None if shares is None else tuple(shares),
            replicas_left=self._left(rules, shares),
        )

    def _reserve(self, record: Record, rules: Rules, slots: list[int]) -> None:
        kept = slots if rules.requires else []
        for slot in record.reserved.keys() - set(kept):
            self.ledger.release(slot, rules.name)
        for slot in kept:
            self.ledger.reserve(slot, rules.name, rules.requirements)

    def _moved_at(self, record: Record, rules: Rules, changed: bool) -> Micros | None:
        """Set only where it is used, so that objects do not change needlessly."""
        if not rules.cooldown:
            return None
        return self.now if changed else record.moved_at

    def _recheck_at(self, record: Record, rules: Rules, ranking: Ranking, chosen: IntColumn) -> Micros | None:
        instants = []
        pool = ranking.pool
        if pool.taint.ends:
            seen = pool.candidates & pool.matched
            instants += [instant for slot, instant in pool.taint.ends.items() if seen[slot]]
        for part in ranking.parts:
            addon = part.column.addon
            if addon is not None and addon.expiries:
                passed = (self.view.names[slot] for slot in pool.index.tolist())
                instants += [addon.expiries[name] for name in passed if name in addon.expiries]
        if ranking.cooldown_until is not None and self._in_cooldown(record, rules, ranking, chosen):
            instants.append(ranking.cooldown_until)
        return min(instants, default=None)

    def _in_cooldown(self, record: Record, rules: Rules, ranking: Ranking, chosen: IntColumn) -> bool:
        """Whether only the cooldown keeps the decision as it is."""
        pool, rank = ranking.pool, self.view.rank
        own = pool.positions_of(record.chosen)
        keys = preference(ranking.totals, pool.ranks(rank), rank.size, own, rules.gain)
        return _differ(self._choose(rules, ranking, keys), chosen)

    def _divide(self, rules: Rules, count: int, slots: list[int]) -> list[int]:
        strategy = rules.placement.spec.replica_strategy
        least, sized = strategy.min_per_cluster, bool(rules.per_replica.names())
        if strategy.type == "Weighted":
            weights = [strategy.weights.get(self.view.names[slot], 1) for slot in slots]
            return replicas.weighted(count, weights, least)
        if strategy.type == "Free":
            rooms = self._fitting(rules, slots, rules.per_replica if sized else _CPU)
            return replicas.free(count, rooms, least) if sized else replicas.weighted(count, rooms, least)
        if strategy.type == "Aggregated":
            fits = self._fitting(rules, slots, rules.per_replica) if sized else [None] * len(slots)
            return replicas.aggregated(count, fits, least)
        return [count] * len(slots)

    def _fitting(self, rules: Rules, slots: list[int], size: Resource) -> list[int]:
        return capacity.fitting(rules, self.fleet.table, self.ledger, slots, size)

    def _left(self, rules: Rules, shares: list[int] | None) -> int:
        strategy, count = rules.placement.spec.replica_strategy, rules.placement.spec.replicas
        if shares is None or count is None or strategy.type in ("", "Duplicated"):
            return 0
        return count - sum(shares)


def _differ(one: IntColumn, other: IntColumn) -> bool:
    return one.size != other.size or set(one.tolist()) != set(other.tolist())
