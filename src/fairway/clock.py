"""Time is passed in, never read: an instant is a whole number of microseconds since 1970 (UTC).

Only the shells (command line, live scheduler, sandbox) look at a real clock, through `Clock`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from fairway.errors import InputError

Micros = int
"""Microseconds: an instant since the epoch, or a span."""

SECOND: Micros = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)

Clock = Callable[[], Micros]
"""What a shell hands to code that needs the present time."""


def wall_clock() -> Micros:
    """The present, for the outermost shells only."""
    return time.time_ns() // 1000


def from_datetime(moment: datetime) -> Micros:
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(moment: Micros) -> datetime:
    return _EPOCH + moment * _MICROSECOND


def parse_rfc3339(text: str) -> Micros:
    """An RFC 3339 time with its zone, as Kubernetes writes it."""
    if not _RFC3339.fullmatch(text):
        raise InputError(f"{text!r} is not an RFC 3339 time, expected for example 2026-01-01T00:00:00Z")
    try:
        return from_datetime(datetime.fromisoformat(text.upper()))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{text!r} is not a time: {error}") from None


def to_the_second(moment: Micros) -> str:
    """A time for people: in RFC 3339, the next whole second."""
    return format_rfc3339(-(-moment // SECOND) * SECOND)


@lru_cache(maxsize=1024)
def format_rfc3339(moment: Micros) -> str:
    """The shortest RFC 3339 text in UTC: `2026-01-01T00:00:00Z`, with a fraction only where there is one."""
    text = to_datetime(moment).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = moment % SECOND
    return f"{text}.{fraction:06d}Z" if fraction else f"{text}Z"
