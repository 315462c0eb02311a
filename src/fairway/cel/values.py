"""The values of CEL in Python, what holds for values of any type (equality, order, size, type), and what an evaluation
may cost.

Integers are `int`, unsigned ones `Uint`, lists `list`, maps `dict`. Numbers of different types that are equal are one
key of a map; true and false are keys of their own. Times are RFC 3339, durations such as `1h30m`.

An expression that fails raises EvaluationError; one that exceeds its budget raises BudgetError, which no operator of
the language absorbs: `x || true` is true though `x` fails, but not though `x` is too expensive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple


class EvaluationError(Exception):
    """The expression has no value for this input. `&&` and `||` may not need that value."""


class BudgetError(Exception):
    """The evaluation was aborted. No operator of the language absorbs it."""


class Budget:
    """How much one evaluation may still do. One unit is a step, or ten characters or two elements that are handled:
    about a microsecond.
    """

    __slots__ = ("left", "patterns")

    def __init__(self, units: int) -> None:
        self.left = units
        self.patterns: set[str] = set()
        """Regular expressions that this evaluation has paid for."""

    def spend(self, units: int = 1) -> None:
        """Call it before the work: nothing larger than what is left is ever made."""
        self.left -= units
        if self.left < 0:
            raise BudgetError("the evaluation costs too much")

    def spend_size(self, size: int) -> None:
        self.spend(1 + size // 10)


_MAX_ELEMENTS = 50_000
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer."""


class OptionalValue(NamedTuple):
    """A value that may be absent."""

    there: bool
    value: Any = None


NOTHING = OptionalValue(there=False)


class TypeValue(NamedTuple):
    """The result of `type()`."""

    name: str


class Failed(NamedTuple):
    """An error kept as a value while a macro continues: `exists` may still find a match."""

    error: EvaluationError


class DefaultMap(dict[str, Any]):
    """A map whose missing keys are empty maps when they are looked up."""


class BoolKey(NamedTuple):
    value: bool


_TYPES: list[tuple[type, str]] = [
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (type(None), "null_type"),
    (TypeValue, "type"),
    (OptionalValue, "optional_type"),
    (datetime, "google.protobuf.Timestamp"),
    (timedelta, "google.protobuf.Duration"),
]


def register_type(python: type, name: str) -> None:
    """Registers a type for `type()`."""
    _TYPES.append((python, name))


def type_of(value: Any) -> TypeValue:
    return TypeValue(next((name for python, name in _TYPES if isinstance(value, python)), "dyn"))


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Any, right: Any) -> bool:
    """Values of different types are unequal, except that numbers are compared as numbers."""
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    if isinstance(left, OptionalValue) and isinstance(right, OptionalValue):
        return left.there == right.there and equal(left.value, right.value)
    return type(left) is type(right) and bool(left == right)


def weight(value: Any) -> int:
    """The size of a value: its characters, and five for each element.

    BudgetError if it has too many elements to count: a value may contain itself twice, and that again, after a few
    steps.
    """
    if not isinstance(value, list | dict):
        return len(value) if isinstance(value, str | bytes) else 1
    total, seen, stack = 0, 0, [value]
    while stack:
        found = stack.pop()
        seen += len(found)
        if seen > _MAX_ELEMENTS:
            raise BudgetError("the evaluation costs too much")
        total += 5 * len(found)
        for item in found if isinstance(found, list) else found.values():
            if isinstance(item, list | dict):
                stack.append(item)
            else:
                total += len(item) if isinstance(item, str | bytes) else 1
    return total


def ordered(left: Any, right: Any) -> bool:
    """Whether `<` and its like are defined for two values."""
    if is_number(left) and is_number(right):
        return True
    return type(left) is type(right) and isinstance(left, str | bytes | bool | datetime | timedelta)


def key_of(value: Any) -> Hashable:
    """A value as a key of a map."""
    if isinstance(value, bool):
        return BoolKey(value)
    if isinstance(value, str):
        return value
    if is_number(value) and value == value and abs(value) != float("inf") and value == int(value):
        return int(value)
    raise EvaluationError(f"{type_of(value).name} cannot be a key of a map")


def keys(found: dict[Any, Any]) -> list[Any]:
    return [key.value if isinstance(key, BoolKey) else key for key in found]


def integer(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("integer overflow")
    return value


def unsigned(value: int) -> Uint:
    if not 0 <= value <= UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def true_or_false(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise EvaluationError(f"expected true or false, found a {type_of(value).name}")


Implementation = Callable[..., Any]


_MOST = 64
_SPAN = re.compile(r"[+-]?(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:h|ms|us|µs|ns|m|s))+")
_PART = re.compile(r"([0-9.]+)(h|ms|us|µs|ns|m|s)")
_MICROS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "µs": 1, "ns": 0.001}


def parse_timestamp(text: str) -> datetime:
    try:
        if len(text) <= _MOST and "T" in text.upper():
            found = datetime.fromisoformat(text)
            if found.tzinfo is not None:
                return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise EvaluationError("the text is not a time")


def parse_duration(text: str) -> timedelta:
    if len(text) <= _MOST and (text == "0" or _SPAN.fullmatch(text)):
        micros = sum(float(amount) * _MICROS[unit] for amount, unit in _PART.findall(text))
        return timedelta(microseconds=-micros if text.startswith("-") else micros)
    raise EvaluationError("the text is not a duration")


def timestamp_text(at: datetime) -> str:
    text = at.astimezone(UTC).isoformat().replace("+00:00", "")
    return (text.rstrip("0") if "." in text else text) + "Z"


def duration_text(span: timedelta) -> str:
    text = f"{span.total_seconds():f}".rstrip("0").rstrip(".")
    return f"{text}s"
