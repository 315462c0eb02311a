"""Drives a sandbox in scaled real time: simulated time passes at a multiple of real time."""

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
"""Maximum real time that one step catches up with, in nanoseconds: a machine that slept does not rush."""

Nanoseconds = Callable[[], int]


class Pace:
    """The time in the sandbox, from a monotonic real clock."""

    def __init__(self, speed: Fraction, start: Micros, clock: Nanoseconds = time.monotonic_ns) -> None:
        self.speed = speed
        self._clock = clock
        self._real = clock()
        self._virtual = start
        self._asked: tuple[int, Micros] | None = None
        """When the last due time was requested, and that time."""

    def due(self) -> Micros:
        """The simulated time to advance to."""
        real = self._clock()
        due = self._virtual + int(min(real - self._real, LONGEST) * self.speed / 1000)
        self._asked = real, due
        return due

    def reached(self, now: Micros) -> None:
        """The sandbox has advanced to `now`. The time that this took counts, or it would always be a little too slow;
        time that it could not reach is not made up for.
        """
        asked, self._asked = self._asked, None
        self._real = asked[0] if asked is not None and now >= asked[1] else self._clock()
        self._virtual = now


class Runner:
    """Drives a sandbox on its own thread until it is stopped or fails. Speed and pause may be set at any time."""

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
        """How far simulated time is behind the requested speed, as text; None if it is not. From any thread."""
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
        except Exception as error:  # a thread that dies silently would leave a frozen sandbox
            self.failure = error
