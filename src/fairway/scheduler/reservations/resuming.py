"""What becomes of the reservations that the state carries: once per cycle, before anything is placed.

Reservations that may not stand any longer end, those whose capacity is there take it, and gangs that are ready by it
are bound. What is left stands as it did.
"""

from __future__ import annotations

from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.candidates import admission
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservations import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.reservations.repairing import keep_for_broken
from fairway.scheduler.reservations.reservable import max_reserved
from fairway.scheduler.reservations.starving import condition_ready
from fairway.state.jobs import TaskState

INCOMPLETE = "the job has no place for all that it needs any more"

Broken = list[tuple[TaskReservation, str]]
"""Reservations that may not stand any longer, and why."""


def resume(session: Session, ending: Broken | None = None) -> None:
    """Asked by every action that places; the first one does it. `ending` are those that are `broken`, if that was
    asked before.
    """
    reservations = session.reservations
    if reservations.resumed:
        return
    reservations.resumed = True
    for reservation, reason in broken(session) if ending is None else ending:
        reservations.release(reservation, reason)
    if reservations.standing and _is_above_limit(session):
        reservations.wake()
    jobs = sorted(reservations.awake_jobs.values(), key=lambda job: _rank(session, job))
    _lose_capacity(session, jobs)
    _keep_limit(session, jobs)
    for job in sorted(jobs, key=lambda job: _nominated_since(session, job)):
        _settle(session, job)
    if session.state.broken_gangs:
        keep_for_broken(session)


def broken(session: Session) -> Broken:
    """The reservations that may not stand any longer, and why."""
    found = ((reservation, _broken(session, reservation)) for reservation in session.reservations.awake())
    return [(reservation, reason) for reservation, reason in found if reason]


def _rank(session: Session, job: JobRun) -> tuple[object, ...]:
    since = min((reservation.since for reservation in session.reservations.of(job)), default=0)
    return -job.priority, since, job.job.order


def _nominated_since(session: Session, job: JobRun) -> tuple[int, Micros]:
    """Those that pods were evicted for come first, the longest nominated before others: what is free on a node by now
    was left by the pods that were evicted first, and a later claimant waits for its own, whatever its priority.
    """
    since = [each.since for each in session.reservations.of(job) if each.state is TaskState.PIPELINED]
    return (0, min(since)) if since else (1, 0)


def _lose_capacity(session: Session, jobs: list[JobRun]) -> None:
    """Where a node has become too small for what is reserved there, the last in order wait for capacity again."""
    idle = session.nodes.snapshot.idle
    for job in reversed(jobs):
        for reservation in session.reservations.of(job):
            if reservation.state is TaskState.ALLOCATED and any(
                idle[row, reservation.row] < 0 for row, _ in reservation.task.shape.vector
            ):
                session.reservations.revert(reservation, TaskState.RESERVED)


def _keep_limit(session: Session, jobs: list[JobRun]) -> None:
    """Nodes have gone, or the policy has changed: the last in order give up what is above its limit."""
    if session.policy.reserve is None:
        return
    most = max_reserved(session.nodes.snapshot, session.policy.reserve)
    for job in reversed(jobs):
        if len(session.reservations.rows()) <= most:
            return
        for reservation in session.reservations.of(job):
            if reservation.state is not TaskState.PIPELINED:
                session.reservations.release(reservation, f"more than {most} nodes would carry reservations")


def _is_above_limit(session: Session) -> bool:
    arguments = session.policy.reserve
    return arguments is not None and len(session.reservations.rows()) > max_reserved(session.nodes.snapshot, arguments)


def _settle(session: Session, job: JobRun) -> None:
    """Reservations that can take their capacity do; if that makes the job ready it is bound."""

    def is_there(reservation: TaskReservation) -> bool:
        return _is_known(session, reservation) and session.nodes.kernel.fits_now(
            reservation.task.shape, reservation.row
        )

    nominated = session.statement()
    for reservation in session.reservations.of(job):
        if reservation.state is TaskState.PIPELINED:
            nominated.take_nominated(reservation, is_there)
        elif reservation.state is TaskState.RESERVED:
            session.reservations.allocate(reservation, is_there)
    if session.reservations.of(job) and session.rules.job_ready(job):
        nominated.commit()
        session.reservations.bind(job)
    else:
        nominated.rollback()


def release_incomplete(session: Session) -> None:
    """All or nothing: a gang that lost a nomination, and that no action has found another place for, gives up the
    rest, so that the capacity does not stand empty until the nominations time out.
    """
    reservations = session.reservations
    for job in list(reservations.awake_jobs.values()):
        if reservations.is_nominated(job) and not condition_ready(session, job):
            for reservation in reservations.of(job):
                reservations.release(reservation, INCOMPLETE)
            session.decisions.rechecks.append(session.now + 1)  # what it kept is there for others


def _broken(session: Session, reservation: TaskReservation) -> str:
    """Why a reservation may not stand any longer; "" if it may."""
    nodes, row = session.state.nodes, reservation.row
    if not nodes.alive[row]:
        return "its node is gone"
    if not nodes.ready[row]:
        return "its node is not ready"
    if not nodes.schedulable[row]:
        return "its node is cordoned"
    admitted = admission(session, reservation.job)
    if not admitted.ok:
        return admitted.detail
    if reservation.state is TaskState.PIPELINED:
        return _nomination_broken(session, reservation)
    return _reservation_broken(session, reservation)


def _nomination_broken(session: Session, reservation: TaskReservation) -> str:
    timeout = session.policy.nomination_timeout
    if session.now - reservation.since >= timeout * SECOND:
        return f"not bound within {timeout} s"
    return _no_longer_fits(session, reservation)


def _reservation_broken(session: Session, reservation: TaskReservation) -> str:
    arguments = session.policy.reserve
    if arguments is None:
        return "the policy reserves nothing"
    timeout = arguments.reservation_timeout
    if session.reservations.is_nominated(reservation.job):
        timeout = 0  # pods are evicted for the rest of its gang: it waits for those as long as a nomination does
    if timeout and session.now - reservation.since >= timeout * SECOND:
        session.reservations.given_up.setdefault(reservation.job, set()).add(reservation.row)
        return f"not used within {timeout} s"
    return _no_longer_fits(session, reservation)


def _no_longer_fits(session: Session, reservation: TaskReservation) -> str:
    if not _is_known(session, reservation):
        return ""
    fits = session.nodes.kernel.fits_when_empty(reservation.task.shape, reservation.row)
    return "" if fits else "it no longer fits its node"


def _is_known(session: Session, reservation: TaskReservation) -> bool:
    """Whether the expressions by which a pod requests devices are evaluated: until they are, it seems to fit nowhere.
    That belongs to the pod, which has a place, and not to its template, which counts what still needs one.
    """
    effort = session.effort
    return effort is None or effort.prepares(reservation.job, reservation.task.shape)
