"""Selectors, affinity and tolerations against all nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from fairway.resources.columns import BoolColumn
from fairway.state.labels import NAME_FIELD, requirement_holds
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy
from fairway.state.volumes import ZONE_LABELS, Zone

_MANY_VALUES = 8

_NEWER_LABEL = dict(zip(ZONE_LABELS[:2], ZONE_LABELS[2:], strict=True))
"""What the old names of zone and region are called today."""


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def selector_column(shape: Shape, snapshot: WorkingCopy) -> BoolColumn:
    """Where all labels of the shape's node selector are."""
    labels, size = snapshot.state.nodes.labels, snapshot.size
    passes = np.ones(size, dtype=np.bool_)
    for key, value in shape.node_selector:
        passes &= labels.where(key, size, equals(value))
    return passes


def any_term_column(selector: NodeSelector, snapshot: WorkingCopy) -> BoolColumn:
    """Where one of the terms holds."""
    passes = np.zeros(snapshot.size, dtype=np.bool_)
    for term in selector.node_selector_terms:
        passes |= term_column(term, snapshot)
    return passes


def term_column(term: NodeSelectorTerm, snapshot: WorkingCopy) -> BoolColumn:
    """Where a whole term holds; one without requirements holds nowhere."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(snapshot.size, dtype=np.bool_)
    passes = np.ones(snapshot.size, dtype=np.bool_)
    labels = snapshot.state.nodes.labels
    for requirement in term.match_expressions:
        passes &= labels.where(requirement.key, snapshot.size, _holds(requirement))
    for requirement in term.match_fields:
        names = snapshot.names if requirement.key == NAME_FIELD else [None] * snapshot.size
        passes &= np.array([requirement_holds(requirement, name) for name in names], dtype=np.bool_)
    return passes


def zone_column(zone: Zone, snapshot: WorkingCopy) -> BoolColumn:
    """Where a volume with this zone label can be used: on nodes in one of its zones, and on nodes that do not say where
    they are, as in a cluster of one zone.
    """
    label, values = zone
    labels, size = snapshot.state.nodes.labels, snapshot.size
    wanted = frozenset(values)
    passes = labels.where(label, size, lambda value: value in wanted)
    if label in _NEWER_LABEL:
        absent = labels.where(label, size, lambda value: value is None)
        passes |= absent & labels.where(_NEWER_LABEL[label], size, lambda value: value in wanted)
    silent = np.ones(size, dtype=np.bool_)
    for key in ZONE_LABELS:
        silent &= labels.where(key, size, lambda value: value is None)
    return passes | silent


def required_affinity_column(shape: Shape, snapshot: WorkingCopy) -> BoolColumn | None:
    """Where the required node affinity holds; None if there is none."""
    affinity = shape.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return None if required is None else any_term_column(required, snapshot)


def _holds(requirement: NodeSelectorRequirement) -> Callable[[str | None], bool]:
    if requirement.operator in ("In", "NotIn") and len(requirement.values) > _MANY_VALUES:
        # Asked of every distinct value of the key: a tuple would be searched once for each of them.
        values, is_in = frozenset(requirement.values), requirement.operator == "In"
        return lambda value: (value is not None and value in values) is is_in
    return lambda value: requirement_holds(requirement, value)


def equals(wanted: str) -> Callable[[str | None], bool]:
    return lambda value: value == wanted
