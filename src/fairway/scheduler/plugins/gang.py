"""A job is placed with its whole minimum, of each role its own, or not at all."""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.framework.hooks import (
    KeyText,
    Opens,
    OrderedBy,
    OrdersJobs,
    ReadiesJobs,
    TellsJobKeys,
    TellsOrder,
    ValidatesJobs,
)
from fairway.scheduler.framework.job_run import JobRun, gates_of
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.verdict import YES, Reason, Verdict
from fairway.state.jobs import is_valid


class Gang(Opens, OrdersJobs, TellsJobKeys, TellsOrder, ValidatesJobs, ReadiesJobs):
    """A job is placed with its whole minimum or not at all, and never loses a part of it."""

    name = "gang"

    def __init__(self, arguments: Arguments) -> None:
        self._session: SessionView | None = None

    def open(self, session: SessionView) -> None:
        self._session = session

    def ordered_by(self) -> tuple[OrderedBy, ...]:
        """Jobs that wait to start stay in the order of their creation."""
        return ()

    def job_key(self, job: JobRun) -> bool:
        """Jobs that are not ready go before those that only want more."""
        return self.job_ready(job)

    def job_key_texts(self, job: JobRun) -> list[KeyText]:
        ready = self.job_ready(job)
        return [KeyText("ready", ready, f"{'ready' if ready else 'not ready'}, {job.ready} of {job.minimum} pods")]

    def job_valid(self, job: JobRun) -> Verdict:
        if is_valid(job.job):
            return YES
        missing = _missing(job)
        if job.job.gated and job.job.members() + job.job.gated >= job.minimum:
            why = self._gates(job) if job.job.alone else f"{missing}; {self._gates(job)}"
            return Verdict(False, Reason.SCHEDULING_GATED, self.name, why)
        return Verdict(False, Reason.GANG_TOO_FEW_PODS, self.name, missing)

    def _gates(self, job: JobRun) -> str:
        assert self._session is not None
        return gates_of(self._session.state, job.job)

    def job_ready(self, job: JobRun) -> bool:
        if job.ready < job.minimum:
            return False
        roles = job.role_ready
        return roles is None or all(roles.get(role, 0) >= least for role, least in job.job.role_minimums)


def _missing(job: JobRun) -> str:
    members = job.job.members()
    if members < job.minimum:
        return f"has {members} of its minimum of {job.minimum} pods"
    by_role = job.job.members_by_role()
    for role, least in job.job.role_minimums:
        have = by_role.get(role, 0)
        if have < least:
            return f"has {have} of its minimum of {least} pods in role {role!r}"
    return "has too few pods"
