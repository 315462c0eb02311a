"""Packed keys of nodes, of which the smallest is the best node: where infeasible ones begin, and how columns merge."""

from __future__ import annotations

import heapq

GIANT = 1 << 61
"""Added to the key of an infeasible node, at most twice: by what labels say, and by what the capacity says."""

INFEASIBLE = 1 << 60
"""Every key from here on is infeasible."""


def merged(rows: list[int], keys: list[list[int]], count: int) -> list[int]:
    """k times the smallest next key; taking one brings up the same node's next."""
    heap = [(levels[0], index) for index, levels in enumerate(keys)]
    heapq.heapify(heap)
    level = [0] * len(rows)
    chosen: list[int] = []
    while heap and len(chosen) < count:
        key, index = heap[0]
        if key >= INFEASIBLE:
            break
        chosen.append(rows[index])
        level[index] += 1
        if level[index] < len(keys[index]):
            heapq.heapreplace(heap, (keys[index][level[index]], index))
        else:
            heapq.heappop(heap)
    return chosen
