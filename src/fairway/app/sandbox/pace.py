"""Scaled real time: a sandbox that is driven so that its time passes at a multiple of ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from threading import Event, Thread

from fairway.app.sandbox.engine import Sandbox
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

    def due(self) -> Micros:
        """The time to go on to."""
        passed = min(self._clock() - self._real, LONGEST)
        return self._virtual + int(passed * self.speed / 1000)

    def reached(self, now: Micros) -> None:
        """The sandbox is there: from here on time counts again, so that what was not reached is not owed."""
        self._real = self._clock()
        self._virtual = now


class Runner:
    """Drives a sandbox in a thread of its own until it is stopped, or fails. Speed and pause may be set at any time."""

    def __init__(self, sandbox: Sandbox, speed: Fraction) -> None:
        self.speed = speed
        self.paused = False
        self.failure: Exception | None = None
        self._sandbox = sandbox
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="sandbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        pace = Pace(self.speed, self._sandbox.now)
        try:
            while not self._stopped.wait(TICK):
                pace.speed = self.speed
                if not self.paused:
                    self._sandbox.advance(pace.due())
                pace.reached(self._sandbox.now)
        except Exception as error:  # a thread that dies in silence would leave a sandbox that stands still
            self.failure = error
