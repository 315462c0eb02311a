"""`HttpConnection`: one connection, which carries one request and its answer at a time; and `StreamedBody`, the body of
an answer that goes on, as that of a watch does.

The socket is read and written directly from the event loop's callbacks. Transports and streams of asyncio would cost
more than the request itself (docs/design/0005). TLS is inside the socket, so a request is one `send` and its answer is
usually one `recv`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from fairway.errors import NoAnswerError
from fairway.kube.http.exchange import ApiAnswer, MayLeave
from fairway.kube.http.parser import AnswerParser, HttpError

RECEIVED = 1 << 16
"""Bytes requested from a socket at once."""
RECORD = 1 << 14
"""The largest TLS record. A read that returned as much may have left more behind, which no event announces: it is in
the TLS layer's buffer, not in the socket's.
"""
MAX_READS, MAX_BYTES = 256, 1 << 20
"""How often a socket is read, and how many bytes, before other sockets have their turn."""

GATHER, BUSY_GATHER = 0.005, 0.02
"""Seconds during which pieces of a body are gathered before they are passed on: after little data, and after much. A
piece that arrives after a pause is passed on at once.
"""
BUSY = 1 << 12
"""Bytes at once that count as much: two or three pods."""
FULL = 1 << 18
"""Bytes that are passed on without gathering more."""
MAX_UNREAD = 8 << 20
"""Bytes that may wait for the reader; above it the socket is not read, and the server has to wait."""


class TooLateError(ConnectionError):
    """The request may no longer leave. What has left of it is not a complete request."""


class Channel(Protocol):
    """A connected non-blocking socket, or a TLS session inside a tunnel."""

    def fileno(self) -> int: ...

    def send(self, data: bytes, /) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class HttpConnection:
    """One connection, with one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: Channel) -> None:
        self._loop = loop
        self._channel = channel
        self._unsent = b""
        self._may_leave: MayLeave | None = None
        self._parser: AnswerParser | None = None
        self._answer: asyncio.Future[ApiAnswer]
        self.is_open = True
        self.is_idle = False
        """Whether another request may be sent."""
        self.idle_since = 0.0
        self.streams = False
        """Whether the answer goes on. TLS returns one record at a time, and a watch has many small ones: all that have
        arrived are read together.
        """
        loop.add_reader(channel.fileno(), self._read)

    def ask(self, request: bytes, parser: AnswerParser, may_leave: MayLeave | None = None) -> asyncio.Future[ApiAnswer]:
        """`may_leave` is called before each piece of the request leaves."""
        self._parser, self.is_idle, self._may_leave = parser, False, may_leave
        self._answer = self._loop.create_future()
        self._send(request)
        return self._answer

    def pause(self) -> None:
        """Stop reading for now."""
        if self.is_open:
            self._loop.remove_reader(self._channel.fileno())

    def resume(self) -> None:
        if self.is_open:
            self._loop.add_reader(self._channel.fileno(), self._read)

    def fail(self, error: BaseException) -> None:
        self.close()
        if self._parser is not None and not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        if self.is_open:
            self.is_open = self.is_idle = False
            self._loop.remove_reader(self._channel.fileno())
            self._loop.remove_writer(self._channel.fileno())
            self._channel.close()

    def _send(self, data: bytes) -> None:
        if self._may_leave is not None and not self._may_leave():
            self.fail(TooLateError("the request may no longer be sent"))
            return
        try:
            sent = self._channel.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self.fail(error)
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._channel.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._channel.fileno())
        data, self._unsent = self._unsent, b""
        self._send(data)

    def _read(self) -> None:
        """The socket is readable."""
        try:
            data = self._channel.recv(RECEIVED)
        except (BlockingIOError, ssl.SSLWantReadError):
            return  # part of a record, or a record without data
        except OSError as error:
            self.fail(error)
            return
        if len(data) >= RECORD or self.streams:
            data = self._with_more(data)
        try:
            self._take(data)
        except HttpError as error:
            self.fail(error)

    def _with_more(self, data: bytes) -> bytes:
        """Adds what else has arrived. An error or the end of the stream shows again at the next read."""
        parts, size, enough = [data], len(data), 1 if self.streams else RECORD
        while len(parts) < MAX_READS and size < MAX_BYTES and len(parts[-1]) >= enough:
            try:
                parts.append(self._channel.recv(RECEIVED))
            except OSError:
                break
            size += len(parts[-1])
        return b"".join(parts)

    def _take(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self.close()  # the server closed the connection, or sends what no request asked for
            return
        answer = parser.feed(data) if data else parser.end()
        if answer is not None:
            self._parser = None
            self.is_idle = parser.keeps and not self._unsent and bool(data)
            self.idle_since = self._loop.time()
            if not self._answer.done():
                self._answer.set_result(answer)
        elif not data:
            self.fail(ConnectionResetError("the server closed the connection"))


class PausableReader(Protocol):
    """Where the bytes of a body come from."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class StreamedBody:
    """The body of an answer that goes on, piece by piece as it arrives.

    An API server sends a watch event at a time. Waking the reader for each one costs more than decoding it, so pieces
    that follow one another closely are gathered, and the socket is not even looked at meanwhile.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: PausableReader, received: Callable[[], None]) -> None:
        """`received` is called for every piece."""
        self._loop = loop
        self._source = source
        self._received = received
        self._pieces: list[bytes] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._has_head = False
        self._woken = loop.time() - GATHER
        self._gather = GATHER
        self._wake_later: asyncio.TimerHandle | None = None
        self.answer: asyncio.Future[ApiAnswer]
        """Done when the body has ended, or the answer was an error."""

    def feed(self, data: bytes) -> None:
        self._has_head = True
        self._received()
        if data:
            self._pieces.append(data)
            self._unread += len(data)
            if self._unread > MAX_UNREAD:
                self._source.pause()
        if self._wake_later is None:
            wait = self._woken + self._gather - self._loop.time()
            if wait > 0 and self._unread < FULL:
                self._source.pause()  # what arrives meanwhile is read together
                self._wake_later = self._loop.call_later(wait, self._wake_and_resume)
            else:
                self.wake()

    def _wake_and_resume(self) -> None:
        self.wake()
        if self._unread <= MAX_UNREAD:
            self._source.resume()

    def wake(self, ended: object = None) -> None:
        """Wake the reader: data has arrived, or the body has ended."""
        if self._wake_later is not None:
            self._wake_later.cancel()
            self._wake_later = None
        self._woken = self._loop.time()
        self._gather = BUSY_GATHER if self._unread > BUSY else GATHER
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def error(self) -> ApiAnswer | None:
        """Waits for the head. None: the body can be read; else the answer, an error. NoAnswerError if none arrives."""
        while not self._has_head and not self.answer.done():
            await self._change()
        return None if self._has_head else self._ended()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yields whatever has arrived since the last piece. NoAnswerError if the body breaks off."""
        while True:
            if self._pieces:
                data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces.clear()
                if self._unread > MAX_UNREAD:
                    self._source.resume()
                self._unread = 0
                yield data
            elif self.answer.done():
                self._ended()
                return
            else:
                await self._change()

    def _ended(self) -> ApiAnswer:
        try:
            return self.answer.result()
        except (OSError, HttpError) as error:
            raise NoAnswerError(describe(error)) from None

    async def _change(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter


def describe(error: BaseException) -> str:
    """Why there is no answer. Nothing that was sent is part of it."""
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    return f"no answer: {str(error) or type(error).__name__}"
