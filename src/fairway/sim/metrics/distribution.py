"""The distribution of values: mean, percentiles, maximum, in memory that does not grow with the number of values.

Values are whole numbers, each with a weight (1 for a job's wait, a span for a quantity over time). Up to
`LIMIT` distinct values are kept exactly; beyond that they are rounded down to eleven binary digits, so that a
percentile is off by less than one in a thousand. Sum, count and maximum stay exact.
"""

from __future__ import annotations

from fairway.errors import InputError

LIMIT = 100_000
_DIGITS = 11


class Distribution:
    """A weighted collection of whole numbers from zero up."""

    __slots__ = ("_exact", "_weights", "count", "largest", "total")

    def __init__(self) -> None:
        self._weights: dict[int, int] = {}
        self._exact = True
        self.count = 0
        self.total = 0
        self.largest = 0

    def add(self, value: int, weight: int = 1) -> None:
        self.count += weight
        self.total += value * weight
        if value > self.largest:
            self.largest = value
        kept = value if self._exact else _rounded(value)
        weights = self._weights
        weights[kept] = weights.get(kept, 0) + weight
        if self._exact and len(weights) > LIMIT:
            self._round()

    def copy(self) -> Distribution:
        other = Distribution()
        other._weights, other._exact = dict(self._weights), self._exact
        other.count, other.total, other.largest = self.count, self.total, self.largest
        return other

    def merge(self, other: Distribution) -> None:
        """Add all values of another one."""
        total, largest = self.total + other.total, max(self.largest, other.largest)
        for value, weight in other._weights.items():
            self.add(value, weight)
        self.total, self.largest = total, largest  # exact, also where the values of the other were rounded

    def mean(self) -> float:
        """Zero if it is empty."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: int) -> int:
        """The smallest value that at least `percent` of the weight does not exceed; zero if it is empty."""
        if not 0 < percent <= 100:
            raise InputError(f"percentile {percent}, expected 1 to 100")
        reached = 0
        for value in sorted(self._weights):
            reached += self._weights[value]
            if reached * 100 >= percent * self.count:
                return value
        return 0

    def percentiles(self, *percents: int) -> list[int]:
        return [self.percentile(percent) for percent in percents]

    def _round(self) -> None:
        self._exact = False
        weights: dict[int, int] = {}
        for value, weight in self._weights.items():
            kept = _rounded(value)
            weights[kept] = weights.get(kept, 0) + weight
        self._weights = weights


def _rounded(value: int) -> int:
    drop = max(0, value.bit_length() - _DIGITS)
    return value >> drop << drop
