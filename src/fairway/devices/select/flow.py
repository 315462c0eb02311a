"""Whether demands can be met from supplies that serve only some of them: maximum flow, polynomial.

Supplies that serve the same demands are one bucket, keyed by a bit mask of the demands it serves: asking for n + 1 of n
like devices costs what asking for n of them does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence


def can_serve(demands: Sequence[int], buckets: Mapping[int, int]) -> bool:
    """Whether every demand can be met in full. A unit of supply serves one demand."""
    if not _enough(demands, buckets):
        return False
    if len(demands) == 1:
        return True
    spare = dict(buckets)
    flow: dict[tuple[int, int], int] = {}
    for line, wanted in enumerate(demands):
        while wanted:
            moved = _augment(line, wanted, spare, flow, len(demands))
            if not moved:
                return False
            wanted -= moved
    return True


def _enough(demands: Sequence[int], buckets: Mapping[int, int]) -> bool:
    """Each demand alone, and all together: this decides most refusals."""
    everything = sum(units for mask, units in buckets.items() if mask)
    if everything < sum(demands):
        return False
    return all(
        sum(units for mask, units in buckets.items() if mask >> line & 1) >= wanted
        for line, wanted in enumerate(demands)
    )


def _augment(line: int, wanted: int, spare: dict[int, int], flow: dict[tuple[int, int], int], lines: int) -> int:
    """Moves up to `wanted` units along one shortest path from a demand to a bucket with spare units."""
    came_from: dict[int, tuple[int, int]] = {}
    seen_buckets: set[int] = set()
    queue = deque([line])
    while queue:
        at = queue.popleft()
        for bucket in spare:
            if not bucket >> at & 1 or bucket in seen_buckets:
                continue
            seen_buckets.add(bucket)
            if spare[bucket]:
                return _move(line, at, bucket, wanted, spare, flow, came_from)
            for other in range(lines):
                if other != line and other not in came_from and flow.get((other, bucket), 0):
                    came_from[other] = (at, bucket)
                    queue.append(other)
    return 0


def _move(
    line: int,
    last: int,
    bucket: int,
    wanted: int,
    spare: dict[int, int],
    flow: dict[tuple[int, int], int],
    came_from: dict[int, tuple[int, int]],
) -> int:
    path = []
    at = last
    while at != line:
        previous, through = came_from[at]
        path.append((previous, through, at))
        at = previous
    amount = min([wanted, spare[bucket], *(flow[giver, through] for _, through, giver in path)])
    spare[bucket] -= amount
    flow[last, bucket] = flow.get((last, bucket), 0) + amount
    for taker, through, giver in path:
        flow[giver, through] -= amount
        flow[taker, through] = flow.get((taker, through), 0) + amount
    return amount
