"""Dominant resource fairness: the namespace, then the job, with the least share goes first (seed 002).

A namespace's share is that of what it holds *in this queue*, divided by its weight.
"""

from __future__ import annotations

from fairway.api.arguments import DrfArguments
from fairway.scheduler.framework.accounts import NamespaceAccount, share
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.state.cluster import PODS


class Drf:
    name = "drf"

    def __init__(self, arguments: DrfArguments) -> None:
        self.priority_first = arguments.priority_first
        self._total: list[int] = []

    def open(self, session: Session) -> None:
        self._total = session.share_total

    def namespace_key(self, account: NamespaceAccount) -> tuple[int, int]:
        first = -account.top_priority if self.priority_first else 0
        return first, share(account.held, self._total, account.weight, PODS)

    def job_key(self, job: JobRun) -> int:
        return share(job.held, self._total, 1, PODS) if job.started or job.ready else 0
