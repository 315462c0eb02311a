"""What waits and fits on no node is parked: it costs nothing until something changes that could help it.

| what changes | what is looked at again |
|---|---|
| a node's free capacity, or whether it is reserved | what requests no more than that node has free |
| labels, taints, readiness or size of a node; a node comes | the same, of that node |
| a pod, its group, a claim or a volume that it uses | its job: it has another template then |
| queues, quotas, priorities | nothing, for nodes are what is missing; explaining computes the reason anew |
| the policy, a plugin that failed, rows that moved | everything |

Where more than the node itself decides, nothing is parked: rules between pods, devices, external plugins that have a
say on nodes and no `basis`. That a template is looked at again says nothing but that it may fit: the kernel decides, as
it does for all that is not parked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn, IntColumn
from fairway.state.derived import DerivedValue, Generations
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy
from fairway.state.waiting import GangTemplate, WaitingIndex

_ANYTHING = np.iinfo(np.int64).min
"""Of a resource that is not requested, any amount will do."""
_NEVER = np.iinfo(np.int64).max
"""In rows of the table that are not in use."""
_FEW = 16
"""So many nodes are compared one by one; of more, the most that any of them has free of each resource."""


class Parking(
    DerivedValue,
    name="parking",
    holds="templates of pending jobs that fit on no node",
    inputs=("columns", "snapshot", "pending jobs"),
    saves="trying templates that cannot fit",
):
    """Which templates a cycle has to look at (`active`), and which it has not (`parked`)."""

    def __init__(self) -> None:
        super().__init__()
        self.active: dict[GangTemplate, None] = {}
        self._parked: dict[GangTemplate, list[int]] = {}
        self._is_shared = False
        self._waiting: WaitingIndex | None = None
        self._snapshot: WorkingCopy | None = None
        self._reserved: BoolColumn | None = None
        self._needs: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._owners: list[GangTemplate | None] = []
        self._free: list[int] = []

    def parked(self) -> dict[GangTemplate, list[int]]:
        """Those that fit on no node, as they are now for good: a later change is made on a copy."""
        self._is_shared = True
        return self._parked

    def look(self, waiting: WaitingIndex, snapshot: WorkingCopy, reserved: BoolColumn | None) -> None:
        """Take in what has changed since the last time. What is free on a reserved node helps none of those that are
        parked; when the reservation ends, that is a change of the node.
        """
        if waiting is not self._waiting:
            self._waiting, self._logs = waiting, (waiting.changed, snapshot.touched)
            self.stale()
        self._snapshot, self._reserved = snapshot, reserved
        self.sync()

    def generations(self) -> Generations:
        assert self._snapshot is not None
        return (self._snapshot.layout,)

    def rebuild(self) -> None:
        """Look at everything again."""
        assert self._waiting is not None
        assert self._snapshot is not None
        self.active = dict.fromkeys(self._waiting.templates_in_use())
        self._parked, self._is_shared = {}, False
        self._needs = np.full((0, len(self._snapshot.idle)), _NEVER)
        self._owners, self._free = [], []

    def update(self, changed: list[GangTemplate], rows: IntColumn) -> None:
        snapshot, reserved = self._snapshot, self._reserved
        assert snapshot is not None
        for template in dict.fromkeys(changed):
            if not template.classes and not template.started:
                self.active.pop(template, None)
                if template in self._parked:
                    self._leave(template)
            elif template not in self._parked:
                self.active[template] = None
        if self._parked and len(rows):
            several = rows if len(rows) == 1 else np.unique(rows)
            if reserved is not None:
                several = several[~reserved[several]]
            for template in self._helped(snapshot.idle.take(several, axis=1)) if len(several) else ():
                self._leave(template)
                self.active[template] = None

    def park(self, template: GangTemplate) -> None:
        """No node takes any of its tasks, as of the last `sync`."""
        del self.active[template]
        self._own()
        self._parked[template] = [
            self._new_row(template, shape) for shape in {run.shape: None for run in template.runs}
        ]

    def all_exceed(self, amounts: list[int]) -> bool:
        """Whether each task of all that is parked requests more of something than this."""
        return bool((self._needs > np.array(amounts, dtype=np.int64)).any(axis=1).all())

    def _helped(self, idle: NDArray[np.int64]) -> list[GangTemplate]:
        """Templates of which a task may fit where so much is free, one node for each column."""
        if idle.shape[1] > _FEW:
            idle = idle.max(axis=1, keepdims=True)
        fits = np.zeros(len(self._needs), dtype=np.bool_)
        for column in idle.T:
            fits |= (self._needs <= column).all(axis=1)
        found = (self._owners[row] for row in np.flatnonzero(fits).tolist())
        return [template for template in dict.fromkeys(found) if template is not None]

    def _leave(self, template: GangTemplate) -> None:
        self._own()
        for row in self._parked.pop(template):
            self._needs[row] = _NEVER
            self._owners[row] = None
            self._free.append(row)

    def _own(self) -> None:
        if self._is_shared:
            self._parked = self._parked.copy()
            self._is_shared = False

    def _new_row(self, template: GangTemplate, shape: Shape) -> int:
        if not self._free:
            size, more = len(self._needs), max(16, len(self._needs))
            self._needs = np.concatenate([self._needs, np.full((more, self._needs.shape[1]), _NEVER)])
            self._owners += [None] * more
            self._free = list(range(size + more - 1, size - 1, -1))
        row = self._free.pop()
        self._needs[row] = _ANYTHING
        for dimension, amount in shape.vector:
            self._needs[row, dimension] = amount
        self._owners[row] = template
        return row
