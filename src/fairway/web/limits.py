"""Fair use of what the page has little of: memory for request bodies, and places for expensive questions.

`BodyBudget` bounds the memory of all bodies together and of each user. `UserTurns` hands out a few places in turns, so
that a user with many questions never keeps another waiting for more than one of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition, Event

from starlette.requests import ClientDisconnect, Request

from fairway.web.asking import NEVER, RequestRefusedError

TOTAL_BYTES = 48 << 20
USER_BYTES = 24 << 20
SMALL = 64 << 10
"""Bytes of each body that are not charged: connections are limited anyway, and ordinary requests must not wait for
uploads.
"""
GRACE = 10.0
"""Seconds allowed for every body, plus time in proportion to its length:"""
LEAST_RATE = 256 << 10
"""Bytes per second."""


class HeldBody:
    """A body being read; `BodyBudget.reading` releases its memory."""

    def __init__(self, budget: BodyBudget, user: str) -> None:
        self._budget = budget
        self._user = user
        self.size = 0
        self.charged = 0

    def add(self, number: int) -> None:
        """Raises RequestRefusedError if memory is short."""
        self.size += number
        more = max(0, self.size - SMALL) - self.charged
        if more > 0:
            self._budget.charge(self._user, more)
            self.charged += more


class BodyBudget:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    @property
    def held(self) -> int:
        """Bytes held by all users."""
        return sum(self._held.values())

    def charge(self, user: str, number: int) -> None:
        if self._held.get(user, 0) + number > USER_BYTES:
            raise RequestRefusedError(429, "your concurrent requests are too large; try again when they have finished")
        if self.held + number > TOTAL_BYTES:
            raise RequestRefusedError(503, "too many large requests are being read; try again later")
        self._held[user] = self._held.get(user, 0) + number

    @contextmanager
    def reading(self, user: str) -> Iterator[HeldBody]:
        """Context of a request with a body."""
        body = HeldBody(self, user)
        try:
            yield body
        finally:
            left = self._held.get(user, 0) - body.charged
            if left > 0:
                self._held[user] = left
            else:
                self._held.pop(user, None)


async def read_limited(request: Request, limit: int, held: HeldBody) -> bytes:
    """Raises RequestRefusedError if the body is too large or too slow, or if memory is short."""
    length = int(request.headers.get("content-length", "0"))
    if length > limit:
        raise RequestRefusedError(413, f"the body has {length} bytes, expected at most {limit}")
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(GRACE + length / LEAST_RATE):
            async for part in request.stream():
                held.add(len(part))
                if held.size > limit:
                    raise RequestRefusedError(413, f"the body has more than {limit} bytes")
                parts.append(part)
    except TimeoutError:
        raise RequestRefusedError(408, "the body was sent too slowly") from None
    except ClientDisconnect:
        raise RequestRefusedError(400, "the request was interrupted") from None
    return b"".join(parts)


LOOK = 0.25
"""Seconds between two checks whether the client is still connected."""
BUSY = "busy with other questions, try again"


class UserTurns:
    """Places handed out to users in turns. Thread-safe."""

    def __init__(self, places: int = 1, most_waiting: int = 4) -> None:
        """`most_waiting` limits the queued questions of a user."""
        self.free = places
        self._most_waiting = most_waiting
        self._changed = Condition()
        self._waiting: dict[int, str] = {}
        self._numbers = count()
        self._served: dict[str, int] = {}
        self._turn = 0

    def take(self, user: str, patience: float, gone: Event = NEVER) -> None:
        """Returns when it is the user's turn. Raises RequestRefusedError after too long, or if the user has too many
        queued.
        """
        end = time.monotonic() + patience
        with self._changed:
            if sum(one == user for one in self._waiting.values()) >= self._most_waiting:
                raise RequestRefusedError(
                    429, f"{self._most_waiting} of your questions are queued already; try again later"
                )
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
        """Forgets past turns once nobody is waiting: all users are equal again."""
        if not self._waiting and len(self._served) > 1:
            last = max(self._served, key=self._served.__getitem__)
            self._served = {last: self._served[last]}
