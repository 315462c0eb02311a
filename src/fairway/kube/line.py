"""`LinePool`: connections that each carry one request and its answer at a time, and stay open for the next.

What `aiohttp` does for a request (an URL, a dictionary of headers, a timer, a stream for the body, TLS in Python) costs
several times what the request itself does. A bind is a few hundred bytes each way and there are thousands of them: here
a request is one `send` on a socket and its answer one `recv`, with TLS inside the socket.

A pool belongs to the thread of one event loop. Nothing is tried again here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from fairway.errors import NoAnswerError
from fairway.kube.answer_parser import AnswerParser, HttpError
from fairway.kube.exchange import ApiAnswer
from fairway.kube.sockets import watched_socket

CONNECT_LIMIT = 10.0
"""Seconds."""
IDLE_LIMIT = 60.0
"""Seconds after which a connection is not used again: the server may be about to close it."""
RECEIVED = 1 << 16
"""Bytes that are taken from a socket at once."""
LOOKS = 20
"""How often within its time limit a request is looked at whether it is over."""


class LinePool:
    """To one server."""

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        *,
        most: int,
        most_error: int,
        server_name: str | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = host, port
        self._context = context
        self._most, self._most_error = most, most_error
        self._server_name = server_name or host
        self._idle: list[_Line] = []
        self._busy: dict[_Line, float] = {}
        """With the time at which each is given up."""
        self._is_retired = False
        self._look: asyncio.TimerHandle | None = None
        self._found: tuple[float, list[Any]] = (0.0, [])
        """The addresses of the host and until when they are believed."""

    async def ask(self, request: bytes, time_limit: float) -> ApiAnswer:
        """NoAnswerError where none comes. A call that is cancelled closes its connection: what has not left by then
        does not arrive.
        """
        deadline = self._loop.time() + time_limit
        line = self._rested() or await self._connected(min(CONNECT_LIMIT, time_limit))
        self._busy[line] = deadline
        if self._look is None:
            self._look = self._loop.call_later(time_limit / LOOKS, self._give_up_late, time_limit / LOOKS)
        try:
            answer = await line.ask(request, AnswerParser(self._most, self._most_error))
        except (OSError, HttpError) as error:
            raise NoAnswerError(_describe(error)) from None
        finally:
            del self._busy[line]
            if line.is_open:
                if line.rests and not self._is_retired:
                    self._idle.append(line)
                else:
                    line.close()
        return answer

    def retire(self) -> None:
        """Another pool is used from now on: what is under way ends, and then its connection."""
        self._is_retired = True
        for line in self._idle:
            line.close()
        self._idle.clear()

    def close(self) -> None:
        self.retire()
        for line in tuple(self._busy):
            line.fail(ConnectionAbortedError("the client was closed"))
        if self._look is not None:
            self._look.cancel()

    # -- inside ----------------------------------------------------------------------------------------------

    def _rested(self) -> _Line | None:
        now = self._loop.time()
        while self._idle:
            line = self._idle.pop()
            if line.is_open and now - line.since < IDLE_LIMIT:
                return line
            line.close()
        return None

    def _give_up_late(self, interval: float) -> None:
        now = self._loop.time()
        for line in [line for line, deadline in self._busy.items() if deadline <= now]:
            line.fail(TimeoutError())
        self._look = self._loop.call_later(interval, self._give_up_late, interval) if self._busy else None

    async def _connected(self, limit: float) -> _Line:
        try:
            async with asyncio.timeout(limit):
                return _Line(self._loop, await self._connect())
        except OSError as error:  # TimeoutError and errors of TLS among them
            raise NoAnswerError(_describe(error)) from None

    async def _connect(self) -> socket.socket:
        failure: OSError = OSError("the name of the server has no address")
        for address in await self._addresses():
            made = watched_socket(address)
            try:
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(made, address[4])
                return made if self._context is None else await self._encrypted(made, self._context)
            except OSError as error:
                made.close()
                failure = error
            except BaseException:
                made.close()
                raise
        raise failure

    async def _addresses(self) -> list[Any]:
        until, found = self._found
        if not found or self._loop.time() > until:
            host, port = self._address
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._found = self._loop.time() + IDLE_LIMIT, found
        return found

    async def _encrypted(self, made: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        wrapped = context.wrap_socket(made, server_hostname=self._server_name, do_handshake_on_connect=False)
        try:
            while True:
                try:
                    wrapped.do_handshake()
                    return wrapped
                except ssl.SSLWantReadError:
                    await _until(self._loop.add_reader, self._loop.remove_reader, wrapped)
                except ssl.SSLWantWriteError:
                    await _until(self._loop.add_writer, self._loop.remove_writer, wrapped)
        except BaseException:
            wrapped.close()
            raise


class _Line:
    """One connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, made: socket.socket) -> None:
        self._loop = loop
        self._socket = made
        self._pending = made.pending if isinstance(made, ssl.SSLSocket) else None
        self._unsent = b""
        self._parser: AnswerParser | None = None
        self._answer: asyncio.Future[ApiAnswer]
        self.is_open = True
        self.rests = False
        """Whether another request may be sent."""
        self.since = 0.0
        """When the last answer came."""
        loop.add_reader(made.fileno(), self._read)

    def ask(self, request: bytes, parser: AnswerParser) -> asyncio.Future[ApiAnswer]:
        self._parser, self.rests = parser, False
        self._answer = self._loop.create_future()
        self._send(request)
        return self._answer

    def fail(self, error: BaseException) -> None:
        self.close()
        if self._parser is not None and not self._answer.done():
            self._answer.set_exception(error)

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _send(self, data: bytes) -> None:
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
        """The socket has something; what TLS has read ahead of that is taken, too."""
        try:
            data = self._socket.recv(RECEIVED)
            while data and self._pending is not None and self._pending():
                data += self._socket.recv(RECEIVED)
        except (BlockingIOError, ssl.SSLWantReadError):
            return  # part of a record, or something that is no data
        except OSError as error:
            self.fail(error)
            return
        try:
            self._take(data)
        except HttpError as error:
            self.fail(error)

    def _take(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            self.close()  # the server is done with it, or talks out of turn
            return
        answer = parser.feed(data) if data else parser.end()
        if answer is not None:
            self._parser = None
            self.rests = parser.keeps and not self._unsent
            self.since = self._loop.time()
            if not self._answer.done():
                self._answer.set_result(answer)
        elif not data:
            self.fail(ConnectionResetError("the server closed the connection"))


async def _until(add: Callable[..., Any], remove: Callable[[Any], Any], made: socket.socket) -> None:
    ready = asyncio.get_running_loop().create_future()
    number = made.fileno()
    add(number, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(number)


def _describe(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer within the time limit"
    return f"no answer: {str(error) or type(error).__name__}"
