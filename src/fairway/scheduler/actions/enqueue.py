"""enqueue: let a group in when its queue can admit its minimum.

The jobs of a line are alike, so the first speaks for all. What a queue's refused jobs ask for does not count as
its request. Without this action every job is in.
"""

from __future__ import annotations

from fairway.api.settings import Arguments
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.session import Session
from fairway.state.jobs import Job
from fairway.state.queues import add
from fairway.state.waiting import Line

ADMITTED_PHASES = frozenset({"Inqueue", "Running", "Completed", "Unknown"})
"""Phases of a group that was let in before."""


def enqueue(session: Session, arguments: Arguments) -> None:
    waiting = session.state.waiting
    for signature in waiting.signatures():
        for key, line in signature.lines.items():
            if key.group and key.valid and key.phase not in ADMITTED_PHASES:
                _ask_line(session, line)
    for job, (signature, entry) in waiting.started.items():
        if job in waiting.holding:
            continue  # who has a claim to room was let in before, and what it claims counts as held already
        if job.group and waiting.place_of(job).line.valid and job.phase not in ADMITTED_PHASES:
            _ask(session, session.job_run(entry, signature), job, 1)


def _ask_line(session: Session, line: Line) -> None:
    if session.lines_are_alike:
        _ask(session, session.job_run(line.entries[0], line.signature, line), line, len(line.entries))
        return
    for place, entry in enumerate(line.entries):
        _ask(session, session.job_run(entry, line.signature, line, place), entry.job, 1)


def _ask(session: Session, job: JobRun, whom: Job | Line, alike: int) -> None:
    verdict = session.enqueueable(job)
    if verdict.ok:
        return
    session.outcomes.refused[whom] = verdict
    for book in job.queue.line:
        add(book.requested, job.signature.total, -alike)
