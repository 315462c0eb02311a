"""Room as it would be with some pods gone: written on the session's snapshot, and taken back or settled."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fairway.scheduler.eviction.units import Unit
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Task


class Scratch:
    """Remembers what the rows it writes to were like."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before: dict[int, NDArray[np.int64]] = {}
        self._units: dict[Unit, None] = {}

    def evict(self, unit: Unit) -> None:
        """Pretend that the unit's pods are gone."""
        self._move(unit, -1)
        self._units[unit] = None

    def restore(self, unit: Unit) -> None:
        """They are back."""
        self._move(unit, 1)
        del self._units[unit]

    def give_up(self) -> None:
        """Nothing of it happened."""
        for unit in list(self._units):
            self.restore(unit)

    def settle(self, nominated: Iterable[Task]) -> None:
        """It will happen, but not yet: until the pods are gone nobody gains room, and the claimant's is not lost."""
        snapshot = self._session.snapshot
        for row, before in self._before.items():
            snapshot.scratch(row)
            np.minimum(snapshot.idle[:, row], before, out=snapshot.idle[:, row])
            self._session.note_settled(row, before - snapshot.idle[:, row])
        evicted = [task for unit in self._units for task in unit.tasks]
        for task in evicted:
            self._session.pods.displace(task, snapshot.size, 1)
        self._session.devices.settle(evicted, nominated)

    def watch(self, row: int) -> None:
        """Remember a row that is about to be written to."""
        if row not in self._before:
            self._before[row] = self._session.snapshot.idle[:, row].copy()

    def _move(self, unit: Unit, sign: int) -> None:
        for task in unit.tasks:
            self.watch(task.node)
            self._session.displace(task, sign)
