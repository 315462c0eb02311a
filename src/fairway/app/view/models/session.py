"""Who asks, what is shown, and what may be done."""

from __future__ import annotations

from typing import Literal

from fairway.app.view.models.common import PageStruct, ResourceInfo


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
