"""What is allocated to each queue and requested in it, with all queues below it, kept from cycle to cycle.

Sums change along the path from a queue to the top, and only when the queue itself changed: reading them costs
the queues that changed since the last time. When queues come, go or are described again, all is made again.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.state.log import Log
from fairway.state.queues import Amounts, QueueInfo, QueueTree


class QueueTotal(NamedTuple):
    """A queue with all below it. The lists change in place."""

    info: QueueInfo
    parent: str
    """The queue above it; "" for the top, and for queues whose parents go in a circle."""
    ancestry: tuple[str, ...]
    """The queue and those above it, upwards."""
    children: tuple[str, ...]
    """By name; those in a circle are below no queue."""
    allocated: Amounts
    requested: Amounts
    own_allocated: Amounts
    own_requested: Amounts


class QueueTotals:
    """The totals of one tree of queues."""

    def __init__(self, queues: QueueTree) -> None:
        self._queues = queues
        self._generation = -1
        self._dimensions = 0
        self._read = 0
        self.totals: dict[str, QueueTotal] = {}
        """By name, in the order of the names."""
        self.top: tuple[str, ...] = ()
        """Queues that are below no other."""
        self.layout = 0
        """Counts how often all was made again."""
        self.changed: Log[str] = Log()
        """Queues of which something changed since all was last made again. Those above them are not listed, but where
        parents go in a circle: there no queue is below another, and still each counts in the others.
        """

    def sync(self, dimensions: int) -> None:
        """Bring the totals up to date, with so many resources each."""
        queues = self._queues
        names = queues.changed.since(self._read)
        self._read = queues.changed.end
        if names is None or queues.generation != self._generation or dimensions != self._dimensions:
            self._generation, self._dimensions = queues.generation, dimensions
            self._make()
            return
        for name in dict.fromkeys(names):
            self._update(self.totals[name])

    def bottom_up(self) -> list[str]:
        """All queues, each after those below it."""
        found, at = [*self.top], 0
        while at < len(found):
            found.extend(self.totals[found[at]].children)
            at += 1
        return found[::-1]

    def _make(self) -> None:
        self.layout += 1
        self.changed = Log()
        queues, zeros = self._queues, [0] * self._dimensions
        parents = {queue.name: self._parent(queue.name) for queue in queues}
        below: dict[str, list[str]] = {}
        for name, parent in sorted(parents.items()):
            below.setdefault(parent, []).append(name)
        self.top = tuple(below.get("", ()))
        self.totals = {
            name: QueueTotal(
                queues[name],
                parents[name],
                tuple(queue.name for queue in queues.ancestors(name)),
                tuple(below.get(name, ())),
                *(zeros.copy() for _ in range(4)),
            )
            for name in sorted(parents)
        }
        for total in self.totals.values():
            self._update(total)

    def _parent(self, name: str) -> str:
        ancestry = self._queues.ancestors(name)
        return ancestry[1].name if len(ancestry) > 1 and not self._queues.in_circle(name) else ""

    def _update(self, total: QueueTotal) -> None:
        for own, is_now, which in (
            (total.own_allocated, total.info.allocated, "allocated"),
            (total.own_requested, total.info.requested, "requested"),
        ):
            more = [
                (row, (is_now[row] if row < len(is_now) else 0) - amount)
                for row, amount in enumerate(own)
                if amount != (is_now[row] if row < len(is_now) else 0)
            ]
            for row, amount in more:
                own[row] += amount
            for name in total.ancestry if more else ():
                sums: Amounts = getattr(self.totals[name], which)
                for row, amount in more:
                    sums[row] += amount
                if name == total.info.name or not total.parent:
                    self.changed.add(name)
