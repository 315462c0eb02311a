"""Whether what is shown is behind, and by how much: one text for the terminal, the page and the API.

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
"""A clock that only goes forward."""

CALM = 5.0
"""Seconds for which all must be well before the text goes."""
WINDOW = 5.0
"""Seconds over which the speed is measured, at least."""
SLOW, FULL = 0.75, 0.9
"""Below the first part of the demanded speed it is behind; from the second on it is not."""
LONG_CYCLE, SHORT_CYCLE = 2.0, 1.0
"""Seconds. A cycle that took longer is behind; a shorter one is not worth mentioning."""
STALLED = 10.0
"""Seconds for which a live scheduler has work and finishes no cycle."""
SILENT = 10.0
"""Seconds without a line of a live scheduler, which says something every two."""
OLD = 5.0
"""Seconds by which what is shown may be older than what is known."""


class Reading(NamedTuple):
    """What was measured just now. Between behind and well nothing changes."""

    text: str
    is_behind: bool
    is_well: bool


class BehindNotice:
    """Keeps the text, for readers of any thread."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._text: str | None = None
        self._well_since: float | None = None

    def take(self, reading: Reading) -> str | None:
        """By how much it is behind; None if it is not."""
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
    """Measures how fast simulated time passes. One thread drives it; any thread may read."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self._clock = clock
        self._notice = BehindNotice(clock)
        self._lock = Lock()
        self._steps: deque[tuple[float, Micros]] = deque()
        """When a step ended, and the simulated time that it reached."""
        self._demanded = 0.0
        self._cycle = 0.0

    def restart(self) -> None:
        """Time was held, or nothing is known yet: what was measured before counts no longer."""
        with self._lock:
            self._steps.clear()
        self._notice.clear()

    def begin(self, demanded: float, now: Micros) -> None:
        """A step begins. With another speed the measurement begins again."""
        if demanded != self._demanded:
            self.restart()
        with self._lock:
            self._demanded = demanded
            if not self._steps:
                self._steps.append((self._clock(), now))

    def reached(self, now: Micros) -> None:
        """A step ended."""
        with self._lock:
            if not self._steps:
                return
            steps, at = self._steps, self._clock()
            steps.append((at, now))
            while steps[1][0] <= at - WINDOW:
                steps.popleft()

    def cycle(self, nanoseconds: int) -> None:
        """Note how long the last cycle took."""
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
            return Reading(f"the clock has stood still for {standing:.0f} s", True, False)
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
    """What a page knows of a live scheduler, in seconds."""

    silent: float = 0.0
    """Since its last line."""
    stalled: float = 0.0
    """For which it has had work and finished no cycle."""
    cycle: float = 0.0
    """What its last cycle took."""
    cycle_age: float = 0.0
    """Since that cycle ended."""
    unseen: float = 0.0
    """Since the oldest event that is not shown yet."""


def live_reading(facts: LiveFacts) -> Reading:
    """The most serious of all that is late."""
    # Where nothing happens there are no cycles: a long one is of interest while it is recent.
    cycle = facts.cycle if facts.cycle_age < STALLED else 0.0
    late = [
        (f"no word from the scheduler for {facts.silent:.0f} s", facts.silent, SILENT),
        (f"no cycle finished for {facts.stalled:.0f} s", facts.stalled, STALLED),
        (f"the last cycle took {cycle:.1f} s", cycle, LONG_CYCLE),
        (f"what is shown is {facts.unseen:.0f} s old", facts.unseen, OLD),
    ]
    is_well = all(seconds < limit / 2 for _, seconds, limit in late)
    for text, seconds, limit in late:
        if seconds >= limit:
            return Reading(text, True, False)
    largest = max(late, key=lambda one: one[1] / one[2])
    return Reading(largest[0], False, is_well)
