"""`BodyBudget`: bodies of requests within a total of memory, however many clients send some.

Memory is charged as bytes arrive, so that a slow client holds no more than it has sent, and is released when the
request was answered. One user can have only a part of it: the rest is there for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from fairway.web.asking import RequestRefusedError

TOTAL_BYTES = 48 << 20
USER_BYTES = 24 << 20
SMALL = 64 << 10
"""Bytes of each body that are not charged: connections are limited, and ordinary requests must not wait for uploads."""
GRACE = 10.0
"""Seconds that every body may take, and more for one that is long:"""
LEAST_RATE = 256 << 10
"""Bytes per second."""


class HeldBody:
    """One body that is being read; what it holds is given back by `BodyBudget.reading`."""

    def __init__(self, budget: BodyBudget, user: str) -> None:
        self._budget = budget
        self._user = user
        self.size = 0
        self.charged = 0

    def add(self, number: int) -> None:
        """RequestRefusedError where there is no memory left for it."""
        self.size += number
        more = max(0, self.size - SMALL) - self.charged
        if more > 0:
            self._budget.charge(self._user, more)
            self.charged += more


class BodyBudget:
    """See the module. On one thread."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    @property
    def held(self) -> int:
        """Bytes of all users."""
        return sum(self._held.values())

    def charge(self, user: str, number: int) -> None:
        if self._held.get(user, 0) + number > USER_BYTES:
            raise RequestRefusedError(429, "your other requests are too large together; try again when they have ended")
        if self.held + number > TOTAL_BYTES:
            raise RequestRefusedError(503, "too many large requests are being read; try again later")
        self._held[user] = self._held.get(user, 0) + number

    @contextmanager
    def reading(self, user: str) -> Iterator[HeldBody]:
        """For as long as a request with a body is worked on."""
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
    """RequestRefusedError where the body is too large, comes too slowly, or there is no memory for it."""
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
        raise RequestRefusedError(400, "the request broke off") from None
    return b"".join(parts)
