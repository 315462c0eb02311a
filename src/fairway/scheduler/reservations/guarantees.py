"""Reservations keep the guarantees of other queues (semantics 6.2).

Two conditions: what a queue has and sets aside leaves the others the amounts that they are guaranteed; and the nodes
without reservations are enough for the part of these that the others ask for and do not have, since a reserved node
takes no pod of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.scheduler.reservations.book import Hold
from fairway.scheduler.reservations.reservable import counted_nodes
from fairway.state.queues import Amounts, add
from fairway.state.tasks import TaskState


class Guarantees:
    """Asked by those who reserve, one job after the other."""

    def __init__(self, session: Session) -> None:
        self._session = session
        plugins = (session.plugin("proportion"), session.plugin("capacity"))
        self._limits: QueueLimits | None = next((p for p in plugins if isinstance(p, QueueLimits)), None)
        self._reserved: dict[str, Amounts] = {}
        self.note(session.holds)

    def note(self, holds: Iterable[Hold]) -> None:
        """These stand from now on."""
        for hold in holds:
            if hold.state is TaskState.RESERVED:
                for book in hold.job.queue.line:
                    add(self._reserved.setdefault(book.name, []), hold.task.shape.vector)

    def leave(self, queue: QueueAccount, need: Mapping[int, int]) -> bool:
        """Whether the queue may set aside so much more."""
        return self._limits is None or self._limits.leaves_guarantees(queue, need)

    def hold(self, queue: QueueAccount, made: Iterable[Hold]) -> bool:
        """Whether the nodes that are left with these reservations suffice for what other queues still ask for."""
        if self._limits is None or not any(hold.state is TaskState.RESERVED for hold in made):
            return True
        owed = self._limits.owed(queue, self._reserved)
        if not owed:
            return True
        left = counted_nodes(self._session)
        left[[hold.row for hold in self._session.holds if hold.state is TaskState.RESERVED]] = False
        capacity = self._session.snapshot.allocatable[:, left]
        return all(met + unmet <= int(capacity[row].sum()) for row, (met, unmet) in owed.items())
