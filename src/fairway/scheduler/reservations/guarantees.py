"""Reservations keep the guarantees of other queues (semantics 6.2).

Two conditions: what a queue has and sets aside leaves the others the amounts that they are guaranteed; and the nodes
without reservations are enough for the part of these that the others ask for and do not have, since a reserved node
takes no pod of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.plugin_set import PluginSet
from fairway.scheduler.framework.reservations import Reservations, TaskReservation
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.reservations.reservable import counted_nodes
from fairway.state.queues import Amounts, add
from fairway.state.tasks import TaskState

Owed = Mapping[int, tuple[int, int]]
"""By row, what others have of what they are guaranteed, and what they still request of it."""


class Guarantees:
    """Asked where jobs reserve, one after the other."""

    def __init__(self, nodes: WorkingNodes, reservations: Reservations, plugins: PluginSet) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._plugins = plugins
        self.leave: Callable[[QueueAccount, Mapping[int, int]], bool] = plugins.combined("leaves_guarantees")
        """Whether the queue may set aside so much more, by row."""
        self._owed: Callable[..., list[Owed]] = plugins.combined("owed")
        self._reserved: dict[str, Amounts] = {}
        self.note(reservations)

    def note(self, reservations: Iterable[TaskReservation]) -> None:
        """These stand from now on."""
        for reservation in reservations:
            if reservation.state is TaskState.RESERVED:
                for account in reservation.job.queue.ancestry:
                    add(self._reserved.setdefault(account.name, []), reservation.task.shape.vector)

    def respected(self, queue: QueueAccount, made: Iterable[TaskReservation]) -> bool:
        """Whether the nodes that are left with these reservations suffice for what other queues still ask for."""
        if not any(reservation.state is TaskState.RESERVED for reservation in made):
            return True
        owed = [owed for owed in self._owed(queue, self._reserved) if owed]
        if not owed:
            return True
        left = counted_nodes(self._nodes.snapshot)
        left[[reservation.row for reservation in self._reservations if reservation.state is TaskState.RESERVED]] = False
        capacity = self._nodes.snapshot.allocatable[:, left]
        amounts = ((row, met + unmet) for each in owed for row, (met, unmet) in each.items())
        return all(amount <= int(capacity[row].sum()) for row, amount in amounts)
