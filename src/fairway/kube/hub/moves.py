"""Events about decisions: which cluster joined or left, with its points before and now, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.api.fleet import Placement
from fairway.clock import Micros
from fairway.fleet.explain import Move
from fairway.fleet.plan import Outcome
from fairway.kube.requests.events import EventNote, Regarding

MOST_EVENTS = 10
"""For one decision; the rest are named together."""
NAMED = 20
RUNNERS_UP = 16
"""Points are remembered of the chosen clusters, and of so many that came next: a cluster that joins was one of them."""

Points = Mapping[str, int]


def stands(outcome: Outcome) -> bool:
    """Whether a decision made again, by the same rules, is sure to be the same objects: most are, where another
    placement has moved. What depends on more than the clusters' names is not looked at.
    """
    spec = outcome.rules.placement.spec
    if outcome.ranking is None or spec.replicas is not None or outcome.reserved:
        return False
    if spec.decision_strategy.group_strategy.decision_groups or outcome.chosen.size != outcome.before.size:
        return False
    return set(outcome.chosen.tolist()) == set(outcome.before.tolist())


def points_of(outcome: Outcome) -> Points:
    """Of the chosen clusters and the first ones under the cut."""
    if outcome.ranking is None:
        return {}
    names, ranking = outcome.view.names, outcome.ranking
    these = ranking.at(outcome.chosen)
    if ranking.totals.size > these.size:
        most = min(ranking.totals.size, these.size + RUNNERS_UP)
        these = np.concatenate([these, np.argpartition(-ranking.totals, most - 1)[:most]])
    slots = ranking.pool.index[these].tolist()
    return dict(zip(map(names.__getitem__, slots), ranking.totals[these].tolist(), strict=True))


def notes_of(version: str, placement: Placement, outcome: Outcome, before: Points, now: Micros) -> list[EventNote]:
    """One event for each cluster that moved; a first decision is one event."""
    moves = outcome.moves
    if not moves:
        return []
    meta = placement.metadata
    about = Regarding(version, "Placement", meta.namespace, meta.name, meta.uid)
    if not outcome.before.size:
        texts = [("DecisionCreate", _first(moves))]
    else:
        texts = [("DecisionUpdate", _text(move, before)) for move in moves[:MOST_EVENTS]]
        if len(moves) > MOST_EVENTS:
            texts.append(("DecisionUpdate", _rest(moves[MOST_EVENTS:])))
    return [EventNote(about, reason, "Deciding", text, now, same_as=text) for reason, text in texts]


def _first(moves: tuple[Move, ...]) -> str:
    named = ", ".join(f"{move.cluster} ({_points(move.score)})" for move in moves[:NAMED])
    more = f" and {len(moves) - NAMED} more" if len(moves) > NAMED else ""
    return f"{len(moves)} {'cluster' if len(moves) == 1 else 'clusters'} chosen: {named}{more}"


def _text(move: Move, before: Points) -> str:
    was = f"it had {before[move.cluster]}" if move.cluster in before else "it had none before"
    what = "joined" if move.joined else "left"
    return f"cluster {move.cluster} {what} with {_points(move.score)}, {was}: {move.reason}"


def _rest(moves: Iterable[Move]) -> str:
    joined = sorted(move.cluster for move in moves if move.joined)
    left = sorted(move.cluster for move in moves if not move.joined)
    parts = [f"{len(names)} more {what}: {', '.join(names)}" for what, names in (("joined", joined), ("left", left))]
    return "; ".join(part for part, names in zip(parts, (joined, left), strict=True) if names)


def _points(score: int | None) -> str:
    return "no points" if score is None else f"{score} {'point' if abs(score) == 1 else 'points'}"
