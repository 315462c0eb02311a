"""GPU packing as the fragmentation study (USENIX ATC 2023) did it: pods arrive one by one and are placed or dropped.

A reference in plain numpy, independent of the engine. Nodes are in the run's random order, so that the first
of the best is the one that ties fall to. The score of a node depends on that node only; the expensive one
of FGD is cached per kind of pod and computed again only for nodes that have changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairway.sim.traces.csv_traces import WHOLE_GPU, OpenbPod
from fairway.sim.traces.trace_file import GPU_MODEL_LABEL, TraceNode

Column = NDArray[np.int64]
MAX_GPUS = 8
MAX_PODS = 1001
NO_GPU = -1
"""Idle milli of a GPU slot that a node does not have."""

_MIB = 1 << 20


class Fleet:
    """Free capacity of every node."""

    def __init__(self, nodes: Sequence[TraceNode], order: Sequence[int]) -> None:
        chosen = [nodes[index] for index in order]
        self.cpu = np.array([node.allocatable["cpu"] for node in chosen])
        self.memory = np.array([node.allocatable["memory"] // _MIB for node in chosen])
        self.pods = np.zeros(len(chosen), dtype=np.int64)
        self.gpus = np.full((len(chosen), MAX_GPUS), NO_GPU)
        for row, node in enumerate(chosen):
            self.gpus[row, : node.gpus] = WHOLE_GPU
        self.idle = self.gpus.clip(min=0).sum(axis=1)
        self.models = [node.labels.get(GPU_MODEL_LABEL, "") for node in chosen]
        self.capacity = int(self.idle.sum())
        self._on_models: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    def on_models(self, models: tuple[str, ...]) -> NDArray[np.bool_]:
        """Nodes that have one of these models; no models named means all nodes."""
        if models not in self._on_models:
            allowed = [not models or model in models for model in self.models]
            self._on_models[models] = np.array(allowed)
        return self._on_models[models]

    def feasible(self, pod: OpenbPod) -> Column:
        """The nodes on which the pod fits, in order."""
        fits = (self.cpu >= pod.cpu_milli) & (self.memory >= pod.memory_mib) & (self.pods < MAX_PODS)
        fits &= self.on_models(pod.gpu_models)
        if pod.num_gpu:
            fits &= (self.gpus >= pod.gpu_milli).sum(axis=1) >= pod.num_gpu
        return np.flatnonzero(fits)

    def place(self, pod: OpenbPod, node: int, gpus: Sequence[int]) -> None:
        self.cpu[node] -= pod.cpu_milli
        self.memory[node] -= pod.memory_mib
        self.pods[node] += 1
        for gpu in gpus:
            self.gpus[node, gpu] -= pod.gpu_milli
        self.idle[node] -= pod.gpu_milli * len(gpus)


class Packer:
    """How nodes are scored, and which GPUs of the chosen node are taken."""

    def scores(self, fleet: Fleet, pod: OpenbPod, nodes: Column) -> Column:
        """Whole numbers, the highest wins."""
        raise NotImplementedError

    def gpus(self, fleet: Fleet, pod: OpenbPod, node: int) -> Sequence[int]:
        """For a part of a GPU the one it fits most tightly; for whole GPUs the lowest-numbered."""
        left = fleet.gpus[node]
        fits = np.flatnonzero(left >= pod.gpu_milli)
        if pod.num_gpu > 1 or len(fits) == 1:
            return [int(gpu) for gpu in fits[: pod.num_gpu]]
        return [int(fits[left[fits].argmin()])]

    def placed(self, fleet: Fleet, node: int) -> None:
        """Called for each node that has changed."""


Place = tuple[int, tuple[int, ...]]
"""A node, by its place in the run's order, and the GPUs that were taken there."""


def workload(pods: Sequence[OpenbPod], capacity: int, dice: np.random.Generator) -> list[OpenbPod]:
    """The list, shuffled, then random copies of rows until they ask for 1.3 of the GPUs."""
    target = capacity * 13 // 10
    rows = [pods[index] for index in dice.permutation(len(pods))]
    asked = sum(pod.num_gpu * pod.gpu_milli for pod in rows)
    while True:
        pod = pods[int(dice.integers(len(pods)))]
        if asked + pod.gpu_milli > target:
            return rows
        rows.append(pod)
        asked += pod.num_gpu * pod.gpu_milli


def pack(fleet: Fleet, pods: Sequence[OpenbPod], packer: Packer) -> list[Place | None]:
    """Place the pods one by one; what fits nowhere is dropped for ever."""
    places: list[Place | None] = []
    for pod in pods:
        nodes = fleet.feasible(pod)
        if not len(nodes):
            places.append(None)
            continue
        node = int(nodes[packer.scores(fleet, pod, nodes).argmax()])
        gpus = tuple(packer.gpus(fleet, pod, node)) if pod.num_gpu else ()
        fleet.place(pod, node, gpus)
        packer.placed(fleet, node)
        places.append((node, gpus))
    return places


def allocation(
    pods: Sequence[OpenbPod], places: Sequence[Place | None], capacity: int, marks: Sequence[int] = (100, 130)
) -> list[float]:
    """GPU allocation in percent, when so many percent of the capacity had been requested (or all requests)."""
    found: list[float] = []
    asked = held = 0
    for pod, place in zip(pods, places, strict=True):
        milli = pod.num_gpu * pod.gpu_milli
        asked += milli
        held += milli if place else 0
        while len(found) < len(marks) and asked * 100 >= marks[len(found)] * capacity:
            found.append(100 * held / capacity)
    return found + [100 * held / capacity] * (len(marks) - len(found))
