"""What each queue would have if every queue wanted all that it may have: the measure of borrowing and lending.

A plan's `deserved` is capped by what a queue requests, so a queue that wants nothing deserves nothing, and its share is
lent. To say who lends, the share that it would have is needed. For display only: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairway.state.queues import QueueInfo, QueueTree

ROUNDS = 64
"""A queue at its capability leaves each round at least; trees with more such siblings are cut off there."""


def entitled_amounts(queues: QueueTree, row: int, total: int) -> dict[str, float]:
    """By queue, of one resource."""
    found: dict[str, float] = {}
    ahead: list[tuple[Iterable[str], float]] = [(queues.top, float(total))]
    while ahead:
        names, whole = ahead.pop()
        siblings = [queues[name] for name in sorted(names) if name in queues and _counts(queues[name])]
        for queue, amount in _divided(siblings, row, whole):
            if queue.name not in found:
                found[queue.name] = amount
                ahead.append((queue.children, amount))
    return found


def _counts(queue: QueueInfo) -> bool:
    """The queue `default` is there without an object: it lends nothing where nothing uses it."""
    return queue.declared or bool(queue.accounts)


def _divided(queues: list[QueueInfo], row: int, whole: float) -> list[tuple[QueueInfo, float]]:
    """By weight, between guarantee and capability; an explicit deserved amount stands."""
    fixed: dict[str, float] = {queue.name: float(queue.deserved[row]) for queue in queues if row in queue.deserved}
    for _ in range(ROUNDS):
        free = [queue for queue in queues if queue.name not in fixed]
        left = max(0.0, whole - sum(fixed.values()))
        weights = sum(queue.weight for queue in free)
        bounded = {}
        for queue in free:
            share = left * queue.weight / weights if weights else 0.0
            least, most = queue.guarantee.get(row, 0), queue.capability.get(row)
            if most is not None and share > most:
                bounded[queue.name] = float(most)
            elif share < least:
                bounded[queue.name] = float(least)
        if not bounded:
            fixed |= {queue.name: left * queue.weight / weights if weights else 0.0 for queue in free}
            break
        fixed |= bounded
    return [(queue, fixed.get(queue.name, 0.0)) for queue in queues]
