"""The fleet as events tell it: clusters as columns, sets, placements, decisions, and which placements are affected by
what.

Nothing is rebuilt: an event changes one cluster's slot, one record, one set. `affected` names the placements
for which anything may have changed since they were last decided; `place` looks at no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.api import kinds
from fairway.api.fleet import (
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PlacementDecision,
)
from fairway.clock import Micros
from fairway.fleet import facts, records, rules
from fairway.fleet.ledger import Ledger
from fairway.fleet.plan import FleetPlan, Outcome
from fairway.fleet.pool import ClusterPool, ClusterPools
from fairway.fleet.records import FLEET_KINDS, NO_SLOTS, FleetObject, Footing, Interest, Record
from fairway.fleet.rules import Key, Rules
from fairway.fleet.score_columns import AddOns
from fairway.fleet.scores import IntColumn
from fairway.fleet.scoring import Scorer
from fairway.fleet.sets import ClusterSets
from fairway.fleet.slices import same
from fairway.fleet.table import ClusterTable, ClusterUpdate, SlotLog
from fairway.resources import Resource
from fairway.state.aside import SetAside

MAX_GONE = 1000
"""Maximum missing clusters in the decisions of one placement that are still named when they leave."""
FEW_GONE = 64
"""This many placements, and as many as remain, may be deleted before their columns are dropped."""


class FleetState:
    """Feed it with `upsert` and `delete`; read it with `place`; return the plan with `apply`.

    `counts` is how many placements use each cluster. Every change of decisions has a number; `counted_at` and `held_at`
    keep, by slot, the number of the last one that changed the count or the ledger there.
    """

    def __init__(self, objects: Iterable[object] = ()) -> None:
        self.aside = SetAside()
        """Objects that could not be read."""
        self.table = ClusterTable()
        self.sets = ClusterSets()
        self.addons = AddOns()
        self.clusters: dict[str, ManagedCluster] = {}
        self.records: dict[Key, Record] = {}
        self._ledger = Ledger(self.table.size)
        self.counts: IntColumn = np.zeros(self.table.size, np.int64)
        self.pools = ClusterPools(self.table, self.sets, self.clusters, self.addons.score)
        self.scorer = Scorer(self.table, self.addons)
        self.counts_log = SlotLog()
        self.events = 0
        """The number of objects and plans so far."""
        self._interest = Interest()
        self._affected: set[Key] = set()
        self._suspects: set[Key] = set()
        """Placements with expressions whose result for a changed cluster may differ."""
        self._rechecks: dict[Key, Micros] = {}
        self._unread: set[Key] = set()
        """Placements whose decisions changed and were not read yet."""
        self._unknown: dict[Key, frozenset[str]] = {}
        """Names in decisions that belong to no cluster and have no slot."""
        self._changes = 0
        self._gone = 0
        self._overtaken: tuple[int, set[Key]] = (0, set())
        self._max_uses_at = 0
        self._counted_in: dict[bytes, tuple[ClusterPool, int, int]] = {}
        self._counted_at: IntColumn = np.zeros(self.table.size, np.int64)
        self._reserved_at: IntColumn = np.zeros(self.table.size, np.int64)
        for item in objects:
            self.upsert(item)

    @property
    def ledger(self) -> Ledger:
        """Includes all observed decisions."""
        self.read_decisions()
        return self._ledger

    def upsert(self, item: object) -> None:
        """An object was added or modified. Objects of other kinds change nothing.

        An object that cannot be read is set aside, and treated as absent.
        """
        if isinstance(item, FLEET_KINDS):
            self.events += 1
            self.aside.take(item, self._put, self._remove)

    def delete(self, item: object) -> None:
        """An object was deleted; only its name is used."""
        if isinstance(item, FLEET_KINDS):
            self.events += 1
            self._remove(item)
            self.aside.forget(lambda: kinds.key(item))

    def _put(self, item: FleetObject) -> None:
        match item:
            case ManagedCluster():
                self._put_cluster(item)
            case ManagedClusterSet():
                if self.sets.put(item):
                    self._affect_sets((item.metadata.name,))
            case ManagedClusterSetBinding():
                if self.sets.bind(item):
                    self._affected |= self._interest.within((item.metadata.namespace,))
            case Placement():
                self._put_placement(item)
            case PlacementDecision():
                self._put_decision(item)
            case AddOnPlacementScore():
                if self.addons.put(item):
                    self._affect_score(item.metadata.namespace, item.metadata.name)

    def _remove(self, item: FleetObject) -> None:
        match item:
            case ManagedCluster():
                self._remove_cluster(item.metadata.name)
            case ManagedClusterSet():
                if self.sets.remove(item.metadata.name):
                    self._affect_sets((item.metadata.name,))
            case ManagedClusterSetBinding():
                if self.sets.unbind(item.metadata.namespace, item.metadata.name):
                    self._affected |= self._interest.within((item.metadata.namespace,))
            case Placement():
                self._remove_placement((item.metadata.namespace, item.metadata.name))
            case PlacementDecision():
                self._remove_decision(item)
            case AddOnPlacementScore():
                if self.addons.remove(item.metadata.namespace, item.metadata.name):
                    self._affect_score(item.metadata.namespace, item.metadata.name)

    def affected(self, now: Micros) -> list[Key]:
        """The placements to decide, in the order of deciding."""
        return sorted(filter(self.is_active, self.affected_keys(now)))

    def is_active(self, key: Key) -> bool:
        return self.records[key].active

    def affected_keys(self, now: Micros) -> set[Key]:
        """The same in no order, including some that are not active."""
        self.read_decisions()
        found = self._affected | self._suspects
        found.update(key for key, instant in self._rechecks.items() if instant <= now)
        if self._overtaken[0] != self._changes:
            self._overtaken = self._changes, self._find_overtaken(now)
        found.update(self._overtaken[1])
        return found

    def is_overtaken(self, key: Key) -> bool:
        """Whether a placement is affected only by the decisions of others."""
        return key in self._overtaken[1] and key not in self._affected and key not in self._suspects

    def is_answered(self, key: Key) -> bool:
        """Whether all expressions of a placement are evaluated."""
        known = self.records[key].rules
        return known is None or known.kept or self.pools.is_answered(known)

    def answer(self, key: Key, most: int) -> int:
        """Evaluates expressions of a placement until about this many steps are spent; returns how many were. Fewer
        means that all are evaluated.
        """
        known = self.records[key].rules
        return 0 if known is None or known.kept else self.pools.answer(known, most)

    def stands(self, key: Key, now: Micros) -> bool:
        """Whether a placement is affected only by its expressions, and their results are unchanged."""
        record = self.records[key]
        if key not in self._suspects or record.rules is None:
            return False
        if key in self._affected or key in self._overtaken[1] or self._rechecks.get(key, now + 1) <= now:
            return False
        if record.rules.groups_by_expression or self.pools.of(record.rules, now).era != record.pool_era:
            return False
        self._suspects.discard(key)
        return True

    def rechecks(self) -> Iterable[tuple[Key, Micros]]:
        """When time alone will affect which placements."""
        return self._rechecks.items()

    def apply(self, plan: FleetPlan) -> None:
        """The plan is being carried out: from now on its decisions are current."""
        self.events += 1
        self.read_decisions()
        for outcome in plan.outcomes:
            record = self.records.get(outcome.key)
            if record is None:
                continue
            self._changes += 1
            self._settle(record, outcome)
            record.footing = self._footing(outcome)
            record.decided_at = self._changes
            record.pool_era = self.pools.last_era(outcome.rules)
            self._affected.discard(record.key)
            self._suspects.discard(record.key)
            self._rechecks.pop(record.key, None)
            if outcome.recheck_at is not None:
                self._rechecks[record.key] = outcome.recheck_at

    def _footing(self, outcome: Outcome) -> Footing | None:
        """Only if nothing else happened between the plan and now."""
        footing, view = outcome.footing, outcome.view
        if footing is None or view.events + 1 != self.events:
            return None
        footing.amounts_at, footing.counts_at = view.amounts_at, self.counts_log.end
        return footing

    def _settle(self, record: Record, outcome: Outcome) -> None:
        if outcome.basis is None:
            return
        if outcome.stands and record.slices is outcome.existing:
            return
        record.slices = {decision.metadata.name: decision for decision in outcome.slices}
        record.moved_at = outcome.moved_at
        reserved = outcome.rules.requirements if outcome.reserved else None
        chosen = outcome.chosen.tolist()
        self._choose(record, outcome.chosen, {} if reserved is None else dict.fromkeys(chosen, reserved))

    def _put_cluster(self, cluster: ManagedCluster) -> None:
        name = cluster.metadata.name
        before = self.table.facts[self.table.slots[name]] if name in self.table.slots else None
        after = facts.read(cluster)
        seen = self.sets.of_cluster(after) | (self.sets.of_cluster(before) if before else set())
        if name not in self.table.slots:
            self._unread.update(key for key, names in self._unknown.items() if name in names)
        change = self.table.put(after)
        slot = self.table.slots[name]
        self._fit()
        if not records.looks_the_same(cluster, self.clusters.get(name)):
            self.pools.cluster_changed(slot)
            self._suspect(seen)
        self.clusters[name] = cluster
        self._report(slot, after.usage, change)
        if before is not None and self.sets.of_cluster(before) != self.sets.of_cluster(after):
            change.standing = True
        self._affect_cluster(change, slot, seen)

    def _remove_cluster(self, name: str) -> None:
        if self.clusters.pop(name, None) is None:
            return
        slot = self.table.slots[name]
        before = self.table.facts[slot]
        assert before is not None
        seen = self.sets.of_cluster(before)
        change = self.table.remove(name)
        self.pools.cluster_changed(slot)
        self._report(slot, {}, change)
        self._affect_cluster(change, slot, seen)
        self._forget(slot)

    def _report(self, slot: int, usage: Mapping[str, Resource], change: ClusterUpdate) -> None:
        if change.usage:
            self._ledger.report(slot, usage)
            self._changes += 1
            self._reserved_at[slot] = self._changes

    def _affect_cluster(self, change: ClusterUpdate, slot: int, seen: set[str]) -> None:
        if not change:
            return
        selecting = bool(change.standing or change.labels or change.claims)
        verdicts: dict[bytes, bool] = {}
        for key in self._interest.concerned(change, self.sets.namespaces(seen)):
            known = self.records[key].rules
            assert known is not None
            selection = known.selection_key
            verdict = verdicts.get(selection)
            if verdict is None:
                verdict = verdicts[selection] = self._concerns(known, slot, seen, selecting)
            if verdict:
                self._affected.add(key)

    def _suspect(self, seen: set[str]) -> None:
        """Expressions may read any field: the placements that have some may choose among other clusters now."""
        for key in self._interest.evaluating(self.sets.namespaces(seen)):
            known = self.records[key].rules
            assert known is not None
            wanted = known.placement.spec.cluster_sets
            if not wanted or seen.intersection(wanted):
                self._suspects.add(key)

    def _concerns(self, known: Rules, slot: int, seen: set[str], selecting: bool) -> bool:
        """Whether a change of a cluster can affect placements that select as these rules do."""
        wanted = known.placement.spec.cluster_sets
        if wanted and not seen.intersection(wanted):
            return False
        return selecting or bool(known.expressions) or self.pools.may_choose(known, slot)

    def _affect_sets(self, names: Iterable[str]) -> None:
        self._affected |= self._interest.within(self.sets.namespaces(names))

    def _affect_score(self, cluster: str, resource: str) -> None:
        slot = self.table.slots.get(cluster)
        if slot is not None:
            self.pools.cluster_changed(slot)
            self._affected |= self._interest.watching(rules.SCORES)
        for key in self._interest.watching(("addon", resource)):
            known = self.records[key].rules
            if slot is not None and known is not None and self.pools.may_choose(known, slot):
                self._affected.add(key)

    def _put_placement(self, placement: Placement) -> None:
        placement = rules.with_annotations(placement)
        key = (placement.metadata.namespace, placement.metadata.name)
        record = self.records.get(key)
        if (
            record is not None
            and record.rules is not None
            and records.requests_the_same(record.rules.placement, placement)
        ):
            return  # most often its status was written
        read = rules.read(placement)
        record = self.records.setdefault(key, Record(key))
        if record.rules is not None:
            self._interest.remove(record.rules)
            if record.rules.selection_key != read.selection_key:
                self._forget_columns()
        elif record.slices:
            self._unread.add(key)
        record.rules = read
        record.footing = None
        self._interest.add(read)
        self.table.watch(read.watched)
        self._affected.add(read.key)

    def _remove_placement(self, key: Key) -> None:
        """Its decisions end with it, and its reserved capacity is released."""
        record = self.records.get(key)
        if record is None:
            return
        self._drop_record(key)
        self._changes += 1
        self._choose(record, NO_SLOTS, {})
        if record.rules is not None:
            self._interest.remove(record.rules)
        self._forget_columns()

    def _forget_columns(self) -> None:
        """Columns do not record for which placements they were made: when as many are deleted as remain, all are
        dropped.
        """
        self._gone += 1
        if self._gone >= FEW_GONE + len(self.records):
            self._gone = 0
            used = (record.rules.expressions for record in self.records.values() if record.rules is not None)
            self.pools.forget(frozenset(text for expressions in used for text in expressions))
            self._counted_in.clear()
            self.table.forget_codes()
            self.addons.forget_columns()

    def _put_decision(self, decision: PlacementDecision) -> None:
        key, name = records.owner(decision), decision.metadata.name
        record = self.records.setdefault(key, Record(key))
        if name not in record.slices or not same(record.slices[name], decision):
            self._see(record, {name: decision})

    def _remove_decision(self, decision: PlacementDecision) -> None:
        record = self.records.get(records.owner(decision))
        if record is not None and decision.metadata.name in record.slices:
            self._see(record, {decision.metadata.name: None})

    def _see(self, record: Record, changed: Mapping[str, PlacementDecision | None]) -> None:
        """Another program wrote decisions: they are current until the placement is decided again. Their effects are
        computed once for all that arrive together, which may be thousands.
        """
        if record.key not in self._unread:
            self._unread.add(record.key)
            record.slices = dict(record.slices)  # plans have the one that was
            record.footing = None
        for name, decision in changed.items():
            if decision is None:
                del record.slices[name]
            else:
                record.slices[name] = decision

    def read_decisions(self) -> None:
        """Applies observed decisions, before records, counts or the ledger are read."""
        unread, self._unread = sorted(self._unread), set()
        for key in unread:
            record = self.records[key]
            clusters, reserved, record.moved_at = records.recorded(record.slices)
            slots = self._slots_of(record, clusters)
            self._fit()
            self._changes += 1
            chosen = np.array(list(slots.values()), np.int64)
            self._choose(record, chosen, {slots[name]: amounts for name, amounts in reserved.items() if name in slots})
            self._affected.add(key)
            if record.rules is None and not record.slices:
                self._drop_record(key)

    def _slots_of(self, record: Record, clusters: Iterable[str]) -> dict[str, int]:
        """The slots of chosen clusters. A missing cluster also has a slot, so that its departure can be reported; but
        any program can write any names, so the number of these is limited, and decisions without a placement have none.
        """
        known = self.table.slots
        unknown = [name for name in clusters if name not in known]
        given = frozenset(unknown[:MAX_GONE]) if record.rules is not None else frozenset()
        self._unknown.pop(record.key, None)
        if len(given) < len(unknown):
            self._unknown[record.key] = frozenset(unknown) - given
        return {name: self.table.slot(name) for name in clusters if name in known or name in given}

    def _drop_record(self, key: Key) -> None:
        del self.records[key]
        self._unknown.pop(key, None)
        self._rechecks.pop(key, None)
        for keys in (self._unread, self._affected, self._suspects):
            keys.discard(key)

    def _choose(self, record: Record, chosen: IntColumn, reserved: dict[int, Resource]) -> None:
        """The only place where decisions change: counts, ledger and change numbers follow."""
        before, after = set(record.chosen.tolist()), set(chosen.tolist())
        record.chosen = chosen
        most = int(self.counts.max())
        for slot in before ^ after:
            self._counted_at[slot] = self._changes
            reached = int(self.counts[slot])
            self.counts[slot] += 1 if slot in after else -1
            self.counts_log.append(slot)
            if max(reached, int(self.counts[slot])) >= most - 1:
                self._max_uses_at = self._changes
        name = "/".join(record.key)
        for slot in record.reserved.keys() - reserved.keys():
            self._ledger.release(slot, name)
            self._reserved_at[slot] = self._changes
        for slot, amounts in reserved.items():
            if record.reserved.get(slot) != amounts:
                self._ledger.reserve(slot, name, amounts)
                self._reserved_at[slot] = self._changes
        record.reserved = reserved
        for slot in before - after:
            self._forget(slot)

    def _find_overtaken(self, now: Micros) -> set[Key]:
        """Placements that weigh Balance, or have requirements, and were decided before the decisions of others
        changed.
        """
        found: set[Key] = set()
        ever_reserved = bool(self._reserved_at.any())
        for group in self._interest.by_selection():
            some = self.records[next(iter(group))].rules
            assert some is not None
            if self.pools.is_answered(some):
                pool = self.pools.of(some, now)
                counted = self._last_counted(some.selection_key, pool)
                reserved = _latest(self._reserved_at, pool) if ever_reserved else 0
            else:  # which clusters they are is not known yet: as if it were all
                counted, reserved = int(self._counted_at.max()), int(self._reserved_at.max())
            for key in group:
                record = self.records[key]
                known, decided_at = record.rules, record.decided_at
                assert known is not None
                crowded = known.balance and max(counted, self._max_uses_at) > decided_at
                if crowded or (known.requires and reserved > decided_at):
                    found.add(key)
        return found

    def _last_counted(self, selection: bytes, pool: ClusterPool) -> int:
        """The number of the last change of a count in a pool."""
        known = self._counted_in.get(selection)
        slots = None if known is None or known[0] is not pool else self.counts_log.since(known[1])
        if known is None or slots is None:
            found = _latest(self._counted_at, pool)
        else:
            found = max([known[2], *(int(self._counted_at[slot]) for slot in slots if pool.mask[slot])])
        self._counted_in[selection] = pool, self.counts_log.end, found
        return found

    def _fit(self) -> None:
        """Extends the columns to the length of the table."""
        size = self.table.size
        if self.counts.size == size:
            return
        self._ledger.resize(size)
        self.counts, self._counted_at, self._reserved_at = (
            np.concatenate([column, np.zeros(size - column.size, np.int64)])
            for column in (self.counts, self._counted_at, self._reserved_at)
        )

    def _forget(self, slot: int) -> None:
        if not self.table.exists[slot] and not self.counts[slot] and self.table.names[slot]:
            self.table.forget(slot)

    def check(self) -> None:
        """InvariantError unless counts, ledger and decisions agree."""
        self.read_decisions()
        records.check(self.records.values(), self._ledger, self.counts)


def _latest(column: IntColumn, pool: ClusterPool) -> int:
    return int(column[pool.index].max()) if pool.index.size else 0
