"""What may be reserved: how many nodes and which, for which tasks of a job, and what other queues are guaranteed.

Reservations keep the guarantees of other queues (spec S6.2). Two conditions: what a queue has and sets aside leaves
the others the amounts that they are guaranteed; and the nodes without reservations are enough for the part of these
that the others request and do not have, since a reserved node takes no pod of theirs.

Places for a starving job: for every task that it misses a node, or none at all (spec S6.4 to S6.6).

Everything but capacity must fit on a node now; capacity is compared with the whole node, less what is reserved there.
Of the nodes that are left the least used score ten, as many as the policy lets carry reservations; of those a node
with free capacity now is best, then the least used, then by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import ReserveArguments
from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.framework.accounts import QueueAccount
from fairway.scheduler.framework.hooks import FloatColumn
from fairway.scheduler.framework.job_run import JobRun
from fairway.scheduler.framework.plugin_set import PluginSet
from fairway.scheduler.framework.reservation_ledger import Reservations, TaskReservation
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.unevictable import Unevictable
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.matching import equals
from fairway.scheduler.topology.domains import Domains
from fairway.scheduler.verdict import Reason
from fairway.state.jobs import ON_NODE, Task, TaskState
from fairway.state.queues import Amounts, add
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy
from fairway.state.waiting import GangTemplate


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


TEN = 10.0


class Places:
    """Finds places for one starving job after the other, within the limits of the policy."""

    def __init__(self, session: Session, arguments: ReserveArguments) -> None:
        self._session = session
        self._lends = session.rules.lends()
        self._tens = scoring_nodes(session.nodes.snapshot, arguments)
        self._max_reserved = max_reserved(session.nodes.snapshot, arguments)
        self._open = reservable_nodes(session.nodes.snapshot, session.reservations, arguments)
        self._hopeless: set[GangTemplate] = set()
        """What fits nowhere: the more is reserved the less there is left, so nothing like it needs to be tried again.
        """
        self._left: list[int] | None = None
        self._unevictable = Unevictable(session.state)
        self._guarantees = Guarantees(session.nodes, session.reservations, session.plugins)

    def reserve(self, job: JobRun) -> bool:
        """Places for all that the job misses, or none."""
        session, tasks = self._session, missing_tasks(self._session.reservations, job)
        if not tasks or not self._queue_allows(job, tasks):
            return False
        if not job.started and job.template in self._hopeless:
            return False
        if self._would_borrow_for_good(job, tasks):
            return False
        for task in tasks:
            if not self._may_fit(task.shape):
                if not job.started:
                    session.reservations.too_large.add(job.template)
                self._give_up(job, task)
                return False
        statement, made = session.statement(), list[TaskReservation]()
        stuck = self._reserve_somewhere(job, tasks, made, statement)
        if stuck is not None or not self._guarantees.respected(job.queue, made):
            statement.rollback()
            self._give_up(job, stuck)
            return False
        statement.commit()
        self._guarantees.note(made)
        self._left = None
        fits_now = session.nodes.kernel.fits_now
        if any(each.state is TaskState.RESERVED and fits_now(each.task.shape, each.row) for each in made):
            # what others left there is its own from the next cycle on
            session.decisions.rechecks.append(session.now + 1)
        job.job_class = None
        session.reservations.begin(job)
        if session.rules.job_ready(job):
            session.reservations.bind(job)
        return True

    def _would_borrow_for_good(self, job: JobRun, tasks: list[Task]) -> bool:
        """Whether nothing could evict the job once it runs, and its queue would have more than it deserves."""
        why = self._unevictable.why(job, tasks, together=True)
        if not why or self.within_deserved(job):
            return False
        self._session.outcomes.notes[job.job] = f"no node is reserved for it: {why}, and its queue would have to borrow"
        return True

    def _give_up(self, job: JobRun, stuck: Task | None) -> None:
        outcomes = self._session.outcomes
        if stuck is None:
            outcomes.notes[job.job] = "no node is reserved for it: the remaining capacity is guaranteed to other queues"
            return
        outcomes.notes_to_make[job.job] = partial(self._note, stuck)
        self._hopeless.add(job.template)

    def _may_fit(self, shape: Shape) -> bool:
        """Whether it asks for no more of anything than one node at most has left to reserve."""
        if self._left is None:
            session, carrying = self._session, self._session.reservations.rows()
            left = session.nodes.snapshot.allocatable.copy()
            for reservation in session.reservations:
                if reservation.state is not TaskState.PIPELINED:
                    for row, amount in reservation.task.shape.vector:
                        left[row, reservation.row] -= amount
            open_ = (
                self._open & column_of(carrying, len(self._open)) if len(carrying) >= self._max_reserved else self._open
            )
            self._left = left.max(axis=1, initial=-1, where=open_).tolist()
        left_ = self._left
        for dimension, amount in shape.vector:  # noqa: SIM110 - asked of all that starve
            if amount > left_[dimension]:
                return False
        return True

    def _reserve_somewhere(
        self, job: JobRun, tasks: list[Task], made: list[TaskReservation], statement: Statement
    ) -> Task | None:
        """In one domain, the emptiest first, if the job must be in one. Meanwhile reserved tasks count to rules between
        pods as if they were there.
        """
        stuck: Task | None = tasks[0]
        with self._session.statement() as there:
            for reservation in self._session.reservations:
                if reservation.state is TaskState.RESERVED:
                    there.assume_there(reservation)
            for open_ in self._ways(job):
                mark = there.checkpoint()
                stuck = self._reserve(job, tasks, made, statement, there, open_)
                if stuck is None or open_ is self._open:
                    break
                there.rollback(mark)
                statement.rollback()
                made.clear()
        return stuck

    def _ways(self, job: JobRun) -> Iterator[BoolColumn]:
        """The nodes to reserve on, all of them on one of these: anywhere, or in one domain."""
        topology = job.job.topology
        if topology is None or not topology.hard:
            yield self._open
            return
        for domain in Domains(self._session, job, claims=True).all():
            yield self._open & domain.mask

    def _reserve(
        self,
        job: JobRun,
        tasks: list[Task],
        made: list[TaskReservation],
        statement: Statement,
        there: Statement,
        open_: BoolColumn,
    ) -> Task | None:
        """Reserve a node for each task among the open ones; returns the first that has none."""
        search = _Search(self._session, job, open_)
        for task in tasks:
            row = self._row_for(search, task.shape)
            if row is None:
                return task
            state = TaskState.ALLOCATED if search.free_now(task.shape)[row] else TaskState.RESERVED
            reservation = statement.reserve(job, task, row, state)
            made.append(reservation)
            search.reserve(reservation)
            if state is TaskState.RESERVED:
                there.assume_there(reservation)
        return None

    def within_deserved(self, job: JobRun) -> bool:
        """Whether what the job misses stays within what its queue, and all above, deserve."""
        need = self._requested(
            missing_tasks(self._session.reservations, job), self._session.accounts.device_queues.requested
        )
        for account in job.queue.ancestry:
            deserved = account.deserved
            if deserved is not None:
                for row, amount in need.items():
                    if account.allocated[row] + amount > deserved[row]:
                        return False
        return True

    def _queue_allows(self, job: JobRun, tasks: list[Task]) -> bool:
        need = self._requested(tasks, self._session.accounts.device_queues.named)
        for account in job.queue.ancestry:
            if account.info.capability and _exceeds(account, account.capability, need):
                return False
            if not self._lends and account.deserved and _exceeds(account, account.deserved, need):
                return False
        return self._guarantees.leave(job.queue, need)

    def _requested(self, tasks: list[Task], vector_of: Callable[[Shape], Vector]) -> dict[int, int]:
        if len(tasks) == 1:
            return dict(vector_of(tasks[0].shape))
        need: dict[int, int] = {}
        for task in tasks:
            for row, amount in vector_of(task.shape):
                need[row] = need.get(row, 0) + amount
        return need

    def _row_for(self, search: _Search, shape: Shape) -> int | None:
        """The best node; one where a reservation of the job timed out only if there is no other."""
        fits = search.fits(shape)
        carrying = self._session.reservations.rows()
        if len(carrying) >= self._max_reserved:
            fits &= column_of(carrying, len(fits))
        if not fits.any():
            return None
        elsewhere = self._best(search, shape, fits & ~search.avoided)
        return self._best(search, shape, fits) if elsewhere is None else elsewhere

    def _best(self, search: _Search, shape: Shape, fits: BoolColumn) -> int | None:
        raw, rank = raw_score(self._session, shape), self._session.nodes.snapshot.rank
        rows = np.flatnonzero(tens(raw, fits, self._tens, rank))
        if not len(rows):
            return None
        full = ~search.free_now(shape)
        return int(rows[np.lexsort((rank[rows], -raw[rows], full[rows]))[0]])

    def _note(self, task: Task) -> str:
        """A job that can never be reserved for says so."""
        whole = self._session.nodes.snapshot.allocatable
        large = np.ones(whole.shape[1], dtype=np.bool_)
        for row, amount in task.shape.vector:
            large &= whole[row] >= amount
        session, shape = self._session, task.shape
        if session.nodes.devices.uses_devices(shape) and large.any():
            rows = map(int, np.flatnonzero(large))
            if not any(session.nodes.device_fit.serves_when_empty(shape, row) for row in rows):
                return f"no node is reserved for it: no node has devices for {task.key}"
        if not large.any():
            return f"no node is reserved for it: {task.key} is larger than every node"
        if not (predicates(self._session, task.shape, but=Reason.DEVICE_UNAVAILABLE) & large).any():
            return f"no node is reserved for it: {task.key} may not run on any node that is large enough"
        carrying = len(session.reservations.rows())
        if carrying >= self._max_reserved:
            others = "1 node has" if carrying == 1 else f"{carrying} nodes have"
            return f"no node is reserved for it: {others} reservations of other jobs, which is the limit"
        return f"no node is reserved for it: at most {self._max_reserved} nodes may be reserved, which is not enough"


class _Search:
    """What is known of the nodes while places for one job are looked for."""

    def __init__(self, session: Session, job: JobRun, open_: BoolColumn) -> None:
        self._session = session
        self._open = open_
        self._taken = np.zeros_like(session.nodes.snapshot.allocatable)
        """What is reserved on a node, and what the job itself runs there: it must fit the whole node together."""
        self._feasible: dict[Shape, BoolColumn] = {}
        self._reserved: dict[int, list[Shape]] = {}
        """Shapes with reservations by row that use devices."""
        size = session.nodes.snapshot.size
        self._others = np.zeros(size, dtype=np.bool_)
        """Where others wait for capacity: what is idle there is not for this job."""
        self.avoided = column_of(session.reservations.given_up.get(job, ()), size)
        for reservation in session.reservations:
            if reservation.state is not TaskState.PIPELINED:
                self.reserve(reservation)
            if reservation.state is TaskState.RESERVED and reservation.job is not job:
                self._others[reservation.row] = True
        for task in job.job.tasks:
            if task.state in ON_NODE and task.state is not TaskState.ALLOCATED:
                self._take(task.node, task.shape.vector)

    def reserve(self, reservation: TaskReservation) -> None:
        self._take(reservation.row, reservation.task.shape.vector)
        if self._session.nodes.devices.uses_devices(reservation.task.shape):
            self._reserved.setdefault(reservation.row, []).append(reservation.task.shape)

    def fits(self, shape: Shape) -> BoolColumn:
        """Where one more task of the shape may be reserved for."""
        whole = self._session.nodes.snapshot.allocatable
        fits = self._open & self._predicates(shape)
        for row, amount in shape.vector:
            fits &= self._taken[row] + amount <= whole[row]
        fit = self._session.nodes.device_fit
        doubtful = self._reserved if fit.is_decided_by_columns(shape) else np.flatnonzero(fits)
        for found in map(int, doubtful) if self._session.nodes.devices.uses_devices(shape) else ():
            fits[found] &= fit.serves_when_empty(shape, found, self._reserved.get(found, ()))
        return fits

    def free_now(self, shape: Shape) -> BoolColumn:
        idle = self._session.nodes.snapshot.idle
        room = ~self._others
        for row, amount in shape.vector:
            room &= idle[row] >= amount
        return room & predicates(self._session, shape) if self._session.nodes.devices.uses_devices(shape) else room

    def _predicates(self, shape: Shape) -> BoolColumn:
        if shape.has_pod_rules or shape.has_volumes or shape.ports:
            return predicates(self._session, shape, but=Reason.DEVICE_UNAVAILABLE)
        if shape not in self._feasible:
            self._feasible[shape] = predicates(self._session, shape, but=Reason.DEVICE_UNAVAILABLE)
        return self._feasible[shape]

    def _take(self, row: int, vector: Vector) -> None:
        for dimension, amount in vector:
            self._taken[dimension, row] += amount


def _exceeds(account: QueueAccount, limits: Amounts, need: Mapping[int, int]) -> bool:
    for row, amount in need.items():  # noqa: SIM110 - asked of all that starve
        if account.allocated[row] + amount > limits[row]:
            return True
    return False


def predicates(session: Session, shape: Shape, but: Reason | None = None) -> BoolColumn:
    """Where everything but capacity holds now, and but what fails for one reason."""
    view = session.nodes.kernel.view()
    passes = np.full(view.size, not shape.volumes.missing and not shape.giant)
    for feasible in (*session.nodes.kernel.hooks.feasible_static, *session.nodes.kernel.hooks.feasible):
        for check in feasible(shape, view):
            if but is None or check.reason is not but:
                passes &= check.passes
    return passes


def raw_score(session: Session, shape: Shape) -> FloatColumn:
    """How little used each node is, by the policy's plugins."""
    view = session.nodes.kernel.view()
    scores = [score(shape, view) for score in session.plugins.hooks("reserve_score")]
    return sum(scores[1:], start=scores[0]) if scores else np.zeros(view.size)


def tens(raw: FloatColumn, candidates: BoolColumn, count: int, rank: IntColumn) -> FloatColumn:
    """Ten for the best `count` candidates, ties by name; nothing for the rest."""
    order = np.lexsort((rank, -raw, ~candidates))[:count]
    score: NDArray[np.float64] = np.zeros(len(raw))
    score[order] = TEN
    return np.where(candidates, score, 0.0)


def column_of(rows: Iterable[int], size: int) -> BoolColumn:
    column = np.zeros(size, dtype=np.bool_)
    column[list(rows)] = True
    return column
