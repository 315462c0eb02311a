"""Times as CEL writes them: RFC 3339, and spans such as `1h30m`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from fairway.cel.errors import EvaluationError

_MOST = 64
_SPAN = re.compile(r"[+-]?(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:h|ms|us|µs|ns|m|s))+")
_PART = re.compile(r"([0-9.]+)(h|ms|us|µs|ns|m|s)")
_MICROS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1, "µs": 1, "ns": 0.001}


def parse_timestamp(text: str) -> datetime:
    try:
        if len(text) <= _MOST and "T" in text.upper():
            found = datetime.fromisoformat(text)
            if found.tzinfo is not None:
                return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise EvaluationError("the text is not a time")


def parse_duration(text: str) -> timedelta:
    if len(text) <= _MOST and (text == "0" or _SPAN.fullmatch(text)):
        micros = sum(float(amount) * _MICROS[unit] for amount, unit in _PART.findall(text))
        return timedelta(microseconds=-micros if text.startswith("-") else micros)
    raise EvaluationError("the text is not a duration")


def timestamp_text(at: datetime) -> str:
    text = at.astimezone(UTC).isoformat().replace("+00:00", "")
    return (text.rstrip("0") if "." in text else text) + "Z"


def duration_text(span: timedelta) -> str:
    text = f"{span.total_seconds():f}".rstrip("0").rstrip(".")
    return f"{text}s"
