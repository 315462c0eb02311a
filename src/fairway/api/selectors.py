"""Does a set of labels satisfy a selector? The one answer for pods, namespaces and clusters alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairway.api.meta import LabelSelector, LabelSelectorRequirement


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything; no selector matches nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and satisfies(
        selector.match_expressions, labels
    )


def satisfies(requirements: Iterable[LabelSelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds. NotIn and DoesNotExist hold where the key is absent."""
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def _holds(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
