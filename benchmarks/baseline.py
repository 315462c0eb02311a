"""The baseline kernel: a bare best-fit loop over (resource, node) int64 columns, without plugins, gangs or reasons.

The cost of a whole `decide` per pod is stated as a ratio to this loop, run in the same process. The loop looks at every
node for every pod and keeps nothing but free capacity. Within that it is as lean as numpy allows: it allocates nothing,
skips resources that a pod does not request, and leaves the request itself, which is the same on every node, out of the
score. `place_plainly` is the obvious version that it is tested against.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import clock

GIANT = 1 << 60


def place(idle: NDArray[np.int64], requests: NDArray[np.int64]) -> list[int]:
    """Place each request in turn on the node that fits with the least free capacity, summed over resources as
    fractions of the largest node; the first of equals, -1 if none fits. Subtracts placements from `idle`.
    """
    rows = list(idle)
    scales = [(1 << 40) // max(1, int(row.max(initial=1))) for row in rows]
    room, part = np.empty_like(rows[0]), np.empty_like(rows[0])
    short, also = np.empty(len(room), dtype=np.bool_), np.empty(len(room), dtype=np.bool_)
    chosen = []
    for request in requests.tolist():
        np.less(rows[0], request[0], out=short)
        np.multiply(rows[0], scales[0], out=room)
        for row, amount, scale in zip(rows[1:], request[1:], scales[1:], strict=True):
            if amount:
                np.less(row, amount, out=also)
                np.bitwise_or(short, also, out=short)
            np.multiply(row, scale, out=part)
            np.add(room, part, out=room)
        np.putmask(room, short, GIANT)
        best = int(room.argmin())
        if short[best]:
            chosen.append(-1)
            continue
        for row, amount in zip(rows, request, strict=True):
            row[best] -= amount
        chosen.append(best)
    return chosen


def place_plainly(idle: list[list[int]], requests: list[list[int]]) -> list[int]:
    """The same, one node at a time: the capacity that is *left* decides, as best-fit is usually defined."""
    scales = [(1 << 40) // max(1, *column) for column in idle]
    chosen = []
    for request in requests:
        best, least = -1, 0
        for node in range(len(idle[0])):
            if all(idle[r][node] >= amount for r, amount in enumerate(request)):
                left = sum((idle[r][node] - amount) * scales[r] for r, amount in enumerate(request))
                if best < 0 or left < least:
                    best, least = node, left
        for r, amount in enumerate(request if best >= 0 else ()):
            idle[r][best] -= amount
        chosen.append(best)
    return chosen


def rate(idle: NDArray[np.int64], requests: NDArray[np.int64]) -> float:
    """Placements per second."""
    scratch = idle.copy()
    began = clock()
    place(scratch, requests)
    return len(requests) / max(clock() - began, 1e-9)
