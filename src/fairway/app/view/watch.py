"""`ClusterWatch`: keeps a mirror up to date on its own thread, and has the newest picture of it.

A scheduler hands events and reports over without waiting (`applied`, `decided`: a listener of its loop). Pictures are
made when something changed and a viewer looks, at most every `RHYTHM` and never for more than a part of the time, so
that a large cluster is shown a little later instead of at the expense of something else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Condition, Event, RLock, Thread

from fairway.api import kinds
from fairway.api.kinds import ApiObject
from fairway.api.policy import Policy
from fairway.app.explain.situation import Situation
from fairway.app.view.estimates import NO_ESTIMATES, EstimatedStarts, estimates_of
from fairway.app.view.mirror import CycleReport, Mirror, report_of
from fairway.app.view.picture import Picture, picture_of
from fairway.clock import Clock, Micros
from fairway.drive import Change, Cycle
from fairway.state import cluster
from fairway.state.events import Deleted, Upserted
from fairway.state.reader import arrival_order

RHYTHM = 0.25
"""Minimum seconds between two pictures."""
ESTIMATE = 2.0
"""Minimum seconds between two look-aheads."""
LOAD = 5
"""Pause after a picture, as a multiple of the time it took."""
PATIENCE = 30.0
AFTER_ERROR = 5.0
"""Seconds of pause after an error."""

Work = Callable[[Mirror], None]


class ClusterWatch:
    """Watches one cluster. `clock` returns the time of that cluster."""

    def __init__(self, mirror: Mirror, clock: Clock) -> None:
        self._mirror = mirror
        self._clock = clock
        self._inbox: SimpleQueue[Work] = SimpleQueue()
        self._lock = RLock()
        self._news = Condition()
        self._picture = picture_of(mirror)
        self._spent = 0.0
        self._waits_since: float | None = None
        """Arrival time of the oldest event that is not applied yet."""
        self._taken_since: float | None = None
        """Arrival time of the oldest event that the next picture shows."""
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="view", daemon=True)
        self._estimates = NO_ESTIMATES
        self._seen = -1
        """Revision of the estimated starts."""
        self.look_ahead: Callable[[Situation, Sequence[str]], EstimatedStarts | None] = estimates_of
        """Computes estimated starts of jobs; None if it does not now."""
        self.coming: Callable[[], int] = lambda: 0
        """Number of jobs that arrive later."""
        self.drawn: Callable[[Mirror, Picture], None] = lambda mirror, picture: None
        """Called with each picture and its mirror."""
        self.failed: Callable[[Exception], None] = lambda error: None
        """Called with each error of a view; the watch continues with the next event."""

    def start(self) -> None:
        self._thread.start()
        Thread(target=self._estimate, name="estimates", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._inbox.put(lambda mirror: None)
        self._thread.join(PATIENCE)
        with self._news:
            self._news.notify_all()

    # -- a listener of a scheduler's loop ------------------------------------------------------------------------

    def applied(self, events: Sequence[cluster.Event]) -> None:
        self.applied_at(events, self._clock())

    def applied_at(self, events: Sequence[cluster.Event], at: Micros) -> None:
        self._put(lambda mirror: mirror.apply(events, at))

    def replaced_at(self, objects: Sequence[ApiObject], at: Micros) -> None:
        """Replaces all known objects."""
        self._put(lambda mirror: mirror.apply(_differences(mirror, objects), at))

    def decided(self, cycle: Cycle) -> None:
        self.report(report_of(cycle))

    def refused(self, change: Change, why: str) -> None: ...

    def begin(self, objects: Sequence[ApiObject]) -> None:
        """All existing objects."""
        self.applied([Upserted(thing) for thing in arrival_order(objects)])

    def report(self, report: CycleReport) -> None:
        self._put(lambda mirror: mirror.take(report))

    def use(self, policy: Policy) -> None:
        self._put(lambda mirror: mirror.use(policy))

    # -- readers -------------------------------------------------------------------------------------------------

    @property
    def picture(self) -> Picture:
        """The newest picture."""
        return self._picture

    @property
    def namespaces(self) -> Container[str]:
        """All namespaces that ever had an object."""
        return self._mirror.namespaces

    @contextmanager
    def mirror(self) -> Iterator[Mirror]:
        """The mirror; nothing is applied while it is held."""
        with self._lock:
            yield self._mirror

    def unseen(self) -> float:
        """Age in seconds of the oldest event that no picture shows yet; 0 if there is none."""
        since = min((at for at in (self._waits_since, self._taken_since) if at is not None), default=None)
        return 0.0 if since is None else time.monotonic() - since

    def wait(self, revision: int, timeout: float) -> bool:
        """Waits for a picture of a later revision; False if there was none in time."""
        with self._news:
            return self._news.wait_for(lambda: self._picture.revision > revision or self._stopped.is_set(), timeout)

    def catch_up(self) -> Picture:
        """Applies everything handed over so far and returns a picture of it."""
        with self._lock:
            self._take_inbox()
            if self._picture.revision != self._mirror.revision:
                self._draw()
            return self._picture

    # -- its own thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            first = self._inbox.get()
            try:
                with self._lock:
                    first(self._mirror)
                    self._take_inbox()
                    if not self._stopped.is_set():
                        self._draw()
            except Exception as error:  # a thread that ends in silence would leave a page that stands still
                self.failed(error)
                self._stopped.wait(AFTER_ERROR)
            self._stopped.wait(max(RHYTHM, LOAD * self._spent))

    def _put(self, work: Work) -> None:
        if self._waits_since is None:
            self._waits_since = time.monotonic()
        self._inbox.put(work)

    def _take_inbox(self) -> None:
        if self._taken_since is None:
            self._taken_since = self._waits_since
        self._waits_since = None
        for _ in range(self._inbox.qsize()):
            try:
                work = self._inbox.get_nowait()
            except Empty:
                return
            work(self._mirror)

    def _draw(self) -> None:
        begin = time.perf_counter()
        self._mirror.now = max(self._mirror.now, self._clock())
        picture = picture_of(self._mirror, self.coming(), self._estimates)
        self.drawn(self._mirror, picture)
        self._spent = time.perf_counter() - begin
        self._taken_since = None
        with self._news:
            self._picture = picture
            self._news.notify_all()

    # -- estimated starts, on another thread -----------------------------------------------------------------------

    def _estimate(self) -> None:
        """Computes estimated starts of all pending jobs from time to time, on a copy."""
        while not self._stopped.wait(ESTIMATE):
            picture = self._picture
            if picture.revision <= self._seen or picture.summary.jobs.waiting == 0:
                continue
            begin = time.perf_counter()
            before = self._estimates
            seen, self._seen = self._seen, picture.revision
            try:
                found = self._estimated(picture)
            except Exception as error:
                self.failed(error)
                found = NO_ESTIMATES
            if found is None:
                self._seen = seen
            self._estimates = found or NO_ESTIMATES
            if self._estimates != before:
                self._put(self._show_estimates)
            self._stopped.wait(LOAD * (time.perf_counter() - begin))

    def _show_estimates(self, mirror: Mirror) -> None:
        """New estimates alone are a reason for a new picture, but not for another look-ahead."""
        if mirror.revision == self._picture.revision:
            mirror.revision += 1
            self._seen = mirror.revision

    def _estimated(self, picture: Picture) -> EstimatedStarts | None:
        with self._lock:
            situation = self._mirror.situation()
        waiting = [row.job for row in picture.jobs.rows if row.state == "waiting"]
        return self.look_ahead(situation, waiting)


def _differences(mirror: Mirror, objects: Sequence[ApiObject]) -> list[cluster.Event]:
    there = {kinds.key(thing) for thing in objects}
    gone: list[cluster.Event] = [Deleted(thing) for key, thing in mirror.objects.items() if key not in there]
    new = [thing for thing in objects if mirror.objects.get(kinds.key(thing)) != thing]
    return [*gone, *(Upserted(thing) for thing in arrival_order(new))]
