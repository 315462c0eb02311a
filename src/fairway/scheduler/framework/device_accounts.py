"""How devices count in queues: by the class asked for against capability, by kind in shares.

What a pod holds counts by the kind of its devices; what it waits for counts by class, and also by kind where all
devices that could serve it are of one. So classes that overlap never promise the same device twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from fairway.devices.model.device import WHOLE
from fairway.devices.select.requests import Need, Option
from fairway.devices.select.selector_requests import ByClass, ByKind, Wish, label
from fairway.devices.track.columns import kind_place
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import NodeDevices
from fairway.resources.columns import Vector
from fairway.scheduler.devices.requests import OpenDeviceRequests
from fairway.scheduler.framework.accounts import NamespaceAccount, QueueAccount
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.queues import add
from fairway.state.shapes import Shape
from fairway.state.waiting import GangTemplate, WaitingIndex

AccountOf = Callable[[QueueAccount, str], NamespaceAccount]


class DeviceQueues:
    """Answers for one session."""

    def __init__(self, book: DeviceLedger, asks: OpenDeviceRequests) -> None:
        self._book = book
        self._asks = asks
        self._named: dict[tuple[Shape, int], Vector] = {}
        self._asked: dict[tuple[Shape, int], Vector] = {}
        self._wishes: dict[Wish, int | None] = {}

    def named(self, shape: Shape) -> Vector:
        """What a shape counts for against capability: what it asks for by name, in claims too. Of alternatives whose
        classes differ each counts, for nobody knows yet which one it will be; what is held counts as what it is.
        """
        if shape.devices is None or not shape.devices.claims:
            return shape.vector
        needs = self._asks.of(shape)
        found = self._named.get((shape, needs.number))
        if found is None:
            amounts = Counter(dict(shape.vector))
            for need in needs.needs.needs:
                amounts.update(self._most_by_class(need) if need.claim else {})
            found = self._named[shape, needs.number] = tuple(sorted((+amounts).items()))
        return found

    def asked(self, shape: Shape) -> Vector:
        """What a shape counts for in its queue while it waits."""
        if shape.devices is None:
            return shape.vector
        needs = self._asks.of(shape)
        found = self._asked.get((shape, needs.number))
        if found is None:
            amounts = Counter(dict(self.named(shape)))
            for need in needs.needs.needs:
                kinds = {self._kind_of(option.wish) for option in need.options}
                place = kinds.pop() if len(kinds) == 1 else None
                if place is not None:
                    amounts[place] += max(map(self._amount, need.options))
            found = self._asked[shape, needs.number] = tuple(sorted((+amounts).items()))
        return found

    def _most_by_class(self, need: Need) -> dict[int, int]:
        found: dict[int, int] = {}
        for option in need.options:
            place = self._book.axis.find(CLASS_PREFIX + label(option.wish))
            if place is not None:
                found[place] = max(found.get(place, 0), self._amount(option))
        return found

    def _amount(self, option: Option) -> int:
        """Thousandths of units; of all devices of a node as many as there are where there are most."""
        if option.admin:
            return 0
        if not option.every:
            return option.milli or option.units * WHOLE
        return max((_units(node, option.wish) for node in self._book.nodes.values()), default=0) * WHOLE

    def _kind_of(self, wish: Wish) -> int | None:
        """The dimension of the kind, if all devices that are meant are of one. Who asks for a plain resource counts
        as such."""
        if isinstance(wish, ByKind):
            return None
        if isinstance(wish, ByClass):
            return self._book.columns.kind_of(wish.class_name)
        if wish not in self._wishes:
            places = {
                kind_place(self._book.axis, node, slot)
                for node in self._book.nodes.values()
                for slot in node.candidates(wish)
            }
            self._wishes[wish] = places.pop() if len(places) == 1 else None
        return self._wishes[wish]

    def open_books(self, books: Mapping[str, QueueAccount], account: AccountOf, waiting: WaitingIndex) -> None:
        """Add to the books what is held and wanted by kind, and say which dimensions do not count in shares."""
        for (queue, namespace, _), amounts in self._book.columns.accounts.items():
            books[queue].charge(tuple(amounts.items()), 1)
            add(account(books[queue], namespace).held, tuple(amounts.items()))
        names = self._book.axis.names
        uncounted = frozenset(row for row, name in enumerate(names) if name.startswith(CLASS_PREFIX))
        for book in books.values():
            book.uncounted = uncounted
        for signature in waiting.templates():
            more = self._by_kind(signature)
            for key, line in signature.lines.items() if more else ():
                if key.valid:
                    for book in books[key.queue].line:
                        add(book.requested, more, len(line.entries))
        for job, (signature, _) in waiting.started.items():
            for book in books[job.queue].line:
                add(book.requested, self._by_kind(signature))

    def _by_kind(self, signature: GangTemplate) -> Vector:
        amounts: dict[int, int] = {}
        for run in signature.runs:
            named = dict(run.shape.vector)
            for place, amount in self.asked(run.shape):
                if amount > named.get(place, 0):
                    amounts[place] = amounts.get(place, 0) + (amount - named.get(place, 0)) * run.size
        return tuple(sorted(amounts.items()))


def _units(node: NodeDevices, wish: Wish) -> int:
    return sum(node.inventory.slots[slot].quantity for slot in node.candidates(wish))
