"""How devices count in queues: by the class asked for against capability, by kind in shares.

What a pod holds counts by the kind of its devices; what it waits for counts by class, and also by kind where all
devices of the class are of one. So classes that overlap never promise the same device twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairway.devices.book import DeviceBook
from fairway.devices.room import WHOLE
from fairway.resources.columns import Vector
from fairway.scheduler.books import AccountBook, QueueBook
from fairway.state.asks import CLASS_PREFIX
from fairway.state.queues import add
from fairway.state.shapes import Shape
from fairway.state.waiting import Signature, WaitingIndex

AccountOf = Callable[[QueueBook, str], AccountBook]


class DeviceQueues:
    """Answers for one session."""

    def __init__(self, book: DeviceBook) -> None:
        self._book = book
        self._asked: dict[Shape, Vector] = {}

    def asked(self, shape: Shape) -> Vector:
        """What a shape counts for in its queue while it waits."""
        if shape.devices is None or not shape.devices.classes:
            return shape.vector
        found = self._asked.get(shape)
        if found is None:
            amounts = dict(shape.vector)
            for ask in shape.devices.classes:
                place = self._book.columns.kind_of(ask.class_name)
                if place is not None:
                    amounts[place] = amounts.get(place, 0) + ask.units * WHOLE + sum(ask.fractions)
            found = self._asked[shape] = tuple(sorted(amounts.items()))
        return found

    def open_books(self, books: Mapping[str, QueueBook], account: AccountOf, waiting: WaitingIndex) -> None:
        """Add to the books what is held and wanted by kind, and say which dimensions do not count in shares."""
        for (queue, namespace, _), amounts in self._book.columns.accounts.items():
            books[queue].charge(tuple(amounts.items()), 1)
            add(account(books[queue], namespace).held, tuple(amounts.items()))
        names = self._book.axis.names
        uncounted = frozenset(row for row, name in enumerate(names) if name.startswith(CLASS_PREFIX))
        for book in books.values():
            book.uncounted = uncounted
        for signature in waiting.signatures():
            more = self._by_kind(signature)
            for key, line in signature.lines.items() if more else ():
                if key.valid:
                    for book in books[key.queue].line:
                        add(book.requested, more, len(line.entries))
        for job, (signature, _) in waiting.started.items():
            for book in books[job.queue].line:
                add(book.requested, self._by_kind(signature))

    def _by_kind(self, signature: Signature) -> Vector:
        amounts: dict[int, int] = {}
        for run in signature.runs:
            named = dict(run.shape.vector)
            for place, amount in self.asked(run.shape):
                if amount > named.get(place, 0):
                    amounts[place] = amounts.get(place, 0) + (amount - named.get(place, 0)) * run.size
        return tuple(sorted(amounts.items()))
