"""`ShownCluster`: what a page shows, wherever it comes from: a sandbox, a live scheduler, or a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from fairway.app.explain.situation import Situation
from fairway.app.live.logs import RunLog
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.app.view.behind import BehindNotice, LiveFacts, live_reading
from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.models.fleet import FleetPage
from fairway.app.view.models.job import JobAction, JobActionRequest
from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.scheduler_page import NO_FACTS, ProgramFacts
from fairway.app.view.watch import ClusterWatch
from fairway.web.asking import Viewer
from fairway.web.look_aheads import LookAheads
from fairway.web.page_log import to_standard_error
from fairway.web.turns import UserTurns
from fairway.web.worker import WhatIfWorker

QUESTIONS = 2
"""Questions that decide many times on a copy: so many at once, so that all else goes on."""
MOST_ASKED = 30
"""Of them that wait, of one user; requests of users of a cluster are limited before that."""


class JobActions(Protocol):
    """What users may do to jobs of a cluster, with their own rights."""

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]: ...

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        """What was done; RequestRefusedError where that may not be done."""


@dataclass(slots=True)
class ShownCluster:
    """See the module. Parts that a source does not have are None."""

    kind: Literal["sandbox", "live", "recording"]
    title: str
    watch: ClusterWatch
    facts: Callable[[], ProgramFacts] = field(default=lambda: NO_FACTS)
    sandbox: Sandbox | None = None
    pace: Runner | None = None
    actions: JobActions | None = None
    what_if: WhatIfWorker | None = None
    history: HistoryRing | None = None
    fleet: Callable[[], FleetPage] | None = None
    cycle: int | None = None
    """Of a recording: the one that is shown, and the first and last that were read."""
    cycles: tuple[int, int] | None = None
    viewers: Callable[[], int] = field(default=lambda: 0)
    """Clients of the stream of events."""
    lateness: Callable[[], LiveFacts] = LiveFacts
    """What is late, beside the time of a sandbox."""
    notice: BehindNotice = field(default_factory=BehindNotice)
    log: RunLog = field(default_factory=lambda: RunLog(write=to_standard_error))
    ahead: LookAheads = field(default_factory=LookAheads)
    asking: UserTurns = field(default_factory=lambda: UserTurns(QUESTIONS, MOST_ASKED))

    def behind(self) -> str | None:
        """By how much what is shown is behind, as a text; None if it is not. From any thread."""
        late = None if self.pace is None else self.pace.behind()
        return late or self.notice.take(live_reading(self.lateness()))

    def situation(self) -> Situation:
        """A copy to put questions to."""
        if self.sandbox is not None:
            return self.sandbox.situation()
        with self.watch.mirror() as mirror:
            return mirror.situation()
