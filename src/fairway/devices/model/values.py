"""The values that describe a device, and how one is compared with the text that a class states.

A driver publishes typed values; an annotation or a label holds raw text. The type of the attribute decides how the
operand is read, never the other way round, with one exception: raw text meets an operand marked as a version (`v3.10`)
as a version. Raw text is taken for, in this order: true or false, a number with or without a unit, an unmistakable
version, a string. Values that cannot be compared give a reason, not an error, so that one odd device never stops the
others.

Numbers are exact and have a dimension: `30G`, `28Gi`, `32 GiB`, `40Gbps`, `1.4 GHz`, `1500mW`. Numbers of different
dimensions are never compared, with one exception: a scalar with a Kubernetes suffix (`30G`) may also stand for bytes,
because that is how memory is written there.

Versions are ordered by semantic-version precedence. More is read than the standard allows, since drivers write `v8.6`
and `535.86.05`: a leading `v` is dropped, missing parts are zero, leading zeros do not count. Build metadata is
ignored; four parts are not a version.
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import msgspec

from fairway.resources.quantity import BINARY_SUFFIXES, DECIMAL_SUFFIXES, MAX_EXPONENT, MAX_TEXT, Format, Quantity

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?( ?)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,4})")

Exact = int | Fraction
"""An exact value; integers are kept as int, which compares much faster."""


class Dimension(Enum):
    """What a number measures."""

    SCALAR = "scalar"
    BYTES = "bytes"
    BITS_PER_SECOND = "bits/s"
    HERTZ = "hertz"
    WATT = "watt"


class Number(msgspec.Struct, frozen=True):
    """An exact value of a dimension, in its base unit; `text` is what was written."""

    value: Exact
    dimension: Dimension
    text: str
    may_be_bytes: bool = False
    """A scalar that may also be compared with bytes."""
    ambiguous: bool = False
    """Written with a unit that is often misread (`GBPS`)."""

    def meets(self, other: Number) -> bool:
        """Whether the two can be compared."""
        if self.dimension is other.dimension:
            return True
        return (self.may_be_bytes and other.dimension is Dimension.BYTES) or (
            other.may_be_bytes and self.dimension is Dimension.BYTES
        )


class _Unit(msgspec.Struct, frozen=True):
    factor: Exact
    dimension: Dimension
    ambiguous: bool = False


def _units() -> dict[str, _Unit]:
    """Every unit with every prefix it takes. Case matters: mW is not MW."""
    decimal = {prefix: _exact(Fraction(10) ** power) for prefix, power in DECIMAL_SUFFIXES.items()}
    thousands = {prefix: factor for prefix, factor in decimal.items() if factor >= 1}
    multiples = thousands | {prefix: 2**power for prefix, power in BINARY_SUFFIXES.items()}
    table: dict[str, _Unit] = {}
    for prefix, factor in decimal.items():
        table[f"{prefix}Hz"] = _Unit(factor, Dimension.HERTZ)
        table[f"{prefix}W"] = _Unit(factor, Dimension.WATT)
    for prefix, factor in multiples.items():
        table[f"{prefix}B"] = _Unit(factor, Dimension.BYTES)
        for bits, names in ((1, ("bps", "bit/s", "b/s")), (8, ("Bps", "B/s"))):
            table |= {f"{prefix}{name}": _Unit(bits * factor, Dimension.BITS_PER_SECOND) for name in names}
    for prefix, factor in thousands.items():
        table[f"{prefix.upper()}BPS"] = _Unit(factor, Dimension.BITS_PER_SECOND, ambiguous=True)
    table["KB"] = table["kB"]
    return table


def _exact(value: Fraction) -> Exact:
    return value.numerator if value.denominator == 1 else value


_UNITS = _units()


@lru_cache(maxsize=65536)
def parse_number(text: str) -> Number | None:
    """The number in a text, if it is one. A unit may follow one space, a bare suffix none."""
    if len(text) > MAX_TEXT:
        return None
    match = _NUMBER.match(text)
    assert match is not None  # every part may be empty
    sign, whole, part, blank, rest = match.groups(default="")
    if not whole and not part:
        return None
    digits = Fraction(int(f"{sign}{whole}{part}"), 10 ** len(part))
    if unit := _UNITS.get(rest):
        return Number(_exact(digits * unit.factor), unit.dimension, text, ambiguous=unit.ambiguous)
    factor = None if blank else _suffix_factor(rest)
    if factor is None:
        return None
    return Number(_exact(digits * factor), Dimension.SCALAR, text, may_be_bytes=bool(rest))


def of_int(value: int) -> Number:
    """An integer attribute as a driver publishes it."""
    return Number(value, Dimension.SCALAR, str(value))


def of_quantity(quantity: Quantity) -> Number:
    """A capacity as a driver publishes it: a scalar or bytes, depending on the comparison."""
    return _of_nanos(quantity.nanos, quantity.format)


@lru_cache(maxsize=65536)
def _of_nanos(nanos: int, format: Format) -> Number:
    value = _exact(Fraction(nanos, 10**9))
    return Number(value, Dimension.SCALAR, str(Quantity(nanos, format)), may_be_bytes=True)


def _suffix_factor(suffix: str) -> Exact | None:
    if suffix in DECIMAL_SUFFIXES:
        return _exact(Fraction(10) ** DECIMAL_SUFFIXES[suffix])
    if suffix in BINARY_SUFFIXES:
        return int(2 ** BINARY_SUFFIXES[suffix])
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match[1])) > MAX_EXPONENT:
        return None
    return _exact(Fraction(10) ** int(match[1]))


MAX_VERSION = 64
"""Maximum length of a version that Kubernetes publishes."""

_MAX_DIGITS = 18
_VERSION = re.compile(
    r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_MARKED = re.compile(r"v[0-9]")
_THREE_PARTS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(?:[-+]|\Z)")

Identifier = tuple[int, int, str]
"""One part of a prerelease: (0, number, "") or (1, 0, text); numbers come before texts."""


class Version(msgspec.Struct, frozen=True):
    """Compare by `precedence`; `text` is what was written."""

    parts: tuple[int, int, int]
    prerelease: tuple[Identifier, ...]
    text: str

    @property
    def precedence(self) -> tuple[tuple[int, int, int], bool, tuple[Identifier, ...]]:
        """A prerelease comes before its release."""
        return self.parts, not self.prerelease, self.prerelease

    def normal(self) -> str:
        """The strict semantic version of the same precedence."""
        core = ".".join(map(str, self.parts))
        marks = [text if kind else str(number) for kind, number, text in self.prerelease]
        return f"{core}-{'.'.join(marks)}" if marks else core


@lru_cache(maxsize=65536)
def parse_version(text: str) -> Version | None:
    """The version in a text, if it is one."""
    match = _VERSION.fullmatch(text) if len(text) <= MAX_VERSION else None
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups(default="")
    marks = prerelease.split(".") if prerelease else []
    if any(mark.isdigit() and len(mark) > _MAX_DIGITS for mark in (major, minor, patch, *marks)):
        return None
    parts = (int(major), int(minor or 0), int(patch or 0))
    return Version(parts, tuple(map(_identifier, marks)), text)


def is_marked(text: str) -> bool:
    """Whether a text starts as `v8` does, which marks a version."""
    return _MARKED.match(text) is not None


def is_unmistakable(text: str) -> bool:
    """Whether raw text is read as a version: marked, or with three dotted numbers."""
    return is_marked(text) or _THREE_PARTS.match(text) is not None


def _identifier(mark: str) -> Identifier:
    return (0, int(mark), "") if mark.isdigit() else (1, 0, mark)


TYPE_MISMATCH: Final = "TypeMismatch"
"""The operand cannot be read as the attribute's type."""
DIMENSION_MISMATCH: Final = "DimensionMismatch"
"""Both are numbers, but of different dimensions."""
NOT_ORDERED: Final = "NotOrdered"
"""The attribute is of a type that has no order."""

PROBLEMS = (TYPE_MISMATCH, DIMENSION_MISMATCH, NOT_ORDERED)
"""Reasons that point to an error in a class or device, rather than to a device that differs."""


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
"""A value of a known type."""
Scalar = Raw | Settled


class Many(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[Scalar, ...]

    @property
    def text(self) -> str:
        return f"[{', '.join(item.text for item in self.items)}]"


Value = Scalar | Many


class Relation(Enum):
    """How an attribute compares with an operand."""

    LESS = "less"
    EQUAL = "equal"
    GREATER = "greater"
    UNEQUAL = "unequal"
    """Different, for types without an order."""


class Operand(msgspec.Struct, frozen=True):
    """A value of a class, parsed once as every type that an attribute may have."""

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
    """The value that raw text is read as."""
    if text in ("true", "false"):
        return Flag(text == "true")
    if (number := parse_number(text)) is not None:
        return number
    if is_unmistakable(text) and (version := parse_version(text)) is not None:
        return version
    return Text(text)


def settle(value: Scalar, other: Operand) -> Settled:
    """The attribute in the type in which it is compared with this operand."""
    if not isinstance(value, Raw):
        return value
    marked = parse_version(value.text) if other.marked_version else None
    return marked or infer(value.text)


def relate(value: Settled, other: Operand) -> Relation | str:
    """How the attribute compares with the operand, or the reason why it cannot be compared."""
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
