"""Looks ahead for the page: of a small cluster on a thread, of a large one in a worker process, so that nothing waits
for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Lock

from fairway.app.explain.model import Forecast
from fairway.app.explain.situation import Situation
from fairway.app.view.estimates import NO_ESTIMATES, EstimatedStarts, estimates_of
from fairway.app.view.interval import StartAnswer, start_of
from fairway.clock import Micros
from fairway.web.asking import NEVER, RequestRefusedError
from fairway.web.worker import QuestionWorker, WorkerQuestion

MOST_HERE = 2_000
"""Objects of a cluster that is looked at on a thread."""
MOST_COPIED = 100_000
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
        if len(situation.objects) <= MOST_HERE:
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
        if len(situation.objects) <= MOST_HERE:
            return estimates_of(situation, jobs)
        if not self.followers() and time.monotonic() > self._viewed + RECENTLY:
            return None
        if len(situation.objects) > MOST_COPIED:
            return NO_ESTIMATES
        try:
            return self._table.put(situation, WorkerQuestion(jobs=list(jobs))).estimates
        except RequestRefusedError:  # it met a limit: the table is shown without
            return NO_ESTIMATES
