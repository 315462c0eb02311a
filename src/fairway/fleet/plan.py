"""What `place` gives back: for each placement decided, the chosen clusters with their points, and why others not.

An outcome puts things into words only when they are read: a fleet of a thousand clusters has a thousand reasons per
placement, and most are never read. `FleetPlan.document` is the contract of `fairway place -o json`: keys are added,
never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairway.api.fleet import ClusterDecision, PlacementDecision
from fairway.api.meta import Condition
from fairway.clock import Micros, format_rfc3339
from fairway.fleet import explain
from fairway.fleet import slices as objects
from fairway.fleet.decided import DecidedPlacement
from fairway.fleet.explain import Decision, Filtered, Move


class Outcome(DecidedPlacement):
    """One placement's decision with its reasons, conditions and objects."""

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """The chosen clusters, in rank order, with points and reasons."""
        return explain.kept(self) if self.ranking is None else explain.decisions(self, self._named)

    @cached_property
    def _named(self) -> dict[str, ClusterDecision]:
        return explain.cluster_decisions(self)

    @cached_property
    def filtered(self) -> tuple[Filtered, ...]:
        """The other clusters: those below the cut in rank order, then the rest in order of name."""
        return explain.filtered(self)

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The changes, with reasons; empty if the decision stands."""
        moved = self.ranking is not None and self.before_set != self.chosen_set
        return explain.moves(self, self._named) if moved else ()

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        return explain.conditions_of(self, lambda: self.filtered)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        return explain.warnings(self)

    @cached_property
    def slices(self) -> tuple[PlacementDecision, ...]:
        """The decision as objects."""
        if self.basis is None or self.stands:
            return self.recorded
        groups = explain.groups(self)
        return objects.slices(self.rules.placement, groups, self._named, self.reserved, self.moved_at)

    @cached_property
    def writes(self) -> tuple[objects.Write, ...]:
        """The writes that publish the decision without a gap."""
        return objects.writes(self.existing, self.slices, self.rules.placement)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """`outcomes` of the placements decided, in (namespace, name) order; the others are unchanged.

    `recheck_at` is when time alone may change something: a toleration, a score or a cooldown ends. `warnings` are about
    clusters with invalid reports.
    """

    now: Micros
    outcomes: tuple[Outcome, ...]
    recheck_at: Micros | None
    warnings: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The plan as plain data, as `-o json` prints it."""
        return _document(self)


def _document(plan: FleetPlan) -> dict[str, Any]:
    recheck = {} if plan.recheck_at is None else {"recheckAt": format_rfc3339(plan.recheck_at)}
    return {
        "placements": [placement_document(outcome) for outcome in plan.outcomes],
        **recheck,
        "placementDecisions": [objects.document(item) for outcome in plan.outcomes for item in outcome.slices],
        "warnings": list(plan.warnings),
    }


def placement_document(outcome: Outcome) -> dict[str, Any]:
    """One placement as plain data."""
    return {
        "placement": outcome.name,
        "decisions": [_decision(item) for item in outcome.decisions],
        "filtered": [_filtered(item) for item in outcome.filtered],
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in outcome.conditions
        ],
        "weights": {prioritizer.name: weight for prioritizer, weight in outcome.rules.weights},
        "moves": [
            {"cluster": move.cluster, "move": "joined" if move.joined else "left", "reason": move.reason}
            for move in outcome.moves
        ],
        "ledger": {cluster: amounts.format() for cluster, amounts in outcome.reserved.items()},
        "warnings": list(outcome.warnings),
    }


def _decision(item: Decision) -> dict[str, Any]:
    made = {"cluster": item.cluster, "score": item.score, "scores": dict(item.scores), "reason": item.reason}
    return made if item.replicas is None else made | {"replicas": item.replicas}


def _filtered(item: Filtered) -> dict[str, Any]:
    made = {"cluster": item.cluster, "filter": item.filter, "reason": item.reason}
    return made if item.score is None else made | {"score": item.score, "scores": dict(item.scores)}
