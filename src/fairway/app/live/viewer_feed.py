"""`ViewerFeed`: passes all events and plans of the scheduler to a process that serves the page, without ever waiting.

A listener of the loop hands events over to a thread, which writes them as lines of JSON into a pipe. Views are made in
the other process, so that looking costs the scheduler only the writing. Where the other process does not read, what is
not read is dropped after `MOST_LINES`, the pipe is closed, and scheduling goes on.

    {"upsert": "Pod", "object": {...}}  {"delete": "Pod", "object": {...}}
    {"at": 1767225600000000}            a batch of events is over; microseconds
    {"cycle": {...}}                    what a cycle did (`app.view.mirror.CycleReport`)
    {"policy": "..."}                   the policy in force, from now on
    {"facts": {...}}                    what the program says of itself, now and then
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Full, Queue
from threading import Thread
from typing import Any, BinaryIO

import msgspec

from fairway.api.kinds import KINDS
from fairway.api.policy import Policy
from fairway.app.records import without_free_text
from fairway.app.view.mirror import report_of
from fairway.app.view.scheduler_page import ProgramFacts
from fairway.clock import Clock, wall_clock
from fairway.drive.change import Change
from fairway.drive.loop import Cycle
from fairway.sim.policies import policy_text
from fairway.state.events import Event, Upserted

MOST_LINES = 20_000
"""Batches that wait to be written."""
FACTS_EVERY = 2.0
"""Seconds."""
PAUSE = 0.1
"""Seconds between two turns of writing: a thread that wakes up for every event costs more than its work."""
CHUNK = 200
"""Events that are written before the thread gives way to the others."""

_UPSERT, _DELETE = (
    {kind.struct: f'{{"{verb}":"{kind.name}","object":'.encode() for kind in KINDS} for verb in ("upsert", "delete")
)
"""How the lines of events begin, by type: putting them together costs less than encoding them whole."""


class ViewerFeed:
    """See the module."""

    def __init__(
        self,
        pipe: BinaryIO,
        facts: Callable[[], ProgramFacts],
        clock: Clock = wall_clock,
        lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`lost` is told, once, why nothing more is handed over."""
        self._pipe = pipe
        self._facts = facts
        self._clock = clock
        self._lost = lost
        self._encoder = msgspec.json.Encoder()
        self._queue: Queue[Any] = Queue(MOST_LINES)
        self.ended = False
        """The other process is gone, or does not read."""
        self._stopping = threading.Event()
        self._thread = Thread(target=self._write, name="viewer-feed", daemon=True)

    def start(self, policy: Policy) -> None:
        self._thread.start()
        self.use(policy)

    def stop(self) -> None:
        self._stopping.set()
        self._put(None)
        self._thread.join(5)

    @property
    def processor_time(self) -> float:
        """Seconds that its thread has used, while it runs."""
        ident = self._thread.ident
        assert ident is not None
        return time.clock_gettime(time.pthread_getcpuclockid(ident))

    # -- the listener, on the loop's thread ------------------------------------------------------------------------

    def applied(self, events: Sequence[Event]) -> None:
        self._put((events, self._clock()))

    def decided(self, cycle: Cycle) -> None:
        self._put({"cycle": report_of(cycle)})

    def refused(self, change: Change, why: str) -> None: ...

    def use(self, policy: Policy) -> None:
        self._put({"policy": policy_text(policy)})

    def _put(self, what: Any) -> None:
        if not self.ended:
            try:
                self._queue.put_nowait(what)
            except Full:
                self._end("it does not read")

    def _end(self, why: str) -> None:
        if not self.ended:
            self.ended = True
            self._lost(why)

    # -- its own thread --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        told = 0.0
        try:
            while not self.ended:
                what = self._queue.get()
                if what is None:
                    break
                if isinstance(what, tuple):
                    self._write_events(*what)
                else:
                    self._line(what)
                if time.monotonic() > told + FACTS_EVERY:
                    told = time.monotonic()
                    self._line({"facts": self._facts()})
                if self._queue.empty():
                    self._pipe.flush()
                    self._stopping.wait(PAUSE)
        except Exception as error:  # whatever it is: scheduling must go on, and the log must say it
            self._end("it is gone" if isinstance(error, OSError | ValueError) else repr(error))
        with suppress(OSError, ValueError):
            self._pipe.close()

    def _write_events(self, events: Sequence[Event], at: int) -> None:
        parts: list[bytes] = []
        encode = self._encoder.encode
        for number, event in enumerate(events, 1):
            thing = event.object
            heads = _UPSERT if isinstance(event, Upserted) else _DELETE
            parts += (heads[type(thing)], encode(without_free_text(thing)), b"}\n")
            if number % CHUNK == 0:
                self._pipe.write(b"".join(parts))
                parts.clear()
                time.sleep(0)
        self._pipe.write(b"".join(parts))
        self._line({"at": at})

    def _line(self, line: dict[str, Any]) -> None:
        self._pipe.write(msgspec.json.encode(line) + b"\n")
