"""`StatusTimer`: writes delayed statuses and events when they are due, whether or not a cycle follows (spec K9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fairway.clock import SECOND, Micros
from fairway.drive import Change, Cycle, Handle, Timer
from fairway.state.events import Event

SOON: Micros = SECOND // 4
"""Delay from the first change without a cycle to the next look. Changes come in bursts, as the pods of a gang start."""


class LateWriter(Protocol):
    """A writer with delayed writes: `StatusWriter` and `EventWriter`."""

    @property
    def has_news(self) -> bool:
        """Whether something happened that may need a write soon."""

    def look_again(self, now: Micros) -> Micros | None:
        """Write what is due; returns when to call again, or None if nothing is delayed."""


class StatusTimer:
    """A listener behind the writers: asks each when to look again, and does so then."""

    def __init__(self, timer: Timer, *writers: LateWriter) -> None:
        self._timer = timer
        self._writers = writers
        self._planned: Handle | None = None
        self._at: Micros | None = None
        self._leads = True

    def lead(self, leads: bool) -> None:
        """A replica that does not lead writes nothing."""
        self._leads = leads
        self._cancel()
        if leads:
            self._look_soon()

    def applied(self, events: Sequence[Event]) -> None:
        self._look_soon()

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        if cycle.has_reasons:
            self.look()
        else:
            self._look_soon()

    def look(self) -> None:
        """Look at all writers now."""
        if not self._leads:
            return
        now = self._timer.now()
        times = [writer.look_again(now) for writer in self._writers]
        again = min((when for when in times if when is not None), default=None)
        self._cancel()
        if again is not None:
            self._plan(max(again, now))

    def _look_soon(self) -> None:
        if self._leads and any(writer.has_news for writer in self._writers):
            at = self._timer.now() + SOON
            if self._at is None or at < self._at:
                self._cancel()
                self._plan(at)

    def _plan(self, at: Micros) -> None:
        self._at, self._planned = at, self._timer.call_at(at, self._fire)

    def _fire(self) -> None:
        self._planned = self._at = None
        self.look()

    def _cancel(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
        self._planned = self._at = None
