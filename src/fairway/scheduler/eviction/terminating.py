"""Capacity that pods are just leaving, and that no nomination claims yet.

A job that will fit there waits for it, and evicts no pod: those that leave already are enough. It is lent to a claimant
while its victims are chosen, so that a gang evicts only for what is still missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.reservations import Reservations
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.state.jobs import Task, TaskState


class TerminatingCapacity:
    """What is being released, less what nominations wait for, by resource and row. As things are when it is made."""

    def __init__(
        self, nodes: WorkingNodes, reservations: Reservations, decisions: Decisions, tasks: list[Task]
    ) -> None:
        """Devices are not lent: which of them will be free is known when they are."""
        self._reservations = reservations
        self._decisions = decisions
        self._freed: NDArray[np.int64] | None = None
        self.rows: list[int] = []
        released = nodes.snapshot.state.nodes.releasing.data[:, : nodes.snapshot.size]
        uses_devices = nodes.devices.uses_devices
        if (decisions.evicted or released.any()) and not any(uses_devices(task.shape) for task in tasks):
            self._freed = np.maximum(self._unclaimed(released.copy()), 0)
            self.rows = np.flatnonzero(self._freed.any(axis=0)).tolist()

    def lend(self, statement: Statement) -> None:
        """As if they were gone."""
        if self._freed is not None:
            rows = np.array(self.rows, dtype=np.int64)
            statement.assume_free(rows, self._freed[:, rows])

    def _unclaimed(self, freed: NDArray[np.int64]) -> NDArray[np.int64]:
        for task in self._decisions.evicted:
            for dimension, amount in task.shape.vector:
                freed[dimension, task.node] += amount
        for task in self._reservations.repairing:
            for dimension, amount in task.shape.vector:
                freed[dimension, task.node] -= amount
        for reservation in self._reservations:
            if reservation.state is TaskState.PIPELINED:
                for dimension, amount in reservation.task.shape.vector:
                    freed[dimension, reservation.row] -= amount
        return freed
