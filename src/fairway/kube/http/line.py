"""`Line`: one connection, which carries a request and its answer at a time. TLS is inside its socket."""

from __future__ import annotations

import asyncio
import socket
import ssl

from fairway.kube.http.answer_parser import AnswerParser, HttpError
from fairway.kube.http.exchange import ApiAnswer, MayLeave

RECEIVED = 1 << 16
"""Bytes that are taken from a socket at once."""
RECORD = 1 << 14
"""Bytes that TLS gives at once at most: where there are so many, there may be more."""
TOGETHER, MOST_TOGETHER = 256, 1 << 20
"""How often a socket is read before others have their turn, and after how many bytes they have it."""


class TooLateError(ConnectionError):
    """The request may not leave any more. What has left of it is no request."""


class Line:
    """One connection, with one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, made: socket.socket) -> None:
        self._loop = loop
        self._socket = made
        self._unsent = b""
        self._may_leave: MayLeave | None = None
        self._parser: AnswerParser | None = None
        self._answer: asyncio.Future[ApiAnswer]
        self.is_open = True
        self.rests = False
        """Whether another request may be sent."""
        self.since = 0.0
        """When the last answer came."""
        self.streams = False
        """Whether the answer goes on: TLS gives one piece of it at a time, and all that are there are taken."""
        loop.add_reader(made.fileno(), self._read)

    def ask(self, request: bytes, parser: AnswerParser, may_leave: MayLeave | None = None) -> asyncio.Future[ApiAnswer]:
        """`may_leave` is asked at each piece of the request that is about to leave."""
        self._parser, self.rests, self._may_leave = parser, False, may_leave
        self._answer = self._loop.create_future()
        self._send(request)
        return self._answer

    def pause(self) -> None:
        """Read no more for now."""
        if self.is_open:
            self._loop.remove_reader(self._socket.fileno())

    def resume(self) -> None:
        if self.is_open:
            self._loop.add_reader(self._socket.fileno(), self._read)

    def fail(self, error: BaseException) -> None:
        self.close()
        if self._parser is not None and not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        if self.is_open:
            self.is_open = self.rests = False
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _send(self, data: bytes) -> None:
        if self._may_leave is not None and not self._may_leave():
            self.fail(TooLateError("the request may not be sent any more"))
            return
        try:
            sent = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantWriteError):
            sent = 0
        except OSError as error:
            self.fail(error)
            return
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._socket.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        data, self._unsent = self._unsent, b""
        self._send(data)

    def _read(self) -> None:
        """The socket has something."""
        try:
            data = self._socket.recv(RECEIVED)
        except (BlockingIOError, ssl.SSLWantReadError):
            return  # part of a record, or something that is no data
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
        """What else is there already. An error, or the end, will be met again when the socket is looked at next."""
        parts, size, enough = [data], len(data), 1 if self.streams else RECORD
        while len(parts) < TOGETHER and size < MOST_TOGETHER and len(parts[-1]) >= enough:
            try:
                parts.append(self._socket.recv(RECEIVED))
            except OSError:
                break
            size += len(parts[-1])
        return b"".join(parts)

    def _take(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self.close()  # the server is done with it, or talks out of turn
            return
        answer = parser.feed(data) if data else parser.end()
        if answer is not None:
            self._parser = None
            self.rests = parser.keeps and not self._unsent and bool(data)
            self.since = self._loop.time()
            if not self._answer.done():
                self._answer.set_result(answer)
        elif not data:
            self.fail(ConnectionResetError("the server closed the connection"))
