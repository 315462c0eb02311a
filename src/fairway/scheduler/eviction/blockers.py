"""What stands in a task's way by more than the capacity it takes: host ports, anti-affinity, spread, devices.

Where such rules are in force, capacity is not found by counting: units are taken off on a statement, and the node is
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fairway.resources.columns import BoolColumn
from fairway.scheduler.eviction.units import Unit
from fairway.scheduler.framework.working_nodes import WorkingNodes
from fairway.state.jobs import Task
from fairway.state.labels import ABSENT
from fairway.state.shapes import Shape, ports_clash


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
