"""What was decided for one placement, as the columns it was decided on; nothing is put into words here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fairway.api.fleet import ManagedCluster, PlacementDecision
from fairway.clock import Micros
from fairway.fleet.expressions import AnswerOf
from fairway.fleet.facts import ClusterFacts
from fairway.fleet.names import BALANCE, PREFER_NO_SELECT, STEADY
from fairway.fleet.ranking import Ranking, RankingBasis
from fairway.fleet.records import Footing
from fairway.fleet.rules import Key, Rules
from fairway.fleet.scores import BEST, BoolColumn, IntColumn, ScoreOf, balance_table
from fairway.resources import Resource


@dataclass(frozen=True, slots=True)
class View:
    """The clusters at the time of the plan, by slot and by name."""

    names: tuple[str, ...]
    facts: tuple[ClusterFacts | None, ...]
    clusters: Mapping[str, ManagedCluster]
    scores: ScoreOf
    rank: IntColumn
    exists: BoolColumn
    available: BoolColumn
    events: int
    """The number of events before the plan."""
    amounts_at: int
    """The end of the log of amounts."""
    answers: AnswerOf


@dataclass(eq=False)
class DecidedPlacement:
    """One placement's decision as columns. `basis` is what its ranking is computed from, None if the decisions were
    kept without ranking (misconfigured, disabled). `chosen` are slots in rank order, `before` the slots chosen until
    now, `existing` their objects. `reserved` is what the ledger has for it in each chosen cluster.

    `footing` is what the decision stands on, if known; `stands` says that it is the previous decision, with the same
    points. Do not modify.
    """

    rules: Rules
    now: Micros
    view: View
    basis: Ranking | RankingBasis | None
    chosen: IntColumn
    before: IntColumn
    existing: Mapping[str, PlacementDecision]
    moved_at: Micros | None
    recheck_at: Micros | None
    reserved: Mapping[str, Resource]
    overdrawn: tuple[str, ...] = ()
    replicas: tuple[int, ...] | None = None
    replicas_left: int = 0
    footing: Footing | None = None
    stands: bool = False

    @property
    def key(self) -> Key:
        return self.rules.key

    @property
    def name(self) -> str:
        return self.rules.name

    @cached_property
    def ranking(self) -> Ranking | None:
        return self.basis.ranking() if isinstance(self.basis, RankingBasis) else self.basis

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """The chosen clusters, in rank order."""
        names = self.view.names
        return tuple([names[slot] for slot in self.chosen.tolist()])

    @cached_property
    def recorded(self) -> tuple[PlacementDecision, ...]:
        """The objects of the last decision, in the order of their numbers."""
        return tuple(self.existing[name] for name in sorted(self.existing, key=_by_number))

    def score_columns(self, slots: IntColumn) -> dict[str, list[int]]:
        """What each prioritizer gave these clusters, before weights, in the order in which the placement names them;
        penalties last.
        """
        assert self.ranking is not None
        ranking = self.ranking
        these = ranking.at(slots)
        given = {part.name: part.column.values[these].tolist() for part in ranking.parts}
        if self.rules.balance:
            given[BALANCE] = balance_table(ranking.max_uses)[ranking.uses[these]].tolist()
        if self.rules.steady:
            own = self.before_set
            given[STEADY] = [BEST if slot in own else 0 for slot in slots.tolist()] if own else [0] * slots.size
        made = {prioritizer.name: given[prioritizer.name] for prioritizer, _ in self.rules.weights}
        if PREFER_NO_SELECT in given:
            made[PREFER_NO_SELECT] = given[PREFER_NO_SELECT]
        return made

    def scores(self, slots: IntColumn) -> list[dict[str, int]]:
        """The same by cluster; a penalty only if there is one."""
        columns = self.score_columns(slots)
        penalties = columns.pop(PREFER_NO_SELECT, [])
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows = rows or [{} for _ in range(slots.size)]
        for row, penalty in zip(rows, penalties, strict=False):
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
    """PlacementDecisions ordered by their numbers, not by their digits."""
    number = name.rpartition("-")[2]
    return (int(number) if number.isascii() and number.isdigit() else 0, name)
