"""What was decided for one placement, as the columns it was decided on; nothing is put into words here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fairway.api.fleet import ManagedCluster, PlacementDecision
from fairway.clock import Micros
from fairway.fleet.capacity import ClusterCapacity
from fairway.fleet.cel import ScoreOf
from fairway.fleet.facts import ClusterFacts
from fairway.fleet.names import BALANCE, PREFER_NO_SELECT, STEADY
from fairway.fleet.pool import ClusterPool, PrioritizerScores
from fairway.fleet.rules import Key, Rules
from fairway.fleet.scores import BEST, BoolColumn, IntColumn, balance_table
from fairway.resources import Resource


@dataclass(frozen=True, slots=True)
class View:
    """The clusters as they were when the plan was made, by slot and by name."""

    names: tuple[str, ...]
    facts: tuple[ClusterFacts | None, ...]
    clusters: Mapping[str, ManagedCluster]
    scores: ScoreOf
    rank: IntColumn
    exists: BoolColumn
    available: BoolColumn


class Ranking(NamedTuple):
    """The columns behind an outcome. `gain` is what a newcomer had to offer; `held_until` ends a cooldown.

    `uses` is how many other placements use each cluster, at most `most`.
    """

    pool: ClusterPool
    parts: tuple[PrioritizerScores, ...]
    uses: IntColumn
    max_uses: int
    totals: IntColumn
    gain: int
    cooldown_until: Micros | None
    capacity: ClusterCapacity | None


@dataclass(eq=False)
class DecidedPlacement:
    """One placement's decision as columns. `ranking` is None where the decisions were kept unseen (misconfigured,
    disabled).

    `chosen` are slots in rank order, `before` the slots chosen until now, `existing` the objects that say so.
    `reserved` is what the ledger has for it in each chosen cluster. Not to be changed.
    """

    rules: Rules
    now: Micros
    view: View
    ranking: Ranking | None
    chosen: IntColumn
    before: IntColumn
    existing: Mapping[str, PlacementDecision]
    moved_at: Micros | None
    recheck_at: Micros | None
    reserved: Mapping[str, Resource]
    overdrawn: tuple[str, ...] = ()
    replicas: tuple[int, ...] | None = None
    replicas_left: int = 0

    @property
    def key(self) -> Key:
        return self.rules.key

    @property
    def name(self) -> str:
        return self.rules.name

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """The chosen clusters, in rank order."""
        return tuple(self.view.names[slot] for slot in self.chosen.tolist())

    @cached_property
    def recorded(self) -> tuple[PlacementDecision, ...]:
        """The objects of the last decision, in the order of their numbers."""
        return tuple(self.existing[name] for name in sorted(self.existing, key=_by_number))

    def scores(self, slots: IntColumn) -> list[dict[str, int]]:
        """What each prioritizer gave these clusters, before weights, in the order the placement names them."""
        assert self.ranking is not None
        ranking = self.ranking
        given = {part.name: part.column[slots].tolist() for part in ranking.parts}
        if self.rules.balance:
            given[BALANCE] = balance_table(ranking.max_uses)[ranking.uses[slots]].tolist()
        given[STEADY] = [BEST if slot in self.before_set else 0 for slot in slots.tolist()]
        names = [prioritizer.name for prioritizer, _ in self.rules.weights]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*map(given.__getitem__, names), strict=True)]
        rows = rows or [{} for _ in slots]
        for row, penalty in zip(rows, given.get(PREFER_NO_SELECT, ()), strict=False):
            if penalty:
                row[PREFER_NO_SELECT] = penalty
        return rows

    @cached_property
    def before_set(self) -> frozenset[int]:
        return frozenset(self.before.tolist())

    @cached_property
    def chosen_set(self) -> frozenset[int]:
        return frozenset(self.chosen.tolist())


def _by_number(name: str) -> tuple[int, str]:
    """PlacementDecisions in the order of their numbers, not of their digits."""
    number = name.rpartition("-")[2]
    return (int(number) if number.isascii() and number.isdigit() else 0, name)
