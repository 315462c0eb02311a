"""Server-sent events of GET /events. The SSE `event:` field is the tag (`type`), `id:` is to be sent back on resume."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.models.moves import FeedEntry
from fairway.app.view.models.session import ClusterSummary

ViewName = Literal[
    "jobs", "queues", "nodes", "devices", "evictions", "reservations", "history", "scheduler", "fleet", "session"
]


class StreamStruct(msgspec.Struct, rename="camel", frozen=True, tag_field="type"):
    """The base of all events."""


class HelloEvent(StreamStruct, frozen=True, tag="hello"):
    """First on every connection. Views that were loaded at another revision are to be loaded again, unless
    `resumed` says that the deltas between come next."""

    revision: int
    now: str
    resumed: bool


class DeltaEvent(StreamStruct, frozen=True, tag="delta"):
    """At most a few per second, however much happens."""

    revision: int
    now: str
    changed: list[ViewName]
    """Views whose answers differ from those of the revision before."""
    summary: ClusterSummary
    jobs: list[JobSummary]
    """Rows that are new or other than they were; at most 200."""
    removed: list[str]
    """Jobs that are gone."""
    jobs_complete: bool
    """false: more rows changed than are listed; load the table again."""
    feed: list[FeedEntry]
    """What happened, oldest first; at most 100."""


class ResetEvent(StreamStruct, frozen=True, tag="reset"):
    """What was missed is no longer kept: load all again."""

    revision: int
    now: str


class BehindEvent(StreamStruct, frozen=True, tag="behind"):
    """Whether what is shown is behind, when that changes. A new connection is told only if it is."""

    text: str | None
    """As `behind` of the session."""


class GoodbyeEvent(StreamStruct, frozen=True, tag="goodbye"):
    """The server ends, or this client was too slow; connect again."""

    reason: str


StreamEvent = HelloEvent | DeltaEvent | ResetEvent | BehindEvent | GoodbyeEvent
