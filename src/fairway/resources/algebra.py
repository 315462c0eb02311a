"""`Resource`: an immutable list of amounts by resource name, its arithmetic and its comparisons.

A dimension that is present with zero is not the same as a missing one: it matters to the comparisons, where
the missing one takes the caller's default, and is therefore kept. Arithmetic takes a missing one as zero,
and its result has the dimensions of both sides. No amount is ever negative or beyond int64: what would make
one is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, final

from fairway.errors import QuantityError, ResourceUnderflow
from fairway.resources import comparison
from fairway.resources.comparison import Comparison, Default
from fairway.resources.quantity import check_amount, format_amount, parse_amount


@final
class Resource:
    """Amounts by name, in the unit each resource is kept in (see `quantity.unit_of`), in order of name.

    `==` means the same list, where zero is not missing; `equal` compares with a default for the missing.
    """

    __slots__ = ("_amounts", "_hash")

    EMPTY: ClassVar[Resource]

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self._amounts = {name: check_amount(name, amounts[name]) for name in sorted(amounts)}
        self._hash = hash(tuple(self._amounts.items()))

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Resource:
        """From amounts in the unit that each resource is kept in."""
        return cls(amounts)

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> Resource:
        """From a manifest's resource list; a QuantityError names the resource."""
        amounts = {}
        for name, value in quantities.items():
            try:
                amounts[name] = parse_amount(name, value)
            except QuantityError as error:
                raise QuantityError(error.text, f"{name}: {error.reason}") from None
        return cls(amounts)

    @classmethod
    def sum(cls, resources: Iterable[Resource]) -> Resource:
        """The sum of all of them."""
        total: dict[str, int] = {}
        for resource in resources:
            for name, amount in resource._amounts.items():
                total[name] = total.get(name, 0) + amount
        return cls(total)

    @property
    def amounts(self) -> Mapping[str, int]:
        """The amounts, read-only, in order of name."""
        return MappingProxyType(self._amounts)

    def get(self, name: str, default: int = 0) -> int:
        return self._amounts.get(name, default)

    def names(self) -> tuple[str, ...]:
        """The dimensions present, sorted."""
        return tuple(self._amounts)

    def format(self) -> dict[str, str]:
        """Canonical quantities, as a manifest would hold them."""
        return {name: format_amount(name, amount) for name, amount in self._amounts.items()}

    def is_empty(self) -> bool:
        """Whether there is no dimension, or only zeros."""
        return not any(self._amounts.values())

    def __contains__(self, name: str) -> bool:
        return name in self._amounts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and self._amounts == other._amounts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Resource], tuple[dict[str, int]]]:
        return Resource, (self._amounts,)

    def __repr__(self) -> str:
        return f"Resource({', '.join(f'{name}={text}' for name, text in self.format().items())})"

    def __add__(self, other: Resource) -> Resource:
        return Resource.sum((self, other))

    def __sub__(self, other: Resource) -> Resource:
        """The difference; ResourceUnderflow names the first dimension that has too little."""
        left = dict(self._amounts)
        for name, amount in other._amounts.items():
            have = left.get(name, 0)
            if amount > have:
                raise ResourceUnderflow(name, have, amount)
            left[name] = have - amount
        return Resource(left)

    def subtract_saturating(self, other: Resource) -> Resource:
        """The difference, at least zero in each dimension."""
        left = dict(self._amounts)
        for name, amount in other._amounts.items():
            left[name] = max(0, left.get(name, 0) - amount)
        return Resource(left)

    def scale(self, factor: int) -> Resource:
        """`factor` times as much in every dimension."""
        return Resource({name: amount * factor for name, amount in self._amounts.items()})

    def minimum(self, other: Resource, default: Default = Default.ZERO) -> Resource:
        """The lesser amount in each dimension of either; one that a side lacks counts there as `default`."""
        pairs = comparison.pairs(self._amounts, other._amounts, default)
        return Resource(dict(zip(self._union(other), map(min, pairs), strict=True)))

    def maximum(self, other: Resource) -> Resource:
        """The greater amount in each dimension of either; one that a side lacks counts there as zero."""
        pairs = comparison.pairs(self._amounts, other._amounts, Default.ZERO)
        return Resource(dict(zip(self._union(other), map(max, pairs), strict=True)))

    def difference(self, other: Resource) -> tuple[Resource, Resource]:
        """The increase and the decrease from this list to `other`: only the dimensions that changed."""
        grew, shrank = {}, {}
        pairs = comparison.pairs(self._amounts, other._amounts, Default.ZERO)
        for name, (before, after) in zip(self._union(other), pairs, strict=True):
            if after > before:
                grew[name] = after - before
            elif before > after:
                shrank[name] = before - after
        return Resource(grew), Resource(shrank)

    def dominant_share(self, total: Resource) -> tuple[str, Fraction]:
        """The dimension of which this is the largest fraction of `total`, and that fraction; ties go by name. `pods`
        never counts, nor a dimension of which the total has nothing. ("", 0) if no dimension is left.
        """
        dominant, part, whole = "", 0, 1
        for name, amount in self._amounts.items():
            available = total.get(name)
            if available and name != "pods" and (not dominant or amount * whole > part * available):
                dominant, part, whole = name, amount, available
        return dominant, Fraction(part, whole)

    def compare(self, other: Resource, default: Default = Default.ZERO) -> Comparison:
        """All nine comparisons, with the dimensions that decided."""
        return comparison.compare(self._amounts, other._amounts, default)

    def less(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """Less in every dimension."""
        return comparison.less(self._amounts, other._amounts, default)

    def less_equal(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """At most as much in every dimension."""
        return comparison.less_equal(self._amounts, other._amounts, default)

    def less_partly(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """Less in some dimension."""
        return comparison.less_partly(self._amounts, other._amounts, default)

    def less_equal_partly(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """At most as much in some dimension."""
        return comparison.less_equal_partly(self._amounts, other._amounts, default)

    def equal(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """As much in every dimension."""
        return comparison.equal(self._amounts, other._amounts, default)

    def greater(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """More in every dimension."""
        return not self.less_equal_partly(other, default)

    def greater_equal(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """At least as much in every dimension."""
        return not self.less_partly(other, default)

    def greater_partly(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """More in some dimension."""
        return not self.less_equal(other, default)

    def greater_equal_partly(self, other: Resource, default: Default = Default.ZERO) -> bool:
        """At least as much in some dimension."""
        return not self.less(other, default)

    def _union(self, other: Resource) -> list[str]:
        """The dimensions of either, in the order `comparison.pairs` gives them."""
        return [*self._amounts, *(name for name in other._amounts if name not in self._amounts)]


Resource.EMPTY = Resource({})
