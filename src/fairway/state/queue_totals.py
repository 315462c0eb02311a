"""What is allocated to each queue and requested in it, with all queues below it, kept from cycle to cycle.

Sums change along the path from a queue to the top, and only when the queue itself changed: reading them costs
the queues that changed since the last time. When queues come, go or are described again, all is made again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairway.resources.columns import Axis
from fairway.state.derived import DerivedValue, Generations, same
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


class QueueTotals(
    DerivedValue,
    name="queue-totals",
    holds="what each queue with all below it has allocated and requests",
    inputs=("queues",),
    saves="adding up all queues, level by level",
):
    """The totals of one tree of queues."""

    def __init__(self, queues: QueueTree, axis: Axis) -> None:
        super().__init__(queues.changed)
        self._queues = queues
        self._axis = axis
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

    @classmethod
    def make(cls, state: Any) -> QueueTotals:
        return cls(state.queues, state.axis)

    def generations(self) -> Generations:
        return self._queues.generation, len(self._axis)

    def update(self, names: list[str]) -> None:
        for name in dict.fromkeys(names):
            self._update(self.totals[name])

    def check(self) -> None:
        self.sync()
        fresh = QueueTotals(self._queues, self._axis)
        fresh.sync()
        same("queues at the top", self.top, fresh.top)
        same("totals of queues", _without_info(self.totals), _without_info(fresh.totals))

    def bottom_up(self) -> list[str]:
        """All queues, each after those below it."""
        found, at = [*self.top], 0
        while at < len(found):
            found.extend(self.totals[found[at]].children)
            at += 1
        return found[::-1]

    def rebuild(self) -> None:
        self.layout += 1
        self.changed = Log()
        queues, zeros = self._queues, [0] * len(self._axis)
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


def _without_info(totals: dict[str, QueueTotal]) -> dict[str, tuple[object, ...]]:
    return {name: total[1:] for name, total in totals.items()}


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
