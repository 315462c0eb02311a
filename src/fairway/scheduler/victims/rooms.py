"""How many like tasks each node has room for, as pods come and go on the scratch."""

from __future__ import annotations

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.kernel import INFEASIBLE
from fairway.scheduler.session import Session
from fairway.state.shapes import Shape


class Rooms:
    """By node, and all together. Nodes where the shape may never go, and reserved ones, are not `open`."""

    def __init__(self, session: Session, shape: Shape) -> None:
        self._session = session
        self._shape = shape
        kernel = session.kernel
        self.open: BoolColumn = kernel.column(shape).base < INFEASIBLE
        if kernel.reserved is not None:
            self.open &= ~kernel.reserved
        rooms = np.full(session.snapshot.size, 1 << 40, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, session.snapshot.idle[dimension] // amount, out=rooms)
        np.maximum(rooms, 0, out=rooms)
        limits = kernel.limits(shape)
        if limits is not None:
            np.minimum(rooms, limits, out=rooms)
        self._rooms = np.where(self.open, rooms, 0)
        self.total = int(self._rooms.sum())

    def at(self, row: int) -> int:
        return int(self._rooms[row])

    def update(self, row: int) -> None:
        if self.open[row]:
            room = max(0, self._session.kernel.room(self._shape, row))
            self.total += room - int(self._rooms[row])
            self._rooms[row] = room
