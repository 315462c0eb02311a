"""How many like tasks each node has room for, as pods come and go on the scratch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import INFEASIBLE
from fairway.state.shapes import Shape
from fairway.state.tasks import Task


class Rooms:
    """By node, and all together. Nodes where the shape may never go, and reserved ones, are not `open`."""

    def __init__(self, session: Session, shape: Shape) -> None:
        self._session = session
        self._shape = shape
        kernel = session.kernel
        self.open: BoolColumn = kernel.base(shape) < INFEASIBLE
        if kernel.reserved is not None:
            self.open &= ~kernel.reserved
        if kernel.domain is not None:
            self.open &= kernel.domain
        idle = session.snapshot.idle
        rooms = np.full(session.snapshot.size, 1 << 40, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, idle[dimension] // amount, out=rooms)
        np.maximum(rooms, 0, out=rooms)
        limits = kernel.limits(shape)
        if limits is not None:
            np.minimum(rooms, limits, out=rooms)
        self._limited = limits is not None
        self._rooms = np.where(self.open, rooms, 0)
        self.total = int(self._rooms.sum())

    def at(self, row: int) -> int:
        return int(self._rooms[row])

    def update(self, rows: Iterable[int]) -> None:
        """Pods came to these rows or went."""
        for row in rows:
            if self.open[row]:
                room = self._room(row, {})
                self.total += room - int(self._rooms[row])
                self._rooms[row] = room

    def without(self, tasks: Iterable[Task]) -> int:
        """How many fit in all if these came back. Only where nothing but room limits."""
        back: dict[int, dict[int, int]] = {}
        for task in tasks:
            here = back.setdefault(task.node, {})
            for dimension, amount in (*task.shape.vector, *self._session.devices.book.freed(task)):
                here[dimension] = here.get(dimension, 0) + amount
        lost = (int(self._rooms[row]) - self._room(row, taken) for row, taken in back.items() if self.open[row])
        return self.total - sum(lost)

    @property
    def counts(self) -> bool:
        """Whether nothing but room limits."""
        return not self._limited

    def _room(self, row: int, taken: Mapping[int, int]) -> int:
        if self._limited:
            return max(0, self._session.kernel.room(self._shape, row))
        idle = self._session.snapshot.idle
        return max(0, min((int(idle[d, row]) - taken.get(d, 0)) // amount for d, amount in self._shape.vector))
