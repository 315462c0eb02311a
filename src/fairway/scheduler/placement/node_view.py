"""`NodeView`: what a plugin sees of nodes. All of them, a few, or some as they would be with tasks added."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.placement.pod_counts import PodCounts
from fairway.scheduler.verdict import Reason
from fairway.state.snapshot import WorkingCopy

FloatColumn = NDArray[np.float64]


class Check(NamedTuple):
    """One test of a filter: where it passes, and what to say of the nodes where it does not."""

    passes: BoolColumn
    text: str
    reason: Reason = Reason.PREDICATE_FAILED


class NodeView:
    """Columns over the nodes in view.

    `rows` are their rows in the state's tables, None for all; `idle`, `allocatable` (resource, node) int64 amounts;
    `percent` the part of the node, in per cent, that one unit of a resource is (0 where it has none). It is
    asked for one resource at a time: with classes of devices there may be many.
    """

    __slots__ = ("_snapshot", "idle", "pods", "rows", "size")

    def __init__(
        self,
        snapshot: WorkingCopy,
        pods: PodCounts,
        rows: IntColumn | None = None,
        idle: NDArray[np.int64] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self.pods = pods
        self.rows = rows
        if idle is not None:
            self.idle = idle
        else:
            self.idle = snapshot.idle if rows is None else snapshot.idle.take(rows, axis=1, mode="clip")
        self.size = self.idle.shape[1]

    def percent(self, resource: int) -> NDArray[np.float64]:
        column: NDArray[np.float64] = self._snapshot.percent[resource]
        return column if self.rows is None else column.take(self.rows, mode="clip")

    @property
    def allocatable(self) -> NDArray[np.int64]:
        whole = self._snapshot.allocatable
        return whole if self.rows is None else whole.take(self.rows, axis=1)

    def row(self, resource: str) -> int | None:
        """Where a resource's amounts stand, or None if it is neither offered nor requested."""
        return self._snapshot.state.axis.find(resource)

    def labels(self, key: str) -> list[str | None]:
        """The nodes' values of a label; slow, where nothing better is needed."""
        nodes = self._snapshot.state.nodes
        return [nodes.labels.at(int(row)).get(key) for row in self.all_rows()]

    def names(self) -> list[str]:
        return [self._snapshot.names[row] for row in self.all_rows()]

    def all_rows(self) -> IntColumn:
        return np.arange(self.size) if self.rows is None else self.rows

    def pick(self, column: NDArray[np.generic]) -> NDArray[np.generic]:
        """The entries of a whole column for the nodes in view."""
        return column[: self.size] if self.rows is None else column[self.rows]

    def picked(self, column: BoolColumn) -> BoolColumn:
        return column[: self.size] if self.rows is None else column[self.rows]

    @property
    def snapshot(self) -> WorkingCopy:
        return self._snapshot
