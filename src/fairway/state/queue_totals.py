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
                tuple(below.get(name, ()) if name else ()),  # without a name it would be above the top, and itself
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
        info = total.info
        if _move(total.own_allocated, info.allocated, [self.totals[name].allocated for name in total.ancestry]):
            self._note(total)
        if _move(total.own_requested, info.requested, [self.totals[name].requested for name in total.ancestry]):
            self._note(total)

    def _note(self, total: QueueTotal) -> None:
        if total.parent:
            self.changed.add(total.info.name)
            return
        for name in total.ancestry:
            self.changed.add(name)


def _move(own: Amounts, is_now: Amounts, sums: list[Amounts]) -> bool:
    """Bring amounts to what they are now, and the sums that they are part of with them; whether that moved any. Of
    resources that come behind the end of a list there is nothing.
    """
    if own == is_now:
        return False
    moved, known = False, len(is_now)
    for row, before in enumerate(own):
        more = (is_now[row] if row < known else 0) - before
        if more:
            moved = True
            own[row] = before + more
            for amounts in sums:
                amounts[row] += more
    return moved
