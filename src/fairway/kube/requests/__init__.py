"""Each write as a value: its path and body, and what its answers mean (spec K17 to K24)."""

from fairway.kube.requests.statuses import EventMaker, EventNote, Regarding, StatusWrite

__all__ = [
    "EventMaker",
    "EventNote",
    "Regarding",
    "StatusWrite",
]
