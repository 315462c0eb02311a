"""The four ways of packing that the study compares: FGD, BestFit, DotProd and Random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.packing import Column, Fleet, Packer
from fairway.sim.traces.csv_traces import OpenbPod

MAX_CPU = 128_000
MAX_GPU = 8_000
TYPICAL = 95
"""Typical pods are the most frequent ones that make up this many percent of all."""


class BestFit(Packer):
    """The node that is left with the least."""

    def scores(self, fleet: Fleet, pod: OpenbPod, nodes: Column) -> Column:
        cpu = (fleet.cpu[nodes] - pod.cpu_milli) / MAX_CPU
        gpu = (fleet.idle[nodes] - pod.num_gpu * pod.gpu_milli) / MAX_GPU
        scores: Column = (100 * (1 - 0.5 * cpu - 0.5 * gpu)).astype(np.int64)
        return scores


class DotProd(Packer):
    """The node whose free room looks least like the request."""

    def scores(self, fleet: Fleet, pod: OpenbPod, nodes: Column) -> Column:
        cpu = fleet.cpu[nodes] * (pod.cpu_milli / MAX_CPU**2)
        gpu = fleet.idle[nodes] * (pod.num_gpu * pod.gpu_milli / MAX_GPU**2)
        scores: Column = (100 * (1 - (cpu + gpu) / 2)).astype(np.int64)
        return scores


class Random(Packer):
    """Any node, any GPU. One of all nodes is drawn: whole scores from 0 to 100 would tie, and ties have an order."""

    def __init__(self, dice: np.random.Generator) -> None:
        self._dice = dice

    def scores(self, fleet: Fleet, pod: OpenbPod, nodes: Column) -> Column:
        return self._dice.permutation(len(nodes))

    def gpus(self, fleet: Fleet, pod: OpenbPod, node: int) -> Sequence[int]:
        fits = np.flatnonzero(fleet.gpus[node] >= pod.gpu_milli)
        return [int(gpu) for gpu in self._dice.permutation(fits)[: pod.num_gpu]]


class Typical:
    """The pods that fragmentation is measured for, grouped by what they ask of GPUs.

    F(node) = sum over typical pods of p * frag. With `idle` the node's idle milli, a pod that does not fit,
    or needs no GPU, finds all of it fragmented; one that fits, only the GPUs that have less than it needs. So
    F is idle minus, for each group that fits, (its part of the pods, up to the node's cpu) * (idle of the GPUs
    that have enough). It is kept times the number of typical pods, as a whole number: a gain of nothing is 0.
    """

    def __init__(self, pods: Sequence[OpenbPod]) -> None:
        counts = Counter((pod.cpu_milli, pod.num_gpu, pod.gpu_milli, pod.gpu_models) for pod in pods)
        chosen, seen = [], 0
        for kind, count in sorted(counts.items(), key=lambda item: (-item[1], _tie(*item[0]))):
            if seen * 100 >= TYPICAL * len(pods):
                break
            chosen.append((kind, count))
            seen += count
        groups: dict[tuple[int, int, tuple[str, ...]], list[tuple[int, int]]] = {}
        for (cpu, num, milli, models), count in chosen:
            if num:
                groups.setdefault((num, milli, models), []).append((cpu, count))
        self.num = np.array([num for num, _, _ in groups])
        self.milli = np.array([milli for _, milli, _ in groups])
        self.models = [models for _, _, models in groups]
        levels = sorted({cpu for members in groups.values() for cpu, _ in members})
        self.levels = np.array(levels)
        below = [
            [sum(count for cpu, count in members if cpu <= level) for members in groups.values()]
            for level in [-1, *levels]
        ]
        self.below = np.array(below)
        """By cpu level and group: how many of its pods need no more cpu."""
        self.pods = seen

    def fragmentation(self, cpu: Column, gpus: Column, idle: Column, allowed: NDArray[np.bool_]) -> Column:
        """F of states, times the pods: cpu, idle and (state, GPU), and the groups that the model allows."""
        enough = gpus[:, None, :] >= self.milli[:, None]
        fits = (enough.sum(axis=2) >= self.num) & allowed
        usable = (enough * gpus[:, None, :]).sum(axis=2)
        part = self.below[np.searchsorted(self.levels, cpu, side="right")]
        found: Column = idle * self.pods - (part * fits * usable).sum(axis=1)
        return found


class Fgd(Packer):
    """The node, and on it the GPU, where the pod adds least to the fragmentation."""

    def __init__(self, pods: Sequence[OpenbPod], fleet: Fleet) -> None:
        self._typical = Typical(pods)
        columns = [fleet.on_models(models) for models in self._typical.models]
        self._allowed = np.array(columns).T
        self._now = self._typical.fragmentation(fleet.cpu, fleet.gpus, fleet.idle, self._allowed)
        self._touched: list[int] = []
        self._kept: dict[tuple[int, int, int], tuple[int, Column, Column]] = {}
        """By kind of pod: how far the touched nodes are taken in, the scores, and the best GPU (sharing pods)."""

    def scores(self, fleet: Fleet, pod: OpenbPod, nodes: Column) -> Column:
        return self._column(fleet, pod)[0][nodes]

    def gpus(self, fleet: Fleet, pod: OpenbPod, node: int) -> Sequence[int]:
        if _shares(pod):
            return [int(self._column(fleet, pod)[1][node])]
        return super().gpus(fleet, pod, node)

    def placed(self, fleet: Fleet, node: int) -> None:
        """A node changed."""
        rows = np.array([node])
        self._now[node] = self._typical.fragmentation(
            fleet.cpu[rows], fleet.gpus[rows], fleet.idle[rows], self._allowed[rows]
        )[0]
        self._touched.append(node)

    def _column(self, fleet: Fleet, pod: OpenbPod) -> tuple[Column, Column]:
        kind = (pod.cpu_milli, pod.num_gpu, pod.gpu_milli)
        kept = self._kept.get(kind)
        if kept is None:
            size = len(fleet.cpu)
            position, scores, best = 0, np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
            rows = np.arange(size)
        else:
            position, scores, best = kept
            if position == len(self._touched):
                return scores, best
            rows = np.array(sorted(set(self._touched[position:])))
        self._kept[kind] = (len(self._touched), scores, best)
        rows = rows[_could_fit(fleet, pod, rows)]
        if len(rows):
            scores[rows], best[rows] = self._evaluate(fleet, pod, rows)
        return scores, best

    def _evaluate(self, fleet: Fleet, pod: OpenbPod, rows: Column) -> tuple[Column, Column]:
        """Scores of nodes that could take the pod, and the best GPU of each."""
        state, gpu = _choices(fleet, pod, rows)
        nodes = rows[state]
        gpus = fleet.gpus[nodes]
        if _shares(pod):
            gpus[np.arange(len(gpus)), gpu] -= pod.gpu_milli
        elif pod.num_gpu:
            fits = gpus >= pod.gpu_milli
            gpus -= pod.gpu_milli * (fits & (fits.cumsum(axis=1) <= pod.num_gpu))
        idle = fleet.idle[nodes] - pod.num_gpu * pod.gpu_milli
        after = self._typical.fragmentation(fleet.cpu[nodes] - pod.cpu_milli, gpus, idle, self._allowed[nodes])
        table = np.full((len(rows), fleet.gpus.shape[1]), np.iinfo(np.int64).max)
        table[state, gpu] = after
        best = table.argmin(axis=1)
        gain = (self._now[rows] - table.min(axis=1)) / self._typical.pods / 1000
        return (100 / (1 + np.exp(-gain))).astype(np.int64), best


def _tie(cpu: int, num: int, milli: int, models: tuple[str, ...]) -> tuple[int, bool, tuple[str, ...], int, int]:
    """Which of equally frequent pods counts as typical first."""
    return cpu, num > 0, models, num, milli


def _shares(pod: OpenbPod) -> bool:
    return pod.num_gpu == 1


def _could_fit(fleet: Fleet, pod: OpenbPod, rows: Column) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = fleet.cpu[rows] >= pod.cpu_milli
    if pod.num_gpu:
        fits &= (fleet.gpus[rows] >= pod.gpu_milli).sum(axis=1) >= pod.num_gpu
    return fits


def _choices(fleet: Fleet, pod: OpenbPod, rows: Column) -> tuple[Column, Column]:
    """(position in rows, GPU) to be tried; of GPUs with the same left only the first can be the best."""
    if not _shares(pod):
        return np.arange(len(rows)), np.zeros(len(rows), dtype=np.int64)
    left = fleet.gpus[rows]
    fresh = left >= pod.gpu_milli
    for gpu in range(1, left.shape[1]):
        fresh[:, gpu] &= (left[:, :gpu] != left[:, gpu : gpu + 1]).all(axis=1)
    state, choice = np.nonzero(fresh)
    return state, choice
