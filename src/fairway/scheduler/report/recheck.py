"""When to decide again although nothing happens: the earliest moment at which the answer may change."""

from __future__ import annotations

from fairway.clock import SECOND, Micros
from fairway.scheduler.framework.session import Session
from fairway.scheduler.reservations.starving import next_starvation
from fairway.state.tasks import TaskState


def recheck_at(session: Session) -> Micros | None:
    moments: list[Micros] = list(session.decisions.rechecks)
    arguments = session.policy.reserve
    if arguments is not None:
        starvation = next_starvation(session.state.waiting, arguments, session.now)
        if starvation is not None:
            moments.append(starvation)
    moments += [planned.start for planned in session.decisions.planned.values()]
    for reservation in session.reservations:
        if reservation.planned_start is not None:
            moments.append(reservation.planned_start.start)
        if reservation.state is TaskState.PIPELINED:
            moments.append(reservation.since + session.policy.nomination_timeout * SECOND)
        elif arguments is not None and arguments.reservation_timeout:
            moments.append(reservation.since + arguments.reservation_timeout * SECOND)
    return min((moment for moment in moments if moment > session.now), default=None)
