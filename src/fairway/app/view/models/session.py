"""What a connected page learns first, and the server-sent events of GET /events that keep it up to date.

The SSE `event:` field is the tag (`type`); a client sends the last `id:` back to resume.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.app.view.models.common import PageStruct, ResourceInfo
from fairway.app.view.models.history import FeedEntry
from fairway.app.view.models.jobs import JobSummary


class ViewCapabilities(PageStruct, frozen=True):
    """What this page offers this user; views and buttons of everything else are hidden."""

    apply: bool
    """POST /apply and /delete are answered (sandbox)."""
    actions: bool
    """POST /jobs/{namespace}/{name}/actions is answered: cancel, reprioritise, hold, release."""
    pace: bool
    """POST /pace is answered: the speed of a sandbox."""
    what_if: bool
    history: bool
    devices: bool
    """The cluster has devices or device classes."""
    fleet: bool
    """A hub is connected."""
    live: bool
    """The cluster changes and GET /events has deltas; false for a recording."""


class SessionInfo(PageStruct, frozen=True):
    """GET /session: the first request of the page."""

    version: str
    """Version of Fairway."""
    source: Literal["sandbox", "live", "recording"]
    title: str
    """Title for the head of the page: `Sandbox`, or the name of the cluster or recording."""
    now: str
    """Time of the shown cluster: simulated in a sandbox, the shown cycle in a recording."""
    revision: int
    """Grows with every change of the shown cluster; events and answers carry it."""
    user: str
    namespaces: list[str] | None
    """Namespaces whose jobs this user may see; null for all."""
    capabilities: ViewCapabilities
    speed: float | None = None
    """Simulated seconds per real second; null where time is real or recorded."""
    paused: bool = False
    behind: str | None = None
    """How far the page is behind, such as `x12 of x60, the last cycle took 5.2 s`; null if it keeps up."""
    cycle: int | None = None
    """For a recording: the number of the shown cycle."""
    cycles: list[int] = []
    """For a recording: its first and last cycle."""


class JobCounts(PageStruct, frozen=True):
    waiting: int = 0
    starting: int = 0
    running: int = 0
    finished: int = 0


class ClusterSummary(PageStruct, frozen=True):
    """GET /overview: the head of the page."""

    revision: int
    now: str
    nodes: int
    nodes_ready: int
    """Ready and not cordoned."""
    resources: list[ResourceInfo]
    """The most important first: scalar resources such as GPUs, then cpu, then memory."""
    jobs: JobCounts
    waiting_pods: int
    running_pods: int
    reservations: int
    """Jobs with a reservation or a planned start."""
    evictions: int
    """Recorded evictions so far."""
    coming: int = 0
    """Jobs of a sandbox that arrive later."""
    warnings: list[str] = []


class PaceSetting(PageStruct, frozen=True, forbid_unknown_fields=True):
    """POST /pace, and its answer."""

    speed: float | None = None
    """Simulated seconds per real second; null leaves it unchanged."""
    paused: bool | None = None


ViewName = Literal[
    "jobs", "queues", "nodes", "devices", "evictions", "reservations", "history", "scheduler", "fleet", "session"
]


class StreamStruct(msgspec.Struct, rename="camel", frozen=True, tag_field="type"):
    """The base of all events."""


class HelloEvent(StreamStruct, frozen=True, tag="hello"):
    """The first event of every connection. Views loaded at another revision must be reloaded, unless `resumed` says
    that the deltas in between follow."""

    revision: int
    now: str
    resumed: bool


class DeltaEvent(StreamStruct, frozen=True, tag="delta"):
    """At most a few per second, however much changes."""

    revision: int
    now: str
    changed: list[ViewName]
    """Views whose answers differ from the previous revision."""
    summary: ClusterSummary
    jobs: list[JobSummary]
    """New or changed rows; at most 200."""
    removed: list[str]
    """Jobs that no longer exist."""
    jobs_complete: bool
    """false if more rows changed than are listed; reload the table."""
    feed: list[FeedEntry]
    """Events, oldest first; at most 100."""


class ResetEvent(StreamStruct, frozen=True, tag="reset"):
    """The missed deltas are no longer kept: reload everything."""

    revision: int
    now: str


class BehindEvent(StreamStruct, frozen=True, tag="behind"):
    """Whether the page is behind, sent when that changes. A new connection gets it only if the page is behind."""

    text: str | None
    """The same text as `behind` of the session."""


class GoodbyeEvent(StreamStruct, frozen=True, tag="goodbye"):
    """The server stops, or this client was too slow; reconnect."""

    reason: str


StreamEvent = HelloEvent | DeltaEvent | ResetEvent | BehindEvent | GoodbyeEvent
