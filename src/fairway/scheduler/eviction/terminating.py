"""Room that pods are just leaving, and that nobody has a claim to yet.

Whoever will fit there waits for it, and evicts nobody: those who leave already are enough. It is lent to a claimant
while its victims are chosen, so that a gang evicts only for what is still missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.scheduler.eviction.scratch import Scratch
from fairway.scheduler.framework.session import Session
from fairway.state.jobs import Task
from fairway.state.tasks import TaskState


class TerminatingCapacity:
    """What is being released, less what nominations wait for, by resource and row. As things are when it is made."""

    def __init__(self, session: Session, tasks: list[Task]) -> None:
        """Devices are not lent: which of them will be free is known when they are."""
        self._session = session
        self._freed: NDArray[np.int64] | None = None
        self.rows: list[int] = []
        released = session.state.nodes.releasing.data[:, : session.snapshot.size]
        if (session.evicted or released.any()) and not any(session.devices.uses_devices(task.shape) for task in tasks):
            self._freed = np.maximum(self._unclaimed(released.copy()), 0)
            self.rows = np.flatnonzero(self._freed.any(axis=0)).tolist()

    def lend(self, sign: int = 1) -> None:
        """As if they were gone (sign 1), or not yet (sign -1)."""
        snapshot = self._session.snapshot
        for row in self.rows:
            assert self._freed is not None
            snapshot.scratch(row)
            snapshot.idle[: len(self._freed), row] += sign * self._freed[:, row]

    def watch(self, scratch: Scratch) -> None:
        """Let the scratch remember what the rows were like without the loan."""
        for row in self.rows:
            scratch.watch(row)

    def _unclaimed(self, freed: NDArray[np.int64]) -> NDArray[np.int64]:
        for task in self._session.evicted:
            for dimension, amount in task.shape.vector:
                freed[dimension, task.node] += amount
        for reservation in self._session.reservations:
            if reservation.state is TaskState.PIPELINED:
                for dimension, amount in reservation.task.shape.vector:
                    freed[dimension, reservation.row] -= amount
        return freed
