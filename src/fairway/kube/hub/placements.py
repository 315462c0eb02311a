"""What a hub's placements show: their status, and events about decisions.

A status says how many clusters were chosen, in which PlacementDecisions, and why not more. An event says which cluster
joined or left, with its points before and now, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairway.api.fleet import (
    DecisionGroupStatus,
    Placement,
    PlacementCondition,
    PlacementDecision,
    PlacementStatus,
)
from fairway.api.meta import Condition
from fairway.clock import Micros, to_datetime
from fairway.fleet.explain import Move
from fairway.fleet.names import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, MISCONFIGURED, OVERDRAWN, SATISFIED
from fairway.fleet.plan import Outcome
from fairway.kube.http.exchange import MERGE_PATCH, ApiRequest, encoded
from fairway.kube.http.paths import UNCHECKED, object_path
from fairway.kube.requests.statuses import EventNote, Regarding, StatusWrite
from fairway.kube.throttle import StatusFacts

MAX_MESSAGE = 2000
MAX_EVENTS = 10
"""Events for one decision; the remaining moves share one more."""
MAX_NAMED = 20
"""Clusters that one event names."""
RUNNERS_UP = 16
"""Points are kept of the chosen clusters and of so many that came next: a cluster that joins was one of them."""

_OURS = (SATISFIED, MISCONFIGURED, OVERDRAWN)

Points = Mapping[str, int]
"""By the name of the cluster."""


# -- status ----------------------------------------------------------------------------------------------------------


def has_groups(version: str) -> bool:
    """Whether a Placement's status has decision groups in this API version. v1alpha1 never had them, and a server drops
    fields that a definition lacks: the status would look overwritten for ever.
    """
    return not version.endswith("/v1alpha1")


def placement_status(
    version: str, conditions: Iterable[Condition], slices: Iterable[PlacementDecision]
) -> PlacementStatus:
    """The status in this API version; `slices` in the order of their numbers."""
    groups: dict[int, DecisionGroupStatus] = {}
    for one in slices:
        labels = one.metadata.labels
        index = _number(labels.get(GROUP_INDEX_LABEL, "0"))
        group = groups.get(index) or DecisionGroupStatus(index, labels.get(GROUP_NAME_LABEL, ""))
        names = (*group.decisions, one.metadata.name)
        count = group.cluster_count + len(one.status.decisions)
        groups[index] = replace(group, decisions=names, cluster_count=count)
    ordered = tuple(groups[index] for index in sorted(groups))
    shortened = tuple(
        PlacementCondition(one.type, one.status, one.reason, one.message[:MAX_MESSAGE]) for one in conditions
    )
    count = sum(group.cluster_count for group in ordered)
    return PlacementStatus(count, ordered if has_groups(version) else (), shortened)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def facts_of(status: PlacementStatus) -> StatusFacts:
    """What a status says, to decide whether it is written again."""
    ours = [one for one in status.conditions if one.type in _OURS]
    state = tuple(sorted(f"{one.type}={one.status} {one.reason}" for one in ours))
    groups = tuple(f"{g.decision_group_index} {g.decision_group_name} {g.decisions}" for g in status.decision_groups)
    counts = tuple(str(group.cluster_count) for group in status.decision_groups)
    text = "; ".join(sorted(f"{one.type}: {one.message}" for one in ours))
    return StatusFacts((*state, *groups, *counts, str(status.number_of_selected_clusters)), text)


def placement_write(version: str, placement: Placement, status: PlacementStatus, now: Micros) -> StatusWrite:
    """A condition keeps the time since which it holds; conditions of others stay. A PUT of the whole status is less
    work for the server than a patch; the patch follows if the placement has changed since it was read.
    """
    meta = placement.metadata
    key = ("Placement", meta.namespace, meta.name)
    shown = {one.type: one for one in placement.status.conditions}
    conditions = [_foreign(one) for one in shown.values() if one.type not in _OURS]
    conditions += [condition_body(since(one, shown, to_datetime(now))) for one in status.conditions]
    groups = [
        {
            "decisionGroupIndex": group.decision_group_index,
            "decisionGroupName": group.decision_group_name,
            "decisions": list(group.decisions),
            "clusterCount": group.cluster_count,
        }
        for group in status.decision_groups
    ]
    number = status.number_of_selected_clusters
    body: dict[str, Any] = {"conditions": conditions, "numberOfSelectedClusters": number}
    if has_groups(version):
        body["decisionGroups"] = groups
    path = f"{object_path(version, 'placements', key)}/status?{UNCHECKED}"
    head = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}
    whole = encoded({"apiVersion": version, "kind": "Placement", "metadata": head, "status": body})
    patch = encoded({"metadata": {"uid": meta.uid}, "status": body})
    return StatusWrite(key, ApiRequest("PUT", path, whole), ApiRequest("PATCH", path, patch, MERGE_PATCH), 409)


def since(one: Condition, shown: Mapping[str, Condition], now: datetime) -> Condition:
    before = shown.get(one.type)
    stands = before is not None and before.status == one.status and before.last_transition_time is not None
    since = before.last_transition_time if stands and before is not None else now
    return replace(one, last_transition_time=since)


def _foreign(one: PlacementCondition) -> dict[str, Any]:
    body = condition_body(one)
    return body if one.observed_generation is None else {**body, "observedGeneration": one.observed_generation}


def condition_body(one: Condition) -> dict[str, Any]:
    since = one.last_transition_time
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason or "Unknown",
        "message": one.message,
        "lastTransitionTime": None if since is None else since.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


# -- events ----------------------------------------------------------------------------------------------------------


def stands(outcome: Outcome) -> bool:
    """Whether a repeated decision by the same rules is certain to be the same objects, as most are when another
    placement has moved. A decision that depends on more than the clusters' names is never certain.
    """
    spec = outcome.rules.placement.spec
    if outcome.ranking is None or spec.replicas is not None or outcome.reserved:
        return False
    if spec.decision_strategy.group_strategy.decision_groups or outcome.chosen.size != outcome.before.size:
        return False
    return set(outcome.chosen.tolist()) == set(outcome.before.tolist())


def points_of(outcome: Outcome) -> Points:
    """The points of the chosen clusters and of the next best."""
    if outcome.ranking is None:
        return {}
    names, ranking = outcome.view.names, outcome.ranking
    rows = ranking.at(outcome.chosen)
    if ranking.totals.size > rows.size:
        count = min(ranking.totals.size, rows.size + RUNNERS_UP)
        rows = np.concatenate([rows, np.argpartition(-ranking.totals, count - 1)[:count]])
    slots = ranking.pool.index[rows].tolist()
    return dict(zip(map(names.__getitem__, slots), ranking.totals[rows].tolist(), strict=True))


def notes_of(version: str, placement: Placement, outcome: Outcome, before: Points, now: Micros) -> list[EventNote]:
    """One event for each cluster that joined or left; one for a first decision."""
    moves = outcome.moves
    if not moves:
        return []
    meta = placement.metadata
    about = Regarding(version, "Placement", meta.namespace, meta.name, meta.uid)
    if not outcome.before.size:
        texts = [("DecisionCreate", _first(moves))]
    else:
        texts = [("DecisionUpdate", _moved(move, before)) for move in moves[:MAX_EVENTS]]
        if len(moves) > MAX_EVENTS:
            texts.append(("DecisionUpdate", _rest(moves[MAX_EVENTS:])))
    return [EventNote(about, reason, "Deciding", text, now, same_as=text) for reason, text in texts]


def _first(moves: tuple[Move, ...]) -> str:
    named = ", ".join(f"{move.cluster} ({_points(move.score)})" for move in moves[:MAX_NAMED])
    more = f" and {len(moves) - MAX_NAMED} more" if len(moves) > MAX_NAMED else ""
    return f"{len(moves)} {'cluster' if len(moves) == 1 else 'clusters'} chosen: {named}{more}"


def _moved(move: Move, before: Points) -> str:
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
