"""The operators of a class: how many values each takes, and when each matches an attribute.

Nothing here raises: an attribute and a value that cannot be compared do not match, NotIn included, and the
reason says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairway.devices.model.values import (
    NOT_ORDERED,
    Flag,
    Many,
    Operand,
    Relation,
    Scalar,
    Text,
    Value,
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
"""How an operator reads in a sentence."""


def problem_of(operator: str, operands: Sequence[Operand]) -> str | None:
    """Why a requirement can never be used, whatever the device; None if it can."""
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
    """MATCHED, or the reason why the attribute does not match. The requirement must be without problem."""
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
    """One readable equal value is enough; the first unreadable one is the reason if there is none."""
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
