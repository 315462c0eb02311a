"""What a device says about itself, and how it meets the text that a class compares it with.

A driver publishes typed values; an annotation or a label holds raw text. The type of the attribute decides
how the operand is read, never the other way round, with one exception: raw text meets an operand marked as a
version (`v3.10`) as a version. Raw text is taken for, in this order: true or false, a number with or without
a unit, an unmistakable version, a string.

What cannot be compared is a reason, not an error, so that one odd device never stops the others.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from fairway.devices.model.units import Number, parse_number
from fairway.devices.model.versions import Version, is_marked, is_unmistakable, parse_version

TYPE_MISMATCH: Final = "TypeMismatch"
"""The operand cannot be read as the attribute's type."""
DIMENSION_MISMATCH: Final = "DimensionMismatch"
"""Both are numbers, but of different dimensions."""
NOT_ORDERED: Final = "NotOrdered"
"""The attribute is of a type that has no order."""

PROBLEMS = (TYPE_MISMATCH, DIMENSION_MISMATCH, NOT_ORDERED)
"""Reasons that point at a class or device written wrongly, rather than at a device that merely differs."""


class Raw(msgspec.Struct, frozen=True):
    """Text without a type."""

    text: str


class Text(msgspec.Struct, frozen=True):
    """A string: equal only to exactly the same characters."""

    text: str


class Flag(msgspec.Struct, frozen=True):
    """True or false."""

    value: bool

    @property
    def text(self) -> str:
        return "true" if self.value else "false"


class Unreadable(msgspec.Struct, frozen=True):
    """Published with a type that its text does not have: present, but equal to nothing."""

    text: str


Settled = Text | Flag | Number | Version | Unreadable
"""What is known to be of a type."""
Scalar = Raw | Settled


class Many(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Scalar, ...]

    @property
    def text(self) -> str:
        return f"[{', '.join(item.text for item in self.items)}]"


Value = Scalar | Many


class Relation(Enum):
    """How an attribute stands to an operand."""

    LESS = "less"
    EQUAL = "equal"
    GREATER = "greater"
    UNEQUAL = "unequal"
    """Different, where there is no order."""


class Operand(msgspec.Struct, frozen=True):
    """A value of a class, read once in every way that an attribute may ask for."""

    text: str
    number: Number | None
    version: Version | None
    flag: bool | None

    @property
    def marked_version(self) -> bool:
        return self.version is not None and is_marked(self.text)

    @property
    def ordered(self) -> bool:
        return self.number is not None or self.version is not None


def operand(text: str) -> Operand:
    flag = text == "true" if text in ("true", "false") else None
    return Operand(text, parse_number(text), parse_version(text), flag)


@lru_cache(maxsize=65536)
def infer(text: str) -> Text | Flag | Number | Version:
    """What raw text is taken for."""
    if text in ("true", "false"):
        return Flag(text == "true")
    if (number := parse_number(text)) is not None:
        return number
    if is_unmistakable(text) and (version := parse_version(text)) is not None:
        return version
    return Text(text)


def settle(value: Scalar, other: Operand) -> Settled:
    """The attribute as what it meets this operand as."""
    if not isinstance(value, Raw):
        return value
    marked = parse_version(value.text) if other.marked_version else None
    return marked or infer(value.text)


def relate(value: Settled, other: Operand) -> Relation | str:
    """How the attribute stands to the operand, or the reason why that cannot be said."""
    match value:
        case Number():
            if other.number is None:
                return TYPE_MISMATCH
            if not value.meets(other.number):
                return DIMENSION_MISMATCH
            return _order(value.value, other.number.value)
        case Version():
            return _order(value.precedence, other.version.precedence) if other.version else TYPE_MISMATCH
        case Flag():
            return TYPE_MISMATCH if other.flag is None else _same(value.value, other.flag)
        case Text():
            return _same(value.text, other.text)
        case Unreadable():
            return TYPE_MISMATCH


def published_version(text: str) -> Version | Unreadable:
    """A version attribute as a driver publishes it."""
    return parse_version(text) or Unreadable(text)


def _order(left: Any, right: Any) -> Relation:
    if left == right:
        return Relation.EQUAL
    return Relation.LESS if left < right else Relation.GREATER


def _same(left: object, right: object) -> Relation:
    return Relation.EQUAL if left == right else Relation.UNEQUAL
