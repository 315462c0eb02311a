"""What may be reserved: how many nodes and which, for which tasks of a job, and what other queues are guaranteed.

Reservations keep the guarantees of other queues (spec S6.2). Two conditions: what a queue has and sets aside leaves
the others the amounts that they are guaranteed; and the nodes without reservations are enough for the part of these
that the others request and do not have, since a reserved node takes no pod of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from fairway.api.arguments import ReserveArguments
from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.plugin_set import PluginSet
from fairway.scheduler.framework.reservations import Reservations, TaskReservation
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.matching import equals
from fairway.state.jobs import Task, TaskState
from fairway.state.queues import Amounts, add
from fairway.state.snapshot import WorkingCopy


def counted_nodes(snapshot: WorkingCopy) -> BoolColumn:
    """The ready, schedulable nodes: what the percent is a part of."""
    nodes, size = snapshot.state.nodes, snapshot.size
    counted: BoolColumn = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    return counted


def scoring_nodes(snapshot: WorkingCopy, arguments: ReserveArguments) -> int:
    """How many nodes score ten: the policy's percent of the nodes that count, rounded up."""
    return -(-int(counted_nodes(snapshot).sum()) * arguments.reserved_node_percent // 100)


def max_reserved(snapshot: WorkingCopy, arguments: ReserveArguments) -> int:
    """How many nodes may carry a reservation at a time."""
    part = scoring_nodes(snapshot, arguments)
    return part if arguments.max_reserved_nodes is None else min(part, arguments.max_reserved_nodes)


def reservable_nodes(snapshot: WorkingCopy, reservations: Reservations, arguments: ReserveArguments) -> BoolColumn:
    """Those that the policy does not exclude, and on which no other job is about to start: they have nominations."""
    open_ = counted_nodes(snapshot)
    if arguments.exclude_node_selector:
        labels, size = snapshot.state.nodes.labels, snapshot.size
        excluded = open_.copy()
        for key, wanted in arguments.exclude_node_selector.items():
            excluded &= labels.where(key, size, equals(wanted))
        open_ &= ~excluded
    open_[list(reservations.nominated_rows())] = False
    return open_


Owed = Mapping[int, tuple[int, int]]
"""By row, what others have of what they are guaranteed, and what they still request of it."""


class Guarantees:
    """Asked where jobs reserve, one after the other."""

    def __init__(self, nodes: WorkingNodes, reservations: Reservations, plugins: PluginSet) -> None:
        self._nodes = nodes
        self._reservations = reservations
        self._plugins = plugins
        self.leave: Callable[[QueueAccount, Mapping[int, int]], bool] = plugins.combined("leaves_guarantees")
        """Whether the queue may set aside so much more, by row."""
        self._owed: Callable[..., list[Owed]] = plugins.combined("owed")
        self._reserved: dict[str, Amounts] | None = None
        """What is reserved by queue, with those above it; worked out when first asked for."""

    def note(self, reservations: Iterable[TaskReservation]) -> None:
        """These stand from now on."""
        if self._reserved is not None:
            self._note(self._reserved, reservations)

    def _note(self, reserved: dict[str, Amounts], reservations: Iterable[TaskReservation]) -> None:
        for reservation in reservations:
            if reservation.state is TaskState.RESERVED:
                for account in reservation.job.queue.ancestry:
                    add(reserved.setdefault(account.name, []), reservation.task.shape.vector)

    def respected(self, queue: QueueAccount, made: Collection[TaskReservation]) -> bool:
        """Whether the nodes that are left with these reservations suffice for what other queues still ask for."""
        if not any(reservation.state is TaskState.RESERVED for reservation in made):
            return True
        if self._reserved is None:
            self._reserved = {}
            self._note(self._reserved, [standing for standing in self._reservations if standing not in made])
        owed = [owed for owed in self._owed(queue, self._reserved) if owed]
        if not owed:
            return True
        left = counted_nodes(self._nodes.snapshot)
        left[[reservation.row for reservation in self._reservations if reservation.state is TaskState.RESERVED]] = False
        capacity = self._nodes.snapshot.allocatable[:, left]
        amounts = ((row, met + unmet) for each in owed for row, (met, unmet) in each.items())
        return all(amount <= int(capacity[row].sum()) for row, amount in amounts)


def missing_tasks(reservations: Reservations, job: JobRun) -> list[Task]:
    """The waiting tasks that would make the job ready, roles first, beside those that have a place or a nomination."""
    if not job.job.role_minimums and not reservations.has(job):
        missing = job.minimum - job.ready
        if missing <= 0:
            return []
        return job.waiting[:missing] if len(job.waiting) >= missing else []
    chosen: list[Task] = []
    have = {**(job.role_ready or {})}
    waits = [reservation.task for reservation in reservations.of(job) if reservation.state is not TaskState.ALLOCATED]
    for task in waits:
        have[task.traits.role] = have.get(task.traits.role, 0) + 1
    for role, least in job.job.role_minimums:
        of_role = [task for task in job.waiting if task.traits.role == role]
        chosen += of_role[: max(0, least - have.get(role, 0))]
    missing = job.minimum - job.ready - len(waits)
    chosen += [task for task in job.waiting if task not in chosen][: max(0, missing - len(chosen))]
    return chosen if len(chosen) >= missing else []
