"""Estimated starts of all jobs that wait: one look ahead for all of them, as far as there is time for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

import msgspec

from fairway.app.explain.look_ahead import LookAhead
from fairway.app.explain.situation import Situation
from fairway.clock import format_rfc3339

MOST_SECONDS = 10.0
"""Of processor time for one look ahead."""


class EstimatedStarts(msgspec.Struct, frozen=True):
    """When jobs start if nothing else arrives."""

    starts: dict[str, str] = {}
    jobs: frozenset[str] = frozenset()
    """All that were looked for; others came later, and nothing is known of them yet."""
    until: str | None = None
    """Where the look ahead ended at its limit: a job without a start here starts later. None where there was no more to
    see: such a job does not start as things are."""


NO_ESTIMATES = EstimatedStarts()


def estimates_of(situation: Situation, jobs: Collection[str], seconds: float = MOST_SECONDS) -> EstimatedStarts:
    ahead = LookAhead(situation)
    ahead.run(jobs, stop=after(seconds))
    starts = {job: format_rfc3339(ahead.started[job]) for job in jobs if job in ahead.started}
    until = format_rfc3339(ahead.now) if ahead.goes_on and len(starts) < len(jobs) else None
    return EstimatedStarts(starts, frozenset(jobs), until)


def after(seconds: float) -> Callable[[], bool]:
    """Whether this thread has used so much processor time from now on."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() >= end
