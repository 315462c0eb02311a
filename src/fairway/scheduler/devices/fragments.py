"""How fragmented the devices of a node are, for the pods that are typical of a cluster (FGD, USENIX ATC 2023).

Idle device capacity is a fragment to a pod if the pod could not use it: all of it if the pod needs no device, or does
not find enough of them, or the cpu does not suffice; otherwise what is left of devices that have too little for it or
are not of its class. F(node) is the sum over typical pods, weighted by how frequent they are. Amounts are thousandths
of devices times pods: exact integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairway.devices.match.free_slots import FreeSlots
from fairway.devices.model.device import WHOLE
from fairway.devices.track.node import NodeDevices
from fairway.state.shapes import Shape
from fairway.state.tables import CPU

MOST = 95
"""Typical pods are the most frequent ones that make up this many per cent of all."""


class TypicalRequest(NamedTuple):
    """So many devices of a class, each with at least this many thousandths left."""

    class_name: str
    devices: int
    milli: int


class TypicalPod(NamedTuple):
    cpu: int
    requests: tuple[TypicalRequest, ...]


Typical = tuple[tuple[TypicalPod, int], ...]
"""Pods and how many of them there are, by what they need of cpu."""


def typical_pods(shapes: Iterable[Shape]) -> Typical:
    """The most frequent kinds of pods among all that are known, waiting and running."""
    counts: Counter[TypicalPod] = Counter()
    for shape in shapes:
        counts[_kind_of(shape)] += shape.tasks
    total, chosen, so_far = counts.total(), [], 0
    for pod, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if so_far * 100 >= total * MOST:
            break
        chosen.append((pod, count))
        so_far += count
    return tuple(sorted(chosen))


def _kind_of(shape: Shape) -> TypicalPod:
    cpu = next((amount for row, amount in shape.vector if row == CPU), 0)
    requests = shape.devices.classes if shape.devices else ()
    lines = [TypicalRequest(ask.class_name, ask.units, WHOLE) for ask in requests if ask.units]
    lines += [TypicalRequest(ask.class_name, 1, milli) for ask in requests for milli in ask.fractions]
    return TypicalPod(cpu, tuple(lines))


class Fragments:
    """F of free slots, for one set of typical pods."""

    def __init__(self, typical: Typical) -> None:
        self._typical = typical
        self._classes = frozenset(line.class_name for pod, _ in typical for line in pod.requests)
        self._cpus = np.array([pod.cpu for pod, _ in typical], dtype=np.int64)
        self._tables: dict[FreeSlots, NDArray[np.int64]] = {}
        self.pods = max(1, sum(count for _, count in typical))

    def steps(self, cpu: NDArray[np.int64]) -> NDArray[np.int64]:
        """For free amounts of cpu, how many of the typical pods (in order) would have enough."""
        return np.searchsorted(self._cpus, cpu, side="right")

    def step(self, cpu: int) -> int:
        return int(np.searchsorted(self._cpus, cpu, side="right"))

    def table(self, node: NodeDevices, free: FreeSlots) -> NDArray[np.int64]:
        """F, times the number of typical pods, by how many of these have enough cpu."""
        found = self._tables.get(free)
        if found is None:
            found = self._tables[free] = self._table(node, free)
        return found

    def _table(self, node: NodeDevices, free: FreeSlots) -> NDArray[np.int64]:
        left = {slot: free.left(slot) for slot, names in enumerate(node.selectable_by) if names & self._classes}
        idle = sum(left.values())
        enough = [0]
        short = [idle * self.pods]
        found: dict[tuple[TypicalRequest, ...], int] = {}
        for pod, count in self._typical:
            if pod.requests not in found:
                found[pod.requests] = self._fragment(node, left, idle, pod.requests)
            enough.append(enough[-1] + count * found[pod.requests])
            short.append(short[-1] - count * idle)
        return np.array(enough, dtype=np.int64) + np.array(short, dtype=np.int64)

    def _fragment(self, node: NodeDevices, left: dict[int, int], idle: int, lines: tuple[TypicalRequest, ...]) -> int:
        """What of the idle capacity a pod with these lines, and enough cpu, could not use."""
        if not lines:
            return idle
        usable: set[int] = set()
        slots = node.inventory.slots
        for line in lines:
            serving = [
                s for s, milli in left.items() if line.class_name in node.selectable_by[s] and milli >= line.milli
            ]
            if sum(1 if slots[s].shareable else left[s] // WHOLE for s in serving) < line.devices:
                return idle
            usable.update(serving)
        return sum(milli for slot, milli in left.items() if slot not in usable)
