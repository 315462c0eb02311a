"""Where the time of a cycle goes: `decide` marks the end of each phase, a benchmark brings the clock."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    def mark(self, phase: str) -> None:
        """A phase has just ended."""


class _NoMeter:
    def mark(self, phase: str) -> None:
        pass


NO_METER: Meter = _NoMeter()
