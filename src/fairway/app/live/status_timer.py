"""Statuses that may not be written yet are written later, though nothing happens any more."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.drive.change import Change
from fairway.drive.loop import Cycle
from fairway.drive.world import Handle, Timer
from fairway.kube.status.writer import StatusWriter
from fairway.state.events import Event


class StatusTimer:
    """A listener that comes after the writer: it asks when to look again, and does."""

    def __init__(self, writer: StatusWriter, timer: Timer) -> None:
        self._writer = writer
        self._timer = timer
        self._planned: Handle | None = None

    def applied(self, events: Sequence[Event]) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def decided(self, cycle: Cycle) -> None:
        self._look()

    def _look(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None
        again = self._writer.look_again(self._timer.now())
        if again is not None:
            self._planned = self._timer.call_at(again, self._look)
