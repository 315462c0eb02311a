"""From a finished session to a plan: what to do, which jobs wait and why, how much is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from msgspec import structs

from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.scheduler.backfill.planner import drop_satisfied, plan_reservations
from fairway.scheduler.backfill.run_ends import without_run_times
from fairway.scheduler.framework.candidates import comes_after
from fairway.scheduler.framework.decisions import PlannedStart
from fairway.scheduler.framework.effort import RETRY
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservation_ledger import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import Binding, ExplainedPlan, Nomination, Overrun, Plan, Reservation
from fairway.scheduler.report.standings import (
    NO_CHOICES,
    Standings,
    choices,
    chosen_volumes,
    class_standings,
    given,
    statuses,
    stop_entries,
)
from fairway.scheduler.report.waiting_jobs import WaitingJobs, pending_jobs
from fairway.scheduler.reservations.between_cycles import leave_standing
from fairway.scheduler.reservations.starvation import next_starvation
from fairway.scheduler.topology.ranks import bindings_by_rank
from fairway.state.annotations import PolicyPart
from fairway.state.jobs import Job, TaskState


def recheck_at(session: Session) -> Micros | None:
    moments: list[Micros] = list(session.decisions.rechecks)
    if session.effort is not None and session.effort.has_put_off:
        moments.append(session.now + RETRY)
    arguments = session.policy.reserve
    if arguments is not None:
        starvation = next_starvation(session.state.waiting, arguments, session.now)
        if starvation is not None:
            moments.append(starvation)
    moments += [planned.start for planned in session.decisions.planned.values()]
    moments += [known.until for known in session.reservations.standing.values() if known.until is not None]
    for reservation in session.reservations.awake():
        if reservation.planned_start is not None:
            moments.append(reservation.planned_start.start)
        if reservation.state is TaskState.PIPELINED:
            moments.append(reservation.since + session.policy.nomination_timeout * SECOND)
        elif arguments is not None and arguments.reservation_timeout:
            moments.append(reservation.since + arguments.reservation_timeout * SECOND)
    return min((moment for moment in moments if moment > session.now), default=None)


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
    return made if claimant is None else structs.replace(made, for_=claimant.key, for_kind=claimant.kind)


def make_plan(session: Session) -> Plan:
    """What to do, from what the actions have left in a session."""
    session.accounts.compute_deserved()
    if session.decisions.planned:
        drop_satisfied(session)
    if session.explains:
        plan_reservations(session)
    return Plan(
        bindings=tuple(_bindings(session)),
        evictions=tuple(session.decisions.evictions),
        reservations=tuple(_reservations(session)),
        nominations=tuple(_nominations(session)),
        released=tuple(session.reservations.released),
        overruns=tuple(overruns(session)),
        stops=tuple(stop_entries(session)),
        recheck_at=recheck_at(session),
    )


def explain_plan(session: Session, plan: Plan) -> ExplainedPlan:
    """A session's plan with everything that it says besides what to do. This goes on working with the session (jobs
    whose reservations were left alone are looked at, nodes are counted), so no plan is made from it afterwards.
    """
    warnings = _warnings(session)
    waiting = WaitingJobs(session)
    pending = tuple(pending_jobs(session, waiting))
    standings = Standings(session.state, session.accounts, session.reservations)
    return ExplainedPlan(
        **structs.asdict(plan),
        pending=pending,
        queues=tuple(standings.queues()),
        namespaces=tuple(standings.namespaces()),
        resource_classes=tuple(class_standings(session.nodes.devices)),
        status=statuses(session, waiting),
        warnings=warnings,
    )


def _bindings(session: Session) -> Iterator[Binding]:
    names = session.nodes.snapshot.names
    chunks = [(tasks, [names[row] for row in rows]) for _, tasks, rows in bindings_by_rank(session)]
    volumes_of = chosen_volumes(session, chunks)
    devices_of = given(session.nodes.devices, session.decisions) if session.nodes.devices.ledger.enabled else {}
    for tasks, nodes in chunks:
        for task, node in zip(tasks, nodes, strict=True):
            taken = devices_of.get(task)
            devices, annotations = NO_CHOICES if taken is None else choices(*taken)
            yield Binding(task.key, node, devices, annotations, task.job.key, volumes_of.get(task, ()))


def _warnings(session: Session) -> tuple[str, ...]:
    warnings = [
        *session.state.warnings(),
        *session.state.annotation_problems.unused(partial(_has_part, session.policy)),
        *session.nodes.devices.ledger.warnings(),
        *filter(None, [without_run_times(session)]),
        *session.decisions.warnings,
        *session.plugins.failures.warnings(),
    ]
    return tuple(dict.fromkeys(warnings))


def _has_part(policy: Policy, part: PolicyPart) -> bool:
    return (policy.action(part.name) if part.kind == "action" else policy.plugin(part.name)) is not None


def _reservations(session: Session) -> list[Reservation]:
    """All that stand after the plan, by job and pod."""
    awake = [
        reservation for reservation in session.reservations.awake() if reservation.state is not TaskState.PIPELINED
    ]
    made = {reservation: _reservation(session, reservation) for reservation in awake}
    found = [entry for known in session.reservations.standing.values() for entry in known.entries]
    found += made.values()
    found.sort(key=_by_entry)
    if session.can_stand:
        leave_standing(session, made)
    return planned_entries(session) + found


def _reservation(session: Session, reservation: TaskReservation) -> Reservation:
    return Reservation(
        pod=reservation.task.key,
        job=reservation.job.key,
        job_kind=reservation.job.job.kind,
        job_uid=reservation.job.job.uid,
        node=session.nodes.snapshot.names[reservation.row],
        state="allocated" if reservation.state is TaskState.ALLOCATED else "reserved",
        since=format_rfc3339(reservation.since),
        **planned_fields(reservation.planned_start if reservation.state is TaskState.RESERVED else None),
    )


def _by_entry(entry: Reservation) -> tuple[str, str, str]:
    return entry.job, entry.job_kind, entry.pod


def _nominations(session: Session) -> list[Nomination]:
    names = session.nodes.snapshot.names
    standing = [reservation for reservation in session.reservations.awake() if reservation.state is TaskState.PIPELINED]
    return [
        Nomination(pod=reservation.task.key, node=names[reservation.row], since=format_rfc3339(reservation.since))
        for reservation in sorted(standing, key=_by_job)
    ]


def _by_job(reservation: TaskReservation) -> tuple[str, str, str]:
    return reservation.job.key, reservation.job.job.kind, reservation.task.key
