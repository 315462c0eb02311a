"""Queues share the cluster by weight: water-filling between guarantee and capability, capped by what they request.

A tree of queues is filled level by level: children share what their parent got. What `capacity` has in common with
this, the limits that a queue's standing sets, is in `QueueLimits`.
"""

from __future__ import annotations

from fairway.api.arguments import ProportionArguments
from fairway.scheduler.framework.accounts import UNLIMITED, QueueAccount
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plugins.filling import Claim, fill
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.cluster import PODS


class Proportion(QueueLimits):
    name = "proportion"

    def __init__(self, arguments: ProportionArguments) -> None:
        super().__init__()
        self.lends = arguments.lending == "default"

    def divide(self, session: Session) -> None:
        for book in session.queues.values():
            book.deserved = [0] * len(book.held)
            book.deserved[PODS] = UNLIMITED
            if book.info.deserved:
                session.warnings.append(f"queue {book.name}: spec.deserved is not used by proportion, only by capacity")
        self._warn_of_guarantees(session)
        for row, total in enumerate(session.total):
            if row != PODS and total > 0:
                self._fill(self.top(), row, total)

    def _fill(self, books: list[QueueAccount], row: int, total: int) -> None:
        takers = [book for book in books if self._takes_part(book)]
        claims = [self._claim(book, row, total) for book in takers]
        for book, amount in zip(takers, fill(total, claims), strict=True):
            assert book.deserved is not None
            book.deserved[row] = amount
            children = self.children(book)
            if children:
                self._fill(children, row, amount)

    def _takes_part(self, book: QueueAccount) -> bool:
        """Without lending every open queue does, but a default queue that nobody made only if somebody uses it."""
        if self.lends:
            return True
        return book.info.open and (book.info.declared or (book.info.exists and any((*book.held, *book.requested))))

    def _claim(self, book: QueueAccount, row: int, total: int) -> Claim:
        capability = min(book.capability[row], total)
        low = min(book.capability[row], self.guaranteed(book, row))
        wants = self._request(book, row) if self.lends else total
        return Claim(book.name, book.info.weight, low, max(low, min(capability, wants)))

    def _request(self, book: QueueAccount, row: int) -> int:
        """What the queue holds and still wants; nothing new comes into a queue that is closed or not there."""
        children = self.children(book)
        if children:
            below = sum(
                min(child.capability[row], max(self.guaranteed(child, row), self._request(child, row)))
                for child in children
            )
            return below + book.info.held[row] if row < len(book.info.held) else below
        pending = book.requested[row] if book.info.open and book.info.exists else 0
        return book.held[row] + pending

    def _warn_of_guarantees(self, session: Session) -> None:
        if not self._guaranteed_rows:
            return
        for name, row in sorted((name, row) for row, name in enumerate(session.state.axis.names)):
            promised = sum(self.guaranteed(book, row) for book in self.top())
            if row != PODS and promised > session.total[row]:
                session.warnings.append(f"the queues' guarantees of {name} exceed the cluster and are scaled down")
