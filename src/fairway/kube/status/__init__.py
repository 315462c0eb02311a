"""Statuses, counts and events that people and programs read (spec K9 to K11)."""

from fairway.kube.status.event_writer import EventWriter
from fairway.kube.status.status_writer import StatusWriter

__all__ = [
    "EventWriter",
    "StatusWriter",
]
