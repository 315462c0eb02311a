"""Which jobs' reservations are left standing for the next cycles (see `framework.standing`)."""

from __future__ import annotations

from collections.abc import Mapping

from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservations import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.standing import StandingJob, standing_reservations
from fairway.scheduler.plan import Reservation
from fairway.state.jobs import TaskState

_NOT_TRIED = object()


def leave_standing(session: Session, entries: Mapping[TaskReservation, Reservation]) -> None:
    """As all actions have run: those that waited for capacity before and after. `entries` is what the plan says."""
    kept = standing_reservations(session.state)
    for job, run in session.reservations.awake_jobs.items():
        reservations = session.reservations.of(run)
        if reservations and _stands(session, run, reservations):
            places = tuple((each.task, each.row, each.since) for each in reservations)
            made = tuple(entries[each] for each in reservations)
            until = _until(session, reservations)
            shapes = frozenset(each.task.shape for each in reservations)
            kept.add(job, StandingJob(shapes, places, made, until, session.explains))
        else:
            kept.discard(job)


def wake_all(session: Session) -> None:
    """Reasons are asked for: what stands waits for free capacity, as it did when it was last tried."""
    standing = list(session.reservations.standing)
    session.reservations.wake()
    for job in standing:
        session.outcomes.jobs.setdefault(session.reservations.awake_jobs[job], None)


def _stands(session: Session, run: JobRun, reservations: list[TaskReservation]) -> bool:
    """Whether the job had these reservations before, all that it waits for is reserved, and no node takes it."""
    return (
        session.outcomes.jobs.get(run, _NOT_TRIED) is None
        and run.job in session.state.waiting.with_reservations
        and run.job.topology is None
        and not run.left()
        and len(reservations) == len(list(run.job.reserved_tasks()))
        and all(_is_as_before(session, reservation) for reservation in reservations)
    )


def _is_as_before(session: Session, reservation: TaskReservation) -> bool:
    task, shape = reservation.task, reservation.task.shape
    record = session.state.reservation_of(task)
    return (
        reservation.state is TaskState.RESERVED is task.state
        and reservation.row == task.node
        and reservation.planned_start is None
        and record is not None
        and record.since == reservation.since
        and not (shape.has_pod_rules or shape.ports or shape.best_effort or session.nodes.devices.uses_devices(shape))
    )


def _until(session: Session, reservations: list[TaskReservation]) -> Micros | None:
    arguments = session.policy.reserve
    if arguments is None or not arguments.reservation_timeout:
        return None
    return min(each.since for each in reservations) + arguments.reservation_timeout * SECOND
