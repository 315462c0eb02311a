"""Scaled real time: a sandbox that is driven so that its time passes at a multiple of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from threading import Event, Thread

from fairway.app.sandbox.engine import Sandbox
from fairway.app.view.behind import PaceMeter
from fairway.clock import Micros

TICK = 0.1
"""Seconds between two steps."""
LONGEST = 1_000_000_000
"""Nanoseconds of ours that one step makes up for: a machine that slept does not rush through what it missed."""

Nanoseconds = Callable[[], int]


class Pace:
    """What time it is in the sandbox, by a clock of ours that only goes forward."""

    def __init__(self, speed: Fraction, start: Micros, clock: Nanoseconds = time.monotonic_ns) -> None:
        self.speed = speed
        self._clock = clock
        self._real = clock()
        self._virtual = start
        self._asked: tuple[int, Micros] | None = None
        """When a time to go on to was asked for, and that time."""

    def due(self) -> Micros:
        """The time to go on to."""
        real = self._clock()
        due = self._virtual + int(min(real - self._real, LONGEST) * self.speed / 1000)
        self._asked = real, due
        return due

    def reached(self, now: Micros) -> None:
        """The sandbox is there. Time that it took to get where it was due counts, or it would always be a little too
        slow; what it could not reach is not owed.
        """
        asked, self._asked = self._asked, None
        self._real = asked[0] if asked is not None and now >= asked[1] else self._clock()
        self._virtual = now


class Runner:
    """Drives a sandbox in a thread of its own until it is stopped, or fails. Speed and pause may be set at any time."""

    def __init__(self, sandbox: Sandbox, speed: Fraction) -> None:
        self.speed = speed
        self.paused = False
        self.failure: Exception | None = None
        self._meter = PaceMeter()
        self._sandbox = sandbox
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="sandbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def behind(self) -> str | None:
        """By how much simulated time is behind the demanded speed, as a text; None if it is not. From any thread."""
        self._meter.cycle(self._sandbox.last_cycle)
        return self._meter.behind()

    def _run(self) -> None:
        pace, sandbox, meter = Pace(self.speed, self._sandbox.now), self._sandbox, self._meter
        try:
            while not self._stopped.wait(TICK):
                pace.speed = self.speed
                if self.paused:
                    meter.restart()
                else:
                    meter.begin(float(pace.speed), sandbox.now)
                    sandbox.advance(pace.due())
                    meter.reached(sandbox.now)
                pace.reached(sandbox.now)
        except Exception as error:  # a thread that dies in silence would leave a sandbox that stands still
            self.failure = error
