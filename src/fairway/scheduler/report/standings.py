"""What queues and namespaces have allocated and deserve, after the plan."""

from __future__ import annotations

from itertools import zip_longest

from fairway.resources.quantity import INT64_MAX, format_amount
from fairway.scheduler.framework.accounts import (
    SHARE_BITS,
    UNLIMITED,
    NamespaceAccount,
    QueueAccount,
    queue_share,
    share,
)
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservations import Reservations
from fairway.scheduler.plan import (
    NamespaceStanding,
    QueueStanding,
)
from fairway.state.cluster import ClusterState
from fairway.state.queues import Amounts
from fairway.state.tables import PODS


class Standings:
    """What queues and namespaces have allocated and deserve, after the plan."""

    def __init__(self, state: ClusterState, accounts: SessionAccounts, reservations: Reservations) -> None:
        self._share_total = accounts.share_total
        self._rows = [
            (row, name)
            for row, name in sorted(enumerate(state.axis.names), key=_rank)
            if row != PODS and row < len(accounts.total) and accounts.total[row] > 0
        ]
        self._infos = [
            (account, account.info.weight, account.info.parent, "Open" if account.info.open else "Closed")
            for _, account in sorted(accounts.queues.items())
            if account.info.exists
        ]
        self._reserved = reservations.set_aside()
        waiting = _waiting(state)
        self._namespaces = [
            accounts.of(account, namespace)
            for _, account in sorted(accounts.queues.items())
            for namespace in sorted({*account.info.accounts, *waiting.get(account.name, ())})
        ]
        """Looked up now: the state may move on before they are read."""

    def queues(self) -> list[QueueStanding]:
        return [
            QueueStanding(
                name=account.name,
                weight=weight,
                deserved=self._amounts(account.deserved or []),
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(queue_share(account)),
                requested=self._amounts(
                    [had + more for had, more in zip(account.allocated_at_start, account.requested, strict=True)]
                ),
                parent=parent,
                state=state,
                reserved=self._amounts(self._reserved.get(account, [])),
                dominant_share=_fraction(share(self._allocated(account), self._share_total, 1, PODS)),
            )
            for account, weight, parent, state in self._infos
        ]

    def namespaces(self) -> list[NamespaceStanding]:
        total = self._share_total
        return [
            NamespaceStanding(
                queue=account.queue.name,
                namespace=account.namespace,
                weight=account.weight,
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(share(account.allocated, total, 1, PODS)),
                weighted_share=_fraction(share(account.allocated, total, account.weight, PODS)),
                reserved=self._amounts(self._reserved.get(account, [])),
            )
            for account in self._namespaces
        ]

    def _allocated(self, account: QueueAccount | NamespaceAccount) -> Amounts:
        """What is allocated, without what is only reserved."""
        reserved = self._reserved.get(account)
        if reserved is None:
            return account.allocated
        return [allocated - aside for allocated, aside in zip_longest(account.allocated, reserved, fillvalue=0)]

    def _amounts(self, amounts: list[int]) -> dict[str, str]:
        shown = {}
        for row, name in self._rows:
            amount = amounts[row] if row < len(amounts) else 0
            shown[name] = "unlimited" if amount >= UNLIMITED else format_amount(name, min(max(amount, 0), INT64_MAX))
        return shown


def _waiting(state: ClusterState) -> dict[str, set[str]]:
    """The namespaces that wait for something, by queue."""
    found: dict[str, set[str]] = {}
    for template in state.waiting.templates():
        for key in template.classes:
            found.setdefault(key.queue, set()).add(key.namespace)
    for job in (*state.waiting.started, *state.waiting.empty, *state.waiting.short):
        found.setdefault(job.queue, set()).add(job.namespace)
    return found


def _rank(dimension: tuple[int, str]) -> tuple[int, str]:
    """cpu and memory first, the others by name: in no case by which was named first."""
    row, name = dimension
    return min(row, PODS), name


def _fraction(units: int) -> float:
    return round(units / (1 << SHARE_BITS), 6)
