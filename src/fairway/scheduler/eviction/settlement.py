"""A claim that was granted: its victims will go, but have not gone yet.

Until the pods are gone no other job gains their capacity, and what the claimant is nominated for is not lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.scheduler.eviction.claim import Place
from fairway.scheduler.eviction.terminating import TerminatingCapacity
from fairway.scheduler.eviction.units import Unit
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes


def settle(
    nodes: WorkingNodes,
    decisions: Decisions,
    statement: Statement,
    terminating: TerminatingCapacity,
    units: list[Unit],
    places: list[Place],
) -> None:
    """Write down the world without the victims and with the claimant, and keep of it what is lost to others."""
    before = _RowsBefore(nodes)
    before.note(terminating.rows)
    terminating.lend(statement)
    victims = [task for unit in units for task in unit.tasks]
    for task in victims:
        before.note([task.node])
        statement.displace([task])
    for task, row in places:
        before.note([row])
        statement.occupy(task.shape, [task], [row])
    statement.commit()
    snapshot = nodes.snapshot
    for row, amounts in before.amounts.items():
        snapshot.write(row)
        np.minimum(snapshot.idle[:, row], amounts, out=snapshot.idle[:, row])
        decisions.note_settled(row, amounts - snapshot.idle[:, row])
    for task in victims:
        nodes.pods.displace(task, snapshot.size, 1)
    nodes.devices.settle(victims, [task for task, _ in places])


class _RowsBefore:
    """What rows had free before they were first written to."""

    def __init__(self, nodes: WorkingNodes) -> None:
        self._snapshot = nodes.snapshot
        self.amounts: dict[int, NDArray[np.int64]] = {}

    def note(self, rows: list[int]) -> None:
        for row in rows:
            if row not in self.amounts:
                self.amounts[row] = self._snapshot.idle[:, row].copy()
