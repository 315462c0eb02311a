"""Between which times a waiting job starts: the forecast again, with runs as short and as long as they may be."""

from __future__ import annotations

from fairway.app.explain.look_ahead import LookAhead, RunBound
from fairway.app.explain.model import Explanation
from fairway.app.explain.situation import Situation
from fairway.app.view.models.job import StartInterval
from fairway.clock import Micros, format_rfc3339, parse_rfc3339


def start_interval(situation: Situation, explanation: Explanation) -> StartInterval | None:
    """None where the job does not wait."""
    forecast = explanation.forecast
    if forecast is None:
        return None
    earliest = _start(situation, explanation.job, RunBound.SHORTEST)
    latest = _start(situation, explanation.job, RunBound.LONGEST)
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
    ahead.run([job])
    return ahead.started.get(job)
