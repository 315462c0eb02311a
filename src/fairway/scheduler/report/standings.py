"""What queues and namespaces have allocated and deserve, after the plan.

What a plan says of devices: which ones a binding names, how they are recorded, and how the classes stand.

What the statuses of groups and queues should say after the plan.

What a plan changes in the EvictionRecords of jobs: stops, restarts, and records that say nothing any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from fairway.api.scheduling import MAX_VICTIMS, StoppedPod
from fairway.clock import Micros, format_rfc3339
from fairway.devices.model.device import WHOLE
from fairway.devices.track.class_columns import NONE, add_up, moved
from fairway.devices.track.node import ClassUse, NodeDevices, SlotAllocation, portion_milli
from fairway.devices.track.record import DeviceUse, written
from fairway.resources.quantity import INT64_MAX, Format, Quantity, format_amount
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.framework.accounts import (
    SHARE_BITS,
    UNLIMITED,
    NamespaceAccount,
    QueueAccount,
    queue_share,
    share,
)
from fairway.scheduler.framework.candidates import is_let_in
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservation_ledger import Reservations
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import (
    ClassStanding,
    DeviceChoice,
    GroupStatus,
    NamespaceStanding,
    QueueStanding,
    QueueStatus,
    Status,
    StopEntry,
    VolumeChoice,
)
from fairway.scheduler.report.waiting_jobs import Row, WaitingJobs
from fairway.scheduler.volumes.assignments import ChosenVolume
from fairway.state.cluster import ClusterState
from fairway.state.eviction_records import JobIdentity, RecordKey, StopRecord, identity_of, is_forgotten
from fairway.state.jobs import READY, Job, Task, TaskState
from fairway.state.queues import Amounts
from fairway.state.shapes import Shape
from fairway.state.tables import PODS


class Standings:
    """What queues and namespaces have allocated and deserve, after the plan."""

    def __init__(self, state: ClusterState, accounts: SessionAccounts, reservations: Reservations) -> None:
        self._share_total = accounts.share_total
        self._rows = [
            (row, name)
            for row, name in sorted(enumerate(state.axis.names), key=_rank)
            if row != PODS and row < len(accounts.total) and accounts.total[row] > 0
        ]
        self._infos = [
            (account, account.info.weight, account.info.parent, "Open" if account.info.open else "Closed")
            for _, account in sorted(accounts.queues.items())
            if account.info.exists
        ]
        self._reserved = reservations.set_aside()
        waiting = _waiting(state)
        self._namespaces = [
            accounts.of(account, namespace)
            for _, account in sorted(accounts.queues.items())
            for namespace in sorted({*account.info.accounts, *waiting.get(account.name, ())})
        ]
        """Looked up now: the state may move on before they are read."""

    def queues(self) -> list[QueueStanding]:
        return [
            QueueStanding(
                name=account.name,
                weight=weight,
                deserved=self._amounts(account.deserved or []),
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(queue_share(account)),
                requested=self._amounts(
                    [had + more for had, more in zip(account.allocated_at_start, account.requested, strict=True)]
                ),
                parent=parent,
                state=state,
                reserved=self._amounts(self._reserved.get(account, [])),
                dominant_share=_fraction(share(self._allocated(account), self._share_total, 1, PODS)),
            )
            for account, weight, parent, state in self._infos
        ]

    def namespaces(self) -> list[NamespaceStanding]:
        total = self._share_total
        return [
            NamespaceStanding(
                queue=account.queue.name,
                namespace=account.namespace,
                weight=account.weight,
                allocated=self._amounts(self._allocated(account)),
                share=_fraction(share(account.allocated, total, 1, PODS)),
                weighted_share=_fraction(share(account.allocated, total, account.weight, PODS)),
                reserved=self._amounts(self._reserved.get(account, [])),
            )
            for account in self._namespaces
        ]

    def _allocated(self, account: QueueAccount | NamespaceAccount) -> Amounts:
        """What is allocated, without what is only reserved."""
        reserved = self._reserved.get(account)
        if reserved is None:
            return account.allocated
        return [allocated - aside for allocated, aside in zip_longest(account.allocated, reserved, fillvalue=0)]

    def _amounts(self, amounts: list[int]) -> dict[str, str]:
        shown = {}
        for row, name in self._rows:
            amount = amounts[row] if row < len(amounts) else 0
            shown[name] = "unlimited" if amount >= UNLIMITED else format_amount(name, min(max(amount, 0), INT64_MAX))
        return shown


def _waiting(state: ClusterState) -> dict[str, set[str]]:
    """The namespaces that wait for something, by queue."""
    found: dict[str, set[str]] = {}
    for template in state.waiting.templates():
        for key in template.classes:
            found.setdefault(key.queue, set()).add(key.namespace)
    for job in (*state.waiting.started, *state.waiting.empty, *state.waiting.short):
        found.setdefault(job.queue, set()).add(job.namespace)
    return found


def _rank(dimension: tuple[int, str]) -> tuple[int, str]:
    """cpu and memory first, the others by name: in no case by which was named first."""
    row, name = dimension
    return min(row, PODS), name


def _fraction(units: int) -> float:
    return round(units / (1 << SHARE_BITS), 6)


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


def class_standings(devices: DeviceAssignments) -> list[ClassStanding]:
    """All classes by name, as they stand after the plan."""
    names = [known.name for known in devices.ledger.classes]
    if not names:
        return []
    more: dict[frozenset[str], ClassUse] = {}
    for node, was, is_now in devices.changed():
        for sign, tally in ((-1, node.tally(was)), (1, node.tally(is_now))):
            for classes, standing in tally.items():
                more[classes] = moved(more.get(classes, NONE), standing, sign)
    found = add_up(devices.ledger.columns.copy_of_sums(), more)
    return [_standing(name, found.get(name, NONE)) for name in names]


def _standing(name: str, standing: ClassUse) -> ClassStanding:
    return ClassStanding(name, units(standing.allocatable), units(standing.requested))


def statuses(session: Session, waiting: WaitingJobs) -> Status:
    """Statuses of the groups that this plan changes or that wait, and of all queues."""
    bound = {run.job: run for run, _, _ in session.decisions.bindings}
    rows: dict[Job, Row] = {}
    runs = dict(bound)
    pending: Counter[str] = Counter()
    for block in waiting.blocks():
        pending[waiting.run(block.row).queue.name] += len(block.jobs)
        for each in block.jobs:
            if each.job.group:
                row = rows[each.job] = block.row._replace(pending_job=each)
                if each.job not in runs:
                    runs[each.job] = waiting.run(row)
    touched = sorted((run for job, run in runs.items() if job.group), key=lambda run: run.key)
    groups = tuple(_group_status(run, is_let_in(session, run), waiting, rows.get(run.job)) for run in touched)
    started = Counter(run.queue.name for run in bound.values())
    queues = tuple(
        QueueStatus(
            name=name,
            state="Open" if account.info.open else "Closed",
            pending=pending[name],
            running=sum(namespace.tasks for namespace in account.info.accounts.values()),
            inqueue=started[name],
        )
        for name, account in sorted(session.accounts.queues.items())
        if account.info.exists
    )
    return Status(groups, queues)


def _group_status(run: JobRun, admitted: bool, waiting: WaitingJobs, row: Row | None) -> GroupStatus:
    job = run.job
    counts = Counter(task.state for task in job.tasks)
    if run.ready >= max(run.minimum, 1):
        phase = "Running"
    else:
        phase = "Inqueue" if admitted else "Pending"
    conditions: tuple[dict[str, str], ...] = ()
    if row is not None and phase != "Running":
        reason, message, _ = waiting.reason(row)
        conditions = ({"type": "Unschedulable", "status": "True", "reason": reason.value, "message": message},)
    elif phase == "Running":
        conditions = ({"type": "Scheduled", "status": "True", "reason": "GangReady", "message": ""},)
    return GroupStatus(
        name=job.key,
        phase=phase,
        running=counts[TaskState.RUNNING],
        succeeded=counts[TaskState.SUCCEEDED],
        failed=counts[TaskState.FAILED],
        scheduled=run.ready,
        conditions=conditions,
    )


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
