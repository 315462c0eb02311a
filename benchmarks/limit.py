"""The limit kernel: a bare best-fit loop over (resource, node) int64 columns. No plugins, fairness, gangs or reasons.

What a whole `decide` costs per pod is stated as a ratio to this loop, run in the same process.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

GIANT = np.int64(1) << 60


def place(idle: NDArray[np.int64], requests: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each request in turn to the node with the least sum of normalised room left that fits; -1 where none does."""
    capacity = idle.max(axis=1, initial=1)
    scale = (np.int64(1) << 40) // np.maximum(capacity, 1)
    chosen = np.full(len(requests), -1, dtype=np.int64)
    for index, request in enumerate(requests):
        fits = idle[0] >= request[0]
        left = (idle[0] - request[0]) * scale[0]
        for resource in range(1, len(request)):
            fits &= idle[resource] >= request[resource]
            left += (idle[resource] - request[resource]) * scale[resource]
        left += ~fits * GIANT
        best = int(left.argmin())
        if fits[best]:
            idle[:, best] -= request
            chosen[index] = best
    return chosen


def place_plainly(idle: list[list[int]], requests: list[list[int]]) -> list[int]:
    """The same with Python loops: what the limit kernel is checked against."""
    capacity = [max(1, *column) for column in idle]
    scale = [(1 << 40) // most for most in capacity]
    chosen = []
    for request in requests:
        best, least = -1, 0
        for node in range(len(idle[0])):
            if all(idle[r][node] >= request[r] for r in range(len(request))):
                left = sum((idle[r][node] - request[r]) * scale[r] for r in range(len(request)))
                if best < 0 or left < least:
                    best, least = node, left
        if best >= 0:
            for r, amount in enumerate(request):
                idle[r][best] -= amount
        chosen.append(best)
    return chosen


def rate(idle: NDArray[np.int64], requests: NDArray[np.int64], pods: int) -> float:
    """Placements per second, measured on the first `pods` of the requests."""
    sample = requests[:pods]
    scratch = idle.copy()
    began = time.perf_counter()
    place(scratch, sample)
    return len(sample) / (time.perf_counter() - began)
