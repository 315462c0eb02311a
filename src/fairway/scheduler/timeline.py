"""The future of the nodes, as far as it is known: when running pods end, and what is promised to whom.

Room only grows as runs end and only shrinks where a promise begins, so the least room in a stretch of time is found at
its beginning or at the beginning of a promise in it. A node on which a pod of unknown run time runs promises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.kernel import INFEASIBLE
from fairway.scheduler.runtimes import Runtimes
from fairway.scheduler.session import Session
from fairway.state.shapes import Shape
from fairway.state.tasks import ON_NODE, Task

FOREVER: Micros = 1 << 62
Room = NDArray[np.int64]


class Promise(NamedTuple):
    """Tasks and the rows they will have, from `start` to `end`. A soft one rests on what is not sure, and may move."""

    places: tuple[tuple[Task, int], ...]
    start: Micros
    end: Micros
    soft: bool


class _Run(NamedTuple):
    row: int
    vector: Vector
    end: Micros
    certain: bool


class Timeline:
    """Ends and promises on the nodes of a session. Amounts free now are the session's own."""

    def __init__(self, session: Session, runtimes: Runtimes) -> None:
        self._session = session
        self._runtimes = runtimes
        size = session.snapshot.size
        self._unknown: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._uncertain: BoolColumn = np.zeros(size, dtype=np.bool_)
        self._runs: list[_Run] = []
        self.promises: list[Promise] = []
        for row, tasks in enumerate(session.state.nodes.tasks[:size]):
            for task in tasks:
                if task.state in ON_NODE:
                    self._read(row, task)

    def start_now(self, tasks: list[Task], rows: list[int]) -> None:
        """Tasks were placed in this session: they end, too."""
        for task, row in zip(tasks, rows, strict=True):
            self._note(row, task, self._session.now)

    def promise(self, tasks: list[Task], window: Micros) -> Promise | None:
        """The earliest start of all these tasks together, on the first nodes by name; None if none is in sight."""
        moments = self._moments()
        if not self.promises:  # room only grows: the moments before the answer all say no
            low, high = 0, len(moments)
            while low < high:
                middle = (low + high) // 2
                if self._places(tasks, moments[middle], window) is None:
                    low = middle + 1
                else:
                    high = middle
            moments = moments[low : low + 1]
        for moment in moments:
            places = self._places(tasks, moment, window)
            if places is not None:
                soft = any(self._uncertain[row] for _, row in places)
                found = Promise(places, moment, _end(moment, window), soft)
                self.promises.append(found)
                return found
        return None

    def promise_at(self, places: list[tuple[Task, int]]) -> Promise | None:
        """When the room for tasks that already have their nodes will be there; None if nobody knows."""
        if any(self._unknown[row] for _, row in places):
            return None
        for moment in self._moments():
            room = self._free(moment)
            for task, row in places:
                for dimension, amount in task.shape.vector:
                    room[dimension, row] -= amount
            if all(room[dimension, row] >= 0 for task, row in places for dimension, _ in task.shape.vector):
                soft = any(self._uncertain[row] for _, row in places)
                found = Promise(tuple(places), moment, FOREVER, soft)
                self.promises.append(found)
                return found
        return None

    def caps(self, shape: Shape, window: Micros) -> IntColumn | None:
        """How many tasks of a shape each node may take now, for a run of this length, without breaking a promise."""
        now, caps = self._session.now, None
        for promise in self.promises:
            if _end(now, window) <= promise.start:
                continue
            if caps is None:
                caps = np.full(self._session.snapshot.size, FOREVER, dtype=np.int64)
            rows = np.array(sorted({row for _, row in promise.places}), dtype=np.int64)
            spare = self._free(promise.start)[:, rows]
            caps[rows] = np.minimum(caps[rows], _rooms(spare, shape))
        return caps

    def _places(self, tasks: list[Task], moment: Micros, window: Micros) -> tuple[tuple[Task, int], ...] | None:
        """Where all tasks have room from a moment on for as long as they run; None if they have not."""
        room = self._free(moment)
        for promise in self.promises:
            if moment < promise.start < _end(moment, window):
                room = np.minimum(room, self._free(promise.start))
        order = np.argsort(self._session.snapshot.rank, kind="stable")
        places: list[tuple[Task, int]] = []
        for shape, like in _by_shape(tasks):
            rooms = np.where(self._may_promise(shape), _rooms(room, shape), 0)[order]
            needed = len(like)
            if int(np.minimum(rooms, needed).sum()) < needed:
                return None
            for row, count in zip(order, rooms, strict=True):
                taken = min(int(count), needed)
                for dimension, amount in shape.vector:
                    room[dimension, row] -= amount * taken
                places += [(like[len(like) - needed + i], int(row)) for i in range(taken)]
                needed -= taken
                if not needed:
                    break
        return tuple(places)

    def _may_promise(self, shape: Shape) -> BoolColumn:
        kernel = self._session.kernel
        open_: BoolColumn = (kernel.column(shape).base < INFEASIBLE) & ~self._unknown
        return open_ if kernel.reserved is None else open_ & ~kernel.reserved

    def _free(self, moment: Micros) -> Room:
        """What is free on every node at a moment, with what ends until then and what is promised for then."""
        room = self._session.snapshot.idle.copy()
        for run in self._runs:
            if run.end <= moment:
                for dimension, amount in run.vector:
                    room[dimension, run.row] += amount
        for promise in self.promises:
            if promise.start <= moment < promise.end:
                for task, row in promise.places:
                    for dimension, amount in task.shape.vector:
                        room[dimension, row] -= amount
        return room

    def _moments(self) -> list[Micros]:
        """When room may appear: now, and whenever something ends."""
        now = self._session.now
        ends = {run.end for run in self._runs} | {p.end for p in self.promises if p.end < FOREVER}
        return [now, *sorted(end for end in ends if end > now)]

    def _read(self, row: int, task: Task) -> None:
        self._note(row, task, self._session.now if task.started is None else task.started)

    def _note(self, row: int, task: Task, start: Micros) -> None:
        runtime = self._runtimes.of(task)
        if runtime is None:
            self._unknown[row] = True
            return
        self._uncertain[row] |= not runtime.certain
        end = max(start + runtime.span, self._session.now + 1)
        self._runs.append(_Run(row, task.shape.vector, end, runtime.certain))


def _rooms(room: Room, shape: Shape) -> IntColumn:
    rooms = np.full(room.shape[1], FOREVER, dtype=np.int64)
    for dimension, amount in shape.vector:
        np.minimum(rooms, room[dimension] // amount, out=rooms)
    return np.maximum(rooms, 0)


def _end(start: Micros, window: Micros) -> Micros:
    return FOREVER if window >= FOREVER else start + window


def _by_shape(tasks: list[Task]) -> Iterator[tuple[Shape, list[Task]]]:
    by_shape: dict[Shape, list[Task]] = {}
    for task in tasks:
        by_shape.setdefault(task.shape, []).append(task)
    yield from by_shape.items()
