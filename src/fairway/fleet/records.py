"""What is kept of placements between plans: the record of each, the footing of its decision, how many placements use
each cluster, and which placements an event can affect (by index, without visiting each of them).

A footing is what a decision stands on, so that a change of a few clusters can be compared with it instead of deciding
again. A placement that chooses by points alone keeps its decision, and all its points, if

- it chooses among the same clusters, and what their scores are relative to is the same;
- nothing changed in the clusters that it chose;
- no cluster that did change comes before the last one that it chose.

That is exact, and it takes one comparison for each cluster that changed. `Footing` is made when a decision turns out to
be the one that was there before: only then does it include the points that chosen clusters have for being chosen. It is
kept while that decision stands, with nothing altered but the positions in the logs of changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import numpy as np
from msgspec.structs import replace

from fairway.api.fleet import (
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PlacementDecision,
)
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError, InvariantError
from fairway.fleet.facts import read_resources
from fairway.fleet.ledger import MAX_RESERVED, Ledger
from fairway.fleet.names import LEDGER, MOVED_AT, PLACEMENT_LABEL
from fairway.fleet.pool import ClusterPool
from fairway.fleet.rules import Key, Rules
from fairway.fleet.score_columns import ScoreSum
from fairway.fleet.scores import IntColumn, balance_table, span
from fairway.fleet.table import ClusterUpdate
from fairway.resources import Resource


class UseCounts:
    """By slot. `moved` are the slots whose counts the run has changed, as `FleetState.apply` will change them."""

    def __init__(self, counts: IntColumn) -> None:
        self.counts = counts.copy()
        self.moved: list[int] = []
        self._lent = False
        self._busiest: tuple[int, frozenset[int]] | None = None

    def lend(self) -> IntColumn:
        """The current counts, which will not change."""
        self._lent = True
        return self.counts

    def move(self, before: IntColumn, chosen: IntColumn) -> None:
        """A placement moves from one set of clusters to another."""
        if self._lent:
            self.counts, self._lent = self.counts.copy(), False
        self.counts[before] -= 1
        self.counts[chosen] += 1
        self.moved += set(before.tolist()).symmetric_difference(chosen.tolist())
        self._busiest = None

    def max_without(self, own: Collection[int]) -> int:
        """How often other placements use the cluster that they use most; `own` are the clusters of the placement
        itself.
        """
        if not own:
            return int(np.maximum.reduce(self.counts))
        if self._busiest is None:
            most = int(np.maximum.reduce(self.counts))
            self._busiest = most, frozenset((self.counts == most).nonzero()[0].tolist())
        most, slots = self._busiest
        if len(slots) > len(own) or not slots.issubset(own):
            return most
        others = self.counts.copy()
        others[list(own)] -= 1
        return int(np.maximum.reduce(others))


MAX_CHANGED = 16
"""Above this number, clusters are not compared one by one."""


@dataclass(slots=True, eq=False)
class Footing:
    """`chosen` are the slots of the decision; `last` is the key of the last one in order, None if nothing can come
    before it (all clusters are chosen, or none is requested). `amounts_at` and `counts_at` are positions in the logs of
    changes.
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
        """Whether the decision stands; `changed` are slots that it did not choose, `static` are the current scores."""
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


FleetObject = (
    ManagedCluster | ManagedClusterSet | ManagedClusterSetBinding | Placement | PlacementDecision | AddOnPlacementScore
)
FLEET_KINDS = get_args(FleetObject)
NO_SLOTS: IntColumn = np.zeros(0, np.int64)
_NUMBERED = re.compile(r"(.+)-decision-\d+")


@dataclass(slots=True)
class Record:
    """`rules` is None if only decisions are known. `chosen` are slots, `reserved` the ledger's entries by slot.

    `decided_at` is the number of the change after which it was last decided; -1 for never. `footing` is what that
    decision stands on; None if that is not known.
    """

    key: Key
    rules: Rules | None = None
    chosen: IntColumn = field(default_factory=lambda: NO_SLOTS)
    reserved: dict[int, Resource] = field(default_factory=dict)
    moved_at: Micros | None = None
    decided_at: int = -1
    pool_era: int = 0
    """The era of the clusters among which it chose."""
    footing: Footing | None = None
    slices: dict[str, PlacementDecision] = field(default_factory=dict)
    """The PlacementDecisions by name: as observed, or as the last applied plan has them."""

    @property
    def active(self) -> bool:
        """Whether there is anything to decide."""
        return self.rules is not None and self.rules.placement.metadata.deletion_timestamp is None


def owner(decision: PlacementDecision) -> Key:
    """The placement a PlacementDecision belongs to: by its label, or by its name where it has none."""
    named = _NUMBERED.fullmatch(decision.metadata.name)
    fallback = named[1] if named else decision.metadata.name
    return decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, fallback)


def _sane(amounts: Resource) -> bool:
    return all(amount <= MAX_RESERVED for amount in amounts.amounts.values())


def recorded(slices: Mapping[str, PlacementDecision]) -> tuple[list[str], dict[str, Resource], Micros | None]:
    """Which clusters are chosen, what is reserved in each, and when that last changed; unreadable records are
    ignored.
    """
    clusters: dict[str, None] = {}
    reserved: dict[str, Resource] = {}
    moved: list[Micros] = []
    for _, decision in sorted(slices.items()):
        names = [item.cluster_name for item in decision.status.decisions]
        clusters.update(dict.fromkeys(names))
        annotations = decision.metadata.annotations
        entries = read_resources(LEDGER, annotations.get(LEDGER, "{}"), [])
        reserved.update({name: amounts for name, amounts in entries.items() if name in names and _sane(amounts)})
        try:
            moved.append(parse_rfc3339(annotations[MOVED_AT]))
        except (KeyError, InputError):
            continue
    return list(clusters), reserved, max(moved, default=None)


def looks_the_same(cluster: ManagedCluster, before: ManagedCluster | None) -> bool:
    """For expressions, which do not read the resource version."""
    if before is None:
        return False
    version = cluster.metadata.resource_version
    return cluster == replace(before, metadata=replace(before.metadata, resource_version=version))


def requests_the_same(before: Placement, after: Placement) -> bool:
    def asked(placement: Placement) -> tuple[Any, ...]:
        metadata = placement.metadata
        deleted = metadata.deletion_timestamp is not None
        return placement.spec, metadata.annotations, deleted, placement.api_version, metadata.uid

    return asked(before) == asked(after)


def check(known: Iterable[Record], ledger: Ledger, counts: IntColumn) -> None:
    """InvariantError unless counts, ledger and decisions agree."""
    ledger.check()
    expected, number = np.zeros(counts.size, np.int64), 0
    for record in known:
        expected[record.chosen] += 1
        number += len(record.reserved)
        for slot, amounts in record.reserved.items():
            entry = ledger.entry(slot, "/".join(record.key))
            if entry is None or entry.reserved != amounts:
                raise InvariantError(f"{record.key} holds {amounts} in slot {slot}, the ledger has {entry}")
    if not np.array_equal(expected, counts):
        raise InvariantError(f"counts are {counts.tolist()}, decisions give {expected.tolist()}")
    entries = sum(1 for slot in ledger.slots() for _ in ledger.entries(slot))
    if entries != number:
        raise InvariantError(f"the ledger has {entries} entries, not those of the decisions")


T = TypeVar("T")


class Interest:
    """Placements by namespace and by what they watch."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, set[Key]] = {}
        self._watchers: dict[tuple[str, str], dict[str, set[Key]]] = {}
        self._by_selection: dict[object, set[Key]] = {}

    def add(self, rules: Rules) -> None:
        """Placements that keep their decisions anyway watch nothing."""
        if rules.kept:
            return
        self._by_namespace.setdefault(rules.key[0], set()).add(rules.key)
        for watched in rules.watched:
            self._watchers.setdefault(watched, {}).setdefault(rules.key[0], set()).add(rules.key)
        if rules.balance or rules.requires:
            self._by_selection.setdefault(rules.selection_key, set()).add(rules.key)

    def remove(self, rules: Rules) -> None:
        if rules.kept:
            return
        _drop(self._by_namespace, rules.key[0], rules.key)
        for watched in rules.watched:
            by_namespace = self._watchers.get(watched, {})
            _drop(by_namespace, rules.key[0], rules.key)
            if not by_namespace:
                self._watchers.pop(watched, None)
        _drop(self._by_selection, rules.selection_key, rules.key)

    def by_selection(self) -> Iterable[set[Key]]:
        """Placements that the decisions of others can affect, grouped by what they choose from."""
        return self._by_selection.values()

    def watching(self, *watched: tuple[str, str]) -> set[Key]:
        return set().union(*(keys for item in watched for keys in self._watchers.get(item, {}).values()))

    def within(self, namespaces: Iterable[str]) -> set[Key]:
        return set().union(*(self._by_namespace.get(namespace, ()) for namespace in namespaces))

    def concerned(self, change: ClusterUpdate, namespaces: set[str]) -> set[Key]:
        """Placements that are affected by a change of a cluster that these namespaces can see."""
        if change.standing:
            return self.within(namespaces)
        watched = [("label", key) for key in change.labels]
        watched += [("claim", name) for name in change.claims]
        watched += [("resource", name) for name in change.resources]
        watched += [("usage", "")] if change.usage else []
        return self._watching_in(watched, namespaces)

    def evaluating(self, namespaces: set[str]) -> set[Key]:
        """Placements with expressions, which may read any field, in these namespaces."""
        return self._watching_in([("cel", "")], namespaces)

    def _watching_in(self, watched: Iterable[tuple[str, str]], namespaces: set[str]) -> set[Key]:
        found: set[Key] = set()
        for by_namespace in [self._watchers[item] for item in watched if item in self._watchers]:
            for namespace in by_namespace.keys() & namespaces:
                found |= by_namespace[namespace]
        return found


def _drop(index: dict[T, set[Key]], entry: T, key: Key) -> None:
    """Removes an empty entry too."""
    keys = index.get(entry, set())
    keys.discard(key)
    if not keys:
        index.pop(entry, None)
