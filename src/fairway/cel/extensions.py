"""The functions for strings, lists and sets that Kubernetes and Open Cluster Management add to CEL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from fairway.cel.machine import function
from fairway.cel.regex import find_all, search
from fairway.cel.values import (
    Budget,
    EvaluationError,
    Uint,
    equal,
    integer,
    is_number,
    ordered,
    type_of,
    unsigned,
    weight,
)

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space as Go defines it; Python's own also has the separators U+001C to U+001F."""
_QUOTED = str.maketrans({char: f"\\{mark}" for char, mark in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)})
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MAX_PRECISION = 100


@function("charAt", "string int", "string", member=True)
def _char_at(text: str, place: int) -> str:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index {place} is out of range")
    return text[place : place + 1]


@function("indexOf", "string string", "int", member=True)
def _index_of(text: str, part: str) -> int:
    return text.find(part)


@function("indexOf", "string string int", "int", member=True)
def _index_from(text: str, part: str, start: int) -> int:
    _in_text(text, start)
    return text.find(part, start)


@function("lastIndexOf", "string string", "int", member=True)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@function("lastIndexOf", "string string int", "int", member=True)
def _last_index_from(text: str, part: str, start: int) -> int:
    _in_text(text, start)
    return text.rfind(part, 0, start + len(part))


@function("lowerAscii", "string", "string", member=True)
def _lower(text: str) -> str:
    return text.translate(_LOWER)


@function("upperAscii", "string", "string", member=True)
def _upper(text: str) -> str:
    return text.translate(_UPPER)


@function("trim", "string", "string", member=True)
def _trim(text: str) -> str:
    return text.strip(_SPACE)


@function("reverse", "string", "string", member=True)
def _reverse(text: str) -> str:
    return text[::-1]


@function("replace", "string string string", "string", member=True, spends=True)
def _replace(budget: Budget, text: str, old: str, new: str) -> str:
    return _replace_some(budget, text, old, new, -1)


@function("replace", "string string string int", "string", member=True, spends=True)
def _replace_some(budget: Budget, text: str, old: str, new: str, most: int) -> str:
    budget.spend_size(len(text))
    times = text.count(old) if old else len(text) + 1
    times = times if most < 0 else min(times, most)
    budget.spend_size(len(text) + times * len(new))
    return text.replace(old, new, times)


@function("split", "string string", "list<string>", member=True, spends=True)
def _split(budget: Budget, text: str, separator: str) -> list[str]:
    return _split_some(budget, text, separator, -1)


@function("split", "string string int", "list<string>", member=True, spends=True)
def _split_some(budget: Budget, text: str, separator: str, most: int) -> list[str]:
    budget.spend_size(2 * len(text))
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    count = len(text) if most < 0 else min(most, len(text))
    return [*text[: max(0, count - 1)], text[count - 1 :]] if count > 0 else []


@function("substring", "string int", "string", member=True)
def _substring(text: str, start: int) -> str:
    return _between(text, start, len(text))


@function("substring", "string int int", "string", member=True)
def _between(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"range {start}..{end} is out of range")
    return text[start:end]


@function("join", "list", "string", member=True, spends=True)
def _join(budget: Budget, parts: list[Any]) -> str:
    return _join_with(budget, parts, "")


@function("join", "list string", "string", member=True, spends=True)
def _join_with(budget: Budget, parts: list[Any], separator: str) -> str:
    if not all(isinstance(part, str) for part in parts):
        raise EvaluationError("only strings can be joined")
    budget.spend_size(weight(parts) + len(parts) * len(separator))
    return separator.join(parts)


@function("strings.quote", "string", "string")
def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


@function("find", "string string", "string", member=True, spends=True)
def _find(budget: Budget, text: str, pattern: str) -> str:
    found = search(pattern, text, budget)
    return "" if found is None else text[found[0] : found[1]]


@function("findAll", "string string", "list<string>", member=True, spends=True)
def _find_all(budget: Budget, text: str, pattern: str) -> list[str]:
    return find_all(pattern, text, budget, -1)


@function("findAll", "string string int", "list<string>", member=True, spends=True)
def _find_some(budget: Budget, text: str, pattern: str, most: int) -> list[str]:
    return find_all(pattern, text, budget, most)


@function("format", "string list", "string", member=True, spends=True)
def _format(budget: Budget, pattern: str, values: list[Any]) -> str:
    parts: list[str] = []
    rest, given = pattern, iter(values)
    while "%" in rest:
        before, _, rest = rest.partition("%")
        parts.append(before)
        if rest.startswith("%"):
            parts.append("%")
            rest = rest[1:]
            continue
        precision, rest = _precision(rest)
        budget.spend_size(weight(parts[-1]))
        try:
            value = next(given)
        except StopIteration:
            raise EvaluationError("format has too few values") from None
        budget.spend_size(weight(value))
        parts.append(_clause(rest[:1], value, precision))
        budget.spend_size(len(parts[-1]))
        rest = rest[1:]
    budget.spend_size(len(rest) + sum(map(len, parts)))
    return "".join(parts) + rest


def _precision(rest: str) -> tuple[int, str]:
    if not rest.startswith("."):
        return 6, rest
    digits = ""
    for char in rest[1:4]:
        if not (char.isascii() and char.isdigit()):
            break
        digits += char
    if not digits or int(digits) > _MAX_PRECISION:
        raise EvaluationError(f"a precision in a format is not from 0 to {_MAX_PRECISION}")
    return int(digits), rest[1 + len(digits) :]


def _clause(kind: str, value: Any, precision: int) -> str:
    if kind == "s":
        return _shown(value)
    if is_number(value):
        whole = not isinstance(value, float)
        if kind == "d" and whole:
            return str(int(value))
        if kind in ("x", "X", "o", "b") and whole:
            return format(int(value), kind)
        if kind in ("f", "e"):
            return format(float(value), f".{precision}{kind}")
    if kind in ("x", "X") and isinstance(value, str | bytes):
        text = (value.encode(errors="replace") if isinstance(value, str) else value).hex()
        return text.upper() if kind == "X" else text
    if kind == "b" and isinstance(value, bool):
        return "1" if value else "0"
    raise EvaluationError(f"%{kind} cannot show a {type_of(value).name}")


def _shown(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case str():
            return value
        case list():
            return "[" + ", ".join(map(_shown, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_shown(key)}: {_shown(item)}" for key, item in sorted(value.items())) + "}"
        case int() | float() | Uint():
            return str(value)
    return str(value)


def _in_text(text: str, place: int) -> None:
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index {place} is out of range")


_MAX_RANGE = 10_000
_MAX_DEPTH = 16
_MAX_INCLUDED = 64
"""Maximum values of a device's attribute that `includes` examines; Kubernetes publishes fewer."""


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
def _list_index_of(values: list[Any], wanted: Any) -> int:
    return next((place for place, value in enumerate(values) if equal(value, wanted)), -1)


@function("lastIndexOf", "list dyn", "int", member=True)
def _last_list_index_of(values: list[Any], wanted: Any) -> int:
    places = (place for place in range(len(values) - 1, -1, -1) if equal(values[place], wanted))
    return next(places, -1)


@function("slice", "list int int", "list", member=True)
def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise EvaluationError(f"range {start}..{end} is out of range")
    return values[start:end]


@function("reverse", "list", "list", member=True)
def _reverse_list(values: list[Any]) -> list[Any]:
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
    if not 0 <= depth <= _MAX_DEPTH:
        raise EvaluationError(f"flatten by {depth}, expected 0 to {_MAX_DEPTH}")
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
    if not 0 <= count <= _MAX_RANGE:
        raise EvaluationError(f"lists.range({count}), expected 0 to {_MAX_RANGE}")
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
    """Whether a value equals another, or a list has it: a device may publish either."""
    if not isinstance(found, list):
        return equal(found, wanted)
    if len(found) > _MAX_INCLUDED:
        raise EvaluationError(f"includes of a list of {len(found)} values, expected at most {_MAX_INCLUDED}")
    return any(equal(value, wanted) for value in found)
