"""The first step of a cycle: from a finished session to a plan, which says what to do and nothing else.

Bindings with their devices and volumes, reservations, nominations, overruns, and what changes in the EvictionRecords of
jobs: stops, restarts, and records that say nothing any more. Why everything else waits is in `explained_plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from fairway.api.scheduling import MAX_VICTIMS, StoppedPod
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.devices.model.device import WHOLE
from fairway.devices.track.node import NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.record import DeviceUse, written
from fairway.resources.quantity import Format, Quantity
from fairway.scheduler.backfill.planner import drop_satisfied, plan_reservations
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.candidates import comes_after
from fairway.scheduler.framework.decisions import Decisions, PlannedStart
from fairway.scheduler.framework.effort import RETRY
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.reservation_ledger import TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    Binding,
    DeviceChoice,
    Nomination,
    Overrun,
    Plan,
    Reservation,
    StopEntry,
    VolumeChoice,
)
from fairway.scheduler.reservations.between_cycles import leave_standing
from fairway.scheduler.reservations.starvation import next_starvation
from fairway.scheduler.topology.ranks import Bindings, bindings_by_rank
from fairway.scheduler.volumes.assignments import ChosenVolume
from fairway.state.eviction_records import JobIdentity, RecordKey, StopRecord, identity_of, is_forgotten
from fairway.state.jobs import READY, Job, Task, TaskState
from fairway.state.shapes import Shape


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


def _ranked(session: Session) -> Bindings:
    """What the session has bound. Pods with an index change places with each other; most clusters have none."""
    return bindings_by_rank(session) if session.state.indexed_pods else session.decisions.bindings


def _bindings(session: Session) -> Iterator[Binding]:
    names = session.nodes.snapshot.names
    chunks = [(tasks, [names[row] for row in rows]) for _, tasks, rows in _ranked(session)]
    volumes_of = chosen_volumes(session, chunks)
    devices_of = given(session.nodes.devices, session.decisions) if session.nodes.devices.ledger.enabled else {}
    for tasks, nodes in chunks:
        for task, node in zip(tasks, nodes, strict=True):
            taken = devices_of.get(task)
            devices, annotations = NO_CHOICES if taken is None else choices(*taken)
            yield Binding(task.key, node, devices, annotations, task.job.key, volumes_of.get(task, ()))


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


# -- devices and volumes of bindings -------------------------------------------------------------------------------


class Choices(NamedTuple):
    """The devices of one binding, and the annotations that record those asked for by class."""

    devices: tuple[DeviceChoice, ...]
    annotations: dict[str, str]


NO_CHOICES = Choices((), {})


def given(
    devices: DeviceAssignments, decisions: Decisions
) -> dict[Task, tuple[NodeDevices, tuple[SlotAllocation, ...]]]:
    """What every bound task was given, written down now: the session does not last."""
    found: dict[Task, tuple[NodeDevices, tuple[SlotAllocation, ...]]] = {}
    nodes = devices.ledger.nodes
    for _, tasks, rows in decisions.bindings:
        if tasks and devices.uses_devices(tasks[0].shape):
            for task, row in zip(tasks, rows, strict=True):
                devices.check_served(task)
                if row in nodes:
                    found[task] = (nodes[row], devices.of(task))
    return found


def chosen_volumes(
    session: Session, chunks: Sequence[tuple[list[Task], list[str]]]
) -> dict[Task, tuple[VolumeChoice, ...]]:
    """What the unbound claims of every bound task get. Volumes were chosen for a place; which of several like tasks has
    it is settled by rank afterwards.
    """
    names, by_place = session.nodes.snapshot.names, dict[tuple[Shape, str], list[tuple[ChosenVolume, ...]]]()
    for _, tasks, rows in session.decisions.bindings:
        for task, row in zip(tasks, rows, strict=True) if tasks and tasks[0].shape.volumes.unbound else ():
            place = task.shape, names[row]
            by_place.setdefault(place, []).append(session.nodes.volumes.of(task))
    found: dict[Task, tuple[VolumeChoice, ...]] = {}
    for tasks, nodes in chunks if by_place else ():
        for task, node in zip(tasks, nodes, strict=True):
            if task.shape.volumes.unbound:
                claims = session.state.volumes.unbound(task.source)
                given = by_place[task.shape, node].pop(0)
                found[task] = tuple(
                    VolumeChoice(claim, choice.volume, "" if choice.volume else node)
                    for claim, choice in zip(claims, given, strict=True)
                )
    return found


def choices(node: NodeDevices, allocations: Iterable[SlotAllocation]) -> Choices:
    named = [allocation for allocation in allocations if not allocation.plain]
    devices = tuple(_choice(node, allocation) for allocation in sorted(named, key=lambda h: (h.label, h.claim, h.slot)))
    entries = [
        DeviceUse(allocation.label, node.record_name(allocation.slot), _milli(node, allocation))
        for allocation in named
        if not allocation.claim and allocation.label not in node.extended
    ]
    return Choices(devices, written(entries))


def _choice(node: NodeDevices, allocation: SlotAllocation) -> DeviceChoice:
    device = node.inventory.slots[allocation.slot].device
    serving = node.extended.get(allocation.label, "")
    claimed = bool(allocation.claim or serving)
    return DeviceChoice(
        class_=serving or allocation.label,
        device=device.name if claimed else node.record_name(allocation.slot),
        quantity=units(_milli(node, allocation)),
        claim=allocation.claim,
        request=allocation.request,
        driver=device.driver,
        pool=device.pool,
        consumed=_consumed(node, allocation) if claimed or _is_shared(node, allocation) else {},
        admin_access=allocation.portion.looks,
        resource=allocation.label if serving else "",
        shared=_is_shared(node, allocation),
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
    )


def _consumed(node: NodeDevices, allocation: SlotAllocation) -> dict[str, str]:
    """What is taken of a shared device's capacity: the parts that were claimed, or all of it with a whole unit."""
    facts = node.inventory.slots[allocation.slot]
    parts = [total for _, total in facts.capacity] if allocation.portion.units else allocation.portion.capacity
    if not facts.shareable:
        parts = allocation.portion.capacity
    return {name: _shorter(part) for (name, _), part in zip(facts.capacity, parts, strict=False)}


def _is_shared(node: NodeDevices, allocation: SlotAllocation) -> bool:
    facts = node.inventory.slots[allocation.slot]
    return facts.shareable and bool(facts.device.driver) and not allocation.portion.looks


def _shorter(nanos: int) -> str:
    return min(str(Quantity(nanos, Format.BINARY_SI)), str(Quantity(nanos)), key=len)


def _milli(node: NodeDevices, allocation: SlotAllocation) -> int:
    return portion_milli(node.inventory.slots[allocation.slot], allocation.portion)


def units(milli: int) -> int | float:
    """Thousandths as a number of units; whole ones are whole numbers."""
    return milli // WHOLE if milli % WHOLE == 0 else milli / WHOLE


# -- EvictionRecords --------------------------------------------------------------------------------------------------


COUNTED = frozenset({"preempt", "reclaim"})
"""A run that outlives its stated time, or a gang that was never complete, is not stopped for want of protection."""


def stop_entries(session: Session) -> list[StopEntry]:
    """By job. A stop that is recorded already, by an earlier cycle or another leader, is no change."""
    entries = {entry.job: entry for entry in _restarts(session)}
    entries.update((entry.job, entry) for entry in _stops(session))
    return [entries[job] for job in sorted(entries)]


def _stops(session: Session) -> Iterator[StopEntry]:
    if not session.decisions.evictions:
        return
    found: dict[RecordKey, tuple[JobIdentity, list[Task]]] = {}
    for job, tasks in _stopped(session).items():
        identity = identity_of(job)
        if identity is not None:
            found.setdefault(identity.key, (identity, []))[1].extend(tasks)
    for identity, tasks in found.values():
        entry = _stop(session, identity, tasks)
        if entry is not None:
            yield entry


def _stopped(session: Session) -> dict[Job, list[Task]]:
    """Jobs that preempt or reclaim take below their minimum, with the pods that they lose."""
    decisions = session.decisions
    counted = {eviction.pod for eviction in decisions.evictions if eviction.action in COUNTED}
    lost: dict[Job, list[Task]] = {}
    for task in sorted(decisions.evicted, key=lambda task: task.key):
        if task.key in counted:
            lost.setdefault(task.job, []).append(task)
    bound: dict[Job, list[Task]] = {}
    for run, tasks, _ in decisions.bindings if lost else ():
        bound.setdefault(run.job, []).extend(tasks)
    return {job: tasks for job, tasks in lost.items() if _is_stopped(session, job, bound.get(job, []))}


def _is_stopped(session: Session, job: Job, bound: list[Task]) -> bool:
    """Whether it has less than its minimum left, counting what the same cycle binds."""
    left = [task for task in job.tasks if task.state in READY and task not in session.decisions.evicted]
    left += bound
    if len(left) < max(1, job.minimum):
        return True
    roles = [task.traits.role for task in left] if job.role_minimums else []
    return any(roles.count(role) < least for role, least in job.role_minimums)


def _stop(session: Session, identity: JobIdentity, tasks: list[Task]) -> StopEntry | None:
    records = session.state.eviction_records
    known = records.of(identity)
    victims = {(task.key, task.source.metadata.uid) for task in tasks}
    if known is not None and known.victims & victims:
        if victims <= known.victims:
            return None
        return _entry(identity, known.stops, known.stopped_at, None, known.victims | victims)
    forgotten = known is None or is_forgotten(known, session.now, shared=identity.shared)
    count = 0 if known is None or forgotten else records.happened(known)
    return _entry(identity, count + 1, session.now, None, victims)


def _entry(
    identity: JobIdentity,
    stops: int,
    stopped_at: Micros,
    restarted_at: Micros | None,
    victims: set[tuple[str, str]] | frozenset[tuple[str, str]],
) -> StopEntry:
    # Pods without a uid, as in files, cannot be told from those that replace them.
    named = [StoppedPod(key.partition("/")[2], uid) for key, uid in sorted(victims) if uid]
    return StopEntry(
        job=f"{identity.namespace}/{identity.name}",
        job_kind=identity.kind,
        job_uid=identity.owner.uid,
        stops=stops,
        stopped_at=format_rfc3339(stopped_at),
        restarted_at=None if restarted_at is None else format_rfc3339(restarted_at),
        victims=tuple(named[:MAX_VICTIMS]),
        owner=identity.owner,
    )


def _restarts(session: Session) -> Iterator[StopEntry]:
    """Jobs that run again since they were stopped, and records to delete."""
    state, now = session.state, session.now
    records = state.eviction_records
    if not len(records):
        return
    for _, record in records:
        job = None if record.restarted_at is not None else _job(session, record)
        stops = None if job is None or not job.ready else records.stops(job, now)
        identity = None if job is None or stops is None else identity_of(job)
        if identity is None or stops is None or stops.restarted is None or identity.shared:
            continue
        yield _entry(identity, record.stops, record.stopped_at, stops.restarted, record.victims)
    for key in records.forgotten(now, lambda record: _job(session, record)):
        record = dict(records)[key]
        named = record.object.spec.job_ref
        yield StopEntry(job=f"{key[0]}/{named.name}", job_kind=named.kind, job_uid=named.uid, stops=0)


def _job(session: Session, record: StopRecord) -> Job | None:
    named, namespace = record.object.spec.job_ref, record.object.metadata.namespace
    job = session.state.groups.get(f"{namespace}/{named.name}")
    known = None if job is None else session.state.eviction_records.of(identity_of(job))
    return job if known is record else None
