"""Units of eviction: a surplus pod, or a whole gang.

A job keeps its minimum or loses everything: pods above the minimum (and above their role's) can be evicted one by one,
the rest only together, and when it goes the surplus goes along (its `surplus_units`).

All units of the cluster as columns, kept true from cycle to cycle: only jobs that changed are taken apart again.

An *entry* is what one unit has on one node. Columns of entries and of units are what `choice` computes with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fairway.clock import SECOND, Micros
from fairway.devices.track.ledger import device_ledger
from fairway.devices.track.node import NodeDevices
from fairway.devices.track.occupancy import counts
from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.framework.unevictable import is_system
from fairway.state.annotations import LAST_CHECKPOINT, is_never_evicted, parse_checkpoint
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, same
from fairway.state.eviction_records import controller_of
from fairway.state.jobs import READY, Job, Task, TaskState
from fairway.state.nodes import NameRanks
from fairway.state.queues import Amounts, add
from fairway.state.tables import PODS

EVICTABLE = frozenset({TaskState.BOUND, TaskState.RUNNING})


class Unit:
    """Pods that are evicted together.

    `started` is the latest start among them, `youngest` the latest with the surplus units. `grade` orders units by
    priority, and at equal priority all surplus pods before any whole gang. The key orders by the job's name.
    """

    __slots__ = (
        "amounts",
        "cooled",
        "grade",
        "job",
        "key",
        "number",
        "priority",
        "protected",
        "started",
        "surplus",
        "surplus_units",
        "system",
        "tasks",
        "youngest",
    )

    def __init__(self, job: Job, tasks: list[Task], *, surplus: bool, surplus_units: tuple[Unit, ...] = ()) -> None:
        starts = [start_of(task) for task in tasks]
        self.job = job
        self.tasks = tasks
        self.surplus = surplus
        self.surplus_units = surplus_units
        self.number = -1
        """Its number in the index."""
        self.key = f"{job.key}\0{tasks[0].key}" if surplus else f"{job.key}\1{job.alone}"
        self.priority = job.priority
        self.grade = 2 * self.priority + (not surplus)
        self.started: Micros = max(starts)
        self.youngest: Micros = max([*starts, *(mate.youngest for mate in surplus_units)])
        self.cooled: Micros = max([*map(_cooled, tasks), *(mate.cooled for mate in surplus_units)])
        """Until when the cooldown time of one of them, or of the surplus_units, protects it; 0 if none has any."""
        self.protected: bool = is_never_evicted(job.annotations) or any(
            not task.traits.preemptable or task.state not in EVICTABLE for task in tasks
        )
        self.system: bool = any(is_system(task) for task in tasks) or any(mate.system for mate in surplus_units)
        self.amounts: Amounts = []
        for task in tasks:
            add(self.amounts, task.shape.vector)

    def __repr__(self) -> str:
        return f"<Unit {self.job.key} {','.join(task.key for task in self.tasks)}>"


class Taken:
    """Units chosen for one claimant, in the order of their choice, and what they have by queue, namespace and job."""

    def __init__(self, more: Callable[[Task], Vector] | None = None) -> None:
        """`more` tells what a pod has besides what it requests by name."""
        self._more = more
        self._of_job: dict[Job, Amounts] = {}
        self._of_queue: dict[str, Amounts] = {}
        self._of_namespace: dict[str, Amounts] = {}
        self._in_queue: dict[str, int] = {}
        """How many of the units are of each queue."""
        self.units: dict[Unit, None] = {}
        self.pods = 0

    def add(self, unit: Unit) -> None:
        self.units[unit] = None
        self._count(unit, 1)

    def remove(self, unit: Unit) -> None:
        del self.units[unit]
        self._count(unit, -1)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self.units

    def held_by(self, unit: Unit) -> Amounts:
        if self._more is None:
            return unit.amounts
        held = unit.amounts.copy()
        for task in unit.tasks:
            add(held, self._more(task))
        return held

    def of_job(self, job: Job) -> Amounts:
        return self._of_job.get(job, [])

    def of_queue(self, name: str) -> Amounts:
        return self._of_queue.get(name, [])

    def of_namespace(self, name: str) -> Amounts:
        return self._of_namespace.get(name, [])

    def queues(self) -> list[str]:
        """Of which something is taken."""
        return [name for name, units in self._in_queue.items() if units]

    def _count(self, unit: Unit, by: int) -> None:
        self.pods += by * len(unit.tasks)
        job, held = unit.job, self.held_by(unit)
        self._in_queue[job.queue] = self._in_queue.get(job.queue, 0) + by
        _add_all(self._of_job.setdefault(job, []), held, by)
        _add_all(self._of_queue.setdefault(job.queue, []), held, by)
        _add_all(self._of_namespace.setdefault(job.namespace, []), held, by)


def _add_all(amounts: Amounts, more: Amounts, by: int) -> None:
    if len(amounts) < len(more):
        amounts.extend([0] * (len(more) - len(amounts)))
    for row, amount in enumerate(more):
        amounts[row] += by * amount


def with_surplus_units(units: Iterable[Unit]) -> dict[Unit, None]:
    """The units and all that have to go along, surplus_units before their gang."""
    found: dict[Unit, None] = {}
    for unit in units:
        for going in unit.surplus_units:
            found[going] = None
        found[unit] = None
    return found


def start_of(task: Task) -> Micros:
    if task.started is not None:
        return task.started
    return 0 if task.created is None else task.created


def saved_at(task: Task) -> Micros:
    """Since when its work would be lost: its start, or the last checkpoint that it or its group states."""
    since = start_of(task)
    for notes in (task.source.metadata.annotations, task.job.annotations):
        text = notes.get(LAST_CHECKPOINT) if notes else None
        if text is not None:
            since = max(since, parse_checkpoint(text) or 0)
    return since


def _cooled(task: Task) -> Micros:
    return start_of(task) + task.traits.cooldown if task.traits.cooldown else 0


def units_of(job: Job) -> list[Unit]:
    """How a job can be taken apart, in the order in which it would be."""
    placed = [task for task in job.tasks if task.state in READY and task.state is not TaskState.SUCCEEDED]
    if not any(task.state in EVICTABLE for task in placed):
        return []
    surplus = _surplus(job, placed)
    spare = set(surplus)
    rest = [task for task in placed if task not in spare]
    units = [Unit(job, [task], surplus=True) for task in surplus]
    return [*units, Unit(job, rest, surplus=False, surplus_units=tuple(units))] if rest else units


def _surplus(job: Job, placed: list[Task]) -> list[Task]:
    """Pods above the minimum, those with the least time to lose. Protected ones make up the minimum first, as far as
    they go.
    """
    spare = job.ready - job.minimum
    if spare <= 0 or job.evict_whole:
        return []
    least = dict(job.role_minimums)
    have = job.ready_by_role()
    chosen: list[Task] = []
    for task in sorted(placed, key=lambda task: (task.priority, -saved_at(task), -start_of(task), task.key)):
        role = task.traits.role
        if len(chosen) == spare:
            break
        if task.state in EVICTABLE and task.traits.preemptable and have[role] > least.get(role, 0):
            have[role] -= 1
            chosen.append(task)
    return chosen


_UNIT_COLUMNS = (
    *("priority", "started", "grade", "youngest", "cooled", "pods", "queue", "namespace", "kind", "load", "rank"),
    *("usable", "system", "surplus"),
)


_BILLION = 1_000_000_000


class VictimIndex(
    DerivedValue,
    name="victims",
    holds="units of pods that are evicted together, their amounts by node, and their sort keys",
    inputs=("jobs", "devices"),
    saves="grouping the pods of every running job into units",
):
    """Units and entries by number; freed numbers are used again."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.changed_jobs)
        self._state = state
        self._devices = device_ledger(state)
        self._device_generation = self._devices.generation
        self._device_nodes: dict[int, NodeDevices] = {}
        """The devices of each row, as they were when units were taken apart last."""
        self._of_job: dict[Job, list[int]] = {}
        self._lone_jobs: dict[str, dict[Job, None]] = {}
        """Lone pods, by the uid of their controller."""
        self._owner_of: dict[Job, str] = {}
        self._entries_of: dict[int, list[int]] = {}
        self._free_units: list[int] = []
        self._free_entries: list[int] = []
        self._entries = 0
        self._codes: dict[Hashable, int] = {}
        self._ranks = NameRanks()
        self._rank_epoch = 0
        self._sorted: IntColumn | None = None
        self._measured: tuple[Micros, Sequence[int]] | None = None
        """The time, and the cluster's total, that `work` was computed for; None if units have changed since."""
        self.units: list[Unit | None] = []
        self.priority = _column()
        self.started = _column()
        self.youngest = _column()
        self.cooled = _column()
        self.grade = _column()
        self.pods = _column()
        self.queue = _column()
        self.namespace = _column()
        self.kind = _column()
        """Units of one kind are of one queue, namespace and priority, and have the same."""
        self.load = _column()
        """Units of one load are of one queue, and have the same."""
        self.rank = _column()
        self.usable = np.zeros(0, dtype=np.bool_)
        self.system = np.zeros(0, dtype=np.bool_)
        self.surplus = np.zeros(0, dtype=np.bool_)
        self.work = _column()
        """What a unit's eviction loses: billionths of the cluster, times seconds. See `measure`."""
        self._sizes: list[Vector] = []
        self._size_codes: dict[Vector, int] = {}
        self._runs_of: dict[int, list[int]] = {}
        self._free_runs: list[int] = []
        self._runs = 0
        self._run_unit = _column()
        self._run_size = _column()
        self._run_since = _column()
        self._run_alive = np.zeros(0, dtype=np.bool_)
        self.entry_row = _column()
        self.entry_unit = _column()
        self.entry_alive = np.zeros(0, dtype=np.bool_)
        self.entry_amounts: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)

    @classmethod
    def make(cls, state: ClusterState) -> VictimIndex:
        return cls(state)

    def sync(self) -> None:
        """Take the jobs apart that have changed since the last time."""
        if self._devices_changed():
            self._device_generation = self._devices.generation
            self._device_nodes = dict(self._devices.nodes)
            self.stale()
        self._grow_dimensions()
        super().sync()

    def rebuild(self) -> None:
        self._take_apart(dict.fromkeys([*self._of_job, *(job for job in self._state.jobs() if job.ready)]))

    def update(self, jobs: list[Job]) -> None:
        self._take_apart(dict.fromkeys(jobs))

    def check(self) -> None:
        self.sync()
        fresh = VictimIndex(self._state)
        fresh.sync()
        same("what may be evicted together", self._contents(), fresh._contents())

    def _contents(self) -> dict[str, list[object]]:
        """By unit, whatever its number is: what it is sorted by, and what it has on nodes."""
        found: dict[str, list[object]] = {}
        names = {code: name for name, code in self._codes.items()}
        for jobs_units in self._of_job.values():
            for number in jobs_units:
                unit = self.units[number]
                assert unit is not None
                coded = [names[int(column[number])] for column in (self.queue, self.namespace, self.kind, self.load)]
                plain = [
                    column[number].item()
                    for column in (self.priority, self.started, self.grade, self.youngest, self.cooled, self.pods)
                ]
                flags = [bool(column[number]) for column in (self.usable, self.system, self.surplus)]
                entries = sorted(
                    (int(self.entry_row[entry]), self.entry_amounts[:, entry].tolist())
                    for entry in self._entries_of.get(number, ())
                )
                found.setdefault(unit.key, []).append((coded, plain, flags, entries))
        return {key: sorted(units, key=repr) for key, units in found.items()}

    def _devices_changed(self) -> bool:
        """Whether the same pods may have other amounts now: a class selects others, or a node has others."""
        if self._device_generation != self._devices.generation:
            return True
        now, before = self._devices.nodes, self._device_nodes
        return len(now) != len(before) or any(before.get(row) is not node for row, node in now.items())

    def _take_apart(self, jobs: Iterable[Job]) -> None:
        gone: list[str] = []
        fresh: list[tuple[int, Unit]] = []
        for job in jobs:
            gone += self._remove(job)
            fresh += self._add(job)
        if gone or fresh:
            self._sorted = self._measured = None
        for key in gone:
            self._ranks.remove(key)
        if fresh:
            self._ranks.add([unit.key for _, unit in fresh])
        if self._ranks.epoch != self._rank_epoch:
            self._rank_epoch = self._ranks.epoch
            for number, unit in enumerate(self.units):
                if unit is not None:
                    self.rank[number] = self._ranks[unit.key]
        for number, unit in fresh:
            self.rank[number] = self._ranks[unit.key]

    @property
    def codes(self) -> int:
        """How many names have a number."""
        return len(self._codes)

    def code(self, name: Hashable) -> int:
        """A number for the name of a queue or namespace, or for a kind."""
        return self._codes.setdefault(name, len(self._codes))

    def unit(self, number: int) -> Unit:
        unit = self.units[number]
        assert unit is not None
        return unit

    def of_job(self, job: Job) -> list[int]:
        return self._of_job.get(job, [])

    def lone_jobs_of(self, controller: str) -> list[Job]:
        """The lone pods of one controller, by its uid."""
        return list(self._lone_jobs.get(controller, ()))

    def measure(self, now: Micros, total: Sequence[int]) -> None:
        """Compute the work that each unit would lose now: for each pod the largest part that it has of any resource of
        the cluster, in billionths and rounded down, times the whole seconds since its start or its last checkpoint.
        """
        if self._measured is not None and self._measured == (now, total):
            return
        self._measured, self._sorted = (now, list(total)), None
        parts = np.array([_largest_part(size, total) for size in self._sizes], dtype=np.int64)
        runs = np.flatnonzero(self._run_alive)
        seconds = np.maximum(now - self._run_since[runs], 0) // SECOND
        self.work = np.zeros(len(self.priority), dtype=np.int64)
        if len(runs):
            np.add.at(self.work, self._run_unit[runs], parts[self._run_size[runs]] * seconds)

    def order_of(self, unit: Unit) -> tuple[int, int, int, str]:
        """Which goes first: the least important, surplus pods before gangs, the least work lost, then the latest to
        start, then by name.
        """
        return unit.grade, int(self.work[unit.number]), -unit.started, unit.key

    def in_order(self, lead: IntColumn | None = None) -> IntColumn:
        """All living entries: by node, and on a node in the order in which units go. `lead` comes first, if given."""
        if self._sorted is None:
            entries = np.flatnonzero(self.entry_alive)
            units = self.entry_unit[entries]
            keys = (
                *(self.rank[units], -self.started[units], self.work[units], self.grade[units]),
                self.entry_row[entries],
            )
            self._sorted = entries[np.lexsort(keys)]
        if lead is None:
            return self._sorted
        return self._sorted[np.lexsort((lead[self.entry_unit[self._sorted]], self.entry_row[self._sorted]))]

    def amounts(self, row: int) -> IntColumn:
        """What each unit has of a resource, on all nodes."""
        alive = np.flatnonzero(self.entry_alive)
        amounts = np.zeros(len(self.units), dtype=np.int64)
        np.add.at(amounts, self.entry_unit[alive], self.entry_amounts[row, alive])
        return amounts

    def total_of(self, units: BoolColumn) -> list[int]:
        """What these units have together, by resource."""
        alive = np.flatnonzero(self.entry_alive)
        chosen = alive[units[self.entry_unit[alive]]]
        total: list[int] = self.entry_amounts[:, chosen].sum(axis=1).tolist()
        return total

    def sizes(self, rows: Iterable[int], total: Sequence[int]) -> IntColumn:
        """The largest part of the cluster that each unit has of one of these resources, in millionths."""
        largest = np.zeros(len(self.units), dtype=np.int64)
        for row in rows:
            whole = max(1, total[row])
            parts = [amount * 1_000_000 // whole for amount in self.amounts(row).tolist()]
            np.maximum(largest, np.array(parts, dtype=np.int64), out=largest)
        return largest

    def _remove(self, job: Job) -> list[str]:
        keys = []
        if job.alone:
            self._forget_owner(job)
        for number in self._of_job.pop(job, ()):
            unit = self.units[number]
            assert unit is not None
            keys.append(unit.key)
            self.units[number] = None
            self.usable[number] = False
            self._free_units.append(number)
            for entry in self._entries_of.pop(number):
                self.entry_alive[entry] = False
                self._free_entries.append(entry)
            for run in self._runs_of.pop(number):
                self._run_alive[run] = False
                self._free_runs.append(run)
        return keys

    def _forget_owner(self, job: Job) -> None:
        uid = self._owner_of.pop(job, "")
        if uid:
            del self._lone_jobs[uid][job]
            if not self._lone_jobs[uid]:
                del self._lone_jobs[uid]

    def _add(self, job: Job) -> list[tuple[int, Unit]]:
        if not job.ready or not job.tasks or self._state.tasks.get(job.tasks[0].key) is not job.tasks[0]:
            return []
        added = []
        for unit in units_of(job):
            number = self._new_unit()
            self.units[number], unit.number = unit, number
            self.priority[number] = unit.priority
            self.started[number] = unit.started
            self.youngest[number] = unit.youngest
            self.cooled[number] = unit.cooled
            self.grade[number] = unit.grade
            self.pods[number] = len(unit.tasks)
            self.queue[number] = self.code(job.queue)
            self.namespace[number] = self.code(job.namespace)
            held = tuple(unit.amounts), self._devices_of(unit)
            self.kind[number] = self.code((job.queue, job.namespace, job.priority, held))
            self.load[number] = self.code((job.queue, held))
            self.usable[number] = not unit.protected
            self.system[number] = unit.system
            self.surplus[number] = unit.surplus
            self._entries_of[number] = self._add_entries(number, unit)
            self._runs_of[number] = [self._add_run(number, task) for task in unit.tasks]
            added.append((number, unit))
        if added:
            self._of_job[job] = [number for number, _ in added]
            if job.alone and (owner := controller_of(job.tasks[0].source.metadata)) is not None:
                self._lone_jobs.setdefault(owner.uid, {})[job] = None
                self._owner_of[job] = owner.uid
        return added

    def _devices_of(self, unit: Unit) -> tuple[tuple[int, int], ...]:
        """What the devices of a unit count for."""
        found: dict[int, int] = {}
        for task in unit.tasks if self._devices.enabled else ():
            for place, amount in self._devices_of_pod(task):
                found[place] = found.get(place, 0) + amount
        return tuple(sorted(found.items()))

    def _devices_of_pod(self, task: Task) -> Vector:
        node = self._devices.nodes.get(task.node) if self._devices.enabled else None
        if node is None:
            return ()
        allocations = [allocation for allocation in node.allocations if allocation.holder == task.key]
        return tuple(sorted(counts(self._devices.axis, node, allocations).items()))

    def _add_entries(self, number: int, unit: Unit) -> list[int]:
        by_row: dict[int, int] = {}
        for task in unit.tasks:
            entry = by_row.get(task.node)
            if entry is None:
                entry = by_row[task.node] = self._new_entry()
                self.entry_row[entry] = task.node
                self.entry_unit[entry] = number
                self.entry_alive[entry] = True
                self.entry_amounts[:, entry] = 0
            for dimension, amount in (*task.shape.vector, *self._devices.freed(task)):
                self.entry_amounts[dimension, entry] += amount
        return list(by_row.values())

    def _add_run(self, number: int, task: Task) -> int:
        """What a pod has, and since when its work would be lost."""
        run = self._new_run()
        self._run_unit[run] = number
        self._run_since[run] = saved_at(task)
        self._run_alive[run] = True
        size = (*task.shape.vector, *self._devices_of_pod(task))
        code = self._size_codes.get(size)
        if code is None:
            code = self._size_codes[size] = len(self._sizes)
            self._sizes.append(size)
        self._run_size[run] = code
        return run

    def _new_run(self) -> int:
        if self._free_runs:
            return self._free_runs.pop()
        self._runs += 1
        if self._runs > len(self._run_unit):
            for name in ("_run_unit", "_run_size", "_run_since", "_run_alive"):
                setattr(self, name, _grown(getattr(self, name)))
        return self._runs - 1

    def _new_unit(self) -> int:
        if self._free_units:
            return self._free_units.pop()
        self.units.append(None)
        if len(self.units) > len(self.priority):
            for name in _UNIT_COLUMNS:
                setattr(self, name, _grown(getattr(self, name)))
        return len(self.units) - 1

    def _new_entry(self) -> int:
        if self._free_entries:
            return self._free_entries.pop()
        number = self._entries
        self._entries += 1
        if number >= len(self.entry_row):
            self.entry_row, self.entry_unit = _grown(self.entry_row), _grown(self.entry_unit)
            self.entry_alive = _grown(self.entry_alive)
            wider = np.zeros((len(self._state.axis), len(self.entry_row)), dtype=np.int64)
            wider[: self.entry_amounts.shape[0], : self.entry_amounts.shape[1]] = self.entry_amounts
            self.entry_amounts = wider
        return number

    def _grow_dimensions(self) -> None:
        rows, columns = self.entry_amounts.shape
        if rows < len(self._state.axis):
            taller = np.zeros((len(self._state.axis), columns), dtype=np.int64)
            taller[:rows] = self.entry_amounts
            self.entry_amounts = taller


def _largest_part(size: Vector, total: Sequence[int]) -> int:
    parts = [amount * _BILLION // total[row] for row, amount in size if row != PODS and total[row] > 0]
    return max(parts, default=0)


def victim_index(state: ClusterState) -> VictimIndex:
    """The state's own index, up to date."""
    index = state.derived.get(VictimIndex)
    index.sync()
    return index


def _column() -> IntColumn:
    return np.zeros(0, dtype=np.int64)


def _grown(column: NDArray) -> NDArray:  # type: ignore[type-arg]
    grown = np.zeros(max(16, 2 * len(column)), dtype=column.dtype)
    grown[: len(column)] = column
    return grown
