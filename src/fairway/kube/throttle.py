"""When a status is written again (K9): in substance at once, a new text once it has stood, a count now and then.

What is written of an object has three parts. Its *state* (a phase, a condition's status) changes rarely and is waited
for by machines: it is written at once. Its *text* says why: a new one is written when it has stood for `INTERVAL`, so
that a message never flips between two reasons that take turns. Numbers, those in a text among them, move in every
cycle: they are written at most once in `INTERVAL`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fairway.clock import SECOND, Micros

INTERVAL: Micros = 10 * SECOND
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")

K = TypeVar("K", bound=Hashable)


class StatusFacts(NamedTuple):
    """What a status says; equal ones need no write."""

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
    """None: it was found on the object, from an earlier run."""
    wanted: str | None = None
    """The substance of the text that is wanted instead."""
    since: Micros = 0
    due: Micros | None = None
    """When what is wanted may be written."""


class StatusThrottle(Generic[K]):
    """By object: what was written last and when."""

    def __init__(self, interval: Micros = INTERVAL) -> None:
        self._interval = interval
        self._written: dict[K, _LastWritten] = {}

    def is_due(self, key: K, facts: StatusFacts, now: Micros, shown: StatusFacts = NOTHING_WRITTEN) -> bool:
        """Whether to write this now. `shown` is what the object says, for one that is new here."""
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
        """What was written here last, and when; None: nothing in this run."""
        written = self._written.get(key)
        return None if written is None or written.at is None else (written.facts, written.at)

    def next_look(self, key: K) -> Micros | None:
        """When what was last wanted may be written; None if nothing waits."""
        written = self._written.get(key)
        return None if written is None else written.due

    def forget(self, key: K) -> None:
        """The object is gone, or what was written did not arrive: the next look begins with what it says."""
        self._written.pop(key, None)

    def __len__(self) -> int:
        return len(self._written)

    def keep(self, keys: set[K]) -> None:
        """Forget all others."""
        for key in [key for key in self._written if key not in keys]:
            del self._written[key]
