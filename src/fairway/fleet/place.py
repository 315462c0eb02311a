"""`place`: decide every affected placement of a fleet, in order, each seeing the decisions before it.

Filter, score, rank, cut, spread, divide replicas: on columns, one placement at a time. Nothing of the fleet
is changed; counts and ledger are worked on as copies.
"""

from __future__ import annotations

import numpy as np

from fairway.clock import Micros
from fairway.fleet import capacity, replicas, spread, taints
from fairway.fleet.capacity import ClusterCapacity
from fairway.fleet.decided import Ranking, View
from fairway.fleet.ledger import Ledger
from fairway.fleet.plan import FleetPlan, Outcome
from fairway.fleet.pool import ClusterPool
from fairway.fleet.records import Record
from fairway.fleet.rules import Rules
from fairway.fleet.scores import BEST, NEVER, IntColumn, balance_table, best, preference, ranked
from fairway.fleet.state import FleetState
from fairway.resources import Resource

_CPU = Resource({"cpu": 1})
"""Free without a size per replica divides by free CPU."""


def place(fleet: FleetState, now: Micros) -> FleetPlan:
    """Decide the placements that an event, or time, affected. The same fleet and instant give the same plan."""
    run = _Run(fleet, now)
    keys = fleet.affected(now)
    outcomes = tuple(run.decide(fleet.records[key]) for key in keys)
    decided = frozenset(keys)
    instants = [outcome.recheck_at for outcome in outcomes if outcome.recheck_at is not None]
    instants += [instant for key, instant in fleet.rechecks() if key not in decided]
    warnings = [text for facts in run.view.facts if facts is not None for text in facts.warnings]
    warnings = [*sorted(warnings), *fleet.aside.warnings()]
    return FleetPlan(now, outcomes, min(instants, default=None), tuple(warnings))


class _Run:
    """One call of `place`: the fleet as it is, and what this run has decided so far."""

    def __init__(self, fleet: FleetState, now: Micros) -> None:
        table = fleet.table
        self.fleet = fleet
        self.now = now
        self.counts = fleet.counts.copy()
        self.view = View(
            tuple(table.names),
            tuple(table.facts),
            dict(fleet.clusters),
            fleet.addons.snapshot(),
            table.rank,
            table.exists.copy(),
            table.available.copy(),
        )
        self._ledger: Ledger | None = None

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
        pool = self._readmit(rules, before, self.fleet.pools.of(rules, self.now))
        found = None
        if rules.requires:
            found = capacity.find(rules, self.fleet.table, self.ledger)
            pool = pool.narrowed(pool.mask & found.enough)
        ranking = self._rank(record, rules, pool, found)
        chosen = self._choose(rules, before, ranking)
        changed = _differ(before, chosen)
        if changed:
            self.counts[before] -= 1
            self.counts[chosen] += 1
        return self._outcome(record, rules, ranking, chosen, changed)

    def _keep(self, record: Record, rules: Rules) -> Outcome:
        """The last good decisions stay."""
        return Outcome(
            rules=rules,
            now=self.now,
            view=self.view,
            ranking=None,
            chosen=record.chosen,
            before=record.chosen,
            existing=record.slices,
            moved_at=record.moved_at,
            recheck_at=None,
            reserved={self.view.names[slot]: amounts for slot, amounts in record.reserved.items()},
        )

    def _readmit(self, rules: Rules, before: IntColumn, pool: ClusterPool) -> ClusterPool:
        """Chosen clusters stay in where only new ones are kept out: unavailable, or tainted NoSelectIfNew."""
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
        parts, totals = self.fleet.scorer.static(rules, pool, self.now)
        uses = self._uses(record.chosen)
        most = int(np.maximum.reduce(uses)) if rules.balance else 0
        if rules.balance:
            totals = totals + balance_table(most, rules.balance)[uses]
        if rules.steady and record.chosen.size:
            totals = totals if rules.balance else totals.copy()
            totals[record.chosen] += BEST * rules.steady
        gain, cooldown_until = max(rules.min_gain, 1 if rules.balance else 0), None
        if rules.cooldown and record.moved_at is not None and self.now < record.moved_at + rules.cooldown:
            gain, cooldown_until = NEVER, record.moved_at + rules.cooldown
        return Ranking(pool, parts, uses, most, totals, gain, cooldown_until, found)

    def _uses(self, own: IntColumn) -> IntColumn:
        """How many other placements use each cluster, as far as this run has come."""
        others = self.counts.copy()
        if own.size:
            others[own] -= 1
        return others

    def _choose(self, rules: Rules, before: IntColumn, ranking: Ranking) -> IntColumn:
        rank, index, count = self.view.rank, ranking.pool.index, rules.placement.spec.number_of_clusters
        keys = preference(ranking.totals, rank, index, before, ranking.gain)
        if rules.constraints:
            chosen = self._spread(rules, index[keys.argsort()], count)
        else:
            chosen = best(keys, index, count)
        return ranked(chosen, ranking.totals, rank)

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
            ranking=ranking,
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
        """Kept only where it is used, so that objects do not change for nothing."""
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
            if part.addon is not None and part.addon.expiries:
                passed = (self.view.names[slot] for slot in pool.index.tolist())
                instants += [part.addon.expiries[name] for name in passed if name in part.addon.expiries]
        if ranking.cooldown_until is not None and self._in_cooldown(record, rules, ranking, chosen):
            instants.append(ranking.cooldown_until)
        return min(instants, default=None)

    def _in_cooldown(self, record: Record, rules: Rules, ranking: Ranking, chosen: IntColumn) -> bool:
        """Whether the cooldown is what keeps the decision as it is."""
        gain = max(rules.min_gain, 1 if rules.balance else 0)
        free = self._choose(rules, record.chosen, ranking._replace(gain=gain))
        return _differ(free, chosen)

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
