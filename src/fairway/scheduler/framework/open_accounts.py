"""The accounts of queues in a session: opened when they are first asked for, from totals that are kept.

A cycle that concerns one queue opens the accounts of that queue and of those above it, however many others there are.
Iterating over them opens all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fairway.scheduler.framework.accounts import QueueAccount
from fairway.state.queue_totals import QueueTotals
from fairway.state.queues import Amounts


class OpenAccounts(Mapping[str, QueueAccount]):
    """By name of queue, in the order of the names. `shared` are the resources that shares are made of."""

    def __init__(self, totals: QueueTotals, dimensions: int, shared: tuple[int, ...]) -> None:
        self.totals = totals
        self._dimensions = dimensions
        self._shared = shared
        self._opened: dict[str, QueueAccount] = {}
        self._deserved: Mapping[str, Amounts] = {}

    def __getitem__(self, name: str) -> QueueAccount:
        return self._opened.get(name) or self._open(name)

    def __contains__(self, name: object) -> bool:
        return name in self.totals.totals

    def __iter__(self) -> Iterator[str]:
        return iter(self.totals.totals)

    def __len__(self) -> int:
        return len(self.totals.totals)

    def opened(self) -> dict[str, QueueAccount]:
        """Those that were asked for so far: only they can differ from the totals."""
        return self._opened

    def deserve(self, deserved: Mapping[str, Amounts]) -> None:
        """What each queue deserves from now on, those too that are opened later."""
        self._deserved = deserved
        for name, account in self._opened.items():
            if name in deserved:
                account.deserved = fitted(deserved[name], self._dimensions)

    def _open(self, name: str) -> QueueAccount:
        total = self.totals.totals[name]
        account = QueueAccount(total.info, total.allocated.copy(), total.requested.copy(), self._shared)
        self._opened[name] = account  # before those above it, which may be in a circle with it
        account.ancestry = (account, *(self[above] for above in total.ancestry[1:]))
        account.parent = self[total.parent] if total.parent else None
        if name in self._deserved:
            account.deserved = fitted(self._deserved[name], self._dimensions)
        return account


def fitted(amounts: Amounts, dimensions: int) -> Amounts:
    """What is not mentioned is not deserved."""
    return [*amounts[:dimensions], *[0] * (dimensions - len(amounts))]
