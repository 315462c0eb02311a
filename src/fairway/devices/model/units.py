"""Numbers with units, exactly: `30G`, `28Gi`, `32 GiB`, `40Gbps`, `1.4 GHz`, `1500mW`.

A number has a dimension, and numbers of different dimensions are never compared, with one exception: a scalar
with a Kubernetes suffix (`30G`) may also stand for bytes, because that is how memory is written there.
"""

from __future__ import annotations

import re
from enum import Enum
from fractions import Fraction
from functools import lru_cache

import msgspec

from fairway.resources.quantity import (
    BINARY_SUFFIXES,
    DECIMAL_SUFFIXES,
    MAX_EXPONENT,
    MAX_TEXT,
    Format,
    Quantity,
)

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?( ?)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,4})")

Exact = int | Fraction
"""An exact value; whole ones are kept as int, which compares much faster."""


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
    """A scalar that may also meet bytes."""
    ambiguous: bool = False
    """Written with a unit that is often misread (`GBPS`)."""

    def meets(self, other: Number) -> bool:
        """Whether the two can be compared at all."""
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
    """The number that the text stands for, if it is one. A unit may follow one blank, a bare suffix none."""
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
    """A capacity as a driver publishes it: a scalar or bytes, as the reader takes it."""
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
