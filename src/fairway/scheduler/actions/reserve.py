"""reserve: keep nodes for jobs that have waited too long to fit anywhere (seed 004).

A starving job gets places for its whole minimum or nothing. A place with room is `allocated` at once and held; a place
without is `reserved`: nobody new may use that node, and when those who run there are gone the job has it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import ReserveArguments
from fairway.api.settings import Arguments
from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.holds import Hold, resume
from fairway.scheduler.hooks import FloatColumn
from fairway.scheduler.jobrun import JobRun
from fairway.scheduler.missing import missing_tasks
from fairway.scheduler.nodematch import equals
from fairway.scheduler.session import Session
from fairway.scheduler.starving import next_starving, starving
from fairway.scheduler.trial import highest_priority_placed
from fairway.scheduler.verdict import Reason
from fairway.state.shapes import Shape
from fairway.state.tasks import ON_NODE, Task, TaskState

TEN = 10.0


def reserve(session: Session, arguments: Arguments) -> None:
    assert isinstance(arguments, ReserveArguments)
    session.divide()
    jobs = sorted(starving(session, arguments), key=_rank)
    guard = _guard(session, jobs)
    resume(session)
    places = _Places(session, arguments)
    while jobs:
        job = jobs.pop(0)
        if guard is not None and job.priority < guard:
            session.notes[job.job] = "reserves nothing while jobs of higher priority are being placed"
            continue
        if job.job in session.holders and session.job_ready(job):
            continue
        line, place = job.line, job.place
        if places.reserve(job) and line is not None:
            following = next_starving(session, line, place + 1, arguments)
            if following is not None:
                jobs = sorted([*jobs, following], key=_rank)


def _rank(job: JobRun) -> tuple[object, ...]:
    """Priority, then longest starving, then the tie rule."""
    return -job.priority, job.job.waits_since, job.job.order


def _guard(session: Session, jobs: list[JobRun]) -> int | None:
    """The highest priority that is being placed in this cycle; jobs below it must not reserve now."""
    if not jobs:
        return None
    if session.bindings:
        return max(job.priority for job, _, _ in session.bindings)
    least = min(job.priority for job in jobs)
    return highest_priority_placed(session) if session.state.waiting.has_priority_above(least) else None


class _Places:
    """Finds places for starving jobs, within the limits of the policy."""

    def __init__(self, session: Session, arguments: ReserveArguments) -> None:
        self._session = session
        nodes, size = session.state.nodes, session.snapshot.size
        usable = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
        count = int(usable.sum())
        self.tens = -(-count * arguments.reserved_node_percent // 100)
        """How many nodes may carry reservations."""
        self._most = self.tens if arguments.max_reserved_nodes is None else min(self.tens, arguments.max_reserved_nodes)
        self._open: BoolColumn = usable & ~_excluded(session, arguments)

    def reserve(self, job: JobRun) -> bool:
        """Places for all that the job misses, or none."""
        tasks = missing_tasks(self._session, job)
        if not tasks or not self._queue_allows(job, tasks):
            return False
        made: list[Hold] = []
        for task in tasks:
            row = self._row_for(job, task)
            if row is None:
                for hold in reversed(made):
                    self._session.holds.cancel(hold)
                self._explain(job, task)
                return False
            state = TaskState.ALLOCATED if self._has_room(job, task.shape, row) else TaskState.RESERVED
            made.append(self._session.holds.add(job, task, row, state))
        job.line = None
        self._session.holders[job.job] = job
        if self._session.job_ready(job):
            self._session.holds.bind(job)
        return True

    def _queue_allows(self, job: JobRun, tasks: list[Task]) -> bool:
        need: dict[int, int] = {}
        for task in tasks:
            for row, amount in task.shape.vector:
                need[row] = need.get(row, 0) + amount
        for book in job.queue.line:
            limits = [book.capability] if self._session.lends() else [book.capability, book.deserved or book.capability]
            if any(book.held[row] + amount > limit[row] for limit in limits for row, amount in need.items()):
                return False
        return True

    def _row_for(self, job: JobRun, task: Task) -> int | None:
        """The best node: with room now, then by score, then by name; timed out ones last."""
        session, shape = self._session, task.shape
        fits = self._open & self._predicates(shape) & self._leaves_room(job, shape.vector)
        carrying = session.holds.rows()
        if len(carrying) >= self._most:
            fits &= _rows(carrying, len(fits))
        raw = raw_score(session, shape)
        usable = fits & (tens(raw, fits, self.tens, session.snapshot.rank) > 0)
        rows = np.flatnonzero(usable)
        if not len(rows):
            return None
        rank, avoided = session.snapshot.rank, session.holds.given_up.get(job, set())
        return min(
            (int(row) for row in rows),
            key=lambda row: (row in avoided, not self._has_room(job, shape, row), -raw[row], rank[row]),
        )

    def _predicates(self, shape: Shape) -> BoolColumn:
        """Everything but room must hold now."""
        session = self._session
        view = session.kernel.view()
        passes = np.full(view.size, not shape.volumes.missing and not shape.giant)
        for feasible in (*session.kernel.hooks.feasible_static, *session.kernel.hooks.feasible):
            for check in feasible(shape, view):
                if check.reason is not Reason.DEVICE_UNAVAILABLE:
                    passes &= check.passes
        return passes

    def _leaves_room(self, job: JobRun, vector: Vector) -> BoolColumn:
        """What is promised on a node, and what the job itself runs there, fits the whole node together with this."""
        session = self._session
        whole = session.snapshot.allocatable
        taken = np.zeros_like(whole)
        for hold in session.holds:
            if hold.state is not TaskState.PIPELINED:
                _add(taken, hold.row, hold.task.shape.vector)
        for task in job.job.tasks:
            if task.state in ON_NODE and task.state is not TaskState.ALLOCATED:
                _add(taken, task.node, task.shape.vector)
        fits = np.ones(whole.shape[1], dtype=np.bool_)
        for row, amount in vector:
            fits &= taken[row] + amount <= whole[row]
        return fits

    def _has_room(self, job: JobRun, shape: Shape, row: int) -> bool:
        idle = self._session.snapshot.idle
        enough = all(idle[dimension, row] >= amount for dimension, amount in shape.vector)
        if enough and self._session.devices.minds(shape):
            enough = self._session.kernel.passes(shape, row)
        return enough and not self._session.holds.reserved_on(row, but=job)

    def _explain(self, job: JobRun, task: Task) -> None:
        """A job that can never be reserved for says so."""
        whole = self._session.snapshot.allocatable
        large = np.ones(whole.shape[1], dtype=np.bool_)
        for row, amount in task.shape.vector:
            large &= whole[row] >= amount
        if not large.any():
            note = f"nothing is reserved: {task.key} is larger than every node"
        elif not (self._predicates(task.shape) & large).any():
            note = f"nothing is reserved: {task.key} may not run on any node that is large enough"
        else:
            note = f"nothing is reserved: the nodes that may carry reservations ({self._most}) do not suffice"
        self._session.notes[job.job] = note


def raw_score(session: Session, shape: Shape) -> FloatColumn:
    """How little used each node is, by the policy's plugins."""
    view = session.kernel.view()
    scores = [score(shape, view) for score in session.hooks("reserve_score")]
    return sum(scores[1:], start=scores[0]) if scores else np.zeros(view.size)


def tens(raw: FloatColumn, candidates: BoolColumn, count: int, rank: IntColumn) -> FloatColumn:
    """Ten for the best `count` candidates, ties by name; nothing for the rest."""
    order = np.lexsort((rank, -raw, ~candidates))[:count]
    score = np.zeros(len(raw))
    score[order] = TEN
    return np.where(candidates, score, 0.0)


def _excluded(session: Session, arguments: ReserveArguments) -> BoolColumn:
    size = session.snapshot.size
    if not arguments.exclude_node_selector:
        return np.zeros(size, dtype=np.bool_)
    labels = session.state.nodes.labels
    out = np.ones(size, dtype=np.bool_)
    for key, wanted in arguments.exclude_node_selector.items():
        out &= labels.where(key, size, equals(wanted))
    return out


def _add(table: NDArray[np.int64], row: int, vector: Vector) -> None:
    for dimension, amount in vector:
        table[dimension, row] += amount


def _rows(rows: Iterable[int], size: int) -> BoolColumn:
    column = np.zeros(size, dtype=np.bool_)
    column[list(rows)] = True
    return column
