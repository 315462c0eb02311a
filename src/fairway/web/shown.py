"""`ShownCluster`: what a page shows, wherever it comes from: a sandbox, a live scheduler, or a recording.

Looks ahead are made here: on a thread for a small cluster, and in a worker process for a large one, so that no other
request waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Literal, Protocol

from fairway.app.explain.model import Forecast
from fairway.app.explain.situation import Situation
from fairway.app.live.logs import RunLog
from fairway.app.sandbox.engine import Sandbox
from fairway.app.sandbox.pace import Runner
from fairway.app.view.behind import BehindNotice, LiveFacts, live_reading
from fairway.app.view.estimates import NO_ESTIMATES, EstimatedStarts, StartAnswer, estimates_of, start_of
from fairway.app.view.history_ring import HistoryRing
from fairway.app.view.models.cluster import FleetPage
from fairway.app.view.models.jobs import JobAction, JobActionRequest, JobSummary
from fairway.app.view.scheduler_page import NO_FACTS, ProgramFacts
from fairway.app.view.watch import ClusterWatch
from fairway.clock import Micros
from fairway.web.asking import NEVER, RequestRefusedError, Viewer
from fairway.web.limits import UserTurns
from fairway.web.page_log import to_standard_error
from fairway.web.worker import QuestionWorker, WhatIfWorker, WorkerQuestion

MAX_HERE = 2_000
"""Objects of a cluster that is looked at on a thread."""
MAX_COPIED = 100_000
"""Objects above which starts in the table are left out."""
MEGABYTES = 2_048
LAST_OF_ALL = 19
"""How nice the worker of the table is: no viewer waits for it, and a scheduler beside it should not feel it."""
RECENTLY = 60.0
"""Seconds for which a cluster counts as looked at."""


class LookAheads:
    """See the module. One worker is for jobs that a viewer asks for, one for the table."""

    def __init__(self, followers: Callable[[], int] = lambda: 0) -> None:
        self.followers = followers
        self._asked = QuestionWorker(megabytes=MEGABYTES)
        self._table = QuestionWorker(megabytes=MEGABYTES, nice=LAST_OF_ALL)
        self._one_here = Lock()
        self._viewed = -RECENTLY
        self._known: dict[tuple[Micros, int, str], Forecast] = {}
        """The last forecast: who looks at a job asks for its bounds next."""

    def viewed(self) -> None:
        """A viewer has asked for something."""
        self._viewed = time.monotonic()

    def start(
        self, situation: Situation, job: str, *, bounds: bool, gone: Event = NEVER, user: str = ""
    ) -> StartAnswer:
        """InputError where there is no such job, RequestRefusedError where it cannot be answered now."""
        if len(situation.objects) <= MAX_HERE:
            with self._one_here:
                return start_of(situation, job, bounds=bounds)
        key = (situation.now, len(situation.objects), job)
        known = self._known.get(key)
        if known is not None and not bounds:
            return StartAnswer(known, None)
        question = WorkerQuestion(start=job, bounds=bounds, known=known)
        found = self._asked.put(situation, question, gone, user).start
        assert found is not None
        if found.forecast is not None:
            self._known = {key: found.forecast}
        return found

    def estimates(self, situation: Situation, jobs: Sequence[str]) -> EstimatedStarts | None:
        """None as long as no page is open: a large cluster is not looked ahead of for none."""
        if len(situation.objects) <= MAX_HERE:
            return estimates_of(situation, jobs)
        if not self.followers() and time.monotonic() > self._viewed + RECENTLY:
            return None
        if len(situation.objects) > MAX_COPIED:
            return NO_ESTIMATES
        try:
            return self._table.put(situation, WorkerQuestion(jobs=list(jobs))).estimates
        except RequestRefusedError:  # it met a limit: the table is shown without
            return NO_ESTIMATES


QUESTIONS = 2
"""Questions that decide many times on a copy: so many at once, so that all else goes on."""
MAX_ASKED = 30
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
    asking: UserTurns = field(default_factory=lambda: UserTurns(QUESTIONS, MAX_ASKED))

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
