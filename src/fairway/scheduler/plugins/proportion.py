"""Queues share the cluster by weight: water-filling between guarantee and capability, capped by what they request.

A tree of queues is filled level by level: children share what their parent got. What `capacity` has in common with
this, the limits that a queue's standing sets, is in `QueueLimits`.
"""

from __future__ import annotations

from fairway.api.arguments import ProportionArguments
from fairway.scheduler.framework.accounts import UNLIMITED, QueueAccount
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.plugins.filling import Claim, fill
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.cluster import PODS


class Proportion(QueueLimits):
    """Queues share the cluster by weight, between guarantee and capability."""

    name = "proportion"
    Arguments = ProportionArguments

    def __init__(self, arguments: ProportionArguments) -> None:
        super().__init__()
        self._lending = arguments.lending == "default"
        self._shares: dict[str, list[int]] = {}

    def lends(self) -> bool:
        return self._lending

    def deserved(self) -> dict[str, list[int]]:
        session = self._session
        assert session is not None
        for book in session.queues.values():
            shares = self._shares[book.name] = [0] * len(book.held)
            shares[PODS] = UNLIMITED
            if book.info.deserved:
                session.warnings.append(f"queue {book.name}: spec.deserved is not used by proportion, only by capacity")
        self._warn_of_guarantees(session)
        for row, total in enumerate(session.total):
            if row != PODS and total > 0:
                self._fill(self._top(), row, total)
        return self._shares

    def _fill(self, books: list[QueueAccount], row: int, total: int) -> None:
        takers = [book for book in books if self._takes_part(book)]
        claims = [self._claim(book, row, total) for book in takers]
        for book, amount in zip(takers, fill(total, claims), strict=True):
            self._shares[book.name][row] = amount
            children = self._children(book)
            if children:
                self._fill(children, row, amount)

    def _takes_part(self, book: QueueAccount) -> bool:
        """Without lending every open queue does, but a default queue that nobody made only if somebody uses it."""
        if self._lending:
            return True
        return book.info.open and (book.info.declared or (book.info.exists and any((*book.held, *book.requested))))

    def _claim(self, book: QueueAccount, row: int, total: int) -> Claim:
        capability = min(book.capability[row], total)
        low = min(book.capability[row], self._guaranteed(book, row))
        wants = self._request(book, row) if self._lending else total
        return Claim(book.name, book.info.weight, low, max(low, min(capability, wants)))

    def _request(self, book: QueueAccount, row: int) -> int:
        """What the queue holds and still wants; nothing new comes into a queue that is closed or not there."""
        children = self._children(book)
        if children:
            below = sum(
                min(child.capability[row], max(self._guaranteed(child, row), self._request(child, row)))
                for child in children
            )
            return below + book.info.held[row] if row < len(book.info.held) else below
        pending = book.requested[row] if book.info.open and book.info.exists else 0
        return book.held[row] + pending

    def _warn_of_guarantees(self, session: SessionView) -> None:
        if not self._guaranteed_rows:
            return
        for name, row in sorted((name, row) for row, name in enumerate(session.state.axis.names)):
            promised = sum(self._guaranteed(book, row) for book in self._top())
            if row != PODS and promised > session.total[row]:
                session.warnings.append(f"the queues' guarantees of {name} exceed the cluster and are scaled down")
