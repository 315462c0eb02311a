"""Whether a view is behind, and by how much: one text for the terminal, the page and the API.

A view is behind when simulated time passes more slowly than demanded, when no cycle ends, or when news of a scheduler
does not arrive. The text appears at once and goes only after things went well for a while (`CALM`), so that it does not
flicker where a cluster is at the limit of what can be kept up with.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

from fairway.clock import SECOND, Micros

Seconds = Callable[[], float]
"""A monotonic clock."""

CALM = 5.0
"""Seconds without delay before the text disappears."""
WINDOW = 5.0
"""Minimum seconds over which the speed is measured."""
SLOW, FULL = 0.75, 0.9
"""Fractions of the requested speed: behind below the first, not behind from the second on."""
LONG_CYCLE, SHORT_CYCLE = 2.0, 1.0
"""Seconds: longer cycles count as behind, shorter ones are not mentioned."""
STALLED = 10.0
"""Seconds in which a live scheduler with work finishes no cycle."""
SILENT = 10.0
"""Seconds without a line from a live scheduler, which writes one every two."""
OLD = 5.0
"""Maximum age in seconds of events that no picture shows yet."""


class Reading(NamedTuple):
    """A measurement. Between the two thresholds the text does not change."""

    text: str
    is_behind: bool
    is_well: bool


class BehindNotice:
    """Keeps the text. Thread-safe."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._text: str | None = None
        self._well_since: float | None = None

    def take(self, reading: Reading) -> str | None:
        """How far it is behind, as text; None if it keeps up."""
        with self._lock:
            if reading.is_behind or (self._text is not None and not reading.is_well):
                self._text, self._well_since = reading.text, None
            elif self._text is not None:
                now = self._clock()
                self._well_since = now if self._well_since is None else self._well_since
                if now - self._well_since >= CALM:
                    self._text, self._well_since = None, None
            return self._text

    def clear(self) -> None:
        with self._lock:
            self._text, self._well_since = None, None


class PaceMeter:
    """Measures how fast simulated time passes. One thread drives it; reading is thread-safe."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self._clock = clock
        self._notice = BehindNotice(clock)
        self._lock = Lock()
        self._steps: deque[tuple[float, Micros]] = deque()
        """End of a step, and the simulated time it reached."""
        self._demanded = 0.0
        self._cycle = 0.0

    def restart(self) -> None:
        """Forgets earlier measurements: time was paused, or nothing is known yet."""
        with self._lock:
            self._steps.clear()
        self._notice.clear()

    def begin(self, demanded: float, now: Micros) -> None:
        """Begins a step. A new speed restarts the measurement."""
        if demanded != self._demanded:
            self.restart()
        with self._lock:
            self._demanded = demanded
            if not self._steps:
                self._steps.append((self._clock(), now))

    def reached(self, now: Micros) -> None:
        """Ends a step."""
        with self._lock:
            if not self._steps:
                return
            steps, at = self._steps, self._clock()
            steps.append((at, now))
            while steps[1][0] <= at - WINDOW:
                steps.popleft()

    def cycle(self, nanoseconds: int) -> None:
        """Records the duration of the last cycle."""
        self._cycle = nanoseconds / 1e9

    def behind(self) -> str | None:
        with self._lock:
            reading = self._reading()
        return self._notice.take(reading)

    def _reading(self) -> Reading:
        if not self._steps:
            return Reading("", False, True)
        (first, start), (last, end) = self._steps[0], self._steps[-1]
        times = [at for at, _ in self._steps]
        longest = max((after - before for before, after in pairwise(times)), default=0.0)
        standing = self._clock() - last
        if standing > max(LONG_CYCLE, 2 * longest):
            return Reading(f"the clock has been stopped for {standing:.0f} s", True, False)
        # Steps that ended are measured. To count the one under way would change the text during each long step.
        passed = last - first
        speed = (end - start) / SECOND / passed if passed > 0 else 0.0
        is_known = passed >= WINDOW / 2
        text = f"x{float(f'{speed:.2g}'):.7g} of x{self._demanded:.7g}"
        if self._cycle >= SHORT_CYCLE:
            text += f", the last cycle took {self._cycle:.1f} s"
        is_well = is_known and speed >= FULL * self._demanded and standing < SHORT_CYCLE
        return Reading(text, is_known and speed < SLOW * self._demanded, is_well)


class LiveFacts(NamedTuple):
    """Delays of a live scheduler as seen by the page, in seconds."""

    silent: float = 0.0
    """Time since its last line."""
    stalled: float = 0.0
    """Time with work but without a finished cycle."""
    cycle: float = 0.0
    """Duration of its last cycle."""
    cycle_age: float = 0.0
    """Time since that cycle ended."""
    unseen: float = 0.0
    """Age of the oldest event that is not shown yet."""


def live_reading(facts: LiveFacts) -> Reading:
    """The most serious delay."""
    # Where nothing happens there are no cycles: a long one is of interest while it is recent.
    cycle = facts.cycle if facts.cycle_age < STALLED else 0.0
    late = [
        (f"nothing received from the scheduler for {facts.silent:.0f} s", facts.silent, SILENT),
        (f"no cycle finished for {facts.stalled:.0f} s", facts.stalled, STALLED),
        (f"the last cycle took {cycle:.1f} s", cycle, LONG_CYCLE),
        (f"the view is {facts.unseen:.0f} s old", facts.unseen, OLD),
    ]
    is_well = all(seconds < limit / 2 for _, seconds, limit in late)
    for text, seconds, limit in late:
        if seconds >= limit:
            return Reading(text, True, False)
    largest = max(late, key=lambda one: one[1] / one[2])
    return Reading(largest[0], False, is_well)
