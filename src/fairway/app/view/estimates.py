"""Estimated starts: one look ahead for all pending jobs, and the interval of possible starts for a single one.

A look ahead is expensive in a large cluster, so each stops after a limit of processor time and returns what it has. The
interval of a job comes from two more: with every run as short, and as long, as its bounds allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from fairway.app.explain import explain
from fairway.app.explain.look_ahead import LookAhead, RunBound
from fairway.app.explain.model import Forecast
from fairway.app.explain.situation import Situation
from fairway.app.view.models.jobs import StartInterval
from fairway.clock import Micros, format_rfc3339, parse_rfc3339

MAX_SECONDS = 10.0
"""Seconds of processor time for one look ahead."""


class EstimatedStarts(msgspec.Struct, frozen=True):
    """Estimated starts of jobs if nothing else arrives."""

    starts: dict[str, str] = {}
    jobs: frozenset[str] = frozenset()
    """Jobs of the look ahead; jobs that arrived later have no estimate yet."""
    until: str | None = None
    """The time at which the look ahead stopped at its limit: a job without a start starts later. None if it reached the
    end of all known events: such a job does not start as things are.
    """


NO_ESTIMATES = EstimatedStarts()


def estimates_of(situation: Situation, jobs: Collection[str], seconds: float = MAX_SECONDS) -> EstimatedStarts:
    ahead = LookAhead(situation)
    ahead.run(jobs, stop=after(seconds))
    starts = {job: format_rfc3339(ahead.started[job]) for job in jobs if job in ahead.started}
    until = format_rfc3339(ahead.now) if ahead.goes_on and len(starts) < len(jobs) else None
    return EstimatedStarts(starts, frozenset(jobs), until)


def after(seconds: float) -> Callable[[], bool]:
    """A check whether this thread has used this much processor time since now."""
    end = time.thread_time() + seconds
    return lambda: time.thread_time() >= end


class StartAnswer(NamedTuple):
    """Both are None for a job that is not pending; the interval is None unless requested."""

    forecast: Forecast | None
    interval: StartInterval | None


def start_of(situation: Situation, name: str, *, bounds: bool, known: Forecast | None = None) -> StartAnswer:
    """Raises InputError for an unknown job. `known` is its forecast in this situation, if already computed."""
    key = situation.find_job(name)
    found = known or explain(situation, key, with_changes=False, stop=after(MAX_SECONDS)).forecast
    return StartAnswer(found, start_interval(situation, key, found) if bounds else None)


def start_interval(situation: Situation, job: str, forecast: Forecast | None) -> StartInterval | None:
    """None if the job is not pending."""
    if forecast is None:
        return None
    earliest = _start(situation, job, RunBound.SHORTEST)
    latest = _start(situation, job, RunBound.LONGEST)
    start = None if forecast.start is None else parse_rfc3339(forecast.start)
    # An earlier end elsewhere may also delay a job: the bounds are those of what was seen.
    seen = [one for one in (start, earliest) if one is not None]
    late = None if latest is None else max([latest, *seen])
    return StartInterval(
        text=forecast.text,
        start=forecast.start,
        earliest=format_rfc3339(min(seen)) if seen else None,
        latest=None if late is None else format_rfc3339(late),
        is_estimate=forecast.estimate,
    )


def _start(situation: Situation, job: str, bound: RunBound) -> Micros | None:
    ahead = LookAhead(situation, bound)
    ahead.run([job], stop=after(MAX_SECONDS))
    return ahead.started.get(job)
