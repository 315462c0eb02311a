"""`ViewerFeed`: passes all events and plans of the scheduler to the process that serves the page, without ever waiting.

The scheduler listens on a Unix domain socket; the page connects, and is told everything that there is, then everything
that happens. Nothing is read from it. A listener of the loop hands events over to a thread, which writes them as lines
of JSON. Views are made in the other process, so that looking costs the scheduler only the writing.

A page that ends or does not read is dropped: scheduling goes on, and whoever connects next is told everything anew. One
page is served at a time, and a new one at most every `BETWEEN` seconds.

    {"begin": {...}}                    who speaks (`FeedHead`); all objects follow
    {"policy": "..."}                   the policy in force, from now on
    {"upsert": "Pod", "object": {...}}  {"delete": "Pod", "object": {...}}
    {"at": 1767225600000000}            a batch of events is over; microseconds. With "whole" it was all there is
    {"cycle": {...}}                    what a cycle did (`app.view.mirror.CycleReport`)
    {"facts": {...}}                    what the program says of itself, now and then
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
from typing import Any, NamedTuple

import msgspec

from fairway.api.kinds import KINDS, ApiObject
from fairway.api.policy import Policy
from fairway.app.records import without_free_text
from fairway.app.view.mirror import report_of
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.clock import Clock, wall_clock
from fairway.drive import Change, Cycle
from fairway.errors import InputError
from fairway.sim.policies import policy_text
from fairway.state.events import Event, Upserted

MAX_BATCHES = 20_000
"""Batches that wait to be written."""
FACTS_EVERY = 2.0
"""Seconds. A page that is gone is noticed by then."""
PAUSE = 0.1
"""Seconds between two turns of writing: a thread that wakes up for every event costs more than its work."""
CHUNK = 200
"""Events that are written before the thread gives way to the others."""
STALLED = 20.0
"""Seconds for which a page may leave a chunk unread."""
BETWEEN = 1.0
"""Seconds between the ends of one page and the beginning of the next: a beginning costs a look at every object."""
AFTER_STALL = 10.0
"""The same after a page that did not read."""

_UPSERT, _DELETE = (
    {kind.struct: f'{{"{verb}":"{kind.name}","object":'.encode() for kind in KINDS} for verb in ("upsert", "delete")
)
"""How the lines of events begin, by type: putting them together costs less than encoding them whole."""


class FeedHead(msgspec.Struct, rename="camel", frozen=True):
    """Who speaks."""

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
    """See the module."""

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
        """`objects` are all that listeners were told of, and `hand_over` calls something on the loop's thread. `lost`
        is told why a page is no longer fed. InputError where the path is not one for a socket.
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
        """Of the page that is connected. Set and used on the loop's thread; the writer has its own reference."""
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
        """Seconds that its thread has used, while it runs."""
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
        """A page has connected: all that there is now, and from here on what happens."""
        self._queue = Queue(MAX_BATCHES)
        for first in ({"begin": self._head}, {"policy": self._policy}, _Whole(self._objects(), self._clock())):
            self._queue.put_nowait(first)
        self._begun.set()

    def _put(self, what: Any) -> None:
        assert self._queue is not None
        try:
            self._queue.put_nowait(what)
        except Full:
            self._queue = None  # the writer sees that it is no longer fed

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
        """Until the page ends; how long the next one has to wait."""
        page.settimeout(STALLED)
        self._begun.clear()
        self._hand_over(self._begin)
        while not self._begun.wait(PAUSE):  # a cycle may be under way
            if self._stopping.is_set():
                return 0.0
        queue = self._queue
        try:
            if queue is not None:
                self._write_all(page, queue)
        except TimeoutError:
            self._lost("it does not read")
            return AFTER_STALL
        except Exception as error:  # whatever it is: scheduling must go on, and the log must say it
            self._lost("it is gone" if isinstance(error, OSError | ValueError) else repr(error))
            return BETWEEN
        if not self._stopping.is_set():
            self._lost("it does not read")
        return AFTER_STALL

    def _write_all(self, page: socket.socket, queue: Queue[Any]) -> None:
        """Until it stops, or the loop's thread no longer fills the queue."""
        told = 0.0
        while not self._stopping.is_set() and self._queue is queue:
            with suppress(Empty):
                what = queue.get(timeout=FACTS_EVERY)
                if isinstance(what, _Batch):
                    self._write_events(page, what.events, {"at": what.at})
                elif isinstance(what, _Whole):
                    self._write_events(page, [Upserted(one) for one in what.objects], {"at": what.at, "whole": True})
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
    """A socket that only this user can connect to. One that another process left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if Path(path).exists():
            if not stat.S_ISSOCK(Path(path).stat().st_mode):
                raise InputError(f"feedSocket {path}: is a file, expected a path for a socket")
            if _answers(path):
                raise InputError(f"feedSocket {path}: another scheduler listens there")
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
