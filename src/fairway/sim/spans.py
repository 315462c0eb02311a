"""Spans of time as people write them (`90s`, `1h30m`, `2d`), and spans that are drawn at random.

A drawn span is written `exponential 5m` (the mean) or `uniform 1m 10m` (the bounds, both included).
"""

from __future__ import annotations

import re
from decimal import Decimal
from random import Random
from typing import Literal

from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.sim.limits import MAX_SPAN

_UNITS = {"us": 1, "ms": 1000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86_400 * SECOND}
_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
MAX_TEXT = 100
EXPECTED = "expected for example 90s, 1h30m or 2d"


def shown(value: object) -> str:
    """The text, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def parse_span(value: object) -> Micros:
    """A duration; a plain number is in seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value}s"
    if not isinstance(value, str) or len(value) > MAX_TEXT or not _WHOLE.fullmatch(value.strip()):
        raise InputError(f"{shown(value)} is not a duration, {EXPECTED}")
    total = sum(int(Decimal(number) * _UNITS[unit]) for number, unit in _PART.findall(value))
    if total > MAX_SPAN:
        raise InputError(f"{shown(value)} is too long, expected at most {format_span(MAX_SPAN)}")
    return total


def format_span(span: Micros) -> str:
    """The duration in its two largest units: `1h30m`, `2d`, `90.5s` as `1m30.5s`."""
    if span < 0:
        return f"-{format_span(-span)}"
    if span < SECOND:
        return f"{span / 1000:g}ms" if span else "0s"
    names = ("d", "h", "m", "s")
    for index, name in enumerate(names):
        whole, rest = divmod(span, _UNITS[name])
        if name == "s":
            return f"{span / SECOND:.6g}s"
        if whole:
            lower = names[index + 1]
            part = rest / _UNITS[lower]
            text = f"{part:.4g}" if lower == "s" else f"{int(part)}"
            return f"{whole}{name}" + (f"{text}{lower}" if float(text) else "")
    raise AssertionError


def rounded_span(span: Micros) -> str:
    """The duration rounded for people: to the second, the minute or the hour, by its length."""
    unit = next((unit for limit, unit in ((600, "s"), (86_400, "m")) if abs(span) < limit * SECOND), "h")
    whole = (span + _UNITS[unit] // 2) // _UNITS[unit]
    return format_span((whole or (1 if span > 0 else 0)) * _UNITS[unit])


class Drawn:
    """A duration that may be drawn at random each time."""

    __slots__ = ("high", "kind", "low")

    def __init__(self, kind: Literal["fixed", "exponential", "uniform"], low: Micros, high: Micros) -> None:
        self.kind = kind
        self.low = low
        self.high = high

    @property
    def mean(self) -> Micros:
        return (self.low + self.high) // 2

    @property
    def is_random(self) -> bool:
        return self.kind != "fixed"

    def draw(self, dice: Random) -> Micros:
        if self.kind == "fixed":
            return self.low
        if self.kind == "uniform":
            return dice.randint(self.low, self.high)
        return min(round(dice.expovariate(1.0) * self.low), MAX_SPAN)


def parse_drawn(value: object) -> Drawn:
    """A duration, or a distribution of durations."""
    words = value.split() if isinstance(value, str) else []
    if words[:1] == ["exponential"] and len(words) == 2:
        mean = parse_span(words[1])
        return Drawn("exponential", mean, mean)
    if words[:1] == ["uniform"] and len(words) == 3:
        low, high = parse_span(words[1]), parse_span(words[2])
        if low > high:
            raise InputError(f"{shown(value)}: the lower bound is above the upper one")
        return Drawn("uniform", low, high)
    span = parse_span(value)
    return Drawn("fixed", span, span)
