"""Places for all nominated pods of a plan at once: an exact search, up to a stated size.

Pods are placed in order, each on the best node that leaves places for all that follow. The first try is what placing
one after the other gives; where that fails, the search goes back. It is exact as long as the plan nominates at most
`MOST_PODS` pods and its searches try at most `MOST_TRIES` placements; beyond that the answer is "no".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.claim import Place
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.packed_keys import INFEASIBLE
from fairway.state.jobs import Task
from fairway.state.shapes import Shape

MOST_PODS = 64
MOST_TRIES = 2_000


class Nominee(NamedTuple):
    """A pod to be placed, on any node or inside a domain of its topology."""

    task: Task
    domain: BoolColumn | None = None


class PlacesTogether:
    """The searches of one plan. They share what may be tried."""

    def __init__(self) -> None:
        self._tries = MOST_TRIES
        self._nominees: list[Nominee] = []
        self._placed: list[Place] = []
        self._failed: set[Hashable] = set()

    def find(self, nominees: list[Nominee], statement: Statement) -> list[Place] | None:
        """Places for all of them, then on the statement; None if there are none, or the search was too long."""
        if len(nominees) > MOST_PODS:
            return None
        self._nominees, self._placed, self._failed = nominees, [], set()
        return self._placed if self._place_rest(statement) else None

    def _place_rest(self, statement: Statement) -> bool:
        if len(self._placed) == len(self._nominees):
            return True
        key = self._key(statement.nodes)
        if key in self._failed or not self._may_fit(statement.nodes):
            return False
        nominee = self._nominees[len(self._placed)]
        for row in self._rows(nominee, statement.nodes):
            if not self._tries:
                return False
            self._tries -= 1
            mark = statement.checkpoint()
            if self._put(nominee.task, row, statement) and self._place_rest(statement):
                return True
            self._placed.pop()
            statement.rollback(mark)
        self._failed.add(key)
        return False

    def _put(self, task: Task, row: int, statement: Statement) -> bool:
        """Place a pod; False if the node's devices turn out not to serve it."""
        statement.occupy(task.shape, [task], [row])
        self._placed.append((task, row))
        return statement.nodes.devices.is_served(task)

    def _key(self, nodes: WorkingNodes) -> Hashable:
        """What is placed, where like pods are the same. Which devices are given depends on the order, too."""
        shapes = [(task.shape, row) for task, row in self._placed]
        if any(nodes.devices.uses_devices(shape) for shape, _ in shapes):
            return tuple(shapes)
        return frozenset(Counter(shapes).items())

    def _rows(self, nominee: Nominee, nodes: WorkingNodes) -> Iterator[int]:
        """Nodes that take the pod now, the best first."""
        keys = nodes.kernel.column(nominee.task.shape).keys
        rows = np.flatnonzero(keys < INFEASIBLE if nominee.domain is None else (keys < INFEASIBLE) & nominee.domain)
        return iter(rows[keys[rows].argsort()].tolist())

    def _may_fit(self, nodes: WorkingNodes) -> bool:
        """Whether, of each shape for itself, the nodes have free capacity for all pods that follow."""
        following = Counter(nominee.task.shape for nominee in self._nominees[len(self._placed) :])
        return all(self._room(shape, nodes) >= count for shape, count in following.items())

    def _room(self, shape: Shape, nodes: WorkingNodes) -> int:
        idle, rows = nodes.snapshot.idle, np.flatnonzero(nodes.kernel.base(shape) < INFEASIBLE)
        most = np.full(len(rows), len(self._nominees), dtype=np.int64)
        for dimension, amount in shape.vector:
            np.minimum(most, idle[dimension, rows] // amount, out=most)
        return int(np.maximum(most, 0).sum())
