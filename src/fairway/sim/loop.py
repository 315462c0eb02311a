"""The event loop: virtual time jumps from event to event, and the same run always takes the same steps.

Events at one instant happen by rank, then in the order in which they were planned: first what frees capacity,
then what arrives, then other changes, and the scheduler's pass last, so that it sees the instant as a whole.
Arrivals are read from their source one ahead: a trace of any length keeps one event in the heap.

`VirtualTimer` is that time as the scheduler's loop sees it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any, TypeVar

from fairway.clock import Micros

T = TypeVar("T")
Action = Callable[..., None]


class Rank(IntEnum):
    """Which of several events at one instant comes first."""

    RELEASE = 0
    ARRIVAL = 1
    CHANGE = 2
    PASS = 3


class EventLoop:
    """A heap of (when, rank, sequence number, action, argument)."""

    def __init__(self, start: Micros) -> None:
        self.now = start
        self.steps = 0
        self._heap: list[tuple[Micros, int, int, Action, Any]] = []
        self._sequence = 0
        self._cancelled: set[int] = set()
        self.sources = 0
        """Sources with more items to come."""
        self._others = 0
        """Planned events other than passes of the scheduler; only passes are ever cancelled."""

    def plan(self, when: Micros, rank: Rank, action: Callable[[T], None], argument: T) -> int:
        """Plans a call of `action(argument)`; returns a number by which it can be cancelled. A time in the past means
        now.
        """
        self._sequence += 1
        self._others += rank is not Rank.PASS
        heapq.heappush(self._heap, (max(when, self.now), rank, self._sequence, action, argument))
        return self._sequence

    def cancel(self, number: int) -> None:
        """Cancels a planned pass."""
        self._cancelled.add(number)

    def feed(self, source: Iterable[T], when: Callable[[T], Micros], action: Callable[[T], None]) -> None:
        """Plans a call of `action(item)` for each item of a source that is in order of time."""
        self.sources += 1
        self._feed_next(iter(source), when, action)

    def _feed_next(self, rest: Iterator[T], when: Callable[[T], Micros], action: Callable[[T], None]) -> None:
        item = next(rest, None)
        if item is None:
            self.sources -= 1
            return

        def arrive(arrived: T) -> None:
            # The next of the same instant must be in the heap before anything of a later rank happens.
            self._feed_next(rest, when, action)
            action(arrived)

        self.plan(when(item), Rank.ARRIVAL, arrive, item)

    @property
    def only_passes(self) -> bool:
        """Whether only passes of the scheduler are planned."""
        return not self._others

    @property
    def next_time(self) -> Micros | None:
        """The time of the next event; None if there is none."""
        self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Runs the next event; False if there is none."""
        self._drop_cancelled()
        if not self._heap:
            return False
        when, rank, _, action, argument = heapq.heappop(self._heap)
        self._others -= rank != Rank.PASS
        self.now = when
        self.steps += 1
        action(argument)
        return True

    def run(self, until: Micros | None = None) -> None:
        """Runs until no event is left, or none up to and including `until`."""
        while (when := self.next_time) is not None and (until is None or when <= until):
            self.step()
        if until is not None:
            self.now = max(self.now, until)

    def _drop_cancelled(self) -> None:
        while self._cancelled and self._heap and self._heap[0][2] in self._cancelled:
            self._cancelled.discard(heapq.heappop(self._heap)[2])


class _PlannedCall:
    def __init__(self, loop: EventLoop, number: int) -> None:
        self._loop = loop
        self._number = number

    def cancel(self) -> None:
        self._loop.cancel(self._number)


class VirtualTimer:
    """Cycles run last at their instant, so that they see all of its events."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop

    def now(self) -> Micros:
        return self._loop.now

    def call_at(self, when: Micros, call: Callable[[], None]) -> _PlannedCall:
        return _PlannedCall(self._loop, self._loop.plan(when, Rank.PASS, _call, call))


def _call(call: Callable[[], None]) -> None:
    call()
