"""The functions and operators that CEL has by itself."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from fairway.cel.machine import F, function, look_up, optional_index
from fairway.cel.regex import search
from fairway.cel.values import (
    INT_MAX,
    INT_MIN,
    NOTHING,
    Budget,
    EvaluationError,
    OptionalValue,
    TypeValue,
    Uint,
    duration_text,
    equal,
    integer,
    is_number,
    key_of,
    ordered,
    parse_duration,
    parse_timestamp,
    timestamp_text,
    true_or_false,
    type_of,
    unsigned,
    weight,
)

_MAX_DIGITS = 32


def _builtin(name: str, parameters: str, *, member: bool = False, spends: bool = False) -> Callable[[F], F]:
    return function(name, parameters, "dyn", member=member, spends=spends, declared=False)


def _arithmetic(name: str, whole: Callable[[int, int], int], real: Callable[[float, float], float] | None) -> None:
    def compute(left: Any, right: Any) -> Any:
        if isinstance(left, Uint) and isinstance(right, Uint):
            return unsigned(whole(left, right))
        if is_number(left) and is_number(right) and type(left) is type(right):
            if isinstance(left, int):
                return integer(whole(left, right))
            if real is not None:
                return real(left, right)
        raise EvaluationError(f"no such overload: {type_of(left).name} {name.strip('_')} {type_of(right).name}")

    _builtin(name, "dyn dyn")(compute)


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divided(left, right)


def _real_divided(left: float, right: float) -> float:
    if right:
        return left / right
    return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1, right)


def _plus(budget: Budget, left: Any, right: Any) -> Any:
    if type(left) is type(right) and isinstance(left, str | bytes | list):
        budget.spend_size(len(left) + len(right))
        return left + right
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return _in_range(operator.add, left, right)
    return _add_numbers(left, right)


def _add_numbers(left: Any, right: Any) -> Any:
    if is_number(left) and type(left) is type(right):
        if isinstance(left, Uint):
            return unsigned(left + right)
        return integer(left + right) if isinstance(left, int) else left + right
    raise EvaluationError(f"no such overload: {type_of(left).name} + {type_of(right).name}")


def _in_range(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    try:
        return compute(left, right)
    except (OverflowError, TypeError):
        raise EvaluationError("not a time") from None


def _minus(left: Any, right: Any) -> Any:
    if isinstance(left, datetime | timedelta) and isinstance(right, datetime | timedelta):
        return _in_range(operator.sub, left, right)
    if is_number(left) and type(left) is type(right):
        if isinstance(left, Uint):
            return unsigned(int(left) - int(right))
        return integer(left - right) if isinstance(left, int) else left - right
    raise EvaluationError(f"no such overload: {type_of(left).name} - {type_of(right).name}")


_arithmetic("_*_", operator.mul, operator.mul)
_arithmetic("_/_", _divided, _real_divided)
_arithmetic("_%_", _remainder, None)
_builtin("_+_", "dyn dyn", spends=True)(_plus)
_builtin("_-_", "dyn dyn")(_minus)


def _comparison(name: str, compare: Callable[[Any, Any], bool]) -> None:
    def compute(left: Any, right: Any) -> bool:
        if not ordered(left, right):
            raise EvaluationError(f"no such overload: {type_of(left).name} {name.strip('_')} {type_of(right).name}")
        return compare(left, right)

    _builtin(name, "dyn dyn")(compute)


for _name, _compare in (("_<_", operator.lt), ("_<=_", operator.le), ("_>_", operator.gt), ("_>=_", operator.ge)):
    _comparison(_name, _compare)


@_builtin("-_", "dyn")
def _negative(value: Any) -> Any:
    if isinstance(value, float):
        return -value
    if is_number(value) and not isinstance(value, Uint):
        return integer(-value)
    raise EvaluationError(f"no such overload: -{type_of(value).name}")


@_builtin("!_", "dyn")
def _not(value: Any) -> bool:
    return not true_or_false(value)


@_builtin("_[_]", "dyn dyn", spends=True)
def _index(budget: Budget, found: Any, key: Any) -> Any:
    budget.spend()
    if isinstance(found, OptionalValue):
        return optional_index(found, key)
    return look_up(found, key)


@_builtin("_?._", "dyn dyn", spends=True)
@_builtin("_[?_]", "dyn dyn", spends=True)
def _optional_index(budget: Budget, found: Any, key: Any) -> Any:
    budget.spend()
    return optional_index(found, key)


@_builtin("@in", "dyn list", spends=True)
def _in_list(budget: Budget, value: Any, found: list[Any]) -> bool:
    budget.spend_size(weight(found))
    return any(equal(value, item) for item in found)


@_builtin("@in", "dyn map", spends=True)
def _in_map(budget: Budget, value: Any, found: dict[Any, Any]) -> bool:
    budget.spend()
    try:
        return key_of(value) in found
    except EvaluationError:
        return False


def _size(budget: Budget, value: Any) -> int:
    budget.spend()
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise EvaluationError(f"a {type_of(value).name} has no size")


_builtin("size", "dyn", spends=True)(_size)
_builtin("size", "dyn", member=True, spends=True)(_size)


@_builtin("contains", "string string", member=True)
def _contains(text: str, part: str) -> bool:
    return part in text


@_builtin("startsWith", "string string", member=True)
def _starts(text: str, part: str) -> bool:
    return text.startswith(part)


@_builtin("endsWith", "string string", member=True)
def _ends(text: str, part: str) -> bool:
    return text.endswith(part)


@_builtin("matches", "string string", spends=True)
@_builtin("matches", "string string", member=True, spends=True)
def _matches(budget: Budget, text: str, pattern: str) -> bool:
    return search(pattern, text, budget) is not None


# -- conversions -------------------------------------------------------------------------------------------


@_builtin("dyn", "dyn", spends=True)
def _dyn(budget: Budget, value: Any) -> Any:
    return value


@_builtin("type", "dyn")
def _type(value: Any) -> TypeValue:
    return type_of(value)


@_builtin("int", "dyn")
def _int(value: Any) -> int:
    match value:
        case str():
            return integer(_digits(value))
        case float():
            if not INT_MIN < value < INT_MAX:
                raise EvaluationError("integer overflow")
            return int(value)
        case datetime():
            return int(value.timestamp())
    if is_number(value):
        return integer(int(value))
    raise EvaluationError(f"a {type_of(value).name} cannot become an int")


@_builtin("uint", "dyn")
def _uint(value: Any) -> Uint:
    if isinstance(value, str):
        return unsigned(_digits(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError("unsigned integer overflow")
    if is_number(value):
        return unsigned(int(value))
    raise EvaluationError(f"a {type_of(value).name} cannot become a uint")


@_builtin("double", "dyn")
def _double(value: Any) -> float:
    if is_number(value):
        return float(value)
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and "_" not in value and value == value.strip():
        try:
            return float(value)
        except ValueError:
            pass
    raise EvaluationError(f"a {type_of(value).name} cannot become a double")


def _digits(text: str) -> int:
    body = text.removeprefix("-").removeprefix("+") if text[:2] not in ("-+", "+-") else ""
    if not (body.isascii() and body.isdigit() and len(body) <= _MAX_DIGITS):
        raise EvaluationError("the text is not a whole number")
    return int(text)


@function("string", "dyn", "string")
def _string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("the bytes are not UTF-8") from None
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return duration_text(value)
        case float():
            return str(int(value)) if value == value // 1 and abs(value) < 1e15 else repr(value)
    if is_number(value):
        return str(int(value))
    raise EvaluationError(f"a {type_of(value).name} cannot become a string")


@_builtin("bytes", "dyn")
def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode(errors="replace")
    if isinstance(value, bytes):
        return value
    raise EvaluationError(f"a {type_of(value).name} cannot become bytes")


@_builtin("bool", "dyn")
def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "t", "1", "TRUE", "True", "T"):
        return True
    if value in ("false", "f", "0", "FALSE", "False", "F"):
        return False
    raise EvaluationError("neither true nor false")


# -- times -------------------------------------------------------------------------------------------------


@_builtin("timestamp", "dyn")
def _timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, str):
        return parse_timestamp(value)
    if is_number(value) and not isinstance(value, float):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, ValueError, OSError):
            pass
    raise EvaluationError(f"a {type_of(value).name} cannot become a timestamp")


@_builtin("duration", "dyn")
def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise EvaluationError(f"a {type_of(value).name} cannot become a duration")


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: (at.weekday() + 1) % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_SPANS = {"getHours": 3600, "getMinutes": 60, "getSeconds": 1}
for _name, _part in _PARTS.items():
    _builtin(_name, "timestamp", member=True)(lambda at, part=_part: part(at.astimezone(UTC)))
for _name, _seconds in _SPANS.items():
    _builtin(_name, "duration", member=True)(lambda span, unit=_seconds: int(span.total_seconds() / unit))


# -- optional values ---------------------------------------------------------------------------------------


@_builtin("optional.of", "dyn", spends=True)
def _of(budget: Budget, value: Any) -> OptionalValue:
    return OptionalValue(True, value)


@_builtin("optional.none", "", spends=True)
def _none(budget: Budget) -> OptionalValue:
    return NOTHING


@_builtin("optional.ofNonZeroValue", "dyn", spends=True)
def _of_non_zero(budget: Budget, value: Any) -> OptionalValue:
    return OptionalValue(True, value) if value or value == NOTHING else NOTHING


@_builtin("hasValue", "optional", member=True, spends=True)
def _has_value(budget: Budget, found: OptionalValue) -> bool:
    return found.there


@_builtin("value", "optional", member=True, spends=True)
def _value(budget: Budget, found: OptionalValue) -> Any:
    if not found.there:
        raise EvaluationError("the optional value is not there")
    return found.value
