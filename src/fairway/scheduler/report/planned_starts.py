"""Planned starts and overruns in a plan: what drivers carry to the next cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from fairway.clock import format_rfc3339
from fairway.scheduler.framework.decisions import PlannedStart
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.overrun import comes_after
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Overrun, Reservation
from fairway.state.jobs import Job


def planned_entries(session: Session) -> list[Reservation]:
    """The planned starts of jobs that have no reservation, by job and pod."""
    ordered = sorted(session.decisions.planned.items(), key=lambda item: item[0].job.identity)
    runs = session.decisions.runs_on_nodes
    found: list[Reservation] = []
    for job, planned in ordered:
        found += _entries(session, job, planned, None if found else runs)
    return found


def _entries(session: Session, job: JobRun, planned: PlannedStart, runs: int | None) -> Iterator[Reservation]:
    names, fields = session.nodes.snapshot.names, planned_fields(planned)
    nodes = {task.key: names[row] for task, row in planned.places}
    carried, since = job.job.planned, session.now
    if carried is not None and carried.since is not None and (carried.start, carried.nodes) == (planned.start, nodes):
        since = carried.since
    for pod, node in nodes.items():
        yield Reservation(
            pod=pod,
            job=job.key,
            job_kind=job.job.kind,
            job_uid=job.job.uid,
            node=node,
            state="reserved",
            since=format_rfc3339(since),
            anew=True,
            runs=runs,
            **fields,
        )
        runs = None


def planned_fields(planned: PlannedStart | None) -> dict[str, Any]:
    if planned is None:
        return {}
    start = format_rfc3339(planned.start)
    return {
        "planned_start": start,
        "soft": not planned.hard,
        "hard": planned.hard,
        "estimated": planned.estimated,
    }


def overruns(session: Session) -> list[Overrun]:
    """Jobs that were evicted for overrunning, in this cycle or before, as long as they are there."""
    found: dict[Job, Job | None] = {job: comes_after(session, job) for job in session.state.overrun_jobs()}
    found |= session.decisions.overruns
    return [_overrun(job, claimant) for job, claimant in sorted(found.items(), key=lambda item: item[0].identity)]


def _overrun(job: Job, claimant: Job | None) -> Overrun:
    made = Overrun(job=job.key, job_kind=job.kind, job_uid=job.uid)
    return made if claimant is None else replace(made, for_=claimant.key, for_kind=claimant.kind)
