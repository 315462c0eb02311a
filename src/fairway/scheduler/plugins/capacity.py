"""Queues deserve what is written on them; what they use of a dimension that is not mentioned is borrowed."""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.cluster import PODS


class Capacity(QueueLimits):
    name = "capacity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()

    def divide(self, session: Session) -> None:
        for book in session.queues.values():
            book.deserved = [
                min(book.capability[row], max(book.guarantee[row], book.info.deserved.get(row, 0)))
                for row in range(len(book.held))
            ]
            book.deserved[PODS] = UNLIMITED
