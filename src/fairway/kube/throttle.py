"""When a status is written again (spec K9): a new state at once, a new text once it has stood, counts from time to
time.

A status has three parts. Its *state* (a phase, a condition's status) changes rarely and programs wait for it: it is
written at once. Its *text* says why: a new one is written once it has stood for `INTERVAL`, so that a message never
flips between two alternating reasons. Numbers, those in a text among them, change in every cycle: they are written at
most once in `INTERVAL`.

`StatusThrottle` decides whether facts may be written now, and if not, when. `DeferredWrites` keeps what may not be
written yet and returns it when it is due, so that nothing depends on another cycle: after a quiet interval the last
offered value is the written one. Both depend only on the times that are passed in.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fairway.clock import SECOND, Micros

INTERVAL: Micros = 10 * SECOND
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class StatusFacts(NamedTuple):
    """The content of a status; equal facts need no write."""

    state: tuple[str, ...] = ()
    text: str = ""
    numbers: tuple[Hashable, ...] = ()


NOTHING_WRITTEN = StatusFacts()


def substance(text: str) -> str:
    """A text without its numbers."""
    return _NUMBERS.sub("#", text)


@dataclass(slots=True)
class _LastWritten:
    facts: StatusFacts
    at: Micros | None
    """None: it was found on the object, written by an earlier process."""
    wanted: str | None = None
    """The substance of the text that is wanted instead."""
    since: Micros = 0
    due: Micros | None = None
    """When the wanted text may be written."""


class StatusThrottle(Generic[K]):
    """What was last written of each object, and when."""

    def __init__(self, interval: Micros = INTERVAL) -> None:
        self._interval = interval
        self._written: dict[K, _LastWritten] = {}

    def is_due(self, key: K, facts: StatusFacts, now: Micros, shown: StatusFacts = NOTHING_WRITTEN) -> bool:
        """Whether to write these facts now. `shown` are those on the object, for one that is new here."""
        written = self._written.get(key)
        if written is None:
            written = self._written[key] = _LastWritten(shown, None)
        if facts == written.facts:
            written.wanted = written.due = None
            return False
        written.due = self._due_at(written, facts, now)
        return written.due is None or now >= written.due

    def _due_at(self, written: _LastWritten, facts: StatusFacts, now: Micros) -> Micros | None:
        """When these facts may be written if nothing changes; None: now."""
        last, wanted = written.facts, substance(facts.text)
        if facts.state != last.state:
            return None
        if wanted == substance(last.text):
            written.wanted = None
            return None if written.at is None else written.at + self._interval
        if not last.text:
            return None
        if wanted != written.wanted:
            written.wanted, written.since = wanted, now
        return written.since + self._interval

    def wrote(self, key: K, facts: StatusFacts, now: Micros) -> None:
        self._written[key] = _LastWritten(facts, now)

    def last(self, key: K) -> tuple[StatusFacts, Micros] | None:
        """What this process last wrote, and when; None: nothing."""
        written = self._written.get(key)
        return None if written is None or written.at is None else (written.facts, written.at)

    def next_look(self, key: K) -> Micros | None:
        """When the deferred facts may be written; None if there are none."""
        written = self._written.get(key)
        return None if written is None else written.due

    def forget(self, key: K) -> None:
        """The object is gone, or a write did not arrive: the next comparison is with the object itself."""
        self._written.pop(key, None)

    def __len__(self) -> int:
        return len(self._written)

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        for key in [key for key in self._written if key not in keys]:
            del self._written[key]


class Repeats(NamedTuple):
    """When an unchanged value is written again: after `first`, then after twice the time each, up to `longest`."""

    first: Micros
    longest: Micros

    def after(self, times: int) -> Micros:
        return min(self.longest, self.first << min(times, 40))


@dataclass(slots=True)
class _Deferred(Generic[V]):
    value: V
    facts: StatusFacts
    due: Micros
    times: int = -1
    """How often it was repeated; -1: not written yet."""


class DeferredWrites(Generic[K, V]):
    """Values to be written, one for each key: a new one replaces the one before it.

    `offer` returns whether to write the value now. If not, `due` returns it when it is due, unless it was replaced or
    withdrawn by then. With `repeats`, `due` also returns unchanged values again.
    """

    def __init__(self, interval: Micros = INTERVAL, repeats: Repeats | None = None) -> None:
        self._throttle: StatusThrottle[K] = StatusThrottle(interval)
        self._repeats = repeats
        self._deferred: dict[K, _Deferred[V]] = {}
        self._heap: list[tuple[Micros, int, K]] = []
        """When each key is due. Entries whose time is no longer that of the key are skipped."""
        self._pushed = 0

    def offer(self, key: K, facts: StatusFacts, value: V, now: Micros, shown: StatusFacts = NOTHING_WRITTEN) -> bool:
        """The newest facts and value of a key. True: write the value now; it counts as written."""
        if self._throttle.is_due(key, facts, now, shown):
            self._wrote(key, facts, value, now, 0)
            return True
        deferred, when = self._deferred.get(key), self._throttle.next_look(key)
        if when is not None:
            self._defer(key, _Deferred(value, facts, when))
        elif deferred is not None:  # the written value is wanted again
            if deferred.times < 0:
                self._wait_for_repeat(key, facts, value, now, 0)
            else:
                deferred.value = value
        elif self._repeats is not None:  # found on the object, written by an earlier process
            self._wait_for_repeat(key, facts, value, now, 0)
        return False

    def due(self, now: Micros) -> list[tuple[K, V]]:
        """Values that are due, in order of time; they count as written."""
        values: list[tuple[K, V]] = []
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            entry = self._deferred.get(key)
            if entry is None or entry.due != when:
                continue
            values.append((key, entry.value))
            self._wrote(key, entry.facts, entry.value, now, entry.times + 1)
        return values

    def next_due(self) -> Micros | None:
        """When `due` has something to return; None if nothing is deferred."""
        while self._heap:
            when, _, key = self._heap[0]
            entry = self._deferred.get(key)
            if entry is not None and entry.due == when:
                return when
            heapq.heappop(self._heap)
        return None

    def waiting(self) -> Collection[K]:
        """Keys of deferred and of repeated values."""
        return self._deferred.keys()

    def withdraw(self, key: K) -> None:
        """The value is no longer wanted; what was written of the key is still remembered."""
        self._deferred.pop(key, None)

    def forget(self, key: K) -> None:
        """The object is gone, or a write did not arrive: the next offer is compared with the object itself."""
        self._deferred.pop(key, None)
        self._throttle.forget(key)

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        self._throttle.keep(keys)
        for key in [key for key in self._deferred if key not in keys]:
            del self._deferred[key]

    def __len__(self) -> int:
        return len(self._throttle)

    def _wrote(self, key: K, facts: StatusFacts, value: V, now: Micros, times: int) -> None:
        self._throttle.wrote(key, facts, now)
        self._deferred.pop(key, None)
        if self._repeats is not None:
            self._wait_for_repeat(key, facts, value, now, times)

    def _wait_for_repeat(self, key: K, facts: StatusFacts, value: V, now: Micros, times: int) -> None:
        if self._repeats is None:
            self._deferred.pop(key, None)
        else:
            self._defer(key, _Deferred(value, facts, now + self._repeats.after(times), times))

    def _defer(self, key: K, entry: _Deferred[V]) -> None:
        replaced = self._deferred.get(key)
        self._deferred[key] = entry
        if replaced is None or replaced.due != entry.due:
            self._pushed += 1
            heapq.heappush(self._heap, (entry.due, self._pushed, key))
            if len(self._heap) > 64 + 4 * len(self._deferred):
                self._tidy()

    def _tidy(self) -> None:
        """Drop entries that would be skipped: a key that is offered often leaves one each time."""
        self._heap = [
            (one.due, self._pushed + place, key) for place, (key, one) in enumerate(self._deferred.items(), 1)
        ]
        self._pushed += len(self._heap)
        heapq.heapify(self._heap)
