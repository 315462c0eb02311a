"""Changes of free capacity that are still to come: how much more, or less, each node will have than it has now.

When what runs will end, by node: kept from cycle to cycle, and read again for the nodes where something changed.

What a node's runs will give back depends on the pods there, on what their jobs say, and on the policy's estimates; it
changes with the time only where an end that was expected has passed without one. `sync` looks at nodes of which one of
these changed. Pods that are being deleted, that have not begun, or whose time is up are looked at in each cycle.

Whether anything is known about run times: without, `easy` and `conservative` can plan nothing (spec S8.6).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.api.arguments import AllocateArguments, BackfillArguments, ScaledEstimate
from fairway.api.policy import Policy
from fairway.clock import SECOND, Micros
from fairway.resources.columns import IntColumn, Vector
from fairway.scheduler.backfill.runtimes import Runtimes
from fairway.scheduler.framework.session import Session
from fairway.scheduler.framework.unevictable import is_system
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, Generations, same
from fairway.state.jobs import FINISHED, NOWHERE, ON_NODE, Job, Task, TaskState

AmountsOverTime = NDArray[np.int64]
"""Amounts by (moment, resource, node)."""

_NOTHING = 0
"""The kind of a change that was taken back."""


class Gains:
    """Changes of free capacity, each at a moment, on a node, by a vector, for an owner."""

    def __init__(self, dimensions: int, size: int) -> None:
        self._shape = (dimensions, size)
        self._columns = tuple(array("q") for _ in range(4))
        """Of every change: moment, node, kind and owner."""
        self._kinds: dict[tuple[Vector, int], int] = {((), 0): _NOTHING}
        """The vectors, and whether they are more or less."""
        self._alive = 0
        self._amounts: list[tuple[int, NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return len(self._columns[0])

    def __bool__(self) -> bool:
        """Whether there is any change that was not taken back."""
        return self._alive > 0

    def add(self, moment: Micros, row: int, vector: Vector, sign: int = 1, owner: int = 0) -> None:
        """From this moment on there is as much more (sign 1) or less (sign -1)."""
        moments, rows, kinds, owners = self._columns
        key = (vector, sign)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kinds)
            self._amounts = None
        moments.append(moment)
        rows.append(row)
        kinds.append(kind)
        owners.append(owner)
        self._alive += 1

    def take_back(self, changes: Iterable[int]) -> None:
        """These changes, by the order in which they were added, do not happen."""
        kinds = self._columns[2]
        for change in changes:
            self._alive -= kinds[change] != _NOTHING
            kinds[change] = _NOTHING

    def owner(self, change: int) -> int:
        return self._columns[3][change]

    def at(self, moments: Sequence[Micros], before: int | None = None) -> AmountsOverTime:
        """What all changes up to each of these moments (ascending) come to; of owners below `before` only, if given."""
        rooms = np.zeros((len(moments), *self._shape), dtype=np.int64)
        if not self._alive:
            return rooms
        changed, rows, kinds, owners = (np.frombuffer(column, dtype=np.int64) for column in self._columns)
        place = np.searchsorted(np.array(moments, dtype=np.int64), changed)
        seen = place < len(moments)
        if before is not None:
            seen &= owners < before
        place, rows, kinds = place[seen], rows[seen], kinds[seen]
        for dimension, amounts in self._by_dimension():
            np.add.at(rooms[:, dimension], (place, rows), amounts[kinds])
        return rooms.cumsum(axis=0, out=rooms)

    def _by_dimension(self) -> list[tuple[int, NDArray[np.int64]]]:
        """By resource: how much each kind of change is."""
        if self._amounts is None:
            amounts: dict[int, NDArray[np.int64]] = {}
            for (vector, sign), kind in self._kinds.items():
                for dimension, amount in vector:
                    amounts.setdefault(dimension, np.zeros(len(self._kinds), dtype=np.int64))[kind] = sign * amount
            self._amounts = list(amounts.items())
        return self._amounts


KEPT = 32
"""Moments whose amounts are kept; those that were asked for longest ago go."""


class KeptGains(Gains):
    """Changes that are kept for long and asked for again and again: what they come to at moments that were asked for
    is changed with them.
    """

    def __init__(self, dimensions: int, size: int) -> None:
        super().__init__(dimensions, size)
        self._at: dict[Micros, NDArray[np.int64]] = {}

    def put(self, moment: Micros, row: int, vector: Vector) -> int:
        """Add a change; returns its number."""
        self.add(moment, row, vector)
        self._change(moment, row, vector, 1)
        return len(self) - 1

    def take_back(self, changes: Iterable[int]) -> None:
        if self._at:
            moments, rows, kinds, _ = self._columns
            vectors = [*self._kinds]
            for change in changes:
                vector, sign = vectors[kinds[change]]
                self._change(moments[change], rows[change], vector, -sign)
        super().take_back(changes)

    def _change(self, moment: Micros, row: int, vector: Vector, sign: int) -> None:
        for known, amounts in self._at.items():
            if moment <= known:
                for dimension, amount in vector:
                    amounts[dimension, row] += sign * amount

    def known_moments(self) -> list[Micros]:
        """The moments that cost nothing to ask for, in order."""
        return sorted(self._at)

    def at(self, moments: Sequence[Micros], before: int | None = None) -> AmountsOverTime:
        """As in `Gains`; what it returns for a single moment is not to be written on, and changes with the next
        change."""
        if len(moments) != 1:
            return super().at(moments, before)
        (moment,) = moments
        amounts = self._at.pop(moment, None)
        if amounts is None:
            amounts = super().at(moments)[0]
            if len(self._at) >= KEPT:
                del self._at[next(iter(self._at))]
        self._at[moment] = amounts
        return amounts[np.newaxis]


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


class RunEnds(
    DerivedValue,
    name="run-ends",
    holds="the expected end of each running pod, by node",
    inputs=("nodes", "jobs", "policy", "priorities", "past runs", "time"),
    saves="estimating the run time of every running pod",
):
    """The ends of all that runs, as one policy estimates them."""

    _runtimes: Runtimes

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.nodes.changed, state.changed_jobs)
        self._state = state
        self._shape = (0, 0)
        self._now: Micros = 0
        self._last: Micros = 0
        """The time of the cycle before."""
        self._clear()

    @classmethod
    def make(cls, state: ClusterState) -> RunEnds:
        return cls(state)

    def at(self, runtimes: Runtimes, shape: tuple[int, int], now: Micros) -> RunEnds:
        """As a policy sees it at a time; `shape` counts resources and nodes."""
        self._runtimes, self._shape = runtimes, shape
        self._last, self._now = self._now, now
        if now < self._last or len(self.ends) > 2 * self.runs + MANY:
            self.stale()  # it cannot go back, and is not to be mostly of runs that are gone
        self.sync()
        return self

    def generations(self) -> Generations:
        return self._shape, self._runtimes.basis()

    def sync(self) -> None:
        super().sync()
        if self._now != self._last:
            self._pass_time()

    def rebuild(self) -> None:
        self._clear()
        self._last = self._now
        for row in range(self._shape[1]):
            self._read_node(row, few=False)
        self.moments = sorted(self._counts)

    def update(self, rows: list[int], jobs: list[Job]) -> None:
        stale = {row for row in rows if row < self._shape[1]}
        few = len(stale) <= MANY
        for job in dict.fromkeys(jobs):
            if self._says_otherwise(job):
                for task in job.tasks:
                    if task.node != NOWHERE:
                        self._drop(task.node, task, few=few)
                        stale.add(task.node)
        self._read_nodes(stale, few=few)

    def _pass_time(self) -> None:
        """Ends that were expected may have passed without one."""
        self._last = self._now
        due = np.flatnonzero(self._next <= self._now).tolist()
        self._read_nodes(due, few=len(due) <= MANY)

    def _read_nodes(self, rows: Collection[int], *, few: bool) -> None:
        for row in rows:
            self._read_node(row, few=few)
        if not few:
            self.moments = sorted(self._counts)

    def check(self) -> None:
        if not self._shape[1]:
            return  # no cycle has planned starts yet
        fresh, nodes = RunEnds(self._state), self._state.nodes
        self._shape = len(nodes.axis), len(nodes.names)  # nodes may have come since the last cycle
        self.sync()
        fresh.at(self._runtimes, self._shape, self._now)
        for name in ("moments", "runs", "known"):
            same(f"run ends: {name}", getattr(self, name), getattr(fresh, name))
        for name in ("unknown", "estimated"):
            same(f"run ends: {name}", getattr(self, name).tolist(), getattr(fresh, name).tolist())

    def _clear(self) -> None:
        shape = self._shape
        self.ends = KeptGains(*shape)
        self.unsure = KeptGains(*shape)
        """Those of them that are not sure."""
        self.unknown: IntColumn = np.zeros(shape[1], dtype=np.int64)
        """By node: runs of which no end is known, so that the node gives no planned start."""
        self.estimated: IntColumn = np.zeros(shape[1], dtype=np.int64)
        """By node: runs whose time is an estimate."""
        self.moments = list[Micros]()
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

    def _read_node(self, row: int, *, few: bool) -> None:
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


def run_ends(state: ClusterState, runtimes: Runtimes, shape: tuple[int, int], now: Micros) -> RunEnds:
    """The state's own, up to date; `shape` counts its resources and nodes."""
    return state.derived.get(RunEnds).at(runtimes, shape, now)


NO_RUN_TIMES = (
    "backfill {mode}: {what} has a run time, so nothing can be planned and jobs start wherever they fit; set "
    "activeDeadlineSeconds or the annotation fairway.dev/expected-runtime"
)


def backfill_warnings(policy: Policy) -> Iterator[str]:
    """What the author of a policy should know of its backfill: it depends on workloads that nothing is known of yet."""
    action, allocate = policy.action("backfill"), policy.action("allocate")
    arguments = None if action is None else action.arguments
    if not isinstance(arguments, BackfillArguments):
        return
    mode = arguments.mode
    if arguments.needs_run_times:
        yield (
            f"backfill {mode}: it plans only by run times; where no job has activeDeadlineSeconds or the annotation "
            "fairway.dev/expected-runtime, jobs start wherever they fit"
        )
    if arguments.estimate == "clairvoyant" or isinstance(arguments.estimate, ScaledEstimate):
        yield "backfill: the estimates clairvoyant and scale are for simulations; a real cluster has no true run times"
    if arguments.keep_head and mode != "easy":
        yield f"backfill: keepHead has no effect with mode {mode}"
    given = None if allocate is None else allocate.arguments
    if isinstance(given, AllocateArguments) and given.blocked == "wait" and arguments.needs_run_times:
        yield f"backfill {mode}: with `blocked: wait` of allocate no job overtakes one that cannot start"


def without_run_times(session: Session) -> str:
    """A warning, if the policy plans by run times and no pod that waits or runs has one; else nothing."""
    arguments, state = session.policy.backfill, session.state
    if arguments is None or not arguments.needs_run_times:
        return ""
    runtimes = Runtimes(state, arguments)
    if run_ends(state, runtimes, session.nodes.snapshot.idle.shape, session.now).known:
        return ""
    tasks = [task for task in state.tasks.values() if task.state not in FINISHED and not task.shape.best_effort]
    if not tasks or any(runtimes.of(task) is not None for task in tasks):
        return ""
    return NO_RUN_TIMES.format(mode=arguments.mode, what="no pod")
