"""The future of the nodes, as far as it is known: when running pods end, and what is promised to whom.

Room only grows as runs end and only shrinks where a promise begins, so the least room in a stretch of time is found at
its beginning or at the beginning of a promise in it.

A node on which a pod of unknown run time runs promises nothing. Pods that stay as long as their node does (those of
other schedulers, of the system, and those that ask for nothing) only keep their room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import SECOND, Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.jobrun import JobRun, TaskRun, grouped
from fairway.scheduler.kernel import INFEASIBLE
from fairway.scheduler.plugins.podrules import one_per_node
from fairway.scheduler.promising.gains import Gains, Rooms
from fairway.scheduler.promising.runtimes import Runtime, Runtimes
from fairway.scheduler.session import Session
from fairway.scheduler.verdict import Reason
from fairway.scheduler.victims.units import is_system
from fairway.state.shapes import Shape
from fairway.state.tasks import ON_NODE, Task, TaskState

FOREVER: Micros = 1 << 62
HORIZON: Micros = 1000 * 366 * 86_400 * SECOND
"""What ends later than this from now is taken to stay for ever."""

AT_ONCE = 64
"""Moments looked at together."""

FEW_ROOMS = 4096
"""So many moments times nodes are looked at together at once, without a search for the first that matters."""

IntTable = NDArray[np.int64]
Places = tuple[tuple[Task, int], ...]
_Runs = list[tuple[TaskRun, BoolColumn]]


class Promise(NamedTuple):
    """Tasks of a job and the rows they will have from `start` on. A soft one rests on what is not sure: it may move."""

    job: JobRun
    places: Places
    start: Micros
    soft: bool
    estimated: bool
    """Whether it rests on an estimate."""


class Timeline:
    """Ends and promises on the nodes of a session, or on some rows of it. What is free now is the session's own."""

    def __init__(self, session: Session, runtimes: Runtimes, rows: Iterable[int] | None = None) -> None:
        self._session = session
        self._runtimes = runtimes
        dimensions, size = session.snapshot.idle.shape
        self._unknown: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._estimated: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._ends = Gains(dimensions, size)
        self._taken = Gains(dimensions, size)
        """What promises take, and give back where their end is known."""
        self._unsure = Gains(dimensions, size)
        """Those ends, of runs and of promises, that are not sure."""
        self._moments: set[Micros] = set()
        self.promises: list[Promise] = []
        self._starts: list[tuple[Micros, int]] = []
        """Of every promise: when it begins, and how many changes in `_taken` there were when it had been made."""
        self._known_least: dict[tuple[int, int], IntTable] = {}
        for row in range(size) if rows is None else rows:
            self._read(row)
        for hold in session.holds:
            if hold.state is TaskState.PIPELINED:
                self._unknown[hold.row] = True  # the room of those who leave there will be its own
        for _, tasks, places in session.bindings:
            self.start_now(tasks, places)

    # -- what is known ----------------------------------------------------------------------------------------------

    def _read(self, row: int) -> None:
        now = self._session.now
        for task in self._session.state.nodes.tasks[row]:
            if task.state is TaskState.RELEASING:
                self._end(row, task, now, sure=True)
            elif task.state in ON_NODE and task.state is not TaskState.ALLOCATED:
                self._run(row, task, now if task.started is None else task.started)

    def start_now(self, tasks: list[Task], rows: list[int]) -> None:
        """Tasks were placed in this session: they end, too."""
        for task, row in zip(tasks, rows, strict=True):
            self._run(row, task, self._session.now)

    def _run(self, row: int, task: Task, began: Micros) -> None:
        runtime = self._runtimes.of(task)
        if runtime is None:
            self._unknown[row] |= not self._stays(task)
            return
        self._estimated[row] |= runtime.estimated
        self._end(row, task, runtime.end(began, self._session.now), sure=runtime.certain)

    def _stays(self, task: Task) -> bool:
        return task.shape.best_effort or is_system(task) or task.key not in self._session.state.tasks

    def _end(self, row: int, task: Task, end: Micros, *, sure: bool) -> None:
        if end > self._session.now + HORIZON:
            return
        self._ends.add(end, row, task.shape.vector)
        if not sure:
            self._unsure.add(end, row, task.shape.vector)
        self._moments.add(end)
        self._known_least.clear()

    # -- promises -----------------------------------------------------------------------------------------------------

    def promise(self, job: JobRun, tasks: list[Task], runtime: Runtime | None) -> Promise | None:
        """The earliest start of all these tasks together, on the first nodes by name; None if none is in sight."""
        runs = [(run, self._may_promise(run.shape)) for run in grouped(tasks)]
        window = FOREVER if runtime is None or runtime.sure is None else runtime.sure
        starts = sorted({start for start, _ in self._starts})
        later = self._ends.at(starts) + self._taken.at(starts)
        for moment, gains in self._moments_with(lambda gains: self._enough(runs, gains)):
            while_running = later[bisect_right(starts, moment) : bisect_left(starts, _later(moment, window))]
            places = self._places(runs, np.minimum(gains, while_running.min(axis=0, initial=FOREVER)))
            if places is not None:
                return self._keep(job, places, moment, runtime)
        return None

    def promise_at(self, job: JobRun, places: Places) -> Promise | None:
        """When the room for tasks that already have their nodes will be there; None if nobody knows."""
        rows = sorted({row for _, row in places})
        if self._unknown[rows].any():
            return None
        need = np.zeros((self._session.snapshot.idle.shape[0], len(rows)), dtype=np.int64)
        for task, row in places:
            for dimension, amount in task.shape.vector:
                need[dimension, rows.index(row)] += amount
        idle = self._session.snapshot.idle[:, rows]
        for moment, _ in self._moments_with(
            lambda gains: ((idle + gains[:, :, rows] >= need) | (need == 0)).all(axis=(1, 2))
        ):
            return self._keep(job, places, moment, None)
        return None

    def _moments_with(self, enough: Callable[[Rooms], BoolColumn]) -> Iterator[tuple[Micros, IntTable]]:
        """The moments, in order, at which room may appear and there is enough, and what was gained by then. Those
        before the first at which there would be enough without any promise are passed over: until then room only grows.
        """
        moments = sorted(self._moments)
        few = len(moments) <= AT_ONCE and len(moments) * self._unknown.size <= FEW_ROOMS
        first = 0 if few else bisect_left(moments, True, key=lambda at: bool(enough(self._ends.at([at]))[0]))
        for begin in range(first, len(moments), AT_ONCE):
            together = moments[begin : begin + AT_ONCE]
            gains = self._ends.at(together) + self._taken.at(together)
            for place in np.flatnonzero(enough(gains)):
                yield together[place], gains[place]

    def _may_promise(self, shape: Shape) -> BoolColumn:
        """Where every rule but those of room holds now, and the future is known."""
        kernel = self._session.kernel
        open_: BoolColumn = (kernel.column(shape).base < INFEASIBLE) & ~self._unknown
        if kernel.reserved is not None:
            open_ &= ~kernel.reserved
        for feasible in kernel.hooks.feasible:
            for check in feasible(shape, kernel.view()):
                if check.reason is Reason.PREDICATE_FAILED:
                    open_ &= check.passes
        return open_

    def _enough(self, runs: _Runs, gains: Rooms) -> BoolColumn:
        """At which moments every run of like tasks, taken by itself, has room."""
        room = self._session.snapshot.idle + gains
        enough = np.ones(len(gains), dtype=np.bool_)
        for run, open_ in runs:
            rooms = np.minimum(self._rooms(room, run.shape), len(run.tasks))
            enough &= (rooms * open_).sum(axis=1) >= len(run.tasks)
        return enough

    def _places(self, runs: _Runs, gains: IntTable) -> Places | None:
        """Where all tasks together have room, if there is this much more than now; None if they have not."""
        room = self._session.snapshot.idle + gains
        places: list[tuple[Task, int]] = []
        for run, open_ in runs:
            rooms = np.minimum(self._rooms(room, run.shape), len(run.tasks)) * open_
            if rooms.sum() < len(run.tasks):
                return None
            by_name = np.argsort(self._session.snapshot.rank)
            for task, row in zip(run.tasks, np.repeat(by_name, rooms[by_name]).tolist(), strict=False):
                for dimension, amount in run.shape.vector:
                    room[dimension, row] -= amount
                places.append((task, row))
        return tuple(places)

    def _keep(self, job: JobRun, places: Places, start: Micros, runtime: Runtime | None) -> Promise:
        end = FOREVER if runtime is None else start + runtime.span
        ends = end <= self._session.now + HORIZON
        for task, row in places:
            self._taken.add(start, row, task.shape.vector, -1)
            if ends:
                self._taken.add(end, row, task.shape.vector)
                self._moments.add(end)
        rows = [row for _, row in places]
        soft = not self._is_sure(places, start)
        found = Promise(job, places, start, soft, soft and bool(self._estimated[rows].any()))
        if runtime is not None and ends and (soft or not runtime.certain):
            self._estimated[rows] |= runtime.estimated
            for task, row in places:
                self._unsure.add(end, row, task.shape.vector)
        self.promises.append(found)
        self._starts.append((start, len(self._taken)))
        self._known_least.clear()
        return found

    def _is_sure(self, places: Places, start: Micros) -> bool:
        """Whether there is room at the start of a promise even if nothing ends that is not sure to end."""
        if not self._unsure:
            return True
        gains = self._ends.at([start]) + self._taken.at([start]) - self._unsure.at([start])
        room = self._session.snapshot.idle + gains[0]
        return all(room[dimension, row] >= 0 for task, row in places for dimension, _ in task.shape.vector)

    # -- what promises leave to others ----------------------------------------------------------------------------

    def reach(self, window: Micros | None, made: int) -> int | None:
        """How many of the first `made` promises begin before a run of this length, begun now, is over; None if nobody
        knows how long it is.
        """
        if window is None:
            return None
        until = _later(self._session.now, window)
        return sum(start < until for start, _ in self._starts[:made])

    def caps(self, shape: Shape, reach: int | None, made: int) -> IntColumn | None:
        """How many tasks of a shape each node may take now, for runs that reach so far, if the first `made` promises
        are to be kept; None if they do not matter.

        Where something is promised no run of unknown length may begin: the node could promise nothing any more.
        """
        if shape.best_effort:
            reach = made
        if reach == 0 or not made:
            return None
        caps = np.full(self._session.snapshot.size, FOREVER, dtype=np.int64)
        if reach is None:
            caps[[row for promise in self.promises[:made] for _, row in promise.places]] = 0
            return caps
        least = self._least(reach, made)
        rows = np.flatnonzero((least < 0).any(axis=0))
        caps[rows] = self._rooms(self._session.snapshot.idle[:, rows] + least[:, rows], shape)
        return caps

    def _least(self, reach: int, made: int) -> IntTable:
        """The least that there will be, compared with now, where the earliest of the promises begin."""
        key = (reach, made)
        if key not in self._known_least:
            starts = sorted(start for start, _ in self._starts[:made])[:reach]
            gains = self._ends.at(starts) + self._taken.at(starts, self._starts[made - 1][1])
            self._known_least[key] = gains.min(axis=0)
        return self._known_least[key]

    def _rooms(self, room: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        """How many tasks of a shape there is room for, by node; `room` is by (..., resource, node)."""
        alone = shape.ports or one_per_node(shape, self._session.snapshot) is not None
        rooms = np.full((*room.shape[:-2], room.shape[-1]), 1 if alone else FOREVER, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, room[..., dimension, :] // amount, out=rooms)
        return np.maximum(rooms, 0)

    def spare(self, row: int, start: Micros) -> list[int]:
        """What is left on a row when all promises are kept that begin by then."""
        gains = self._ends.at([start]) + self._taken.at([start])
        return [int(amount) for amount in self._session.snapshot.idle[:, row] + gains[0, :, row]]


def _later(start: Micros, window: Micros) -> Micros:
    return FOREVER if window >= FOREVER else start + window
