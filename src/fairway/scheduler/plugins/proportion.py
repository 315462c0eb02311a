"""Queues share the cluster by weight: water-filling between guarantee and capability, capped by what they request.

A tree of queues is filled level by level: children share what their parent got. What `capacity` has in common with
this, the limits that a queue's standing sets, is in `QueueLimits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from fairway.api.arguments import ProportionArguments
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.hooks import Deserves
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.scheduler.plugins.share_tree import Claim, Division, fill
from fairway.state.queues import Amounts, QueueTotals
from fairway.state.tables import PODS


class Proportion(QueueLimits, Deserves):
    """Queues share the cluster by weight, between guarantee and capability."""

    name = "proportion"
    Arguments = ProportionArguments

    def __init__(self, arguments: ProportionArguments) -> None:
        super().__init__()
        self._lending = arguments.lending == "default"

    def lends(self) -> bool:
        return self._lending

    def deserved(self) -> Mapping[str, Amounts]:
        session = self._session
        assert session is not None
        for name in self._kept.describing:
            session.warnings.append(f"queue {name}: spec.deserved is not used by proportion, only by capacity")
        self._warn_of_guarantees(session)
        if self._lending:
            return Division(self._kept.tree, session.queues, session.total)
        takers = self._takers(session)
        basis = (session.total, takers)
        if self._kept.even[0] != basis:
            self._kept.even = basis, even_shares(session.queues.totals, self._kept.guaranteed, session.total, takers)
        return self._kept.even[1]

    def _takers(self, session: SessionView) -> frozenset[str]:
        """Without lending every open queue takes part, but a default queue that no object has made only if it is in
        use.
        """
        queues = session.queues
        return frozenset(
            name
            for name, total in queues.totals.totals.items()
            if total.info.open
            and (total.info.declared or (total.info.exists and any((*queues[name].allocated, *queues[name].requested))))
        )

    def _warn_of_guarantees(self, session: SessionView) -> None:
        if not self._guaranteed_rows:
            return
        for name, row in sorted((name, row) for row, name in enumerate(session.state.axis.names)):
            if row != PODS and self._kept.promised[row] > session.total[row]:
                session.warnings.append(f"the queues' guarantees of {name} exceed the cluster and are scaled down")


def even_shares(
    totals: QueueTotals, guaranteed: Mapping[str, Amounts], cluster: Amounts, takers: Set[str]
) -> dict[str, Amounts]:
    """What queues deserve whatever they request: each takes all that it may have."""
    shares = {name: [0] * len(cluster) for name in totals.totals}
    for amounts in shares.values():
        amounts[PODS] = UNLIMITED

    def divide(names: tuple[str, ...], row: int, total: int) -> None:
        here = [totals.totals[name] for name in names if name in takers]
        claims = []
        for queue in here:
            capability, info = queue.info.capability.get(row, UNLIMITED), queue.info
            low = min(capability, guaranteed[info.name][row])
            claims.append(Claim(info.name, info.weight, low, max(low, min(capability, total))))
        for queue, amount in zip(here, fill(total, claims), strict=True):
            shares[queue.info.name][row] = amount
            if queue.children:
                divide(queue.children, row, amount)

    for row, total in enumerate(cluster):
        if row != PODS and total > 0:
            divide(totals.top, row, total)
    return shares
