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

from fairway.app.explain import Forecast, Situation
from fairway.app.logs import RunLog
from fairway.app.sandbox import Runner, Sandbox
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
"""Maximum number of objects for a forecast on a thread."""
MAX_COPIED = 100_000
"""Maximum number of objects for estimated starts in the table."""
MEGABYTES = 2_048
LAST_OF_ALL = 19
"""Niceness of the worker of the table: no viewer waits for it, and it should not slow down a scheduler on the machine.
"""
RECENTLY = 60.0
"""Seconds after a request for which a page counts as open."""


class LookAheads:
    """Forecasts for the page. One worker serves single jobs that a viewer opens, another the table."""

    def __init__(self, followers: Callable[[], int] = lambda: 0) -> None:
        self.followers = followers
        self._asked = QuestionWorker(megabytes=MEGABYTES)
        self._table = QuestionWorker(megabytes=MEGABYTES, nice=LAST_OF_ALL)
        self._one_here = Lock()
        self._viewed = -RECENTLY
        self._known: dict[tuple[Micros, int, str], Forecast] = {}
        """The last forecast, because the page requests the bounds of the same job next."""

    def viewed(self) -> None:
        """Notes a request of a viewer."""
        self._viewed = time.monotonic()

    def start(
        self, situation: Situation, job: str, *, bounds: bool, gone: Event = NEVER, user: str = ""
    ) -> StartAnswer:
        """Raises InputError for an unknown job, and RequestRefusedError if it cannot be answered now."""
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
        """None while no page is open: forecasts of a large cluster are expensive."""
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
"""Maximum number of concurrent questions that decide many times on a copy, so that other requests are not delayed."""
MAX_ASKED = 30
"""Maximum number of such questions queued per user; requests of cluster users are limited earlier."""


class JobActions(Protocol):
    """Actions of users on jobs, with their own permissions."""

    def allowed(self, viewer: Viewer, job: JobSummary) -> list[JobAction]: ...

    def act(self, viewer: Viewer, job: str, request: JobActionRequest) -> str:
        """Takes an action and returns what was done. Raises RequestRefusedError if it is not allowed."""


@dataclass(slots=True)
class ShownCluster:
    """What a page shows. Parts that a source does not have are None."""

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
    """For a recording: the shown cycle, and the first and last one."""
    cycles: tuple[int, int] | None = None
    viewers: Callable[[], int] = field(default=lambda: 0)
    """Number of clients of the event stream."""
    lateness: Callable[[], LiveFacts] = LiveFacts
    """Other delays than that of a sandbox's time."""
    notice: BehindNotice = field(default_factory=BehindNotice)
    log: RunLog = field(default_factory=lambda: RunLog(write=to_standard_error))
    ahead: LookAheads = field(default_factory=LookAheads)
    asking: UserTurns = field(default_factory=lambda: UserTurns(QUESTIONS, MAX_ASKED))

    def behind(self) -> str | None:
        """How far the page is behind, as text; None if it keeps up. Thread-safe."""
        late = None if self.pace is None else self.pace.behind()
        return late or self.notice.take(live_reading(self.lateness()))

    def situation(self) -> Situation:
        """A copy of the cluster for questions."""
        if self.sandbox is not None:
            return self.sandbox.situation()
        with self.watch.mirror() as mirror:
            return mirror.situation()
