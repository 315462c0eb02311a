"""Past run times, by namespace, user and job name: what `estimate: user-history` goes by.

A job's name without its trailing number is what runs of the same kind have in common (`train-17`, `train-18`). A run is
that of a job: its pods that ran at the same time are one run, and hearing of a pod twice changes nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from fairway.api.pods import Pod
from fairway.clock import Micros, from_datetime

KEPT = 8
"""Runs remembered of each name; those that ended first go."""

COUNTED = 2
"""Of these, so many of the last ones make the estimate."""

MAX_NAMES = 100_000
"""Names remembered; the least recently heard of go."""

_NUMBER = re.compile(r"[-_.]?\d+$")


@lru_cache(maxsize=1 << 16)
def stem(name: str) -> str:
    return _NUMBER.sub("", name) or name


class _PastRun(NamedTuple):
    ended: Micros
    began: Micros
    job: str


class RunHistory:
    """How long runs took."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str, str], list[_PastRun]] = {}
        self.generation = 0
        """Counts what is remembered."""

    def note(self, pod: Pod, job: str, user: str = "") -> None:
        """A pod has succeeded: remember how long it ran, if its status says so."""
        began, ended = pod.status.start_time, _end(pod)
        if began is not None and ended is not None:
            self.add(pod.metadata.namespace, job, from_datetime(began), ended, user)

    def add(self, namespace: str, job: str, began: Micros, ended: Micros, user: str = "") -> None:
        """Remember a run."""
        if ended <= began:
            return
        self.generation += 1
        key = (namespace, user, stem(job))
        runs = _with(self._runs.pop(key, []), _PastRun(ended, began, job))
        self._runs[key] = sorted(runs)[-KEPT:]
        if len(self._runs) > MAX_NAMES:
            del self._runs[next(iter(self._runs))]

    def mean(self, namespace: str, job: str, user: str = "") -> Micros | None:
        """The mean of the last two runs of a user's jobs of that name."""
        runs = self._runs.get((namespace, user, stem(job)))
        if not runs:
            return None
        spans = [run.ended - run.began for run in runs[-COUNTED:]]
        return sum(spans) // len(spans)


def _with(runs: list[_PastRun], new: _PastRun) -> list[_PastRun]:
    """One run more, or a longer one: what a job did at overlapping times was one run."""
    same = [run for run in runs if run.job == new.job and run.began < new.ended and new.began < run.ended]
    ended = max(run.ended for run in [new, *same])
    began = min(run.began for run in [new, *same])
    return [*(run for run in runs if run not in same), _PastRun(ended, began, new.job)]


def _end(pod: Pod) -> Micros | None:
    """The last that its conditions tell of: when it ceased to be ready."""
    times = [c.last_transition_time for c in pod.status.conditions if c.last_transition_time is not None]
    return max(map(from_datetime, times), default=None)
