"""Past run times, by namespace and job name: what `estimate: user-history` goes by.

A job's name without its trailing number is what runs of the same kind have in common (`train-17`, `train-18`).
"""

from __future__ import annotations

import re
from collections import deque

from fairway.api.pods import Pod
from fairway.clock import Micros, from_datetime

KEPT = 31
"""Runs remembered of each name; the oldest go."""

MAX_NAMES = 100_000
"""Names remembered; the least recently finished go."""

_NUMBER = re.compile(r"[-_.]?\d+$")


def stem(name: str) -> str:
    return _NUMBER.sub("", name) or name


class RunHistory:
    """How long runs took."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], deque[Micros]] = {}

    def note(self, pod: Pod, job: str) -> None:
        """A pod has succeeded: remember how long it ran, if its status says so."""
        began = pod.status.start_time
        ends = [c.last_transition_time for c in pod.status.conditions if c.last_transition_time is not None]
        if began is None or not ends:
            return
        span = max(map(from_datetime, ends)) - from_datetime(began)
        if span <= 0:
            return
        key = (pod.metadata.namespace, stem(job))
        runs = self._runs.pop(key, None) or deque(maxlen=KEPT)
        runs.append(span)
        self._runs[key] = runs
        if len(self._runs) > MAX_NAMES:
            del self._runs[next(iter(self._runs))]

    def median(self, namespace: str, job: str) -> Micros | None:
        runs = self._runs.get((namespace, stem(job)))
        if not runs:
            return None
        ordered = sorted(runs)
        return ordered[len(ordered) // 2]
