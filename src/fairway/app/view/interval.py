"""When a waiting job starts, and between which times: the forecast, and again with runs as short and as long as they
may be. Each is a look ahead of its own, which ends after some time.
"""

from __future__ import annotations

from typing import NamedTuple

from fairway.app.explain import explain
from fairway.app.explain.look_ahead import LookAhead, RunBound
from fairway.app.explain.model import Forecast
from fairway.app.explain.situation import Situation
from fairway.app.view.estimates import MOST_SECONDS, after
from fairway.app.view.models.job import StartInterval
from fairway.clock import Micros, format_rfc3339, parse_rfc3339


class StartAnswer(NamedTuple):
    """Both None where the job does not wait, and the interval where it was not looked for."""

    forecast: Forecast | None
    interval: StartInterval | None


def start_of(situation: Situation, name: str, *, bounds: bool, known: Forecast | None = None) -> StartAnswer:
    """InputError where there is no such job. `known` is its forecast in this situation, if it was made already."""
    key = situation.find_job(name)
    found = known or explain(situation, key, with_changes=False, stop=after(MOST_SECONDS)).forecast
    return StartAnswer(found, start_interval(situation, key, found) if bounds else None)


def start_interval(situation: Situation, job: str, forecast: Forecast | None) -> StartInterval | None:
    """None where the job does not wait."""
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
    ahead.run([job], stop=after(MOST_SECONDS))
    return ahead.started.get(job)
