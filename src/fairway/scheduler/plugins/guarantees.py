"""What queues are guaranteed, worked out once for as long as no queue comes, goes or is described again."""

from __future__ import annotations

from fairway.scheduler.plugins.share_tree import ShareTree
from fairway.state.cluster import ClusterState
from fairway.state.queue_totals import QueueTotals
from fairway.state.queues import Amounts
from fairway.state.tables import PODS


class KeptShares:
    """What proportion and capacity keep of one state from cycle to cycle."""

    def __init__(self) -> None:
        self._layout = -1
        self._totals: QueueTotals | None = None
        self.tree = ShareTree()
        self.guaranteed: dict[str, Amounts] = {}
        """By queue; what is guaranteed to a queue covers what is guaranteed to those below it."""
        self.rows: frozenset[int] = frozenset()
        """Resources of which something is guaranteed."""
        self.promised: Amounts = []
        """What all queues at the top are guaranteed together."""
        self.describing: tuple[str, ...] = ()
        """Queues whose objects say what they deserve."""
        self.even: tuple[object, dict[str, Amounts]] = (None, {})
        """Shares that do not follow what queues request, and what they were worked out from."""

    def sync(self, totals: QueueTotals, dimensions: int) -> None:
        """Look again at what queues say, if that may have changed."""
        if totals is self._totals and totals.layout == self._layout:
            return
        self._totals, self._layout = totals, totals.layout
        self.even = (None, {})
        self.guaranteed = {}
        for name in totals.bottom_up():
            total = totals.totals[name]
            below = [self.guaranteed[child] for child in total.children]
            self.guaranteed[name] = [
                max(total.info.guarantee.get(row, 0), sum(amounts[row] for amounts in below))
                for row in range(dimensions)
            ]
        top = [self.guaranteed[name] for name in totals.top]
        self.promised = [sum(amounts[row] for amounts in top) for row in range(dimensions)]
        self.rows = frozenset(
            row
            for total in totals.totals.values()
            for row, amount in total.info.guarantee.items()
            if amount and row != PODS and row < dimensions
        )
        self.describing = tuple(name for name, total in totals.totals.items() if total.info.deserved)
        self.tree.make(totals, self.guaranteed, dimensions)


def kept_shares(state: ClusterState) -> KeptShares:
    return state.derived.of(KeptShares, KeptShares)
