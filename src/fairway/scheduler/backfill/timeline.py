"""The future of the nodes, as far as it is known: when running pods end, and which planned starts take what.

Free capacity only grows as runs end and only shrinks where a planned start begins, so the least in a stretch of time is
found at its beginning or at a planned start in it.

A node on which a pod of unknown run time runs gives no planned start. Pods that stay as long as their node does (those
of other schedulers, of the system, and those that request nothing) only keep their capacity.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.clock import Micros
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.backfill.run_ends import FOREVER, HORIZON, AmountsOverTime, Gains, run_ends, stays
from fairway.scheduler.backfill.runtimes import Runtime, Runtimes
from fairway.scheduler.framework.decisions import Places, PlannedStart
from fairway.scheduler.framework.job_run import JobRun, TaskRun, grouped
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.kernel import INFEASIBLE
from fairway.scheduler.placement.pod_rules import one_per_node
from fairway.scheduler.verdict import Reason
from fairway.state.jobs import Task, TaskState
from fairway.state.shapes import Shape

AT_ONCE = 64
"""Moments looked at together, at most."""

FEW_ROOMS = 4096
"""So many moments times nodes are looked at together at once, without a search for the first that matters."""

IntTable = NDArray[np.int64]
Starts = tuple[Micros, ...]
_Runs = list[tuple[TaskRun, BoolColumn]]


class _Slot(NamedTuple):
    planned: PlannedStart
    taken: range
    unsure: range


class Timeline:
    """Ends and planned starts on the nodes of a session. What is free now the session knows."""

    def __init__(self, session: Session, runtimes: Runtimes) -> None:
        self._session = session
        self._runtimes = runtimes
        shape = dimensions, size = session.nodes.snapshot.idle.shape
        self._kept = run_ends(session.state, runtimes, shape, session.now)
        """What ran before this session; all else is what it adds."""
        self._unknown: BoolColumn = self._kept.unknown > 0
        self._estimated: BoolColumn = self._kept.estimated > 0
        self._ends = Gains(dimensions, size)
        self._taken = Gains(dimensions, size)
        """What planned starts take, and give back where their end is known."""
        self._unsure = Gains(dimensions, size)
        """Those ends, of runs and of planned starts, that are not sure."""
        self._moments: set[Micros] = set()
        self._slots: dict[JobRun, _Slot] = {}
        self._known_least: dict[tuple[Starts, int | None], IntTable] = {}
        self._known_starts: tuple[list[Micros], list[Micros]] | None = None
        self.runs = self._kept.runs
        """Pods of ours that are on nodes, those placed in this session too."""
        for reservation in session.reservations.awake():
            if reservation.state is TaskState.PIPELINED:
                self._unknown[reservation.row] = True  # what is being released there will be its own
        for _, tasks, places in session.decisions.bindings:
            self.start_now(tasks, places)

    # -- what is known ----------------------------------------------------------------------------------------------

    def _ended(self, moments: Sequence[Micros]) -> AmountsOverTime:
        """What runs have given back by each of these moments; not to be written on."""
        kept = self._kept.ends.at(moments)
        return kept + self._ends.at(moments) if self._ends else kept

    def _gained(self, moments: Sequence[Micros], before: int | None = None) -> AmountsOverTime:
        """The same, less what planned starts take: of jobs before a queue position only, if given."""
        ended = self._ended(moments)
        return ended + self._taken.at(moments, before) if self._taken else ended

    def start_now(self, tasks: list[Task], rows: list[int]) -> None:
        """Tasks were placed in this session: they end, too."""
        for task, row in zip(tasks, rows, strict=True):
            self._run(row, task, self._session.now)

    def _run(self, row: int, task: Task, began: Micros) -> None:
        self.runs += 1
        runtime = self._runtimes.of(task)
        if runtime is None:
            self._unknown[row] |= not stays(self._session.state, task)
            return
        self._estimated[row] |= runtime.estimated
        end = runtime.end(began, self._session.now)
        if end > self._session.now + HORIZON:
            return
        self._ends.add(end, row, task.shape.vector)
        if not runtime.is_sure_at(began, end):
            self._unsure.add(end, row, task.shape.vector)
        self._moments.add(end)
        self._forget()

    def _forget(self) -> None:
        self._known_least.clear()
        self._known_starts = None

    # -- planned starts -----------------------------------------------------------------------------------------------

    @property
    def planned(self) -> list[PlannedStart]:
        """All planned starts, in the order in which they were kept."""
        return [slot.planned for slot in self._slots.values()]

    def of(self, job: JobRun) -> PlannedStart | None:
        slot = self._slots.get(job)
        return None if slot is None else slot.planned

    def earliest(self, tasks: list[Task], runtime: Runtime | None) -> tuple[Places, Micros] | None:
        """The earliest start of all these tasks together, on the first nodes by name; None if none is in sight."""
        runs = [(run, self._may_plan(run.shape)) for run in grouped(tasks)]
        hard, soft = self._starts()
        later = [self._gained(starts) if starts else None for starts in (hard, soft)]
        windows = (_sure_window(runtime), FOREVER if runtime is None else runtime.span)
        for moment, gains in self._moments_with(lambda gains: self._enough(runs, gains)):
            least = gains
            for starts, rooms, window in zip((hard, soft), later, windows, strict=True):
                if rooms is not None:
                    met = rooms[bisect_right(starts, moment) : bisect_left(starts, _later(moment, window))]
                    least = np.minimum(least, met.min(axis=0, initial=FOREVER))
            places = self._places(runs, least)
            if places is not None:
                return places, moment
        return None

    def when(self, places: Places) -> Micros | None:
        """When the capacity for tasks that already have their nodes will be free; None if that is not known."""
        rows = sorted({row for _, row in places})
        if self._unknown[rows].any():
            return None
        need = np.zeros((self._session.nodes.snapshot.idle.shape[0], len(rows)), dtype=np.int64)
        for task, row in places:
            for dimension, amount in task.shape.vector:
                need[dimension, rows.index(row)] += amount
        idle = self._session.nodes.snapshot.idle[:, rows]
        for moment, _ in self._moments_with(
            lambda gains: ((idle + gains[:, :, rows] >= need) | (need == 0)).all(axis=(1, 2))
        ):
            return moment
        return None

    def keep(
        self,
        job: JobRun,
        places: Places,
        start: Micros,
        runtime: Runtime | None,
        *,
        turn: int = 0,
        hard: bool | None = None,
    ) -> PlannedStart:
        """Take what a planned start needs from then on. Without `hard` it is hard if the ends that it rests on are
        sure; `turn` is the job's queue position, for jobs that ask what planned starts before theirs leave."""
        end = FOREVER if runtime is None else start + runtime.span
        ends = end <= self._session.now + HORIZON
        taken, unsure = len(self._taken), len(self._unsure)
        for task, row in places:
            self._taken.add(start, row, task.shape.vector, -1, turn)
            if ends:
                self._taken.add(end, row, task.shape.vector, 1, turn)
                self._moments.add(end)
        rows = [row for _, row in places]
        if hard is None:
            hard = self.is_sure(places, start)
        planned = PlannedStart(job, places, start, hard, not hard and bool(self._estimated[rows].any()))
        if runtime is not None and ends and not (hard and runtime.certain):
            self._estimated[rows] |= runtime.estimated
            for task, row in places:
                self._unsure.add(end, row, task.shape.vector)
        self._slots[job] = _Slot(planned, range(taken, len(self._taken)), range(unsure, len(self._unsure)))
        self._forget()
        return planned

    def drop(self, job: JobRun) -> None:
        """The job has no planned start any more."""
        slot = self._slots.pop(job, None)
        if slot is not None:
            self._taken.take_back(slot.taken)
            self._unsure.take_back(slot.unsure)
            self._forget()

    def overbooked(self) -> set[int]:
        """Rows on which planned starts take more than there will be."""
        starts = sorted({slot.planned.start for slot in self._slots.values()})
        if not starts:
            return set()
        room = self._session.nodes.snapshot.idle + self._gained(starts).min(axis=0)
        taken = {row for slot in self._slots.values() for _, row in slot.planned.places}
        short = (room < 0).any(axis=0)
        return {row for row in taken if short[row]}

    def is_sure(self, places: Places, start: Micros) -> bool:
        """Whether a planned start has its capacity even if nothing ends that is not sure to end."""
        if not self._unsure and not self._kept.unsure:
            return True
        gains = self._gained([start]) - self._kept.unsure.at([start]) - self._unsure.at([start])
        room = self._session.nodes.snapshot.idle + gains[0]
        return all(room[dimension, row] >= 0 for task, row in places for dimension, _ in task.shape.vector)

    def _moments_with(self, enough: Callable[[AmountsOverTime], BoolColumn]) -> Iterator[tuple[Micros, IntTable]]:
        """The moments, in order, at which capacity becomes free and there is enough, and what was gained by then. Those
        before the first at which there would be enough without any planned start are passed over: until then it only
        grows.
        """
        moments = self._all_moments()
        few = len(moments) <= AT_ONCE and len(moments) * self._unknown.size <= FEW_ROOMS
        begin = 0 if few else self._first(moments, lambda at: bool(enough(self._ended([at]))[0]))
        count = AT_ONCE if few else 1
        while begin < len(moments):
            together = moments[begin : begin + count]
            gains = self._gained(together)
            for place in np.flatnonzero(enough(gains)):
                yield together[place], gains[place]
            begin, count = begin + count, min(4 * count, AT_ONCE)

    def _all_moments(self) -> list[Micros]:
        kept = self._kept
        own = [moment for moment in self._moments if not kept.ends_at(moment)]
        return sorted(kept.moments + own) if own else kept.moments

    def _first(self, moments: list[Micros], holds: Callable[[Micros], bool]) -> int:
        """The place of the first moment at which something holds that holds ever after; asked first at moments that
        cost nothing."""
        known = self._kept.ends.known_moments()
        place = bisect_left(known, True, key=holds)
        low = bisect_right(moments, known[place - 1]) if place else 0
        high = bisect_left(moments, known[place]) if place < len(known) else len(moments)
        return bisect_left(moments, True, low, high, key=holds)

    def _may_plan(self, shape: Shape) -> BoolColumn:
        """Where every rule but that of free capacity holds now, and the future is known."""
        kernel = self._session.nodes.kernel
        open_: BoolColumn = (kernel.base(shape) < INFEASIBLE) & ~self._unknown
        if kernel.reserved is not None:
            open_ &= ~kernel.reserved
        for feasible in kernel.hooks.feasible:
            for check in feasible(shape, kernel.view()):
                if check.reason is Reason.PREDICATE_FAILED:
                    open_ &= check.passes
        return open_

    def _enough(self, runs: _Runs, gains: AmountsOverTime) -> BoolColumn:
        """At which moments every run of like tasks, taken by itself, has enough."""
        room = self._session.nodes.snapshot.idle + gains
        enough = np.ones(len(gains), dtype=np.bool_)
        for run, open_ in runs:
            rooms = np.minimum(self._rooms(room, run.shape), len(run.tasks))
            enough &= (rooms * open_).sum(axis=1) >= len(run.tasks)
        return enough

    def _places(self, runs: _Runs, gains: IntTable) -> Places | None:
        """Where all tasks together fit, if there is this much more than now; None if they do not."""
        room = self._session.nodes.snapshot.idle + gains
        places: list[tuple[Task, int]] = []
        for run, open_ in runs:
            rooms = np.minimum(self._rooms(room, run.shape), len(run.tasks)) * open_
            if rooms.sum() < len(run.tasks):
                return None
            by_name = _first(np.flatnonzero(rooms), self._session.nodes.snapshot.rank, len(run.tasks))
            for task, row in zip(run.tasks, np.repeat(by_name, rooms[by_name]).tolist(), strict=False):
                for dimension, amount in run.shape.vector:
                    room[dimension, row] -= amount
                places.append((task, row))
        return tuple(places)

    # -- what planned starts leave to others ----------------------------------------------------------------------

    def _starts(self) -> tuple[list[Micros], list[Micros]]:
        """When hard and soft planned starts begin, in order."""
        if self._known_starts is None:
            planned = [slot.planned for slot in self._slots.values()]
            hard = sorted({start.start for start in planned if start.hard})
            self._known_starts = hard, sorted({start.start for start in planned if not start.hard})
        return self._known_starts

    def met_by(self, runtime: Runtime | None, *, has_places: bool) -> Starts | None:
        """The planned starts that begin before a run of this length, begun now, is over: hard ones unless it surely is,
        soft ones unless it is estimated to be. A run of unknown length that has a planned start of its own meets them
        all; None for any other: it may not use their nodes."""
        if runtime is None and not has_places:
            return None if self._slots else ()
        hard, soft = self._starts()
        if runtime is None:
            return tuple(sorted({*hard, *soft}))
        now = self._session.now
        met = hard[: bisect_left(hard, _later(now, _sure_window(runtime)))]
        if soft:
            met = sorted({*met, *soft[: bisect_left(soft, _later(now, runtime.span))]})
        return tuple(met)

    def caps(self, shape: Shape, met: Starts | None, before: int | None) -> IntColumn | None:
        """How many tasks of a shape each node may take now, for runs that meet these planned starts; None if these do
        not matter. `before`: planned starts of jobs before that queue position only.

        Where something is planned no run of unknown length may begin: the node could give no planned start any more.
        """
        if shape.best_effort:
            hard, soft = self._starts()
            met = tuple(sorted({*hard, *soft}))
        if met == ():
            return None
        caps = np.full(self._session.nodes.snapshot.size, FOREVER, dtype=np.int64)
        if met is None:
            for slot in self._slots.values():
                if before is None or self._turn(slot) < before:
                    caps[[row for _, row in slot.planned.places]] = 0
            return caps
        least = self._least(met, before)
        rows = np.flatnonzero((least < 0).any(axis=0))
        caps[rows] = self._rooms(self._session.nodes.snapshot.idle[:, rows] + least[:, rows], shape)
        return caps

    def _turn(self, slot: _Slot) -> int:
        return self._taken.owner(slot.taken.start)

    def _least(self, met: Starts, before: int | None) -> IntTable:
        """The least that there will be, compared with now, where these planned starts begin."""
        key = (met, before)
        if key not in self._known_least:
            self._known_least[key] = self._gained(met, before).min(axis=0)
        return self._known_least[key]

    def _rooms(self, room: NDArray[np.int64], shape: Shape) -> NDArray[np.int64]:
        """How many tasks of a shape fit, by node; `room` is by (..., resource, node)."""
        alone = shape.ports or one_per_node(shape, self._session.nodes.snapshot) is not None
        rooms = np.full((*room.shape[:-2], room.shape[-1]), 1 if alone else FOREVER, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(rooms, room[..., dimension, :] // amount, out=rooms)
        return np.maximum(rooms, 0)

    def spare(self, row: int, start: Micros) -> list[int]:
        """What is left on a row when all planned starts are kept that begin by then."""
        gains = self._gained([start])
        return [int(amount) for amount in self._session.nodes.snapshot.idle[:, row] + gains[0, :, row]]


def _first(rows: IntColumn, rank: IntColumn, count: int) -> IntColumn:
    """The first so many rows by rank, in order."""
    ranks = rank[rows]
    if len(rows) > count:
        near = np.argpartition(ranks, count - 1)[:count]
        rows, ranks = rows[near], ranks[near]
    return rows[np.argsort(ranks)]


def _sure_window(runtime: Runtime | None) -> Micros:
    return FOREVER if runtime is None or runtime.sure is None else runtime.sure


def _later(start: Micros, window: Micros) -> Micros:
    return FOREVER if window >= FOREVER else start + window
