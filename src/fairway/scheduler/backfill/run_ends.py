"""When what runs will end, by node: kept from cycle to cycle, and read again for the nodes where something changed.

What a node's runs will give back depends on the pods there, on what their jobs say, and on the policy's estimates; it
changes with the time only where an end that was expected has passed without one. `sync` looks at nodes of which one of
these changed. Pods that are being deleted, that have not begun, or whose time is up are looked at in each cycle.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

import numpy as np

from fairway.clock import SECOND, Micros
from fairway.resources.columns import IntColumn
from fairway.scheduler.backfill.gains import KeptGains
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.framework.system_pods import is_system
from fairway.state.cluster import ClusterState
from fairway.state.jobs import NOWHERE, ON_NODE, Job, Task, TaskState

FOREVER: Micros = 1 << 62
HORIZON: Micros = 1000 * 366 * 86_400 * SECOND
"""What ends later than this from now is taken to stay for ever."""

_ALWAYS: Micros = -FOREVER
"""A time that has always passed: of a node that is read in each cycle."""

MANY = 64
"""Where more nodes changed, the moments are sorted anew."""


class _KnownEnd(NamedTuple):
    """What one run has put into the columns."""

    again: Micros
    """When it is to be read again though nothing changes."""
    end: Micros | None = None
    number: int = 0
    unsure: int | None = None
    """Its number among the unsure ones."""
    unknown: bool = False
    estimated: bool = False
    known: bool = False


def stays(state: ClusterState, task: Task) -> bool:
    """Whether a pod of unknown run time stays as long as its node does."""
    return task.shape.best_effort or is_system(task) or task.key not in state.tasks


class RunEnds:
    """The ends of all that runs, as one policy estimates them."""

    def __init__(self, state: ClusterState, runtimes: Runtimes, shape: tuple[int, int], now: Micros) -> None:
        self._state = state
        self._runtimes = runtimes
        self._basis = (shape, runtimes.basis())
        self._now = now
        self.ends = KeptGains(*shape)
        self.unsure = KeptGains(*shape)
        """Those of them that are not sure."""
        self.unknown: IntColumn = np.zeros(shape[1], dtype=np.int64)
        """By node: runs of which no end is known, so that the node gives no planned start."""
        self.estimated: IntColumn = np.zeros(shape[1], dtype=np.int64)
        """By node: runs whose time is an estimate."""
        self.moments: list[Micros] = []
        """When something ends, in order."""
        self.runs = 0
        """Pods that are on nodes."""
        self.known = 0
        """Those whose run time is known, other than pods that request nothing."""
        self._counts: dict[Micros, int] = {}
        self._rows: list[dict[Task, _KnownEnd]] = [{} for _ in range(shape[1])]
        self._next: IntColumn = np.full(shape[1], FOREVER, dtype=np.int64)
        """When each node is to be read again though nothing changes."""
        self._jobs: dict[Job, tuple[object, ...]] = {}
        """What jobs of several pods say of their run times."""
        self._changed, self._changed_jobs = state.nodes.changed.end, state.changed_jobs.end
        for row in range(shape[1]):
            self._read(row, few=False)
        self.moments = sorted(self._counts)

    def sync(self, runtimes: Runtimes, shape: tuple[int, int], now: Micros) -> bool:
        """Bring it up to date; False if it must be made anew."""
        state = self._state
        rows, jobs = state.nodes.changed.since(self._changed), state.changed_jobs.since(self._changed_jobs)
        if rows is None or jobs is None or now < self._now or self._basis != (shape, runtimes.basis()):
            return False
        if len(self.ends) > 2 * self.runs + MANY:
            return False  # mostly of runs that are gone
        self._runtimes = runtimes
        self._changed, self._changed_jobs = state.nodes.changed.end, state.changed_jobs.end
        self._now, passed = now, now != self._now
        stale = {row for row in rows if row < shape[1]}
        few = len(stale) <= MANY
        for job in dict.fromkeys(jobs):
            if self._says_otherwise(job):
                for task in job.tasks:
                    if task.node != NOWHERE:
                        self._drop(task.node, task, few=few)
                        stale.add(task.node)
        if passed:
            stale.update(np.flatnonzero(self._next <= now).tolist())
        for row in stale:
            self._read(row, few=few)
        if not few:
            self.moments = sorted(self._counts)
        return True

    def ends_at(self, moment: Micros) -> bool:
        """Whether something ends just then."""
        return moment in self._counts

    def _says_otherwise(self, job: Job) -> bool:
        """Whether runs of a job may end at other times than before. A pod alone is read again with its node."""
        if job not in self._jobs:
            return job.alone
        if job.tasks and self._jobs[job] == _said(job):
            return False
        del self._jobs[job]
        return True

    def _read(self, row: int, *, few: bool) -> None:
        """Look at the runs of a node that came, went, or are to be read again by now. A changed one is another task."""
        tasks, runs = self._state.nodes.tasks[row], self._rows[row]
        if runs:
            here = set(tasks)
            now = self._now
            for task, run in [*runs.items()]:
                if task not in here or run.again <= now:
                    self._drop(row, task, few=few)
        for task in tasks:
            if task not in runs:
                self._put(row, task, few=few)
        self._next[row] = min([run.again for run in runs.values()], default=FOREVER)

    def _drop(self, row: int, task: Task, *, few: bool) -> None:
        run = self._rows[row].pop(task, None)
        if run is None:
            return
        self.runs -= 1
        self.known -= run.known
        self.unknown[row] -= run.unknown
        self.estimated[row] -= run.estimated
        if run.end is not None:
            self.ends.take_back([run.number])
            if run.unsure is not None:
                self.unsure.take_back([run.unsure])
            self._counts[run.end] -= 1
            if not self._counts[run.end]:
                del self._counts[run.end]
                if few:
                    del self.moments[bisect_left(self.moments, run.end)]

    def _put(self, row: int, task: Task, *, few: bool) -> None:
        run = self._run(row, task)
        if run is None:
            return
        self._rows[row][task] = run
        self.runs += 1
        self.known += run.known
        self.unknown[row] += run.unknown
        self.estimated[row] += run.estimated
        if run.end is not None:
            self._count(run.end, few=few)
        if not task.job.alone and task.job not in self._jobs:
            self._jobs[task.job] = _said(task.job)

    def _run(self, row: int, task: Task) -> _KnownEnd | None:
        """None of a task that takes no capacity on its node yet."""
        now, state = self._now, task.state
        if state is TaskState.RELEASING:
            return _KnownEnd(_ALWAYS, now, self.ends.put(now, row, task.shape.vector))
        if state not in ON_NODE or state is TaskState.ALLOCATED:
            return None
        runtime = self._runtimes.of(task)
        if runtime is None:
            return _KnownEnd(FOREVER, unknown=not stays(self._state, task))
        known = not task.shape.best_effort
        began = now if task.started is None else task.started
        end = runtime.end(began, now)
        if end > now + HORIZON:
            return _KnownEnd(_ALWAYS, estimated=runtime.estimated, known=known)
        vector = task.shape.vector
        again = _ALWAYS if task.started is None else end
        unsure = None if runtime.is_sure_at(began, end) else self.unsure.put(end, row, vector)
        number = self.ends.put(end, row, vector)
        return _KnownEnd(again, end, number, unsure, estimated=runtime.estimated, known=known)

    def _count(self, moment: Micros, *, few: bool) -> None:
        count = self._counts.get(moment, 0)
        self._counts[moment] = count + 1
        if few and not count:
            insort(self.moments, moment)


def _said(job: Job) -> tuple[object, ...]:
    """What a job says that counts for the run times of all its pods."""
    return job.queue, job.overrun, job.annotations


class _KeptEnds:
    """The run ends of one state: for one policy at a time."""

    def __init__(self) -> None:
        self.ends: RunEnds | None = None


def run_ends(state: ClusterState, runtimes: Runtimes, shape: tuple[int, int], now: Micros) -> RunEnds:
    """The state's own, up to date; `shape` counts its resources and nodes."""
    kept = state.derived.of(_KeptEnds, _KeptEnds)
    if kept.ends is None or not kept.ends.sync(runtimes, shape, now):
        kept.ends = RunEnds(state, runtimes, shape, now)
    return kept.ends
