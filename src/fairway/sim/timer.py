"""Virtual time, as the scheduler's loop sees it."""

from __future__ import annotations

from collections.abc import Callable

from fairway.clock import Micros
from fairway.sim.loop import EventLoop, Rank


class _PlannedCall:
    def __init__(self, loop: EventLoop, number: int) -> None:
        self._loop = loop
        self._number = number

    def cancel(self) -> None:
        self._loop.cancel(self._number)


class VirtualTimer:
    """Cycles come last at their instant, so that they see it as a whole."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    def now(self) -> Micros:
        return self._loop.now

    def call_at(self, when: Micros, call: Callable[[], None]) -> _PlannedCall:
        return _PlannedCall(self._loop, self._loop.plan(when, Rank.PASS, _call, call))


def _call(call: Callable[[], None]) -> None:
    call()
