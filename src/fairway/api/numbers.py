"""Numbers that a file writes with more digits than can be computed with: kept as they are written."""

from __future__ import annotations

MAX_DIGITS = 64
"""Characters of a number that is read as one; what Kubernetes has in its objects takes nineteen."""


class LongNumber(str):
    """The text of a number that is too long, or too large for a float. No text field takes it."""

    __slots__ = ()


def integer(text: str) -> int | LongNumber:
    """A decimal integer as JSON writes it."""
    return LongNumber(text) if len(text) > MAX_DIGITS else int(text)


def floating(text: str) -> float | LongNumber:
    """A number with a point or an exponent."""
    number = float(text)
    return LongNumber(text) if number in (float("inf"), float("-inf")) else number
