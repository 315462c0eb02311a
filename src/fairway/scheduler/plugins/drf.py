"""Dominant resource fairness: the namespace, then the job, with the least share goes first (spec S3.3).

A namespace's share is that of what it has *in this queue*, divided by its weight.
"""

from __future__ import annotations

from fairway.api.arguments import DrfArguments
from fairway.scheduler.framework.accounts import NamespaceAccount, share, share_text
from fairway.scheduler.framework.hooks import (
    EntitledBy,
    Entitles,
    KeyText,
    Opens,
    OrderedBy,
    OrdersJobs,
    OrdersNamespaces,
    TellsJobKeys,
    TellsNamespaceKeys,
    TellsOrder,
)
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.view import SessionView
from fairway.state.tables import PODS


class Drf(Opens, OrdersNamespaces, OrdersJobs, TellsNamespaceKeys, TellsJobKeys, TellsOrder, Entitles):
    """Dominant resource fairness: the namespace, then the job, with the least share goes first."""

    name = "drf"
    Arguments = DrfArguments

    def __init__(self, arguments: DrfArguments) -> None:
        self._priority_first = arguments.priority_first
        self._total: list[int] = []

    def open(self, session: SessionView) -> None:
        self._total = session.share_total

    def ordered_by(self) -> tuple[OrderedBy, ...]:
        return (OrderedBy.PRIORITY, OrderedBy.SHARE) if self._priority_first else (OrderedBy.SHARE,)

    def entitled_by(self) -> tuple[EntitledBy, ...]:
        return (EntitledBy.SHARE, EntitledBy.PRIORITY_FIRST) if self._priority_first else (EntitledBy.SHARE,)

    def namespace_key(self, account: NamespaceAccount) -> tuple[int, int]:
        first = -account.top_priority if self._priority_first else 0
        return first, share(account.allocated, self._total, account.weight, PODS)

    def namespace_key_texts(self, account: NamespaceAccount) -> list[KeyText]:
        first, weighted = self.namespace_key(account)
        whole = share_text(share(account.allocated, self._total, 1, PODS))
        text = f"{share_text(weighted)} = dominant share {whole} / weight {account.weight}"
        priority = KeyText("priority of the job", first, str(account.top_priority))
        return [*([priority] if self._priority_first else []), KeyText("weighted share", weighted, text)]

    def job_key(self, job: JobRun) -> int:
        return share(job.allocated, self._total, 1, PODS) if job.started or job.ready else 0

    def job_key_texts(self, job: JobRun) -> list[KeyText]:
        own = self.job_key(job)
        return [KeyText("dominant share", own, share_text(own))]
