"""The statement: a journal of what a session tries out, and the one way to undo.

Whatever may have to be undone is written on a statement: pods placed, pods taken off their nodes, capacity assumed to
be free, reservations. Each entry knows how to undo itself. An attempt is committed, or rolled back to where it began,
last entry first; a single entry may also be undone by itself (`take_back`), since what entries change only adds up.
Where one thing is kept and another undone, there are two statements.

A trial that is always undone is a `with` block: whatever was not committed at its end is rolled back.

    with session.statement() as trial:
        trial.displace(victims)
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import IntColumn
from fairway.scheduler.framework.decisions import Decisions
from fairway.scheduler.framework.job_run import JobRun, TaskRun
from fairway.scheduler.framework.policy_parts import PolicyRules
from fairway.scheduler.framework.queue_accounts import SessionAccounts
from fairway.scheduler.framework.reservation_ledger import Reservations, TaskReservation
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.kernel import Placing
from fairway.state.jobs import Task, TaskState
from fairway.state.shapes import Shape


class JournalEntry(Protocol):
    """An entry of the journal."""

    def undo(self, statement: Statement) -> None: ...


class Statement:
    """One attempt. Commit it, roll it back, or let a `with` block roll it back; one left open is an error."""

    def __init__(
        self,
        nodes: WorkingNodes,
        accounts: SessionAccounts,
        rules: PolicyRules,
        reservations: Reservations,
        decisions: Decisions,
    ) -> None:
        self.nodes = nodes
        self.accounts = accounts
        self.rules = rules
        self.reservations = reservations
        self._decisions = decisions
        self._entries: list[JournalEntry] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()

    def checkpoint(self) -> int:
        return len(self._entries)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything since the checkpoint, last first."""
        entries = self._entries
        while len(entries) > checkpoint:
            entries.pop().undo(self)

    def take_back(self, change: JournalEntry) -> None:
        """Undo one entry, and leave the rest."""
        at = len(self._entries) - 1  # mostly one of the last
        while self._entries[at] is not change:
            at -= 1
        del self._entries[at]
        change.undo(self)

    def commit(self) -> None:
        """Keep it: placed tasks are bound in the order in which they were placed."""
        for entry in self._entries:
            if isinstance(entry, Placed):
                if not entry.run.charged:
                    self.reservations.move(entry.run.tasks[0])
                self._decisions.bind(entry.job, entry.tasks, entry.rows)
        self._entries.clear()

    # -- placing a job's tasks ----------------------------------------------------------------------------------

    def allocate(self, job: JobRun, run: TaskRun, count: int, placing: Placing) -> int:
        """Place up to `count` of the run's next tasks; returns how many found a node."""
        kernel = self.nodes.kernel
        rows = kernel.choose(run.shape, count, placing)
        if not rows:
            return 0
        self.put(job, run, rows)
        if len(rows) < count and kernel.column(run.shape).around:
            return len(rows) + self.allocate_each(job, run, count - len(rows), placing)
        return len(rows)

    def allocate_each(self, job: JobRun, run: TaskRun, count: int, placing: Placing) -> int:
        """One at a time, for shapes whose nodes depend on each other."""
        for placed in range(count):
            rows = self.nodes.kernel.choose(run.shape, 1, placing)
            if not rows:
                return placed
            self.put(job, run, rows)
        return count

    def put(self, job: JobRun, run: TaskRun, rows: list[int]) -> None:
        """Place the run's next tasks on these rows, and charge the job for them."""
        tasks = run.tasks[run.placed : run.placed + len(rows)]
        self._entries.append(Placed(job, run, tasks, rows))
        self.nodes.occupy(run.shape, tasks, rows, 1)
        run.placed += len(rows)
        job.charge(run, len(rows))
        self.accounts.charge_kinds(job, tasks, 1)
        self.rules.on_allocate(job, run.shape, len(rows))

    # -- what would be if ---------------------------------------------------------------------------------------

    def occupy(self, shape: Shape, tasks: list[Task], rows: list[int]) -> None:
        """Like tasks are on these rows, and no account is charged."""
        self._entries.append(OccupiedRows(shape, tasks, rows, 1))
        self.nodes.occupy(shape, tasks, rows, 1)

    def vacate(self, task: Task, row: int) -> None:
        """A task that something other than this statement has put on a row is not there."""
        self._entries.append(OccupiedRows(task.shape, [task], [row], -1))
        self.nodes.occupy(task.shape, [task], [row], -1)

    def displace(self, tasks: Sequence[Task]) -> JournalEntry:
        """Pods that are on their nodes are gone."""
        entry = DisplacedPods(tasks, -1)
        self._entries.append(entry)
        for task in tasks:
            self.nodes.displace(task, -1)
        return entry

    def bring_back(self, tasks: Sequence[Task]) -> None:
        """Pods that something other than this statement has displaced are on their nodes."""
        self._entries.append(DisplacedPods(tasks, 1))
        for task in tasks:
            self.nodes.displace(task, 1)

    def assume_free(self, rows: IntColumn, amounts: NDArray[np.int64]) -> None:
        """So much more is free on these rows."""
        self._entries.append(AssumedFree(rows, amounts))
        _add(self.nodes, rows, amounts, 1)

    def assume_ready(self, job: JobRun, task: Task) -> None:
        """A task that waits counts towards its job's minimum."""
        self._entries.append(AssumedReady(job, task))
        job.count_ready(task, 1)

    def assume_there(self, reservation: TaskReservation) -> None:
        """To rules between pods a reserved task counts as being on its node."""
        self._entries.append(AssumedThere(reservation))
        self.nodes.stand_in(reservation.task, reservation.row, 1)

    # -- reservations -------------------------------------------------------------------------------------------

    def reserve(self, job: JobRun, task: Task, row: int, state: TaskState) -> TaskReservation:
        """A new reservation."""
        reservation = self.reservations.add(job, task, row, state)
        self._entries.append(NewReservation(reservation))
        return reservation

    def take_nominated(self, nomination: TaskReservation, is_there: Callable[[TaskReservation], bool]) -> None:
        """What is nominated has its capacity, if that is there."""
        if self.reservations.allocate(nomination, is_there):
            self._entries.append(TakenNomination(nomination))


class Placed(NamedTuple):
    """Some tasks of a run were given rows."""

    job: JobRun
    run: TaskRun
    tasks: list[Task]
    rows: list[int]

    def undo(self, statement: Statement) -> None:
        job, run, tasks, rows = self
        statement.accounts.charge_kinds(job, tasks, -1)
        statement.nodes.occupy(run.shape, tasks, rows, -1)
        run.placed -= len(rows)
        job.charge(run, -len(rows))
        statement.rules.on_allocate(job, run.shape, -len(rows))


class OccupiedRows:
    def __init__(self, shape: Shape, tasks: list[Task], rows: list[int], sign: int) -> None:
        self._shape = shape
        self._tasks = tasks
        self._rows = rows
        self._sign = sign

    def undo(self, statement: Statement) -> None:
        statement.nodes.occupy(self._shape, self._tasks, self._rows, -self._sign)


class DisplacedPods:
    def __init__(self, tasks: Sequence[Task], sign: int) -> None:
        self._tasks = tasks
        self._sign = sign

    def undo(self, statement: Statement) -> None:
        for task in self._tasks:
            statement.nodes.displace(task, -self._sign)


class AssumedFree:
    def __init__(self, rows: IntColumn, amounts: NDArray[np.int64]) -> None:
        self._rows = rows
        self._amounts = amounts

    def undo(self, statement: Statement) -> None:
        _add(statement.nodes, self._rows, self._amounts, -1)


class AssumedReady:
    def __init__(self, job: JobRun, task: Task) -> None:
        self._job = job
        self._task = task

    def undo(self, statement: Statement) -> None:
        self._job.count_ready(self._task, -1)


class AssumedThere:
    def __init__(self, reservation: TaskReservation) -> None:
        self._reservation = reservation

    def undo(self, statement: Statement) -> None:
        statement.nodes.stand_in(self._reservation.task, self._reservation.row, -1)


class NewReservation:
    def __init__(self, reservation: TaskReservation) -> None:
        self._reservation = reservation

    def undo(self, statement: Statement) -> None:
        statement.reservations.cancel(self._reservation)


class TakenNomination:
    def __init__(self, reservation: TaskReservation) -> None:
        self._reservation = reservation

    def undo(self, statement: Statement) -> None:
        statement.reservations.revert(self._reservation, TaskState.PIPELINED)


def _add(nodes: WorkingNodes, rows: IntColumn, amounts: NDArray[np.int64], sign: int) -> None:
    snapshot = nodes.snapshot
    for row in rows.tolist():
        snapshot.write(row)
    snapshot.idle[: len(amounts), rows] += sign * amounts
