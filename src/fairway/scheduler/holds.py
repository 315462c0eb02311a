"""Holds in a session: reservations and nominations that stand, begin, end or turn into bindings.

    RESERVED    waits on its node for room; nobody new may use the node
    ALLOCATED   has room, and keeps it until its gang is ready
    PIPELINED   nominated: waits for the room of those who were evicted for it

What a held task asks for already counts as held by its queue, namespace and job. `resume` looks at every hold that
the state carries, once per cycle and before anything is placed: it ends those that may not stand, lets those take their
room that can, and binds the gangs that are ready by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from fairway.clock import SECOND, Micros
from fairway.scheduler.admission import admission
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.plan import Released
from fairway.state.tasks import Task, TaskState

if TYPE_CHECKING:
    from fairway.scheduler.session import Session


class Hold:
    """A task's claim to room on a row."""

    __slots__ = ("job", "promised", "row", "since", "soft", "state", "task")

    def __init__(self, job: JobRun, task: Task, row: int, state: TaskState, since: Micros) -> None:
        self.job = job
        self.task = task
        self.row = row
        self.state = state
        self.since = since
        self.promised: Micros | None = None
        self.soft = False

    def __repr__(self) -> str:
        return f"<Hold {self.task.key} {self.state.name} row={self.row}>"


class HoldBook:
    """All holds of a session, by task."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._holds: dict[Task, Hold] = {}
        self._by_job: dict[JobRun, list[Hold]] = {}
        self.released: list[Released] = []
        self.given_up: dict[JobRun, set[int]] = {}
        """Rows whose reservation timed out in this cycle: the job should look elsewhere first."""
        self._reserved = np.zeros(session.snapshot.size, dtype=np.int64)
        self._read()

    def __iter__(self) -> Iterator[Hold]:
        return iter(list(self._holds.values()))

    def of(self, job: JobRun) -> list[Hold]:
        return list(self._by_job.get(job, ()))

    def rows(self) -> set[int]:
        """Rows that carry a reservation."""
        return {hold.row for hold in self._holds.values() if hold.state is not TaskState.PIPELINED}

    def reserved_on(self, row: int, but: JobRun | None = None) -> bool:
        """Whether somebody else waits on this row for room."""
        return any(
            hold.row == row and hold.state is TaskState.RESERVED and hold.job is not but
            for hold in self._holds.values()
        )

    # -- changes: each keeps room, flags and counts together --------------------------------------------------

    def add(self, job: JobRun, task: Task, row: int, state: TaskState) -> Hold:
        """A new hold. The room of a nomination is seen to by whoever made it."""
        hold = Hold(job, task, row, state, self._session.now)
        self._insert(hold)
        job.hold(task, 1)
        if state is TaskState.ALLOCATED:
            self._take(hold, 1)
            job.count_ready(task, 1)
        elif state is TaskState.RESERVED:
            self._flag(row, 1)
        return hold

    def cancel(self, hold: Hold) -> None:
        """Undo `add`: the hold never was."""
        self._drop(hold)
        hold.job.hold(hold.task, -1)
        if hold.state is TaskState.ALLOCATED:
            self._take(hold, -1)
            hold.job.count_ready(hold.task, -1)
        elif hold.state is TaskState.RESERVED:
            self._flag(hold.row, -1)

    def take_room(self, hold: Hold) -> None:
        """RESERVED or PIPELINED becomes ALLOCATED: the room is there."""
        if hold.state is TaskState.RESERVED:
            self._unflag(hold)
        else:
            self._lift(hold, 1)
        hold.state = TaskState.ALLOCATED
        self._take(hold, 1)
        hold.job.count_ready(hold.task, 1)

    def wait_again(self, hold: Hold) -> None:
        """An ALLOCATED hold goes back to being nominated."""
        hold.job.count_ready(hold.task, -1)
        self._take(hold, -1)
        hold.state = TaskState.PIPELINED
        self._lift(hold, -1)

    def release(self, hold: Hold, reason: str) -> None:
        """The claim ends; the task waits like any other."""
        self._drop(hold)
        if hold.state is TaskState.ALLOCATED:
            self._take(hold, -1)
            hold.job.count_ready(hold.task, -1)
        elif hold.state is TaskState.RESERVED:
            self._unflag(hold)
        else:
            self._lift(hold, 1)
        hold.job.hold(hold.task, -1)
        self.released.append(Released(hold.task.key, self._session.snapshot.names[hold.row], reason))

    def bind(self, job: JobRun) -> None:
        """The job is ready: tasks with room are bound, other claims are no longer needed."""
        for hold in self.of(job):
            if hold.state is TaskState.ALLOCATED:
                self._drop(hold)
                self._session.bind(job, [hold.task], [hold.row])
        for hold in self.of(job):
            self.release(hold, "the job is ready without it")

    def move(self, task: Task) -> None:
        """A held task was placed elsewhere by a statement that is being committed: the claim ends, the charge stays."""
        hold = self._holds[task]
        self._drop(hold)
        if hold.state is TaskState.RESERVED:
            self._unflag(hold)
        else:
            self._lift(hold, 1)
        reason = "the job became ready elsewhere"
        self.released.append(Released(hold.task.key, self._session.snapshot.names[hold.row], reason))

    def promise(self, holds: list[Hold], start: Micros, *, soft: bool) -> None:
        """It is known when the room will be there: those who are gone by then may use the nodes until then."""
        for hold in holds:
            hold.promised, hold.soft = start, soft
            self._flag(hold.row, -1)

    # -- plumbing -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        state = self._session.state
        for job in state.waiting.holding:
            signature, entry = state.waiting.started[job]
            run = self._session.job_run(entry, signature)
            self._session.holders[job] = run
            for task in job.holders():
                record = state.hold_of(task)
                since = self._session.now if record is None or record.since is None else record.since
                self._insert(Hold(run, task, task.node, task.state, since))
                if task.state is TaskState.RESERVED:
                    self._reserved[task.node] += 1
        self._publish()

    def _insert(self, hold: Hold) -> None:
        self._holds[hold.task] = hold
        self._by_job.setdefault(hold.job, []).append(hold)

    def _drop(self, hold: Hold) -> None:
        del self._holds[hold.task]
        self._by_job[hold.job].remove(hold)

    def _take(self, hold: Hold, sign: int) -> None:
        if sign < 0:
            self._session.charge_kinds(hold.job, [hold.task], -1)
        self._session.write(hold.task.shape, [hold.task], [hold.row], sign)
        if sign > 0:
            self._session.charge_kinds(hold.job, [hold.task], 1)

    def _flag(self, row: int, by: int) -> None:
        """One reservation more or less waits on a row; others may use it only if there is none."""
        self._reserved[row] += by
        self._session.snapshot.scratch(row)
        self._publish()

    def _unflag(self, hold: Hold) -> None:
        if hold.promised is None:
            self._flag(hold.row, -1)

    def _publish(self) -> None:
        kernel = self._session.kernel
        kernel.reserved = self._reserved > 0 if self._reserved.any() else None
        kernel.reserved_slots = self._reserved

    def _lift(self, hold: Hold, sign: int) -> None:
        """Take a nomination off its node's books (or put it back): what it owed beyond releasing room is free."""
        nodes, snapshot, row = self._session.state.nodes, self._session.snapshot, hold.row
        snapshot.scratch(row)
        for dimension, amount in hold.task.shape.vector:
            owed = max(0, int(nodes.pipelined.data[dimension, row]) - int(nodes.releasing.data[dimension, row]))
            snapshot.idle[dimension, row] += sign * min(owed, amount)


def resume(session: Session) -> None:
    """See the module. Asked by every action that places; the first one does it."""
    if session.resumed:
        return
    session.resumed = True
    for job in sorted(session.holders.values(), key=lambda job: _rank(session, job)):
        for hold in session.holds.of(job):
            reason = _broken(session, hold)
            if reason:
                session.holds.release(hold, reason)
        _settle(session, job)


def _rank(session: Session, job: JobRun) -> tuple[object, ...]:
    since = min((hold.since for hold in session.holds.of(job)), default=0)
    return -job.priority, since, job.job.order


def _settle(session: Session, job: JobRun) -> None:
    """Those who can take their room do; if that makes the job ready it is bound."""
    taken = []
    for hold in session.holds.of(job):
        if hold.state is not TaskState.ALLOCATED and _room_now(session, hold):
            nominated = hold.state is TaskState.PIPELINED
            session.holds.take_room(hold)
            if nominated:
                taken.append(hold)
    if session.holds.of(job) and session.job_ready(job):
        session.holds.bind(job)
        return
    for hold in taken:
        session.holds.wait_again(hold)


def _room_now(session: Session, hold: Hold) -> bool:
    """Whether the node can take the task at once, its own claim put aside."""
    shape, row = hold.task.shape, hold.row
    idle = session.snapshot.idle
    nodes = session.state.nodes
    for dimension, amount in shape.vector:
        room = int(idle[dimension, row])
        if hold.state is TaskState.PIPELINED:
            owed = max(0, int(nodes.pipelined.data[dimension, row]) - int(nodes.releasing.data[dimension, row]))
            room += min(owed, amount)
        if room < amount:
            return False
    return session.kernel.passes(shape, row)


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
    return "" if session.kernel.may_ever(hold.task.shape, hold.row) else "its node no longer takes it"


def _reservation_broken(session: Session, hold: Hold) -> str:
    arguments = session.reserve_arguments
    if arguments is None:
        return "the policy reserves nothing"
    timeout = arguments.reservation_timeout
    if timeout and session.now - hold.since >= timeout * SECOND:
        session.holds.given_up.setdefault(hold.job, set()).add(hold.row)
        return f"not used within {timeout} s"
    return "" if session.kernel.may_ever(hold.task.shape, hold.row) else "its node no longer takes it"
