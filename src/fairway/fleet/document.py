"""A plan as plain data: the contract of `fairway place -o json`. Keys are added, never renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairway.clock import format_rfc3339
from fairway.fleet.explain import Decision, Filtered
from fairway.fleet.slices import document as slice_document

if TYPE_CHECKING:
    from fairway.fleet.plan import FleetPlan, Outcome


def of(plan: FleetPlan) -> dict[str, Any]:
    recheck = {} if plan.recheck_at is None else {"recheckAt": format_rfc3339(plan.recheck_at)}
    return {
        "placements": [_placement(outcome) for outcome in plan.outcomes],
        **recheck,
        "placementDecisions": [slice_document(item) for outcome in plan.outcomes for item in outcome.slices],
        "warnings": list(plan.warnings),
    }


def _placement(outcome: Outcome) -> dict[str, Any]:
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
        "ledger": {cluster: amounts.format() for cluster, amounts in outcome.held.items()},
        "warnings": list(outcome.warnings),
    }


def _decision(item: Decision) -> dict[str, Any]:
    made = {"cluster": item.cluster, "score": item.score, "scores": dict(item.scores), "reason": item.reason}
    return made if item.replicas is None else made | {"replicas": item.replicas}


def _filtered(item: Filtered) -> dict[str, Any]:
    made = {"cluster": item.cluster, "filter": item.filter, "reason": item.reason}
    return made if item.score is None else made | {"score": item.score, "scores": dict(item.scores)}
