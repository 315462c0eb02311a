"""The jobs of a sandbox as rows: those that wait, those that run, and the last that ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairway.app.records import FinishedJob
from fairway.app.view.frame import Frame
from fairway.clock import format_rfc3339


class JobRow(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    job: str
    queue: str
    phase: str
    """waiting, starting, running or finished; a job that has some of its pods and waits for more is running."""
    pods: int
    placed: int = 0
    position: int = 0
    reason: str = ""
    message: str = ""
    starving: bool = False
    nodes: tuple[str, ...] = ()
    created: str = ""
    started: str | None = None
    ended: str | None = None


def job_rows(frame: Frame, outcomes: Sequence[FinishedJob]) -> list[JobRow]:
    """Waiting in the order of consideration, starting, running, then finished, the latest first."""
    waiting = {pending.job: pending for pending in frame.waiting}
    running = {job.job: job for job in frame.running}
    starting = {job.job for job in frame.starting}
    rows = [
        JobRow(
            job=job.job,
            queue=job.queue,
            phase="waiting",
            pods=job.waiting,
            position=job.position,
            reason=job.reason,
            message=job.message,
            starving=job.starving,
            created=frame.created.get(job.job, ""),
        )
        for job in frame.waiting
        if job.job not in running and job.job not in starting
    ]
    rows += [
        JobRow(job=job.job, queue=job.queue, phase="starting", pods=job.pods, created=frame.created.get(job.job, ""))
        for job in frame.starting
    ]
    for job in frame.running:
        more = waiting.get(job.job)
        rows.append(
            JobRow(
                job=job.job,
                queue=job.queue,
                phase="starting" if job.starting else "running",
                pods=job.pods,
                placed=job.placed,
                nodes=job.nodes,
                created=job.created,
                started=job.started,
                reason=more.reason if more else "",
                message=more.message if more else "",
            )
        )
    return rows + [_finished(done) for done in reversed(outcomes)]


def _finished(done: FinishedJob) -> JobRow:
    return JobRow(
        job=done.job,
        queue=done.queue,
        phase="finished",
        pods=done.pods,
        created=format_rfc3339(done.submitted),
        started=format_rfc3339(done.started),
        ended=format_rfc3339(done.ended),
    )
