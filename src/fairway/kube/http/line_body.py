"""`LineBody`: the body of an answer that goes on, piece by piece as it comes: a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from fairway.errors import NoAnswerError
from fairway.kube.http.answer_parser import HttpError
from fairway.kube.http.exchange import ApiAnswer

TOGETHER, BUSY_TOGETHER = 0.005, 0.02
"""Seconds in which what comes is passed on once at most: at once after a rest, and less often while there is much."""
BUSY = 1 << 12
"""Bytes at once that are much: two pods or three."""
MUCH = 1 << 18
"""Bytes that are told at once."""
MOST_UNREAD = 8 << 20
"""Bytes that wait to be taken; then the server has to wait."""


class PausedReading(Protocol):
    """Where the bytes come from."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class LineBody:
    """See the module."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: PausedReading, came: Callable[[], None]) -> None:
        """`came` is told whenever something has."""
        self._loop = loop
        self._line = line
        self._came = came
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_open = False
        self._told = loop.time() - TOGETHER
        self._together = TOGETHER
        self._telling: asyncio.TimerHandle | None = None
        self.answer: asyncio.Future[ApiAnswer]
        """Done when the body has ended, or the answer was an error."""

    def feed(self, data: bytes) -> None:
        self._is_open = True
        self._came()
        if data:
            self._pieces.append(data)
            self._unread += len(data)
            if self._unread > MOST_UNREAD:
                self._line.pause()
        if self._telling is None:
            wait = self._told + self._together - self._loop.time()
            if wait > 0 and self._unread < MUCH:
                self._line.pause()  # what comes meanwhile is read together
                self._telling = self._loop.call_later(wait, self._tell)
            else:
                self.wake()

    def _tell(self) -> None:
        self.wake()
        if self._unread <= MOST_UNREAD:
            self._line.resume()

    def wake(self, ended: object = None) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self._told = self._loop.time()
        self._together = BUSY_TOGETHER if self._unread > BUSY else TOGETHER
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def error(self) -> ApiAnswer | None:
        """Waits for the head of the answer: None if its body is one to be read. NoAnswerError where none comes."""
        while not self._is_open and not self.answer.done():
            await self._news()
        return None if self._is_open else self._ended()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """All that has come, again and again. NoAnswerError where the body breaks off."""
        while True:
            if self._pieces:
                data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                if self._unread > MOST_UNREAD:
                    self._line.resume()
                self._unread = 0
                yield data
            elif self.answer.done():
                self._ended()
                return
            else:
                await self._news()

    def _ended(self) -> ApiAnswer:
        try:
            return self.answer.result()
        except (OSError, HttpError) as error:
            raise NoAnswerError(describe(error)) from None

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter


def describe(error: BaseException) -> str:
    """Why there is no answer, without anything that was sent."""
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    return f"no answer: {str(error) or type(error).__name__}"
