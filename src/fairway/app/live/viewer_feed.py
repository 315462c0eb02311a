"""`ViewerFeed`: sends the scheduler's events and cycles to the process that serves the page, without ever waiting.

The scheduler listens on a Unix domain socket. A page that connects gets all objects, then every event; nothing is read
from it. A listener of the loop hands events to a thread, which writes them as lines of JSON. Views are computed in the
page's process, so a page costs the scheduler only the writing.

A page that ends or does not read is dropped: scheduling continues, and the next page to connect gets everything again.
One page is served at a time, and a new one at most every `BETWEEN` seconds.

    {"begin": {...}}                    the scheduler (`FeedHead`); all objects follow
    {"policy": "..."}                   the policy in force from now on
    {"upsert": "Pod", "object": {...}}  {"delete": "Pod", "object": {...}}
    {"at": 1767225600000000}            end of a batch of events, in microseconds; with "whole", of all objects
    {"cycle": {...}}                    what a cycle did (`app.view.mirror.CycleReport`)
    {"facts": {...}}                    the program's report about itself, every `FACTS_EVERY` seconds
"""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.api.policy import Policy
from fairway.app.records import without_free_text
from fairway.app.view.mirror import report_of
from fairway.app.view.models.history import ApiLatency, SchedulerProblem, ShadowDifference
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.clock import Clock, format_rfc3339, wall_clock
from fairway.drive import Change, Cycle
from fairway.errors import InputError
from fairway.sim.policies import policy_text
from fairway.state.events import Event, Upserted

if TYPE_CHECKING:  # the page's process has no metrics, and not always the library for them
    from fairway.app.live.observing import RunMetrics, Tally, TimeSpread
    from fairway.app.live.shadow import ShadowPolicy
    from fairway.app.logs import RunLog

MAX_BATCHES = 20_000
"""Maximum number of batches waiting to be written."""
FACTS_EVERY = 2.0
"""Seconds between two facts. A page that is gone is noticed by then."""
PAUSE = 0.1
"""Seconds between two rounds of writing: waking up for every event costs more than writing it."""
CHUNK = 200
"""Events that are written before the thread yields to the others."""
STALLED = 20.0
"""Seconds for which a page may leave a chunk unread."""
BETWEEN = 1.0
"""Seconds between the end of one page and the start of the next: each start visits every object."""
AFTER_STALL = 10.0
"""Seconds between two pages after one that did not read."""

_FIRST_ERROR = 400
"""Statuses from here on are failures."""
_UPSERT, _DELETE = (
    {kind.struct: f'{{"{verb}":"{kind.name}","object":'.encode() for kind in KINDS} for verb in ("upsert", "delete")
)
"""How the lines of events start, by type: concatenating costs less than encoding a whole line."""


class FeedHead(msgspec.Struct, rename="camel", frozen=True):
    """The scheduler that a feed comes from."""

    title: str = ""
    """The address of the API server."""
    scheduler_names: tuple[str, ...] = ()


class _Batch(NamedTuple):
    events: Sequence[Event]
    at: int


class _Whole(NamedTuple):
    objects: list[ApiObject]
    at: int


class ViewerFeed:
    """A listener of the loop that feeds one page at a time."""

    def __init__(
        self,
        path: str,
        head: FeedHead,
        objects: Callable[[], list[ApiObject]],
        facts: Callable[[], ProgramFacts],
        hand_over: Callable[[Callable[[], None]], None],
        clock: Clock = wall_clock,
        lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`objects` returns everything that listeners have been told of, `hand_over` runs a function on the loop's
        thread, and `lost` is called with the reason when a page is dropped. InputError if no socket can be made at the
        path.
        """
        self._path = path
        self._head = head
        self._objects = objects
        self._facts = facts
        self._hand_over = hand_over
        self._clock = clock
        self._lost = lost
        self._policy = ""
        self._encoder = msgspec.json.Encoder()
        self._queue: Queue[Any] | None = None
        """The queue of the connected page. Set and used on the loop's thread; the writer has its own reference."""
        self._begun = threading.Event()
        self._stopping = threading.Event()
        self._listener = listen(path)
        self._thread = Thread(target=self._serve, name="viewer-feed", daemon=True)

    def start(self, policy: Policy) -> None:
        self._policy = policy_text(policy)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._listener.close()
        with suppress(OSError):
            Path(self._path).unlink(missing_ok=True)
        self._thread.join(5)

    @property
    def processor_time(self) -> float:
        """CPU seconds that the feed's thread has used, while it runs."""
        ident = self._thread.ident
        assert ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(ident))

    # -- on the loop's thread --------------------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None:
        if self._queue is not None:
            self._put(_Batch(events, self._clock()))

    def decided(self, cycle: Cycle) -> None:
        if self._queue is not None:
            self._put({"cycle": report_of(cycle)})

    def refused(self, change: Change, why: str) -> None: ...

    def use(self, policy: Policy) -> None:
        """From any thread."""
        self._hand_over(lambda: self._use(policy_text(policy)))

    def _use(self, text: str) -> None:
        self._policy = text
        if self._queue is not None:
            self._put({"policy": text})

    def _begin(self) -> None:
        """A page has connected: queue all objects now, and events from here on."""
        self._queue = Queue(MAX_BATCHES)
        for first in ({"begin": self._head}, {"policy": self._policy}, _Whole(self._objects(), self._clock())):
            self._queue.put_nowait(first)
        self._begun.set()

    def _put(self, what: Any) -> None:
        assert self._queue is not None
        try:
            self._queue.put_nowait(what)
        except Full:
            self._queue = None  # the writer notices, and drops the page

    def _end(self) -> None:
        self._queue = None

    # -- its own thread --------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                page, _ = self._listener.accept()
            except OSError:  # a time limit, or the socket was closed
                continue
            with page:
                pause = self._feed(page)
            self._hand_over(self._end)
            self._stopping.wait(pause)

    def _feed(self, page: socket.socket) -> float:
        """Feed a page until it ends; returns how long the next one has to wait."""
        page.settimeout(STALLED)
        self._begun.clear()
        self._hand_over(self._begin)
        while not self._begun.wait(PAUSE):  # a cycle may be in progress
            if self._stopping.is_set():
                return 0.0
        queue = self._queue
        try:
            if queue is not None:
                self._write_all(page, queue)
        except TimeoutError:
            self._lost("it does not read")
            return AFTER_STALL
        except Exception as error:  # whatever it is, scheduling continues and the log says why
            self._lost("it is gone" if isinstance(error, OSError | ValueError) else repr(error))
            return BETWEEN
        if not self._stopping.is_set():
            self._lost("it does not read")
        return AFTER_STALL

    def _write_all(self, page: socket.socket, queue: Queue[Any]) -> None:
        """Write until the feed stops or the loop's thread no longer fills the queue."""
        told = 0.0
        while not self._stopping.is_set() and self._queue is queue:
            with suppress(Empty):
                what = queue.get(timeout=FACTS_EVERY)
                if isinstance(what, _Batch):
                    self._write_events(page, what.events, {"at": what.at})
                elif isinstance(what, _Whole):
                    self._write_events(page, [Upserted(each) for each in what.objects], {"at": what.at, "whole": True})
                else:
                    self._line(page, what)
            if time.monotonic() > told + FACTS_EVERY:
                told = time.monotonic()
                self._line(page, {"facts": self._facts()})
            if queue.empty():
                self._stopping.wait(PAUSE)

    def _write_events(self, page: socket.socket, events: Sequence[Event], end: dict[str, Any]) -> None:
        parts: list[bytes] = []
        encode = self._encoder.encode
        for number, event in enumerate(events, 1):
            thing = event.object
            heads = _UPSERT if isinstance(event, Upserted) else _DELETE
            parts += (heads[type(thing)], encode(without_free_text(thing)), b"}\n")
            if number % CHUNK == 0:
                page.sendall(b"".join(parts))
                parts.clear()
                time.sleep(0)
        page.sendall(b"".join(parts) + msgspec.json.encode(end) + b"\n")

    def _line(self, page: socket.socket, line: dict[str, Any]) -> None:
        page.sendall(msgspec.json.encode(line) + b"\n")


def listen(path: str) -> socket.socket:
    """A socket that only this user can connect to. A socket left behind by another process is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if Path(path).exists():
            if not stat.S_ISSOCK(Path(path).stat().st_mode):
                raise InputError(f"feedSocket {path}: is a file, expected the path of a socket")
            if _answers(path):
                raise InputError(f"feedSocket {path}: another scheduler is listening on it")
            Path(path).unlink()
        mask = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(mask)
        listener.listen(1)
    except OSError as error:
        listener.close()
        raise InputError(f"feedSocket {path}: {error.strerror or error}") from None
    except InputError:
        listener.close()
        raise
    listener.settimeout(0.5)
    return listener


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def program_facts(
    metrics: RunMetrics,
    log: RunLog,
    leads: bool,
    unanswered: int,
    shadow: ShadowPolicy | None,
    stalled: float = 0.0,
) -> ProgramFacts:
    """What a live scheduler reports about itself on the page. From any thread."""
    return ProgramFacts(
        leads=leads,
        unanswered=unanswered,
        stalled=round(stalled, 1),
        api=api_latency(metrics.requests, metrics.request_seconds),
        problems=tuple(problems(log)),
        shadow_policy=None if shadow is None else shadow.source,
        shadow=() if shadow is None or shadow.last is None else (_difference(shadow.last),),
    )


def api_latency(requests: Tally, seconds: TimeSpread) -> ApiLatency:
    count, failed = 0, 0
    for (_, code), number in requests.counts().items():
        count += number
        failed += number if not 0 < int(code) < _FIRST_ERROR else 0
    total, buckets = 0.0, list[tuple[float, float]]()
    for metric in seconds.collect():
        for one in metric.samples:
            if one.name.endswith("_sum"):
                total = one.value
            elif one.name.endswith("_bucket"):
                buckets.append((float(one.labels["le"]), one.value))
    whole = buckets[-1][1] if buckets else 0.0
    finite = [(bound, number) for bound, number in buckets if bound != float("inf")]
    p99 = next((bound for bound, number in finite if number >= 0.99 * whole), finite[-1][0] if finite else 0.0)
    return ApiLatency(count, failed, round(total / whole, 4) if whole else 0.0, p99 if whole else 0.0)


def problems(log: RunLog) -> list[SchedulerProblem]:
    """Recent warnings and errors, newest first; repeated ones are counted."""
    found: list[SchedulerProblem] = []
    for at, level, text in reversed(list(log.recent)):
        if found and (found[-1].level, found[-1].text) == (level, text):
            last = found.pop()
            found.append(SchedulerProblem(last.at, level, text, last.count + 1))
        else:
            found.append(SchedulerProblem(format_rfc3339(at), level, text))
    return found


def _difference(last: dict[str, object]) -> ShadowDifference:
    differences = last["differences"]
    assert isinstance(differences, dict)
    return ShadowDifference(
        int(str(last["cycle"])),
        str(last["now"]),
        list(differences.get("bindings", [])),
        list(differences.get("evictions", [])),
    )
