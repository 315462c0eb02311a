"""How many like tasks each node has free capacity for, as pods come and go on statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.packed_keys import INFEASIBLE
from fairway.state.jobs import Task
from fairway.state.shapes import Shape

UNLIMITED: Final = 1 << 40
"""More tasks than any node takes."""


class FitCounts:
    """By node, and all together. Nodes where the shape may never go, and reserved ones, are not `open`."""

    def __init__(self, nodes: WorkingNodes, shape: Shape) -> None:
        self._nodes = nodes
        self._shape = shape
        kernel = nodes.kernel
        self.open: BoolColumn = kernel.base(shape) < INFEASIBLE
        if kernel.reserved is not None:
            self.open &= ~kernel.reserved
        if kernel.domain is not None:
            self.open &= kernel.domain
        idle = nodes.snapshot.idle
        counts = np.full(nodes.snapshot.size, UNLIMITED, dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(counts, idle[dimension] // amount, out=counts)
        np.maximum(counts, 0, out=counts)
        limits = kernel.limits(shape)
        if limits is not None:
            np.minimum(counts, limits, out=counts)
        self._limited = limits is not None
        self._counts = np.where(self.open, counts, 0)
        self.total = int(self._counts.sum())

    def at(self, row: int) -> int:
        return int(self._counts[row])

    def update(self, rows: Iterable[int]) -> None:
        """Pods came to these rows or went."""
        for row in rows:
            if self.open[row]:
                count = self._count(row, {})
                self.total += count - int(self._counts[row])
                self._counts[row] = count

    def without(self, tasks: Iterable[Task]) -> int:
        """How many fit in all if these came back. Only where nothing but capacity limits."""
        back: dict[int, dict[int, int]] = {}
        for task in tasks:
            here = back.setdefault(task.node, {})
            for dimension, amount in (*task.shape.vector, *self._nodes.devices.ledger.freed(task)):
                here[dimension] = here.get(dimension, 0) + amount
        total = self.total
        for row, taken in back.items():
            if self.open[row]:
                total += self._count(row, taken) - int(self._counts[row])
        return total

    @property
    def counts(self) -> bool:
        """Whether nothing but capacity limits."""
        return not self._limited

    def _count(self, row: int, taken: Mapping[int, int]) -> int:
        if self._limited:
            return max(0, self._nodes.kernel.fit_count(self._shape, row))
        idle, least = self._nodes.snapshot.idle, UNLIMITED
        for dimension, amount in self._shape.vector:  # a loop: this is asked for each row that a unit is on
            fits = (int(idle[dimension, row]) - taken.get(dimension, 0)) // amount
            if fits < least:
                least = fits
        return least if least > 0 else 0
