"""The functions for lists and sets that Kubernetes and Open Cluster Management add."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from fairway.cel.errors import Budget, EvaluationError
from fairway.cel.functions import function
from fairway.cel.values import Uint, equal, integer, ordered, type_of, unsigned, weight

_MOST_RANGE = 10_000
_MOST_DEPTH = 16
_MOST_INCLUDED = 64
"""Values of a device's attribute that `includes` looks at; Kubernetes publishes fewer."""


@function("isSorted", "list", "bool", member=True)
def _is_sorted(values: list[Any]) -> bool:
    return all(not _less(after, before) for before, after in pairwise(values))


@function("sum", "list", "dyn", member=True)
def _sum(values: list[Any]) -> Any:
    if not values:
        return 0
    kind = type(values[0])
    if any(type(value) is not kind for value in values):
        raise EvaluationError("a sum of different types")
    if kind is Uint:
        return unsigned(sum(map(int, values)))
    if kind is int:
        return integer(sum(values))
    if kind is float:
        return sum(values)
    if kind is timedelta:
        return sum(values, timedelta())
    raise EvaluationError(f"there is no sum of {type_of(values[0]).name} values")


@function("min", "list", "dyn", member=True)
def _min(values: list[Any]) -> Any:
    return _extreme(values, lambda best, value: _less(value, best))


@function("max", "list", "dyn", member=True)
def _max(values: list[Any]) -> Any:
    return _extreme(values, lambda best, value: _less(best, value))


def _extreme(values: list[Any], better: Callable[[Any, Any], bool]) -> Any:
    if not values:
        raise EvaluationError("an empty list has no least or greatest value")
    best = values[0]
    for value in values[1:]:
        if better(best, value):
            best = value
    return best


def _less(left: Any, right: Any) -> bool:
    if not ordered(left, right):
        raise EvaluationError(f"{type_of(left).name} and {type_of(right).name} have no order")
    return bool(left < right)


@function("indexOf", "list dyn", "int", member=True)
def _index_of(values: list[Any], wanted: Any) -> int:
    return next((place for place, value in enumerate(values) if equal(value, wanted)), -1)


@function("lastIndexOf", "list dyn", "int", member=True)
def _last_index_of(values: list[Any], wanted: Any) -> int:
    places = (place for place in range(len(values) - 1, -1, -1) if equal(values[place], wanted))
    return next(places, -1)


@function("slice", "list int int", "list", member=True)
def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise EvaluationError(f"range {start}..{end} is out of range")
    return values[start:end]


@function("reverse", "list", "list", member=True)
def _reverse(values: list[Any]) -> list[Any]:
    return values[::-1]


@function("distinct", "list", "list", member=True, spends=True)
def _distinct(budget: Budget, values: list[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        budget.spend_size(weight(found))
        if not any(equal(value, other) for other in found):
            found.append(value)
    return found


@function("sort", "list", "list", member=True)
def _sort(values: list[Any]) -> list[Any]:
    for before, after in pairwise(values):
        _less(before, after)
    return sorted(values)


@function("flatten", "list", "list", member=True, spends=True)
def _flatten(budget: Budget, values: list[Any]) -> list[Any]:
    return _flatten_to(budget, values, 1)


@function("flatten", "list int", "list", member=True, spends=True)
def _flatten_to(budget: Budget, values: list[Any], depth: int) -> list[Any]:
    if not 0 <= depth <= _MOST_DEPTH:
        raise EvaluationError(f"flatten by {depth}, expected 0 to {_MOST_DEPTH}")
    found: list[Any] = []
    for value in values:
        budget.spend()
        if depth and isinstance(value, list):
            found += _flatten_to(budget, value, depth - 1)
        else:
            found.append(value)
    return found


@function("lists.range", "int", "list", spends=True)
def _range(budget: Budget, count: int) -> list[int]:
    if not 0 <= count <= _MOST_RANGE:
        raise EvaluationError(f"lists.range({count}), expected 0 to {_MOST_RANGE}")
    budget.spend_size(count)
    return list(range(count))


@function("sets.contains", "list list", "bool", spends=True)
def _contains(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    budget.spend_size(weight(values) * (1 + len(others)))
    return all(any(equal(value, other) for value in values) for other in others)


@function("sets.equivalent", "list list", "bool", spends=True)
def _equivalent(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    return _contains(budget, values, others) and _contains(budget, others, values)


@function("sets.intersects", "list list", "bool", spends=True)
def _intersects(budget: Budget, values: list[Any], others: list[Any]) -> bool:
    budget.spend_size(weight(values) * (1 + len(others)))
    return any(equal(value, other) for value in values for other in others)


@function("includes", "dyn dyn", "bool", member=True)
def _includes(found: Any, wanted: Any) -> bool:
    """Whether a value is, or a list has, another: what a device publishes may be either."""
    if not isinstance(found, list):
        return equal(found, wanted)
    if len(found) > _MOST_INCLUDED:
        raise EvaluationError(f"includes of a list of {len(found)} values, expected at most {_MOST_INCLUDED}")
    return any(equal(value, wanted) for value in found)
