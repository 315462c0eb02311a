"""The nodes: amounts as (resource, node) tables, and the labels, taints and conditions that pods are matched with.

A node keeps its row as long as it, or a task on it, exists. The row of a node that was deleted, or that a pod names
before the node is seen, is a *ghost*: it has the amounts of its tasks but offers no capacity. Rows are reused.

Two logs tell derived values which rows changed: `changed` has rows whose amounts moved, `reshaped` rows whose labels,
taints, readiness or size changed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fairway.api.core import Node
from fairway.api.pods import Taint
from fairway.resources.algebra import Resource
from fairway.resources.columns import Axis, Table, Vector
from fairway.state.derived import Log
from fairway.state.jobs import Task
from fairway.state.labels import LabelColumns
from fairway.state.shapes import HostPort

RANK_BITS = 24
_TOP = 1 << RANK_BITS


class NameRanks:
    """A rank in [0, 2**RANK_BITS) for each name, in string order."""

    def __init__(self) -> None:
        self.epoch = 0
        self._names: list[str] = []
        self._ranks: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        return self._ranks[name]

    def __contains__(self, name: str) -> bool:
        return name in self._ranks

    def add(self, names: list[str]) -> None:
        """Add new names. Many at once are cheaper to renumber than to squeeze in."""
        if 4 * len(names) > len(self._names):
            self._names = sorted([*self._names, *names])
            self._renumber()
            return
        for name in names:
            self._squeeze_in(name)

    def remove(self, name: str) -> None:
        del self._ranks[name]
        del self._names[bisect_left(self._names, name)]

    def _squeeze_in(self, name: str) -> None:
        insort(self._names, name)
        place = bisect_left(self._names, name)
        below = self._ranks[self._names[place - 1]] if place else -1
        above = self._ranks[self._names[place + 1]] if place + 1 < len(self._names) else _TOP
        if above - below < 2:
            self._renumber()
        else:
            self._ranks[name] = (above + below) // 2

    def _renumber(self) -> None:
        self.epoch += 1
        gap = _TOP // (len(self._names) + 1)
        if not gap:
            raise OverflowError(f"more than {_TOP} nodes")
        self._ranks = {name: gap * (index + 1) for index, name in enumerate(self._names)}


UNLIMITED_PODS = 1 << 40
"""The pod count of a node that does not state one."""

MAX_ALLOCATABLE = 1 << 50
"""What a node reports above this counts as this: sums over nodes must stay exact."""


class TaintSets:
    """Taints by node: a code per distinct set, so that a toleration is checked once per set."""

    def __init__(self) -> None:
        self.sets: list[tuple[Taint, ...]] = [()]
        self._codes: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._column = np.zeros(0, dtype=np.int32)

    def set(self, row: int, taints: tuple[Taint, ...]) -> None:
        if row >= len(self._column):
            self._column = np.concatenate([self._column, np.zeros(row + 16, dtype=np.int32)])
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self.sets)
            self.sets.append(taints)
        self._column[row] = code

    def compact(self, size: int) -> None:
        """Keep the sets of these rows only."""
        here = [self.sets[code] for code in self._column[:size]]
        self.sets, self._codes = [()], {(): 0}
        self._column = np.zeros(size, dtype=np.int32)
        for row, taints in enumerate(here):
            self.set(row, taints)

    def codes(self, size: int) -> NDArray[np.int32]:
        if len(self._column) < size:
            self._column = np.concatenate([self._column, np.zeros(size, dtype=np.int32)])
        return self._column[:size]


class NodeTable:
    """Columns over node rows. Only `ClusterState` writes here."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.tasks: list[list[Task]] = []
        self.taints = TaintSets()
        self.ports: dict[int, list[HostPort]] = {}
        self.annotations: list[Mapping[str, str]] = []
        self.labels = LabelColumns()
        self.ranks = NameRanks()
        self.allocatable = Table(axis)
        self.used = Table(axis)
        self.releasing = Table(axis)
        self.pipelined = Table(axis)
        self.reserved = Table(axis)
        self.foreign = Table(axis)
        self.drawn = Table(axis)
        """Used of a resource by pods that did not request it by its name: they were given its units as devices."""
        self._tables = (
            self.allocatable,
            self.used,
            self.releasing,
            self.pipelined,
            self.reserved,
            self.foreign,
            self.drawn,
        )
        self.served: dict[int, tuple[int, ...]] = {}
        """By row the dimensions that the node does not list itself: there devices of a driver stand for them."""
        self.alive = np.zeros(0, dtype=np.bool_)
        self.ready = np.zeros(0, dtype=np.bool_)
        self.schedulable = np.zeros(0, dtype=np.bool_)
        self.changed: Log[int] = Log()
        self.reshaped: Log[int] = Log()
        self._free: list[int] = []
        self._new_names: list[str] = []
        self.size_generation = 0

    def __len__(self) -> int:
        """Rows in use or reusable: the length of every column."""
        return len(self.names)

    def row(self, name: str) -> int:
        """The row of a node, a new ghost where it is not known."""
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = self._new_row()
            self.names[row] = name
            self._new_names.append(name)
            self.reshaped.add(row)
        return row

    def find(self, name: str) -> int | None:
        """The row of a node that is known."""
        return self.rows.get(name)

    def upsert(self, node: Node) -> int:
        allocatable = self._allocatable(node)
        row = self.row(node.metadata.name)
        self.allocatable.set(row, allocatable)
        self.served.pop(row, None)
        self.alive[row] = True
        self.ready[row] = _is_ready(node)
        self.schedulable[row] = not node.spec.unschedulable
        self.taints.set(row, node.spec.taints)
        self.annotations[row] = node.metadata.annotations
        self.labels.set(row, node.metadata.labels)
        self._note(row)
        return row

    def delete(self, name: str) -> int | None:
        """The node is gone; its row stays a ghost while tasks are on it."""
        row = self.rows.get(name)
        if row is None or not self.alive[row]:
            return None
        self.allocatable.set(row, ())
        self.served.pop(row, None)
        self.alive[row] = self.ready[row] = self.schedulable[row] = False
        self.taints.set(row, ())
        self.annotations[row] = {}
        self.labels.set(row, {})
        self._note(row)
        self.collect(row)
        return row

    def collect(self, row: int) -> None:
        """Free the row of a ghost that has no tasks any more."""
        if self.alive[row] or self.tasks[row] or not self.names[row]:
            return
        name = self.names[row]
        del self.rows[name]
        if name in self.ranks:
            self.ranks.remove(name)
        else:
            self._new_names.remove(name)
        self.names[row] = ""
        self._free.append(row)

    def touch(self, row: int) -> None:
        self.changed.add(row)

    def reach(self) -> None:
        """Give every table the rows of dimensions that the axis has gained."""
        if self.allocatable.data.shape[0] < len(self.axis):
            for table in self._tables:
                table.reach(len(self.alive))

    def compact(self, derived: list[bool]) -> None:
        """Drop rows at the end that are free, codes that no node has, and amounts of dimensions that are `derived`."""
        while self.names and not self.names[-1]:
            for column in (self.names, self.tasks, self.annotations):
                column.pop()
        size = len(self.names)
        self._free = [row for row in self._free if row < size]
        capacity = max(16, size)
        self.alive, self.ready, self.schedulable = (
            np.concatenate([column[:size], np.zeros(capacity - size, dtype=np.bool_)])
            for column in (self.alive, self.ready, self.schedulable)
        )
        self.reach()
        for table in self._tables:
            table.fit(capacity)
        self.allocatable.data[derived] = 0
        for row, places in self.served.items():
            self.allocatable.data[list(places), row] = 0
        self.served.clear()
        self.drawn.data[:] = 0
        self.taints.compact(size)
        self.labels.compact(size)
        self.size_generation += 1

    def listed(self, row: int) -> Vector:
        """What the node itself says that it has."""
        amounts, served = self.allocatable.at(row), self.served.get(row)
        return tuple(entry for entry in amounts if entry[0] not in served) if served else amounts

    def has_dimension(self, row: int) -> bool:
        """Whether some node has some of it."""
        data = self.allocatable.data
        return row < len(data) and bool(data[row].any())

    def dimensions_in_use(self) -> set[int]:
        return {int(row) for table in self._tables for row in np.flatnonzero(table.data.any(axis=1))}

    def fit_axis(self) -> None:
        """The axis may have fewer dimensions than before."""
        for table in self._tables:
            table.fit(table.data.shape[1])

    def rank_new_names(self) -> None:
        if self._new_names:
            self.ranks.add(self._new_names)
            self._new_names = []

    def _note(self, row: int) -> None:
        self.size_generation += 1
        self.changed.add(row)
        self.reshaped.add(row)

    def _allocatable(self, node: Node) -> Vector:
        amounts = dict(Resource.parse(node.allocatable).amounts)
        for name, amount in amounts.items():
            amounts[name] = min(amount, MAX_ALLOCATABLE)
        amounts.setdefault("pods", UNLIMITED_PODS)
        vector = self.axis.vector(Resource.of(amounts))
        self.reach()
        return vector

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = len(self.names)
        self.names.append("")
        self.tasks.append([])
        self.annotations.append({})
        if row >= len(self.alive):
            room = max(16, 2 * row)
            for table in self._tables:
                table.reach(room)
            self.alive, self.ready, self.schedulable = (
                np.concatenate([column, np.zeros(room - len(column), dtype=np.bool_)])
                for column in (self.alive, self.ready, self.schedulable)
            )
        return row


def _is_ready(node: Node) -> bool:
    """A node that reports no Ready condition (a file, say) is taken to be ready."""
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")
