"""Kubernetes quantities, read and written exactly as the API server does, and the amounts kept of them.

A quantity is a signed decimal with a suffix: `500m`, `2Gi`, `1e3`. It is held as a whole number of 1e-9 units
(the finest that Kubernetes keeps; anything finer is rounded away from zero), so nothing here is ever a float.
Three things differ from the Go parser on purpose: a value that does not fit an int64 is an error instead of
being capped, a text needs at least one digit (Go reads `Mi` and `+` as zero against its own grammar), and
length and exponent have an upper bound, so that reading a text costs next to nothing whatever it says.

An amount is a quantity of a named resource, rounded up to the unit that resource is kept in, as an int64:
milli-CPU, bytes of memory and storage, whole pods, thousandths of anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from fairway.errors import QuantityError

INT64_MAX = 2**63 - 1
MAX_TEXT = 128
"""Maximum length: far beyond any exact int64 amount."""
MAX_EXPONENT = 100
"""Maximum decimal exponent: far beyond any int64, small enough to be cheap."""

_NANOS = 10**9
_NANOS_PER_MILLI = 10**6
_IN_BYTES = frozenset({"memory", "storage", "ephemeral-storage"})
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")

DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Power of ten of each decimal suffix."""
BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
"""Power of two of each binary suffix."""

_DECIMAL_NAMES = {power: suffix for suffix, power in DECIMAL_SUFFIXES.items()}
_BINARY_NAMES = {0: "", **{power: suffix for suffix, power in BINARY_SUFFIXES.items()}}


class Format(Enum):
    """The family of suffixes a quantity was written with, and is written back with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount. Two quantities are equal if their amounts are, however they were written."""

    nanos: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    def units(self) -> int:
        """Whole units, rounded away from zero."""
        return self._scaled(_NANOS)

    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return self._scaled(_NANOS_PER_MILLI)

    def _scaled(self, step: int) -> int:
        scaled = _divide_away_from_zero(self.nanos, step)
        if abs(scaled) > INT64_MAX:
            raise QuantityError(str(self), "does not fit an int64")
        return scaled

    def __str__(self) -> str:
        """The canonical text: no fraction digits, and the largest suffix that keeps it so."""
        whole, rest = divmod(self.nanos, _NANOS)
        if self.format is Format.BINARY_SI and not rest and abs(whole) >= 1024:
            return _binary_text(whole)
        return _decimal_text(self.nanos, self.format)


@lru_cache(maxsize=65536)
def parse_quantity(text: str) -> Quantity:
    """Read a quantity as Go's `resource.Quantity` does; QuantityError says what is wrong with the text."""
    if len(text) > MAX_TEXT:
        raise QuantityError(f"{text[:32]}...", f"{len(text)} characters, expected at most {MAX_TEXT}")
    match = _NUMBER.match(text)
    assert match is not None  # every part may be empty
    sign, whole, fraction, suffix = match.groups(default="")
    if not whole and not fraction:
        raise QuantityError(text, _no_digits(text, suffix))
    digits = int(whole + fraction)
    shift, power_of_ten, format = _read_suffix(text, suffix)
    nanos = _shift_decimal(text, digits << shift, power_of_ten - len(fraction) + 9)
    if format is Format.BINARY_SI and 0 < nanos < _NANOS:
        format = Format.DECIMAL_SI
    return Quantity(-nanos if sign == "-" else nanos, format)


class AmountUnit(Enum):
    """The unit of a kept amount."""

    MILLI = "milli"
    BYTE = "byte"
    WHOLE = "whole"


@lru_cache(maxsize=4096)
def unit_of(name: str) -> AmountUnit:
    """The unit that amounts of the resource `name` are kept in."""
    if name in _IN_BYTES or name.startswith("hugepages-"):
        return AmountUnit.BYTE
    return AmountUnit.WHOLE if name == "pods" else AmountUnit.MILLI


@lru_cache(maxsize=65536, typed=True)
def parse_amount(name: str, value: str | int | float) -> int:
    """The kept amount of `name` for a manifest's value, rounded up; never below zero.

    YAML gives `cpu: 0.5` as a float: its shortest text is what the user wrote, so that text is read.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(str(value), "expected a number or a text such as 2, 500m or 2Gi")
    if isinstance(value, int) and abs(value) > INT64_MAX:  # before it becomes text: it may be millions of digits
        raise QuantityError(hex(value)[:32], "does not fit an int64")
    quantity = parse_quantity(value if isinstance(value, str) else repr(value))
    if quantity.nanos < 0:
        raise QuantityError(str(value), "must not be negative")
    return quantity.milli() if unit_of(name) is AmountUnit.MILLI else quantity.units()


def format_amount(name: str, amount: int) -> str:
    """The canonical text of a kept amount; reading it gives the same amount again.

    Bytes are written with the family of suffixes that is shorter, binary where both are as short.
    """
    check_amount(name, amount)
    unit = unit_of(name)
    nanos = amount * (_NANOS_PER_MILLI if unit is AmountUnit.MILLI else _NANOS)
    decimal = str(Quantity(nanos))
    if unit is not AmountUnit.BYTE:
        return decimal
    return min(str(Quantity(nanos, Format.BINARY_SI)), decimal, key=len)


def check_amount(name: str, amount: int) -> int:
    """The amount itself, if it is valid: not negative, and within int64."""
    if 0 <= amount <= INT64_MAX:
        return amount
    fault = "must not be negative" if amount < 0 else "does not fit an int64"
    raise QuantityError(str(amount), f"amount of {name} {fault}")


def _read_suffix(text: str, suffix: str) -> tuple[int, int, Format]:
    """Power of two, power of ten and format. `E` alone is exa; with digits after it, an exponent."""
    if suffix in DECIMAL_SUFFIXES:
        return 0, DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in BINARY_SUFFIXES:
        return BINARY_SUFFIXES[suffix], 0, Format.BINARY_SI
    if match := _EXPONENT.fullmatch(suffix):
        return 0, int(match[1]), Format.DECIMAL_EXPONENT
    raise QuantityError(text, _bad_suffix(suffix))


def _shift_decimal(text: str, digits: int, power: int) -> int:
    """digits * 10**power, rounded up, without building a huge power."""
    if digits == 0:
        return 0
    if power > MAX_EXPONENT:
        raise QuantityError(text, "too large")
    if power >= 0:
        return int(digits * 10**power)
    if -power > len(text) + 20:  # more places than the digits and a binary suffix together can fill
        return 1
    return _divide_away_from_zero(digits, int(10**-power))


def _divide_away_from_zero(amount: int, step: int) -> int:
    return -(-amount // step) if amount >= 0 else amount // step


def _binary_text(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < 60:
        whole //= 1024
        power += 10
    return f"{whole}{_BINARY_NAMES[power]}"


def _decimal_text(nanos: int, format: Format) -> str:
    if nanos == 0:
        return "0"
    power = -9
    while nanos % 1000 == 0:
        nanos //= 1000
        power += 3
    if format is Format.DECIMAL_EXPONENT or power not in _DECIMAL_NAMES:
        return f"{nanos}e{power}" if power else str(nanos)
    return f"{nanos}{_DECIMAL_NAMES[power]}"


def _no_digits(text: str, rest: str) -> str:
    if not text:
        return "empty, expected a number such as 2, 500m or 2Gi"
    if text != text.strip():
        return "blanks are not allowed"
    if rest[:1].isdigit():
        return "only the digits 0 to 9 are allowed"
    return "expected a number before the suffix"


def _bad_suffix(suffix: str) -> str:
    if suffix != suffix.strip() or " " in suffix:
        return "blanks are not allowed"
    if suffix == "K":
        return "unknown suffix 'K', expected k (1000) or Ki (1024)"
    if suffix[0] in "0123456789._" or suffix[0].isdigit():
        return f"{suffix[0]!r} cannot stand inside a number"
    if suffix[0] in "eE":
        return f"{suffix!r} is not an exponent, expected for example e3 or e-3"
    return f"unknown suffix {suffix!r}, expected one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
