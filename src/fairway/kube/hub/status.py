"""Statuses on a hub: of placements what was decided and why not more, of clusters that their report makes no sense."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from fairway.api.fleet import (
    DecisionGroupStatus,
    ManagedCluster,
    Placement,
    PlacementCondition,
    PlacementDecision,
    PlacementStatus,
)
from fairway.api.meta import Condition
from fairway.clock import Micros, to_datetime
from fairway.fleet.names import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    MISCONFIGURED,
    OVERDRAWN,
    REPORT_CONDITION,
    SATISFIED,
)
from fairway.kube.http.exchange import MERGE_PATCH, ApiRequest, encoded
from fairway.kube.requests.paths import UNCHECKED, object_path
from fairway.kube.requests.statuses import StatusWrite
from fairway.kube.throttle import StatusFacts

MANAGER = "fairway-fleet"
APPLY = "application/apply-patch+yaml"
LONGEST_MESSAGE = 2000
_OURS = (SATISFIED, MISCONFIGURED, OVERDRAWN)


def has_groups(version: str) -> bool:
    """Whether a Placement's status has decision groups in this API version: v1alpha1 never had them, and a server drops
    what a definition does not have, so that it would seem to be overwritten for ever.
    """
    return not version.endswith("/v1alpha1")


def placement_status(
    version: str, conditions: Iterable[Condition], slices: Iterable[PlacementDecision]
) -> PlacementStatus:
    """As it is in this API version; `slices` in the order of their numbers."""
    groups: dict[int, DecisionGroupStatus] = {}
    for one in slices:
        labels = one.metadata.labels
        index = _number(labels.get(GROUP_INDEX_LABEL, "0"))
        group = groups.get(index) or DecisionGroupStatus(index, labels.get(GROUP_NAME_LABEL, ""))
        names = (*group.decisions, one.metadata.name)
        count = group.cluster_count + len(one.status.decisions)
        groups[index] = replace(group, decisions=names, cluster_count=count)
    found = tuple(groups[index] for index in sorted(groups))
    kept = tuple(
        PlacementCondition(one.type, one.status, one.reason, one.message[:LONGEST_MESSAGE]) for one in conditions
    )
    return PlacementStatus(sum(group.cluster_count for group in found), found if has_groups(version) else (), kept)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 9 else 0


def facts_of(status: PlacementStatus) -> StatusFacts:
    """What a status says, for deciding whether to write it again."""
    ours = [one for one in status.conditions if one.type in _OURS]
    state = tuple(sorted(f"{one.type}={one.status} {one.reason}" for one in ours))
    groups = tuple(f"{g.decision_group_index} {g.decision_group_name} {g.decisions}" for g in status.decision_groups)
    counts = tuple(str(group.cluster_count) for group in status.decision_groups)
    text = "; ".join(sorted(f"{one.type}: {one.message}" for one in ours))
    return StatusFacts((*state, *groups, *counts, str(status.number_of_selected_clusters)), text)


def placement_write(version: str, placement: Placement, status: PlacementStatus, now: Micros) -> StatusWrite:
    """A condition keeps the time since which it holds; conditions of others stay. The whole status over what was read
    is less work for the server than a patch, which follows where the placement has changed since.
    """
    meta = placement.metadata
    key = ("Placement", meta.namespace, meta.name)
    shown = {one.type: one for one in placement.status.conditions}
    conditions = [_foreign(one) for one in shown.values() if one.type not in _OURS]
    conditions += [_condition(_since(one, shown, to_datetime(now))) for one in status.conditions]
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


def _since(one: Condition, shown: Mapping[str, Condition], now: datetime) -> Condition:
    before = shown.get(one.type)
    stands = before is not None and before.status == one.status and before.last_transition_time is not None
    since = before.last_transition_time if stands and before is not None else now
    return replace(one, last_transition_time=since)


def _foreign(one: PlacementCondition) -> dict[str, Any]:
    body = _condition(one)
    return body if one.observed_generation is None else {**body, "observedGeneration": one.observed_generation}


def _condition(one: Condition) -> dict[str, Any]:
    since = one.last_transition_time
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason or "Unknown",
        "message": one.message,
        "lastTransitionTime": None if since is None else since.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


# -- clusters ------------------------------------------------------------------------------------------------


def report_condition(cluster: ManagedCluster, problems: Iterable[str]) -> Condition | None:
    """What a cluster's report gives reason to say; None: nothing, for nothing was said before either."""
    prefix = f"cluster {cluster.metadata.name}: "
    texts = [text.removeprefix(prefix) for text in problems]
    if texts:
        return Condition(REPORT_CONDITION, "False", "InvalidReport", "; ".join(texts)[:LONGEST_MESSAGE])
    if shown_report(cluster) is None:
        return None
    return Condition(REPORT_CONDITION, "True", "ReportAccepted", "all that the cluster reports can be used")


def shown_report(cluster: ManagedCluster) -> Condition | None:
    return next((one for one in cluster.status.conditions if one.type == REPORT_CONDITION), None)


def condition_facts(condition: Condition | None) -> StatusFacts:
    return StatusFacts() if condition is None else StatusFacts((condition.status, condition.reason), condition.message)


def cluster_write(version: str, cluster: ManagedCluster, condition: Condition, now: Micros) -> StatusWrite:
    """One condition, by server-side apply: those of others are not touched, nor even read."""
    meta = cluster.metadata
    key = ("ManagedCluster", "", meta.name)
    shown = shown_report(cluster)
    dated = _since(condition, {} if shown is None else {shown.type: shown}, to_datetime(now))
    body = {
        "apiVersion": version,
        "kind": "ManagedCluster",
        "metadata": {"name": meta.name, "uid": meta.uid},
        "status": {"conditions": [_condition(dated)]},
    }
    path = f"{object_path(version, 'managedclusters', key)}/status?fieldManager={MANAGER}&force=true"
    return StatusWrite(key, ApiRequest("PATCH", path, encoded(body), APPLY))
