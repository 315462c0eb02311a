"""What becomes of the holds that the state carries: once per cycle, before anything is placed.

Holds that may not stand any longer end, those whose room is there take it, and gangs that are ready by it are bound.
What is left stands as it did.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.clock import SECOND
from fairway.scheduler.framework.admission import admission
from fairway.scheduler.framework.holds import Hold
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.session import Session
from fairway.scheduler.reservations.reservable import most_reserved
from fairway.state.tasks import TaskState


def resume(session: Session) -> None:
    """Asked by every action that places; the first one does it."""
    if session.resumed:
        return
    session.resumed = True
    if not session.holders:
        return
    for hold, reason in list(broken(session)):
        session.holds.release(hold, reason)
    jobs = sorted(session.holders.values(), key=lambda job: _rank(session, job))
    _lose_room(session, jobs)
    _keep_limit(session, jobs)
    for job in jobs:
        _settle(session, job)


def broken(session: Session) -> Iterator[tuple[Hold, str]]:
    """The holds that may not stand any longer, and why."""
    for hold in session.holds:
        reason = _broken(session, hold)
        if reason:
            yield hold, reason


def _rank(session: Session, job: JobRun) -> tuple[object, ...]:
    since = min((hold.since for hold in session.holds.of(job)), default=0)
    return -job.priority, since, job.job.order


def _lose_room(session: Session, jobs: list[JobRun]) -> None:
    """Where a node has become too small for what is held there, the last in line wait for room again."""
    idle = session.snapshot.idle
    for job in reversed(jobs):
        for hold in session.holds.of(job):
            if hold.state is TaskState.ALLOCATED and any(idle[row, hold.row] < 0 for row, _ in hold.task.shape.vector):
                session.holds.wait_again(hold, TaskState.RESERVED)


def _keep_limit(session: Session, jobs: list[JobRun]) -> None:
    """Nodes have gone, or the policy has changed: the last in line give up what is above its limit."""
    if session.reserve_arguments is None:
        return
    most = most_reserved(session, session.reserve_arguments)
    for job in reversed(jobs):
        if len(session.holds.rows()) <= most:
            return
        for hold in session.holds.of(job):
            if hold.state is not TaskState.PIPELINED:
                session.holds.release(hold, f"more than {most} nodes would carry reservations")


def _settle(session: Session, job: JobRun) -> None:
    """Those who can take their room do; if that makes the job ready it is bound."""

    def is_there(hold: Hold) -> bool:
        return session.kernel.takes(hold.task.shape, hold.row)

    taken = []
    for hold in session.holds.of(job):
        nominated = hold.state is TaskState.PIPELINED
        if hold.state is not TaskState.ALLOCATED and session.holds.take_room(hold, is_there) and nominated:
            taken.append(hold)
    if session.holds.of(job) and session.job_ready(job):
        session.holds.bind(job)
        return
    for hold in reversed(taken):
        session.holds.wait_again(hold, TaskState.PIPELINED)


def _broken(session: Session, hold: Hold) -> str:
    """Why a hold may not stand any longer; "" if it may."""
    nodes, row = session.state.nodes, hold.row
    if not nodes.alive[row]:
        return "its node is gone"
    if not nodes.ready[row]:
        return "its node is not ready"
    if not nodes.schedulable[row]:
        return "its node is cordoned"
    admitted = admission(session, hold.job)
    if not admitted.ok:
        return admitted.detail
    if hold.state is TaskState.PIPELINED:
        return _nomination_broken(session, hold)
    return _reservation_broken(session, hold)


def _nomination_broken(session: Session, hold: Hold) -> str:
    timeout = session.nomination_timeout
    if session.now - hold.since >= timeout * SECOND:
        return f"not bound within {timeout} s"
    return "" if session.kernel.fits_when_empty(hold.task.shape, hold.row) else "it no longer fits its node"


def _reservation_broken(session: Session, hold: Hold) -> str:
    arguments = session.reserve_arguments
    if arguments is None:
        return "the policy reserves nothing"
    timeout = arguments.reservation_timeout
    if timeout and session.now - hold.since >= timeout * SECOND:
        session.holds.given_up.setdefault(hold.job, set()).add(hold.row)
        return f"not used within {timeout} s"
    return "" if session.kernel.fits_when_empty(hold.task.shape, hold.row) else "it no longer fits its node"
