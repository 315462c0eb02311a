"""Selectors, taints and weights, read one rule at a time; nothing of the engine's own matching is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from fairway.api.core import Node
from fairway.api.meta import LabelSelector
from fairway.api.pods import NodeSelectorTerm, Taint, Toleration

LAST = 1 << 70
"""Later than every time: what was never created comes last."""

_SUFFIXES = {"k": 1_000, "M": 10**6, "m": Fraction(1, 1_000), "": 1}


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    wanted = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return wanted and all(_holds(r.operator, labels.get(r.key), r.values) for r in selector.match_expressions)


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """A term without any expression selects nothing."""
    fields = {"metadata.name": node.metadata.name}
    on_labels = [_holds(r.operator, node.metadata.labels.get(r.key), r.values) for r in term.match_expressions]
    on_fields = [_holds(r.operator, fields.get(r.key), r.values) for r in term.match_fields]
    return bool(on_labels or on_fields) and all(on_labels + on_fields)


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    for toleration in tolerations:
        same_effect = toleration.effect in ("", taint.effect)
        if same_effect and toleration.operator == "Exists" and toleration.key in ("", taint.key):
            return True
        equal = toleration.key == taint.key and toleration.value == taint.value
        if same_effect and toleration.operator != "Exists" and toleration.key and equal:
            return True
    return False


def weight_of(text: str) -> int:
    """A quantity equal to a positive whole number; 1 for any other text."""
    digits = str(text).rstrip("kMm")
    suffix = str(text)[len(digits) :]
    if not digits.isdigit() or suffix not in _SUFFIXES:
        return 1
    weight = int(digits) * Fraction(_SUFFIXES[suffix])  # type: ignore[call-overload]
    return int(weight) if weight > 0 and weight.denominator == 1 else 1


def _holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if value is None or not value.lstrip("+-").isdigit():
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
