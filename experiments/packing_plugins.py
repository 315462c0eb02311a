"""BestFit, DotProd and Random of the fragmentation study, as plugins of a policy: what anybody could install."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from experiments.packers import MAX_CPU, MAX_GPU
from fairway.api.settings import Arguments, Count, setting
from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.track.node import NodeDevices
from fairway.resources.columns import IntColumn
from fairway.scheduler.devices.requests import PreparedRequest
from fairway.scheduler.framework.hooks import FloatColumn
from fairway.scheduler.framework.plugin_set import Registry
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.plugins import BUILT_IN
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.shapes import Shape
from fairway.state.tables import CPU

ANY_GPU = "gpu"
"""The class that every GPU is of."""


class BestFit:
    """The node that is left with the least."""

    name = "bestfit"

    def __init__(self, arguments: Arguments) -> None: ...

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        left_cpu = (nodes.idle[CPU] - shape.amounts.get(CPU, 0)) / MAX_CPU
        left_gpu = (idle_gpus(nodes) - gpu_milli(shape)) / MAX_GPU
        score: FloatColumn = np.trunc(100 * (1 - 0.5 * left_cpu - 0.5 * left_gpu))
        return score


class DotProd:
    """The node whose free room looks least like the request."""

    name = "dotprod"

    def __init__(self, arguments: Arguments) -> None: ...

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        alike_cpu = nodes.idle[CPU] * (shape.amounts.get(CPU, 0) / MAX_CPU**2)
        alike_gpu = idle_gpus(nodes) * (gpu_milli(shape) / MAX_GPU**2)
        score: FloatColumn = np.trunc(100 * (1 - (alike_cpu + alike_gpu) / 2))
        return score


class RandomArguments(Arguments, frozen=True):
    seed: Annotated[Count, setting("Of the dice.")] = 1


class Random:
    """Any node, any GPU."""

    name = "random"
    Arguments = RandomArguments

    def __init__(self, arguments: RandomArguments) -> None:
        self._dice = np.random.default_rng([arguments.seed, 3])

    def open(self, session: SessionView) -> None:
        session.devices.capacity.prefer = self._any_gpu

    def looks_around(self, shape: Shape) -> bool:
        """Scores are drawn again for every pod."""
        return True

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        return 100 * self._dice.random((nodes.size,))

    def _any_gpu(self, prepared: PreparedRequest, _: int, node: NodeDevices, free: FreeSlots) -> int | None:
        candidates = node.candidates(prepared.resolved.requests[0].options[0].selector)
        fits = [slot for slot in candidates if free.fits(slot, Portion(milli=prepared.part))]
        return fits[int(self._dice.integers(len(fits)))] if fits else None


def idle_gpus(nodes: NodeView) -> IntColumn:
    """Thousandths. The engine counts a class only where somebody asks for it; in these workloads somebody does."""
    row = nodes.row(CLASS_PREFIX + ANY_GPU)
    return np.zeros(nodes.size, dtype=np.int64) if row is None else nodes.idle[row]


def gpu_milli(shape: Shape) -> int:
    """Thousandths of GPUs, whichever models will do."""
    asks = shape.devices.classes if shape.devices else ()
    return sum(1000 * ask.units + sum(ask.fractions) for ask in asks)


def registry() -> Registry:
    """They are trusted: Random has a say in which device is given, for which there is no hook."""
    return Registry({**BUILT_IN, **{plugin.name: plugin for plugin in (BestFit, DotProd, Random)}})
