"""Queues deserve what is written on them; what they use of a dimension that is not mentioned is borrowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairway.api.settings import Arguments
from fairway.scheduler.framework.accounts import UNLIMITED
from fairway.scheduler.framework.hooks import Deserves
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.queues import Amounts, QueueTotals
from fairway.state.tables import PODS


class Capacity(QueueLimits, Deserves):
    """Queues deserve what is written on them."""

    name = "capacity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()

    def deserved(self) -> Mapping[str, Amounts]:
        assert self._session is not None
        return _Written(self._session.queues.totals, len(self._session.total))


class _Written(Mapping[str, Amounts]):
    """What is written on each queue, between guarantee and capability; read when it is asked for."""

    def __init__(self, totals: QueueTotals, dimensions: int) -> None:
        self._totals = totals.totals
        self._dimensions = dimensions

    def __getitem__(self, name: str) -> Amounts:
        info = self._totals[name].info
        amounts = [
            min(info.capability.get(row, UNLIMITED), max(info.guarantee.get(row, 0), info.deserved.get(row, 0)))
            for row in range(self._dimensions)
        ]
        amounts[PODS] = UNLIMITED
        return amounts

    def __iter__(self) -> Iterator[str]:
        return iter(self._totals)

    def __len__(self) -> int:
        return len(self._totals)
