"""`LoopThread`: the one thread that state and decisions live on (spec K5). It is the loop's `Timer`.

Other threads hand calls over; they run in batches between cycles, before any planned call that is due. A call that
raises ends the thread: what it was about to do is unknown, and a new process rebuilds everything from the server.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import NamedTuple

from fairway.clock import SECOND, Clock, Micros, wall_clock

Call = Callable[[], None]
HandOver = Callable[[Call], None]
"""Runs a call on the loop's thread."""

IDLE_TIME = 0.02
"""Seconds without a planned call from which on `on_idle` is called."""
_MAX_WAIT = 60.0
GATHER = 0.02
"""Seconds during which a busy event loop gathers calls before it hands them over. Cycles are further apart."""


class SteadyClock:
    """The wall clock without its steps back: until it catches up, time advances at half speed. Otherwise everything
    that is timed from the last reading (the next cycle, the next status) would wait for as long as the clock was set
    back.
    """

    def __init__(self, wall: Clock = wall_clock, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = wall()
        self._read_at = monotonic()

    def __call__(self) -> Micros:
        read_at = self._monotonic()
        self._last = max(self._wall(), self._last + int((read_at - self._read_at) * SECOND / 2))
        self._read_at = read_at
        return self._last


class _LiveCall:
    """Times are on the monotonic clock: setting the wall clock moves nothing."""

    __slots__ = ("at", "call", "number")

    def __init__(self, at: float, number: int, call: Call | None) -> None:
        self.at = at
        self.number = number
        self.call = call

    def __lt__(self, other: _LiveCall) -> bool:
        return (self.at, self.number) < (other.at, other.number)

    def cancel(self) -> None:
        self.call = None


class Stall(NamedTuple):
    """What delays the next call. Equal values are the same stall."""

    since: float
    """On the monotonic clock."""
    is_busy: bool
    """A call is running; otherwise `may_decide` holds due calls back."""


class LoopThread:
    """The thread is whichever one calls `run`."""

    def __init__(self, clock: Clock | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.may_decide: Callable[[], bool] = lambda: True
        """While it returns False, planned calls wait. What changes it to True hands a call over, which wakes the
        thread.
        """
        self.on_idle: Callable[[], None] = lambda: None
        """Called on the thread when nothing is planned for `IDLE_TIME` seconds: the time for chores."""
        self._clock = SteadyClock(monotonic=monotonic) if clock is None else clock
        self._monotonic = monotonic
        self._inbox: SimpleQueue[Call] = SimpleQueue()
        self._planned: list[_LiveCall] = []
        self._numbers = count()
        self._stopping = False
        self._busy_since: float | None = None
        self._paused_since: float | None = None
        self.ident: int | None = None
        """That of the thread that runs it."""

    def stall(self) -> Stall | None:
        """The running call, or the pause that holds due calls back; None if neither. Callable from any thread."""
        busy, paused = self._busy_since, self._paused_since
        if busy is not None:
            return Stall(busy, True)
        return None if paused is None or paused > self._monotonic() else Stall(paused, False)

    def stalled_for(self) -> float:
        """Seconds for which `stall` has lasted; 0 if there is none. Callable from any thread."""
        stall = self.stall()
        return 0.0 if stall is None else self._monotonic() - stall.since

    def now(self) -> Micros:
        return self._clock()

    def call_at(self, when: Micros, call: Call) -> _LiveCall:
        delay = (when - self._clock()) / SECOND
        planned = _LiveCall(self._monotonic() + max(0.0, delay), next(self._numbers), call)
        heapq.heappush(self._planned, planned)
        return planned

    def hand_over(self, call: Call) -> None:
        """Callable from any thread."""
        self._inbox.put(call)

    def stop(self) -> None:
        """Callable from any thread: calls that were handed over before still run."""

        def end() -> None:
            self._stopping = True

        self._inbox.put(end)

    def run(self) -> None:
        """Until `stop`."""
        self.ident = get_ident()
        while not self._stopping:
            wait = self._wait()
            if wait >= IDLE_TIME and self._inbox.empty():
                self.on_idle()
            self._take_inbox(wait)
            if not self._stopping:
                self._run_due()
            self._busy_since = None

    def _wait(self) -> float:
        while self._planned and self._planned[0].call is None:
            heapq.heappop(self._planned)
        if not self._planned:
            self._paused_since = None
            return _MAX_WAIT
        if not self.may_decide():
            if self._paused_since is None:
                self._paused_since = max(self._monotonic(), self._planned[0].at)
            return _MAX_WAIT
        self._paused_since = None
        return min(_MAX_WAIT, max(0.0, self._planned[0].at - self._monotonic()))

    def _take_inbox(self, wait: float) -> None:
        inbox = self._inbox
        try:
            call = inbox.get(timeout=wait) if wait > 0 else inbox.get_nowait()
        except Empty:
            return
        self._busy_since = self._monotonic()
        call()
        for _ in range(inbox.qsize()):
            inbox.get_nowait()()

    def _run_due(self) -> None:
        now = self._monotonic()
        while self._planned and self._planned[0].at <= now and self.may_decide():
            call = heapq.heappop(self._planned).call
            if call is not None:
                self._busy_since = self._monotonic()
                self._paused_since = None
                call()


class Courier:
    """Hands calls of an event loop over to the loop's thread: at once after a pause, and gathered while there are many.
    Waking a thread costs more than the calls themselves.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, hand_over: HandOver) -> None:
        self._loop = loop
        self._hand_over = hand_over
        self._calls: list[Call] = []
        self._last = loop.time() - GATHER

    def send(self, call: Call) -> None:
        """On the event loop's thread."""
        self._calls.append(call)
        if len(self._calls) == 1:
            wait = self._last + GATHER - self._loop.time()
            if wait > 0:
                self._loop.call_later(wait, self._flush)
            else:
                self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        calls, self._calls = self._calls, []
        self._last = self._loop.time()

        def call_all() -> None:
            for call in calls:
                call()

        self._hand_over(call_all)
