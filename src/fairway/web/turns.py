"""`UserTurns`: a few places that many users want, given in turns, so that no user can keep the others waiting.

Whoever was served least recently is next, however many questions another one has waiting; a user's own questions are
answered in their order.
"""

from __future__ import annotations

import time
from itertools import count
from threading import Condition, Event

from fairway.web.asking import NEVER, RequestRefusedError

LOOK = 0.25
"""Seconds between two looks whether who asks is still there."""
BUSY = "busy with other questions, try again"


class UserTurns:
    """See the module. Its methods are called from any thread."""

    def __init__(self, places: int = 1, most_waiting: int = 4) -> None:
        """A user has `most_waiting` questions waiting at most."""
        self.free = places
        self._most_waiting = most_waiting
        self._changed = Condition()
        self._waiting: dict[int, str] = {}
        self._numbers = count()
        self._served: dict[str, int] = {}
        self._turn = 0

    def take(self, user: str, patience: float, gone: Event = NEVER) -> None:
        """Returns when it is the user's turn. RequestRefusedError where that takes too long, or they ask too much."""
        end = time.monotonic() + patience
        with self._changed:
            if sum(one == user for one in self._waiting.values()) >= self._most_waiting:
                raise RequestRefusedError(429, f"{self._most_waiting} questions of yours wait already; try again later")
            number = next(self._numbers)
            self._waiting[number] = user
            try:
                while not (self.free and self._next() == number):
                    if gone.is_set() or time.monotonic() > end:
                        raise RequestRefusedError(503, BUSY)
                    self._changed.wait(min(LOOK, patience))
                self.free -= 1
                self._turn += 1
                self._served[user] = self._turn
            finally:
                del self._waiting[number]
                self._forget()
                self._changed.notify_all()

    def give_back(self) -> None:
        with self._changed:
            self.free += 1
            self._changed.notify_all()

    def _next(self) -> int:
        return min(self._waiting, key=lambda number: (self._served.get(self._waiting[number], 0), number))

    def _forget(self) -> None:
        """Turns that no longer matter: with nobody else waiting, all users are equal again."""
        if not self._waiting and len(self._served) > 1:
            last = max(self._served, key=self._served.__getitem__)
            self._served = {last: self._served[last]}
