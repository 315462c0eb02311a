"""Prefer the fullest node that still fits, to keep whole nodes free for gangs."""

from __future__ import annotations

import numpy as np

from fairway.api.arguments import BinPackArguments
from fairway.scheduler.framework.hooks import FloatColumn, Opens, Scores
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement.node_view import NodeView
from fairway.state.shapes import Shape
from fairway.state.tables import CPU, MEMORY


class BinPack(Opens, Scores):
    """Prefer the fullest node that fits, to keep others whole."""

    name = "binpack"
    Arguments = BinPackArguments
    trend = 1
    rests_on_amounts = True

    def __init__(self, arguments: BinPackArguments) -> None:
        self._arguments = arguments
        self._weights: dict[int, int] = {}

    def open(self, session: SessionView) -> None:
        weights = {CPU: self._arguments.cpu, MEMORY: self._arguments.memory}
        for name, weight in self._arguments.resources.items():
            row = session.state.axis.find(name)
            if row is not None:
                weights[row] = weight
        self._weights = weights

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        """How full the node would be, in per cent, averaged by weight over what the task asks for."""
        score: FloatColumn | None = None
        whole = 0
        for row, amount in shape.vector:
            weight = self._weights.get(row)
            if not weight:
                continue
            whole += weight
            left = (nodes.free(row) - amount) * nodes.percent(row)
            if weight != 1:
                left *= weight
            if score is None:
                score = left
            else:
                score += left
        if score is None:
            return np.zeros(nodes.size)
        score *= -self._arguments.weight / whole
        score += 100.0 * self._arguments.weight
        return score
