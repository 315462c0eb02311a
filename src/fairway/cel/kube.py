"""Quantities and versions, as the libraries of Kubernetes have them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fairway.cel.errors import EvaluationError
from fairway.cel.functions import function, register_kind
from fairway.cel.values import INT_MAX, INT_MIN, register_type
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_quantity

_NANO = 10**9
_MOST_TEXT = 64
_CORE = r"(0|[1-9][0-9]{0,17})"
_MARKS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(rf"{_CORE}\.{_CORE}\.{_CORE}(?:-({_MARKS}))?(?:\+({_MARKS}))?")


class CelQuantity(NamedTuple):
    """Equal amounts are equal, however they are written."""

    nanos: int


class CelVersion(NamedTuple):
    """A strict semantic version, in order of precedence; build metadata does not count."""

    parts: tuple[int, int, int]
    release: bool
    marks: tuple[tuple[int, int, str], ...]


for _kind, _python in (("Quantity", CelQuantity), ("Semver", CelVersion)):
    register_kind(_kind, _python)
    register_type(_python, f"kubernetes.{_kind}")


def quantity_of(text: str) -> CelQuantity | None:
    if len(text) > _MOST_TEXT:
        return None
    try:
        return CelQuantity(parse_quantity(text).nanos)
    except QuantityError:
        return None


def version_of(text: str, normalize: bool = False) -> CelVersion | None:
    """`normalize` drops a leading `v` and zeros, and adds parts that are missing."""
    if len(text) > _MOST_TEXT:
        return None
    match = _SEMVER.fullmatch(_normal(text) if normalize else text)
    if match is None:
        return None
    marks = match[4].split(".") if match[4] else []
    if any(mark.isdigit() and ((len(mark) > 1 and mark[0] == "0") or len(mark) > 18) for mark in marks):
        return None
    read = tuple((0, int(mark), "") if mark.isdigit() else (1, 0, mark) for mark in marks)
    return CelVersion((int(match[1]), int(match[2]), int(match[3])), not marks, read)


def _normal(text: str) -> str:
    core, mark, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text.removeprefix("v"), re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
    if len(parts) < 3 and mark:
        return text
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest


# -- quantities --------------------------------------------------------------------------------------------


@function("quantity", "string", "Quantity")
def _quantity(text: str) -> CelQuantity:
    found = quantity_of(text)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a quantity")
    return found


@function("isQuantity", "string", "bool")
def _is_quantity(text: str) -> bool:
    return quantity_of(text) is not None


@function("isInteger", "Quantity", "bool", member=True)
def _is_integer(value: CelQuantity) -> bool:
    return value.nanos % _NANO == 0 and INT_MIN <= value.nanos // _NANO <= INT_MAX


@function("asInteger", "Quantity", "int", member=True)
def _as_integer(value: CelQuantity) -> int:
    if not _is_integer(value):
        raise EvaluationError("the quantity is not a whole number of 64 bits")
    return value.nanos // _NANO


@function("asApproximateFloat", "Quantity", "double", member=True)
def _as_float(value: CelQuantity) -> float:
    return value.nanos / _NANO


@function("sign", "Quantity", "int", member=True)
def _sign(value: CelQuantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


@function("add", "Quantity Quantity", "Quantity", member=True)
def _add(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return CelQuantity(left.nanos + right.nanos)


@function("add", "Quantity int", "Quantity", member=True)
def _add_int(left: CelQuantity, right: int) -> CelQuantity:
    return CelQuantity(left.nanos + right * _NANO)


@function("sub", "Quantity Quantity", "Quantity", member=True)
def _sub(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return CelQuantity(left.nanos - right.nanos)


@function("sub", "Quantity int", "Quantity", member=True)
def _sub_int(left: CelQuantity, right: int) -> CelQuantity:
    return CelQuantity(left.nanos - right * _NANO)


# -- versions ----------------------------------------------------------------------------------------------


@function("semver", "string", "Semver")
def _semver(text: str) -> CelVersion:
    return _semver_as(text, False)


@function("semver", "string bool", "Semver")
def _semver_as(text: str, normalize: bool) -> CelVersion:
    found = version_of(text, normalize)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a semantic version")
    return found


@function("isSemver", "string", "bool")
def _is_semver(text: str) -> bool:
    return version_of(text) is not None


@function("isSemver", "string bool", "bool")
def _is_semver_as(text: str, normalize: bool) -> bool:
    return version_of(text, normalize) is not None


for _place, _part in enumerate(("major", "minor", "patch")):
    function(_part, "Semver", "int", member=True)(lambda version, place=_place: version.parts[place])


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


for _kind in ("Quantity", "Semver"):
    _pair = f"{_kind} {_kind}"
    function("compareTo", _pair, "int", member=True)(_compare)
    function("isGreaterThan", _pair, "bool", member=True)(lambda left, right: left > right)
    function("isLessThan", _pair, "bool", member=True)(lambda left, right: left < right)
