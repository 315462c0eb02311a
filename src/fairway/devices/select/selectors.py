"""A class's selector, compiled once into a matcher that returns its reasons.

A device is selected if one of the terms holds; a term holds if all its requirements do. A selector without terms and a
term without requirements match nothing. A term with a problem never matches and never keeps another from matching; a
class is refused when it is created if its matcher has problems.

The operators never raise: an attribute and a value that cannot be compared do not match, NotIn included, and the reason
says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from fairway.api.devices import ClassRequirement, ClassSelector
from fairway.devices.model.device import Device
from fairway.devices.model.values import (
    NOT_ORDERED,
    PROBLEMS,
    Flag,
    Many,
    Operand,
    Relation,
    Scalar,
    Text,
    Value,
    operand,
    relate,
    settle,
)

ABSENT: Final = "Absent"
"""The device has no such key."""
PRESENT: Final = "Present"
"""The device has the key, and must not."""
NOT_LISTED: Final = "NotListed"
"""The attribute equals none of the values."""
LISTED: Final = "Listed"
"""The attribute equals a value that is excluded."""
OUT_OF_RANGE: Final = "OutOfRange"
"""The attribute is on the wrong side of the value."""

MATCHED: Final = ""
"""No reason not to match."""

ORDER = {
    "Gt": (Relation.GREATER,),
    "GtEq": (Relation.GREATER, Relation.EQUAL),
    "Lt": (Relation.LESS,),
    "LtEq": (Relation.LESS, Relation.EQUAL),
}
OPERATORS = ("In", "NotIn", "Eq", *ORDER, "Exists", "DoesNotExist")

SIGNS = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<=", "In": "in", "NotIn": "not in"}
"""An operator in a sentence."""


def problem_of(operator: str, operands: Sequence[Operand]) -> str | None:
    """Why a requirement is unusable for any device; None if it is usable."""
    if operator not in OPERATORS:
        return f"unknown operator {operator!r}, expected one of {', '.join(OPERATORS)}"
    if operator in ("Exists", "DoesNotExist"):
        return f"no value, {operator} got {len(operands)}" if operands else None
    if operator in ("In", "NotIn"):
        return None if operands else f"at least one value, {operator} got none"
    if len(operands) != 1:
        return f"exactly one value, {operator} got {len(operands) or 'none'}"
    if operator in ORDER and not operands[0].ordered:
        return f"operand is neither a number nor a version: {operands[0].text!r}"
    return None


def evaluate(operator: str, value: Value | None, operands: Sequence[Operand]) -> str:
    """MATCHED, or the reason why the attribute does not match. The requirement must have no problem."""
    if value is None:
        return MATCHED if operator in ("NotIn", "DoesNotExist") else ABSENT
    if operator == "Exists":
        return MATCHED
    if operator == "DoesNotExist":
        return PRESENT
    if operator in ORDER:
        return _in_order(operator, value, operands[0])
    return _not_in(value, operands) if operator == "NotIn" else _in(value, operands)


def _in_order(operator: str, value: Value, operand: Operand) -> str:
    if isinstance(value, Many):
        return NOT_ORDERED
    settled = settle(value, operand)
    if isinstance(settled, Text | Flag):
        return NOT_ORDERED
    relation = relate(settled, operand)
    if isinstance(relation, str):
        return relation
    return MATCHED if relation in ORDER[operator] else OUT_OF_RANGE


def _in(value: Value, operands: Sequence[Operand]) -> str:
    """One readable equal value suffices; without one, the first unreadable value is the reason."""
    found = _relations(value, operands)
    if Relation.EQUAL in found:
        return MATCHED
    return _first_problem(found) or NOT_LISTED


def _not_in(value: Value, operands: Sequence[Operand]) -> str:
    """Every value must be readable and unequal."""
    found = _relations(value, operands)
    if Relation.EQUAL in found:
        return LISTED
    return _first_problem(found) or MATCHED


def _relations(value: Value, operands: Sequence[Operand]) -> list[Relation | str]:
    items: tuple[Scalar, ...] = value.items if isinstance(value, Many) else (value,)
    return [relate(settle(item, operand), operand) for item in items for operand in operands]


def _first_problem(found: Sequence[Relation | str]) -> str | None:
    return next((entry for entry in found if isinstance(entry, str)), None)


INVALID: Final = "Invalid"
"""The requirement itself has a problem."""
AMBIGUOUS_UNIT: Final = "AmbiguousUnit"
"""A value is written with a unit that is often misread."""

_REMEMBERED = 65536


class Finding(msgspec.Struct, frozen=True):
    """A remark about a selector: where, what kind, and in words."""

    path: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class RequirementResult(msgspec.Struct, frozen=True):
    """The result of one requirement for a device."""

    requirement: ClassRequirement
    found: str | None
    reason: str

    @property
    def matched(self) -> bool:
        return self.reason == MATCHED

    def __str__(self) -> str:
        """`memory 24G is not >= 30G (OutOfRange)`"""
        wanted = self.requirement
        what = f"{wanted.key} {self.found!r}" if self.found is not None else f"{wanted.key} (absent)"
        if wanted.operator in SIGNS:
            operands = wanted.values[0] if len(wanted.values) == 1 else f"[{', '.join(wanted.values)}]"
            rule = f"{SIGNS[wanted.operator]} {operands}"
        else:
            rule = wanted.operator
        return f"{what} {rule}" if self.matched else f"{what} does not meet: {rule} ({self.reason})"


class TermResult(msgspec.Struct, frozen=True):
    """The result of one term of the selector for a device."""

    requirements: tuple[RequirementResult, ...]

    @property
    def matched(self) -> bool:
        return bool(self.requirements) and not self.missed

    @property
    def missed(self) -> tuple[RequirementResult, ...]:
        return tuple(result for result in self.requirements if not result.matched)


class MatchResult(msgspec.Struct, frozen=True):
    """The result, and the results of the terms that led to it."""

    matched: bool
    terms: tuple[TermResult, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Why values could not be compared, each reason once: counted per class and shown."""
        reasons = {missed.reason for term in self.terms for missed in term.missed}
        return tuple(reason for reason in PROBLEMS if reason in reasons)


class Requirement:
    """One requirement with its values parsed."""

    __slots__ = ("operands", "problem", "source")

    def __init__(self, source: ClassRequirement) -> None:
        self.source = source
        self.operands: tuple[Operand, ...] = tuple(map(operand, source.values))
        self.problem = problem_of(source.operator, self.operands)

    def meet(self, value: Value | None) -> RequirementResult:
        reason = INVALID if self.problem else evaluate(self.source.operator, value, self.operands)
        return RequirementResult(self.source, None if value is None else value.text, reason)


class Matcher:
    """Evaluates devices; those that are equal in all that the class reads are evaluated once."""

    def __init__(self, selectors: Sequence[ClassSelector]) -> None:
        self.terms = tuple(tuple(map(Requirement, selector.match_expressions)) for selector in selectors)
        self.keys = tuple(dict.fromkeys(r.source.key for term in self.terms for r in term))
        self.problems, self.warnings = _inspect(self.terms)
        self._known: dict[tuple[Value | None, ...], MatchResult] = {}

    def match(self, device: Device) -> MatchResult:
        values = tuple(map(device.lookup, self.keys))
        result = self._known.get(values)
        if result is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            result = self._known[values] = self._work_out(dict(zip(self.keys, values, strict=True)))
        return result

    def selects(self, device: Device) -> bool:
        return self.match(device).matched

    def _work_out(self, values: dict[str, Value | None]) -> MatchResult:
        terms = tuple(TermResult(tuple(r.meet(values[r.source.key]) for r in term)) for term in self.terms)
        return MatchResult(any(term.matched for term in terms), terms)


def compile_selector(selectors: Sequence[ClassSelector]) -> Matcher:
    """Compiles a class's `resourceSelector`. A class whose matcher has problems is refused."""
    return Matcher(selectors)


def _inspect(terms: Sequence[Sequence[Requirement]]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    problems, warnings = [], []
    for i, term in enumerate(terms):
        for j, requirement in enumerate(term):
            path = f"resourceSelector[{i}].matchExpressions[{j}]"
            if requirement.problem:
                problems.append(Finding(path, INVALID, requirement.problem))
            warnings += [
                Finding(path, AMBIGUOUS_UNIT, f"{o.text} is read as bits per second; write bps, or B/s for bytes")
                for o in requirement.operands
                if o.number is not None and o.number.ambiguous
            ]
    return tuple(problems), tuple(warnings)
