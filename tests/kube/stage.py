"""A loop whose world only listens, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fairway.clock import SECOND, Micros
from fairway.drive.change import Change
from fairway.drive.scheduler_loop import Rhythm, SchedulerLoop
from support.engine import flat, policy
from support.objects import BEGIN


class HandClock:
    """Virtual time: what is planned is called when the time is moved there."""

    def __init__(self) -> None:
        self.time = BEGIN
        self.planned: list[tuple[Micros, Callable[[], None]]] = []

    def now(self) -> Micros:
        return self.time

    def call_at(self, when: Micros, call: Callable[[], None]) -> Any:
        entry = (max(when, self.time), call)
        self.planned.append(entry)
        return _PlannedCall(self.planned, entry)

    def move(self, seconds: float) -> None:
        end = self.time + int(seconds * SECOND)
        while due := [entry for entry in self.planned if entry[0] <= end]:
            first = min(due, key=lambda entry: entry[0])
            self.planned.remove(first)
            self.time = max(self.time, first[0])
            first[1]()
        self.time = end


class _PlannedCall:
    def __init__(self, planned: list[Any], entry: Any) -> None:
        self._planned, self._entry = planned, entry

    def cancel(self) -> None:
        if self._entry in self._planned:
            self._planned.remove(self._entry)


class ListeningWorld:
    """Does nothing, and remembers what it was told to do."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def carry_out(self, changes: Sequence[Change]) -> None:
        self.changes += changes

    def taken(self) -> list[Change]:
        found, self.changes = self.changes, []
        return found


class LoopStage:
    def __init__(self, **more: Any) -> None:
        self.clock = HandClock()
        self.world = ListeningWorld()
        self.loop = SchedulerLoop(self.world, self.clock, policy(devices={}), rhythm=Rhythm(reasons_interval=0), **more)

    def see(self, *things: Any) -> None:
        for thing in flat(things):
            self.loop.seen(thing)
        self.clock.move(0.1)
