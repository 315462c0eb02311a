"""Which node is best, by several views: how empty, how even, and what the pod would rather have."""

from __future__ import annotations

import numpy as np

from fairway.api.arguments import NodeOrderArguments
from fairway.api.pods import Taint
from fairway.scheduler.framework.hooks import FloatColumn, Scores, ScoresByLabels, ScoresReserves
from fairway.scheduler.placement import pod_rules
from fairway.scheduler.placement.matching import term_column, tolerates
from fairway.scheduler.placement.node_view import NodeView
from fairway.state.shapes import Shape
from fairway.state.tables import CPU, MEMORY, PODS


class NodeOrder(Scores, ScoresByLabels, ScoresReserves):
    """Which node is best, by several views."""

    name = "nodeorder"
    rests_on_amounts = True
    Arguments = NodeOrderArguments

    def __init__(self, arguments: NodeOrderArguments) -> None:
        self._weights = arguments
        self._smaller_counts = (
            not arguments.most_allocated and arguments.least_allocated == arguments.balanced_allocation
        )
        """Half the sum less half the difference is the smaller of the two: less work where the weights are equal."""
        self.trend = self._trend()

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        weights = self._weights
        cpu, memory = shape.amounts.get(CPU, 0), shape.amounts.get(MEMORY, 0)
        free_cpu = (nodes.free(CPU) - cpu) * nodes.percent(CPU)
        free_memory = (nodes.free(MEMORY) - memory) * nodes.percent(MEMORY)
        score: FloatColumn
        if self._smaller_counts:
            score = np.minimum(free_cpu, free_memory)
            score *= weights.least_allocated
        else:
            score = free_cpu + free_memory
            score *= (weights.least_allocated - weights.most_allocated) / 2
            free_cpu -= free_memory
            np.abs(free_cpu, out=free_cpu)
            free_cpu *= weights.balanced_allocation / 2
            score -= free_cpu
        score += 100.0 * (weights.most_allocated + weights.balanced_allocation)
        if weights.pod_affinity and shape.rules.preferred:
            score = score + weights.pod_affinity * pod_rules.preference_score(shape, nodes)
        spreads = shape.rules.spread
        if spreads and weights.topology_spread and any(not spread.hard for spread in spreads):
            score = score + weights.topology_spread * pod_rules.spread_score(shape, nodes)
        return score

    def score_static(self, shape: Shape, nodes: NodeView) -> FloatColumn | None:
        parts = []
        if self._weights.node_affinity:
            parts.append(self._node_affinity(shape, nodes))
        if self._weights.taint_toleration:
            parts.append(self._taints(shape, nodes))
        given = [part for part in parts if part is not None]
        return sum(given[1:], start=given[0]) if given else None

    def reserve_score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        """How little used a node is (spec S6.4): cpu and memory, and twice as much the scalars the task asks for."""
        unused = {row: nodes.free(row) * nodes.percent(row) for row in (CPU, MEMORY)}
        score: FloatColumn = (unused[CPU] + unused[MEMORY]) / 2
        scalars = [row for row, _ in shape.vector if row not in (CPU, MEMORY, PODS)]
        if not scalars:
            return score
        scalar = np.zeros(nodes.size)
        for row in scalars:
            scalar += nodes.free(row) * nodes.percent(row)
        score += 2 * scalar / len(scalars)
        score /= 3
        return score

    def _node_affinity(self, shape: Shape, nodes: NodeView) -> FloatColumn | None:
        wishes = shape.node_affinity.preferred_during_scheduling_ignored_during_execution if shape.node_affinity else ()
        most = sum(selector.weight for selector in wishes)
        if not most:
            return None
        score = np.zeros(nodes.size)
        for selector in wishes:
            score += selector.weight * nodes.picked(term_column(selector.preference, nodes.snapshot))
        return score * (100.0 * self._weights.node_affinity / most)

    def _taints(self, shape: Shape, nodes: NodeView) -> FloatColumn | None:
        """Nodes with untolerated PreferNoSchedule taints are worth less, the more of them they have."""
        taints = nodes.snapshot.state.nodes.taints
        if not any(taint.effect == "PreferNoSchedule" for set_ in taints.sets for taint in set_):
            return None
        values = [100.0 / (1 + _disliked(shape, set_)) - 100.0 for set_ in taints.sets]
        codes = nodes.pick(taints.codes(nodes.snapshot.size))
        return self._weights.taint_toleration * np.array(values)[codes.astype(np.int64)]

    def _trend(self) -> int | None:
        weights = self._weights
        if weights.balanced_allocation:
            return None
        difference = weights.most_allocated - weights.least_allocated
        return (difference > 0) - (difference < 0)


def _disliked(shape: Shape, taints: tuple[Taint, ...]) -> int:
    return sum(taint.effect == "PreferNoSchedule" and not tolerates(shape.tolerations, taint) for taint in taints)
