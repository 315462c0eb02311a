"""The nine comparisons of two resource lists, with a default for what one of them leaves out.

The dimensions compared are those of both lists together. A dimension that one list lacks counts there as zero
or infinity, as the caller says: a node without `gpu` has none (zero), a quota without `gpu` does not limit it
(infinity). `..._partly` asks for some dimension, the plain forms for every one. The greater forms are the
negations of the less forms, for empty lists too:

    greater = not less_equal_partly      greater_partly = not less_equal
    greater_equal = not less_partly      greater_equal_partly = not less

so of two empty lists `less` and `less_partly` are false, `less_equal`, `less_equal_partly` and `equal` true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

Amounts = Mapping[str, int]

INFINITY = 2**63
"""Above every int64 amount. No dimension is missing on both sides, so it is never compared with itself."""

NAMES = (
    "less",
    "less_equal",
    "less_partly",
    "less_equal_partly",
    "equal",
    "greater",
    "greater_equal",
    "greater_partly",
    "greater_equal_partly",
)


class Default(Enum):
    """What a missing dimension counts as."""

    ZERO = "zero"
    INFINITY = "infinity"

    @property
    def amount(self) -> int:
        return INFINITY if self is Default.INFINITY else 0


def pairs(left: Amounts, right: Amounts, default: Default) -> Iterator[tuple[int, int]]:
    """The amounts of both sides in each dimension of either."""
    missing = default.amount
    for name, amount in left.items():
        yield amount, right.get(name, missing)
    for name, amount in right.items():
        if name not in left:
            yield missing, amount


def less(left: Amounts, right: Amounts, default: Default) -> bool:
    return bool(left or right) and all(a < b for a, b in pairs(left, right, default))


def less_equal(left: Amounts, right: Amounts, default: Default) -> bool:
    return all(a <= b for a, b in pairs(left, right, default))


def less_partly(left: Amounts, right: Amounts, default: Default) -> bool:
    return any(a < b for a, b in pairs(left, right, default))


def less_equal_partly(left: Amounts, right: Amounts, default: Default) -> bool:
    return not (left or right) or any(a <= b for a, b in pairs(left, right, default))


def equal(left: Amounts, right: Amounts, default: Default) -> bool:
    return all(a == b for a, b in pairs(left, right, default))


@dataclass(frozen=True, slots=True)
class Comparison:
    """All nine results at once, and the dimensions that decided each. `below`, `same` and `above` are the dimensions,
    sorted, in which the left list is less than, equal to and greater than the right one.
    """

    below: tuple[str, ...]
    same: tuple[str, ...]
    above: tuple[str, ...]

    def answer(self, name: str) -> bool:
        """The result of the comparison `name` (one of NAMES)."""
        satisfied, violated = self._split(name)
        if not satisfied and not violated:
            return "equal" in name
        return bool(satisfied) if name.endswith("_partly") else not violated

    def deciding(self, name: str) -> tuple[str, ...]:
        """The dimensions that decide the result: those that hold if it is true, those that fail if not."""
        satisfied, violated = self._split(name)
        return satisfied if self.answer(name) else violated

    def answers(self) -> dict[str, bool]:
        return {name: self.answer(name) for name in NAMES}

    def all_deciding(self) -> dict[str, tuple[str, ...]]:
        return {name: self.deciding(name) for name in NAMES}

    def _split(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The dimensions in which the relation of `name` holds, and those in which it does not."""
        if name not in NAMES:
            raise ValueError(f"{name!r} is not a comparison, expected one of {', '.join(NAMES)}")
        parts = ((self.below, "less" in name), (self.same, "equal" in name), (self.above, "greater" in name))
        satisfied = sorted(dimension for part, holds in parts if holds for dimension in part)
        violated = sorted(dimension for part, holds in parts if not holds for dimension in part)
        return tuple(satisfied), tuple(violated)


def compare(left: Amounts, right: Amounts, default: Default) -> Comparison:
    """Compare in every dimension of either list."""
    missing = default.amount
    below: list[str] = []
    same: list[str] = []
    above: list[str] = []
    for name in sorted({*left, *right}):
        a, b = left.get(name, missing), right.get(name, missing)
        (below if a < b else above if a > b else same).append(name)
    return Comparison(tuple(below), tuple(same), tuple(above))
