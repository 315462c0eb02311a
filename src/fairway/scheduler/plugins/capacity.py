"""Queues deserve what is written on them; what they use of a dimension that is not mentioned is borrowed."""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.framework.accounts import UNLIMITED, QueueAccount
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.tables import PODS


class Capacity(QueueLimits):
    """Queues deserve what is written on them."""

    name = "capacity"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()

    def deserved(self) -> dict[str, list[int]]:
        return {name: _written(account) for name, account in self._accounts.items()}


def _written(account: QueueAccount) -> list[int]:
    amounts = [
        min(account.capability[row], max(account.guarantee[row], account.info.deserved.get(row, 0)))
        for row in range(len(account.allocated))
    ]
    amounts[PODS] = UNLIMITED
    return amounts
