"""How evenly waits fall on users. A user is a namespace: the trace's own where a scenario puts all jobs into one.

The normalised wait of a user is the sum of the waits of its jobs over the sum of their areas (processors times run
time): how long it waited for each processor-second that it got. A user of large and long jobs may wait longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import msgspec

from fairway.clock import SECOND
from fairway.sim.metrics.outcomes import JobGroup


class SpreadMetrics(msgspec.Struct, frozen=True, rename="camel"):
    """One figure for each user: how it is spread."""

    mean: float
    deviation: float
    """The standard deviation over the users."""
    largest: float
    user: str
    """The user with the largest."""


class UserMetrics(msgspec.Struct, frozen=True, rename="camel"):
    users: int
    wait: SpreadMetrics
    """Mean waits, in seconds."""
    normalised_wait: SpreadMetrics
    """Seconds waited for each processor-second; users whose jobs ran no time at all are left out."""


def user_metrics(groups: Mapping[str, JobGroup]) -> UserMetrics:
    waits = [(group.wait.mean() / SECOND, name) for name, group in sorted(groups.items())]
    normalised = [(group.wait.total * 1000 / group.area, name) for name, group in sorted(groups.items()) if group.area]
    return UserMetrics(len(waits), _spread(waits), _spread(normalised))


def _spread(values: Sequence[tuple[float, str]]) -> SpreadMetrics:
    if not values:
        return SpreadMetrics(0.0, 0.0, 0.0, "")
    mean = sum(value for value, _ in values) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value, _ in values) / len(values))
    largest, user = max(values, key=lambda entry: (entry[0], entry[1]))
    return SpreadMetrics(round(mean, 6), round(deviation, 6), round(largest, 6), user)
