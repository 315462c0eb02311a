"""Queues share the cluster by weight: water-filling between guarantee and capability, capped by what they request.

A tree of queues is filled level by level: children share what their parent got. What `capacity` has in common with
this, the limits that a queue's standing sets, is in `QueueLimits`.
"""

from __future__ import annotations

from fairway.api.arguments import ProportionArguments
from fairway.scheduler.framework.accounts import UNLIMITED, QueueAccount
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.plugins.filling import Claim, fill
from fairway.scheduler.plugins.queue_limits import QueueLimits
from fairway.state.tables import PODS


class Proportion(QueueLimits):
    """Queues share the cluster by weight, between guarantee and capability."""

    name = "proportion"
    Arguments = ProportionArguments

    def __init__(self, arguments: ProportionArguments) -> None:
        super().__init__()
        self._lending = arguments.lending == "default"
        self._shares: dict[str, list[int]] = {}

    def lends(self) -> bool:
        return self._lending

    def deserved(self) -> dict[str, list[int]]:
        session = self._session
        assert session is not None
        for account in session.queues.values():
            shares = self._shares[account.name] = [0] * len(account.allocated)
            shares[PODS] = UNLIMITED
            if account.info.deserved:
                session.warnings.append(
                    f"queue {account.name}: spec.deserved is not used by proportion, only by capacity"
                )
        self._warn_of_guarantees(session)
        for row, total in enumerate(session.total):
            if row != PODS and total > 0:
                self._fill(self._top(), row, total)
        return self._shares

    def _fill(self, accounts: list[QueueAccount], row: int, total: int) -> None:
        takers = [account for account in accounts if self._takes_part(account)]
        claims = [self._claim(account, row, total) for account in takers]
        for account, amount in zip(takers, fill(total, claims), strict=True):
            self._shares[account.name][row] = amount
            children = self._children(account)
            if children:
                self._fill(children, row, amount)

    def _takes_part(self, account: QueueAccount) -> bool:
        """Without lending every open queue does, but a default queue that nobody made only if somebody uses it."""
        if self._lending:
            return True
        return account.info.open and (
            account.info.declared or (account.info.exists and any((*account.allocated, *account.requested)))
        )

    def _claim(self, account: QueueAccount, row: int, total: int) -> Claim:
        capability = min(account.capability[row], total)
        low = min(account.capability[row], self._guaranteed(account, row))
        wants = self._request(account, row) if self._lending else total
        return Claim(account.name, account.info.weight, low, max(low, min(capability, wants)))

    def _request(self, account: QueueAccount, row: int) -> int:
        """What the queue holds and still wants; nothing new comes into a queue that is closed or not there."""
        children = self._children(account)
        if children:
            below = sum(
                min(child.capability[row], max(self._guaranteed(child, row), self._request(child, row)))
                for child in children
            )
            return below + account.info.allocated[row] if row < len(account.info.allocated) else below
        pending = account.requested[row] if account.info.open and account.info.exists else 0
        return account.allocated[row] + pending

    def _warn_of_guarantees(self, session: SessionView) -> None:
        if not self._guaranteed_rows:
            return
        for name, row in sorted((name, row) for row, name in enumerate(session.state.axis.names)):
            promised = sum(self._guaranteed(account, row) for account in self._top())
            if row != PODS and promised > session.total[row]:
                session.warnings.append(f"the queues' guarantees of {name} exceed the cluster and are scaled down")
