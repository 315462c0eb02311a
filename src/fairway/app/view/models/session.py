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
    """What this page can do for this user; views and buttons of the rest are not shown."""

    apply: bool
    """POST /apply and /delete are answered (sandbox)."""
    actions: bool
    """POST /jobs/{namespace}/{name}/actions is answered: cancel, reprioritise, hold, release."""
    pace: bool
    """POST /pace is answered: the speed of a sandbox."""
    what_if: bool
    history: bool
    devices: bool
    """There are devices or device classes."""
    fleet: bool
    """A hub is connected."""
    live: bool
    """What is shown goes on; GET /events has deltas. A recording stands still."""


class SessionInfo(PageStruct, frozen=True):
    """GET /session: asked first by the page."""

    version: str
    """Of Fairway."""
    source: Literal["sandbox", "live", "recording"]
    title: str
    """For the head of the page, as `Sandbox` or the name of the cluster or file."""
    now: str
    """The time in what is shown: simulated in a sandbox, the last recorded cycle in a recording."""
    revision: int
    """Grows with every change of what is shown; events and answers carry it."""
    user: str
    namespaces: list[str] | None
    """Namespaces whose jobs this user may see; null is all of them."""
    capabilities: ViewCapabilities
    speed: float | None = None
    """Simulated seconds per real second; null where time is real or stands still."""
    paused: bool = False
    behind: str | None = None
    """By how much what is shown is behind, as `x12 of x60, the last cycle took 5.2 s`; null if it is not."""
    cycle: int | None = None
    """Of a recording: the number of the cycle that is shown."""
    cycles: list[int] = []
    """Of a recording: its first and its last cycle."""


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
    """So far, as far as is known."""
    coming: int = 0
    """Jobs that a sandbox knows to come later."""
    warnings: list[str] = []


class PaceSetting(PageStruct, frozen=True, forbid_unknown_fields=True):
    """POST /pace, and its answer."""

    speed: float | None = None
    """Simulated seconds per real second; null leaves it as it is."""
    paused: bool | None = None


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
