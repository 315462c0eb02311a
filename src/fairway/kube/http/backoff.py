"""How long to wait after a failure: twice as long each time, with jitter, and never less than the server asks for."""

from __future__ import annotations

from random import Random

FIRST, LONGEST = 0.2, 30.0
"""Seconds."""
MOST_OBEYED = 300.0
"""Seconds that a server is given at its request: one odd answer of a gateway must not stop a scheduler for days."""


class Backoff:
    """The waits of one thing that fails again and again."""

    def __init__(self, random: Random, first: float = FIRST, longest: float = LONGEST) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self, at_least: float | None = None) -> float:
        """Seconds, between the step and twice the step: many clients that failed at once do not return at once. Never
        less than the first step, nor more than the longest unless the server asks for it.
        """
        step: float = min(self._longest / 2, self._first * 2 ** min(self._failures, 30))
        self._failures += 1
        return max(min(at_least or 0.0, MOST_OBEYED), step * (1 + self._random.random()))
