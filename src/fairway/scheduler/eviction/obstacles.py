"""Placing the pods of a claimant on a statement, to see whether they fit.

How many like tasks each node has free capacity for, as pods come and go on statements.

What stands in a task's way by more than the capacity it takes: host ports, anti-affinity, spread, devices.

Where such rules are in force, capacity is not found by counting: units are taken off on a statement, and the node is
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.claims import Place
from fairway.scheduler.eviction.victims import Unit
from fairway.scheduler.framework.job_run import TaskRun
from fairway.scheduler.framework.statement import Statement
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.scheduler.placement.kernel import INFEASIBLE, Placing
from fairway.state.jobs import Task
from fairway.state.labels import ABSENT
from fairway.state.shapes import Shape, ports_clash


def place(statement: Statement, runs: list[TaskRun], placing: Placing) -> tuple[list[Place], TaskRun | None]:
    """Place what can be placed; returns where, and what of the first run that got stuck is left."""
    placed: list[Place] = []
    for run in runs:
        left = run.tasks
        while left:
            rows = statement.nodes.kernel.choose(run.shape, len(left), placing)
            if not rows:
                return placed, TaskRun(run.shape, run.role, left)
            statement.occupy(run.shape, left[: len(rows)], rows)
            placed += zip(left, rows, strict=False)
            left = left[len(rows) :]
    return placed, None


UNLIMITED: Final = 1 << 40
"""More tasks than any node takes."""


class FitCounts:
    """By node, and all together. Nodes where the shape may never go, and reserved ones, are not `open`."""

    def __init__(self, nodes: WorkingNodes, shape: Shape, domain: BoolColumn | None) -> None:
        self._nodes = nodes
        self._shape = shape
        kernel = nodes.kernel
        self.open: BoolColumn = kernel.base(shape) < INFEASIBLE
        if kernel.reserved is not None:
            self.open &= ~kernel.reserved
        if domain is not None:
            self.open &= domain
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


def passes_now(nodes: WorkingNodes, shape: Shape) -> BoolColumn | None:
    """Where everything but capacity holds as pods are now; None if nothing but capacity decides for this shape."""
    view = nodes.kernel.view()
    checks = [check for feasible in nodes.kernel.hooks.feasible for check in feasible(shape, view)]
    if not checks and nodes.device_fit.is_decided_by_columns(shape):
        return None
    passes: BoolColumn = np.ones(view.size, dtype=np.bool_)
    for check in checks:
        passes &= check.passes
    return passes


class Blockers:
    """Pods that rules of the shape, or their own, set against it."""

    def __init__(self, nodes: WorkingNodes, shape: Shape) -> None:
        self._nodes = nodes
        self._shape = shape
        self._related: dict[tuple[Shape, tuple[int, ...]], tuple[str, ...]] = {}
        self._repelled = {key: {t for t, k in shape.anti_affinity if k == key} for _, key in shape.anti_affinity}
        for spread in shape.rules.spread:
            if spread.hard:
                self._repelled.setdefault(spread.topology_key, set()).add(spread.term)

    def blocks(self, task: Task, row: int) -> bool:
        """Whether a pod keeps the shape off a row by its ports, by a rule of either, or by devices it has there."""
        if task.node == row and (ports_clash(self._shape.ports, task.shape.ports) or self._attaches_alike(task)):
            return True
        if self._holds_claim(task):
            return True
        if any(self._same_domain(task.node, row, key) for key in self.keys(task)):
            return True
        return task.node == row and self._shape.devices is not None and bool(self._nodes.devices.of(task))

    def _holds_claim(self, task: Task) -> bool:
        """Whether it uses a claim that only one pod may use, wherever it is."""
        return bool(set(self._shape.volumes.exclusive).intersection(task.shape.volumes.exclusive))

    def _attaches_alike(self, task: Task) -> bool:
        """Whether it has volumes of a driver whose volumes the shape has to attach, too."""
        return not dict(self._shape.volumes.attached).keys().isdisjoint(dict(task.shape.volumes.attached))

    def keys(self, task: Task) -> tuple[str, ...]:
        """The topology keys under which rules set this pod and the shape against each other."""
        known = self._related.get((task.shape, task.matched))
        if known is None:
            matched = set(task.matched)
            mine = {key for key, terms in self._repelled.items() if terms & matched}
            theirs = {key for term, key in task.shape.anti_affinity if term in self._shape.matched}
            known = self._related[task.shape, task.matched] = tuple(sorted(mine | theirs))
        return known

    def by_domain(self, units: Iterable[Unit]) -> Callable[[int], set[Unit]]:
        """For a row, the units with pods on other nodes of its domains that are in the way."""
        found: dict[tuple[str, int], set[Unit]] = {}
        everywhere: set[Unit] = set()
        for unit in units:
            for task in unit.tasks:
                if self._holds_claim(task):
                    everywhere.add(unit)
                for key in self.keys(task):
                    if not self._is_host(key):
                        found.setdefault((key, int(self._codes(key)[task.node])), set()).add(unit)
        keys = sorted({key for key, _ in found})
        empty: set[Unit] = set()

        def around(row: int) -> set[Unit]:
            here = [found.get((key, int(self._codes(key)[row])), empty) for key in keys]
            return everywhere.union(*here)

        return around

    def _same_domain(self, one: int, other: int, key: str) -> bool:
        codes = self._codes(key)
        return bool(codes[one] == codes[other]) and bool(codes[one] != ABSENT)

    def _is_host(self, key: str) -> bool:
        return self._nodes.snapshot.state.nodes.labels.is_unique(key, self._nodes.snapshot.size)

    def _codes(self, key: str) -> NDArray[np.int32]:
        return self._nodes.snapshot.state.nodes.labels.column(key, self._nodes.snapshot.size)
