"""Nodes that are alike: for a shape of a single pod one of each kind is looked at, and not a column over all nodes.

The key of a node depends on what is free there, on its size, on whether it is reserved, and on what labels, taints
and fixed scores make of it for the shape. Where all of that is the same, nodes differ in nothing but their rank by
name: the first of them stands for the others. A placement moves one node from one group to another.

That pays where many nodes are alike, as empty ones of a pool are. Where most nodes are one of a kind it does not, and
the kernel computes a whole column as ever.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.state.snapshot import WorkingCopy

_Kind = tuple[int, ...]
_SHARE: Final = 4
"""Groups are worth their upkeep as long as there are so many times fewer of them than nodes."""


class AlikeNodes:
    """Groups over one working copy and one base, kept up to date by its log of touched rows."""

    def __init__(self, snapshot: WorkingCopy, base: IntColumn, reserved: BoolColumn | None) -> None:
        self.base = base
        self._snapshot = snapshot
        self._read = snapshot.touched.end
        self._reshaped = snapshot.reshaped.end
        self._groups: dict[_Kind, int] = {}
        self._heaps: list[list[tuple[int, int]]] = []
        self._kinds: list[_Kind] = []
        self._unused: list[int] = []
        self._firsts = np.zeros(64, dtype=np.int64)
        """By group, the first of its nodes; where a group is empty, that of another."""
        self._static = self._static_kinds(base)
        self._group_of: list[int] = [-1] * snapshot.size
        self._fill(reserved)

    def _static_kinds(self, base: IntColumn) -> list[int]:
        """A number for each node; equal where size and base are, but for the rank."""
        snapshot = self._snapshot
        table = np.vstack([snapshot.allocatable, base - snapshot.rank])
        _, kinds = np.unique(table, axis=1, return_inverse=True)
        found: list[int] = kinds.reshape(-1).tolist()
        return found

    def _fill(self, reserved: BoolColumn | None) -> None:
        flags = np.zeros(self._snapshot.size, dtype=np.bool_) if reserved is None else reserved
        amounts = self._snapshot.idle.T.tolist()
        ranks = self._snapshot.rank.tolist()
        for row, (kind, flag, idle) in enumerate(zip(self._static, flags.tolist(), amounts, strict=True)):
            self._join(row, (kind, int(flag), *idle), ranks[row])

    @property
    def is_worth_it(self) -> bool:
        return len(self._kinds) * _SHARE <= self._snapshot.size

    def fits(self, base: IntColumn) -> bool:
        """Whether the groups are those of a base, and of nodes as they are described now."""
        return base is self.base and self._reshaped == self._snapshot.reshaped.end

    def sync(self, reserved: BoolColumn | None) -> bool:
        """Take in the rows that were written since; False if that cannot be told any more."""
        touched = self._snapshot.touched
        rows = touched.since(self._read)
        self._read = touched.end
        if rows is None:
            return False
        for row in set(rows.tolist()):
            flag = 0 if reserved is None else int(reserved[row])
            kind = (self._static[row], flag, *self._snapshot.idle[:, row].tolist())
            group = self._group_of[row]
            if kind != self._kinds[group]:
                self._join(row, kind, int(self._snapshot.rank[row]))
                self._repair(group)
        return True

    def firsts(self) -> IntColumn:
        """One row of each kind, and perhaps some of them twice. Not to be written to."""
        return self._firsts[: len(self._kinds)]

    def _join(self, row: int, kind: _Kind, rank: int) -> None:
        group = self._groups.get(kind)
        if group is None:
            group = self._open(kind)
        self._group_of[row] = group
        heap = self._heaps[group]
        heapq.heappush(heap, (rank, row))
        if heap[0][1] == row:
            self._firsts[group] = row

    def _open(self, kind: _Kind) -> int:
        if self._unused:
            group = self._unused.pop()
            self._kinds[group] = kind
        else:
            group = len(self._kinds)
            self._kinds.append(kind)
            self._heaps.append([])
            if group == len(self._firsts):
                self._firsts = np.concatenate([self._firsts, np.zeros(group, dtype=np.int64)])
        self._groups[kind] = group
        return group

    def _repair(self, group: int) -> None:
        """Rows have left: those at the top of the heap that are elsewhere by now go."""
        heap = self._heaps[group]
        while heap and self._group_of[heap[0][1]] != group:
            heapq.heappop(heap)
        if heap:
            self._firsts[group] = heap[0][1]
            return
        del self._groups[self._kinds[group]]
        self._unused.append(group)
        self._firsts[group] = self._firsts[0]
