"""Decisions as objects: decision groups, PlacementDecisions of at most 100 clusters, and how to write them.

`writes` orders the changes so that a cluster that stays chosen is in some slice at every moment, even while
it moves from one slice to another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from fairway.api.fleet import ClusterDecision, Placement, PlacementDecision, PlacementDecisionStatus
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.clock import Micros, format_rfc3339
from fairway.fleet.names import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    LEDGER,
    MOVED_AT,
    PLACEMENT_LABEL,
    REPLICAS,
    SLICE,
)
from fairway.resources import Resource

LABELS = (PLACEMENT_LABEL, GROUP_NAME_LABEL, GROUP_INDEX_LABEL)
ANNOTATIONS = (LEDGER, MOVED_AT, REPLICAS)
"""The annotations of a PlacementDecision that Fairway sets."""


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """A decision group: clusters that are rolled out together, in order of name."""

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a PlacementDecision; a deletion carries the previous object."""

    action: Literal["create", "update", "delete"]
    decision: PlacementDecision

    @property
    def name(self) -> str:
        return self.decision.metadata.name


def group_size(setting: int | str | None, clusters: int) -> int:
    """The maximum size of a group: a number, or a percentage of all, rounded up."""
    if setting is None:
        return max(clusters, 1)
    text = str(setting)
    size = -(-clusters * int(text[:-1]) // 100) if text.endswith("%") else int(text)
    return max(size, 1)


def divide(clusters: Sequence[str], named: Sequence[tuple[str, frozenset[str]]], size: int) -> tuple[ClusterGroup, ...]:
    """Named groups first, each with the clusters that it matches and that are in no earlier one; the rest follows
    unnamed.
    """
    left = set(clusters)
    groups: list[ClusterGroup] = []
    for name, matching in (*named, ("", frozenset(clusters))):
        members = sorted(left & matching)
        left.difference_update(members)
        groups += [ClusterGroup(name, tuple(members[i : i + size])) for i in range(0, len(members), size)]
    return tuple(groups) or (ClusterGroup("", ()),)


def slices(
    placement: Placement,
    groups: Sequence[ClusterGroup],
    decisions: Mapping[str, ClusterDecision],
    reserved: Mapping[str, Resource],
    moved_at: Micros | None,
) -> tuple[PlacementDecision, ...]:
    """The objects that list the chosen clusters. One empty slice stands for none."""
    made: list[PlacementDecision] = []
    for index, group in enumerate(groups):
        for start in range(0, max(len(group.clusters), 1), SLICE):
            clusters = group.clusters[start : start + SLICE]
            annotations = _annotations({name: reserved[name] for name in clusters if name in reserved}, moved_at)
            labels = {
                PLACEMENT_LABEL: placement.metadata.name,
                GROUP_NAME_LABEL: group.name,
                GROUP_INDEX_LABEL: str(index),
            }
            chosen = tuple(decisions[name] for name in clusters)
            made.append(_slice(placement, len(made) + 1, labels, annotations, chosen))
    return tuple(made)


def _annotations(reserved: Mapping[str, Resource], moved_at: Micros | None) -> dict[str, str]:
    made = {}
    if reserved:
        amounts = {name: reserved[name].format() for name in sorted(reserved)}
        made[LEDGER] = json.dumps(amounts, separators=(",", ":"))
    if moved_at is not None:
        made[MOVED_AT] = format_rfc3339(moved_at)
    return made


def _slice(
    placement: Placement,
    number: int,
    labels: dict[str, str],
    annotations: dict[str, str],
    decisions: tuple[ClusterDecision, ...],
) -> PlacementDecision:
    owner = OwnerReference("Placement", placement.metadata.name, placement.metadata.uid, True)
    metadata = ObjectMeta(
        name=f"{placement.metadata.name}-decision-{number}",
        namespace=placement.metadata.namespace,
        labels=labels,
        annotations=annotations,
        owner_references=(owner,),
    )
    return PlacementDecision(metadata, PlacementDecisionStatus(decisions))


def same(one: PlacementDecision, other: PlacementDecision) -> bool:
    """Whether two objects are equal in everything that Fairway sets: labels, annotations and owner, whatever others
    added.
    """
    mine, theirs = one.metadata, other.metadata
    return (
        one.status == other.status
        and all(mine.labels.get(name) == theirs.labels.get(name) for name in LABELS)
        and all(mine.annotations.get(name) == theirs.annotations.get(name) for name in ANNOTATIONS)
        and {owner.uid for owner in mine.owner_references if owner.uid}
        == {owner.uid for owner in theirs.owner_references if owner.uid}
    )


def writes(
    before: Mapping[str, PlacementDecision], after: Sequence[PlacementDecision], placement: Placement
) -> tuple[Write, ...]:
    """The writes, in order, that lead from the existing to the new objects without a gap.

    New slices come first. A slice is updated once all clusters that leave it are in their new slice. Where slices wait
    for each other in a circle, the moving clusters are in a temporary slice meanwhile.
    """
    wanted = {decision.metadata.name: decision for decision in after}
    made = [Write("create", decision) for name, decision in wanted.items() if name not in before]
    present = {name: members(decision) for name, decision in before.items()}
    present |= {write.name: members(write.decision) for write in made}
    staying = frozenset().union(*(members(decision) for decision in after))
    waiting = {
        name: decision for name, decision in wanted.items() if name in before and not same(before[name], decision)
    }
    while waiting:
        safe = [name for name in waiting if _safe(name, members(waiting[name]), present, staying)]
        for name in safe:
            if _safe(name, members(waiting[name]), present, staying):
                decision = waiting.pop(name)
                present[name] = members(decision)
                made.append(Write("update", decision))
        if not safe:
            made += _stand_ins(waiting, present, placement, {*before, *wanted})
            present |= {write.name: members(write.decision) for write in made}
    gone = [decision for name, decision in before.items() if name not in wanted]
    gone += [w.decision for w in made if w.action == "create" and w.name not in wanted]
    return (*made, *(Write("delete", decision) for decision in gone))


def members(decision: PlacementDecision) -> frozenset[str]:
    return frozenset(item.cluster_name for item in decision.status.decisions)


def _safe(name: str, becoming: frozenset[str], present: Mapping[str, frozenset[str]], staying: frozenset[str]) -> bool:
    leaving = (present[name] - becoming) & staying
    others = (clusters for other, clusters in present.items() if other != name)
    return not leaving or leaving <= frozenset().union(*others)


def _stand_ins(
    waiting: Mapping[str, PlacementDecision],
    present: Mapping[str, frozenset[str]],
    placement: Placement,
    taken: set[str],
) -> list[Write]:
    """Slices beyond the last one with clusters that would otherwise be in none meanwhile."""
    arriving = {item.cluster_name: item for d in waiting.values() for item in d.status.decisions}
    moving = sorted(
        {cluster for name, decision in waiting.items() for cluster in present[name] - members(decision)}
        & arriving.keys()
    )
    ledgers = [d.metadata.annotations.get(LEDGER, "{}") for d in waiting.values()]
    reserved = {name: entry for ledger in ledgers for name, entry in json.loads(ledger).items()}
    number = 1 + len(taken)
    made = []
    for start in range(0, len(moving), SLICE):
        while f"{placement.metadata.name}-decision-{number}" in taken:
            number += 1
        decisions = tuple(arriving[cluster] for cluster in moving[start : start + SLICE])
        first = next(iter(waiting.values())).metadata
        annotations = dict(first.annotations)
        standing = {name: entry for name, entry in reserved.items() if name in moving[start : start + SLICE]}
        if standing:
            annotations[LEDGER] = json.dumps(standing, separators=(",", ":"))
        made.append(Write("create", _slice(placement, number, dict(first.labels), annotations, decisions)))
        number += 1
    return made


def document(decision: PlacementDecision) -> dict[str, object]:
    """The object as a manifest."""
    made: dict[str, object] = msgspec.to_builtins(decision)
    metadata = made.get("metadata")
    assert isinstance(metadata, dict)
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "PlacementDecision",
        "metadata": _owned(metadata),
        "status": {"decisions": [msgspec.to_builtins(item) | _reason(item) for item in decision.status.decisions]},
    }


def _owned(metadata: dict[str, object]) -> dict[str, object]:
    owners = metadata.get("ownerReferences")
    version = {"apiVersion": "cluster.open-cluster-management.io/v1beta1"}
    if isinstance(owners, list):
        metadata["ownerReferences"] = [version | owner for owner in owners]
    return metadata


def _reason(item: ClusterDecision) -> dict[str, str]:
    """OCM's schema requires `reason`, empty or not."""
    return {"reason": item.reason}
