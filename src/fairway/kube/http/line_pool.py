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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fairway.errors import NoAnswerError
from fairway.kube.http.answer_parser import AnswerParser, HttpError
from fairway.kube.http.exchange import ApiAnswer, MayLeave
from fairway.kube.http.line import Line
from fairway.kube.http.line_body import LineBody, describe
from fairway.kube.http.sockets import watched_socket

CONNECT_LIMIT = 10.0
"""Seconds."""
IDLE_LIMIT = 60.0
"""Seconds after which a connection is not used again: the server may be about to close it."""
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
        time_limit: float,
        most: int,
        most_error: int,
        server_name: str | None = None,
    ) -> None:
        """`time_limit` is for one answer, in seconds; `most` and `most_error` are bytes of its body."""
        self._loop = asyncio.get_running_loop()
        self._address = host, port
        self._context = context
        self._time_limit = time_limit
        self._most, self._most_error = most, most_error
        self._server_name = server_name or host
        self._idle: list[Line] = []
        self._busy: dict[Line, float] = {}
        """With the time at which each is given up."""
        self._is_retired = False
        self._look: asyncio.TimerHandle | None = None
        self._found: tuple[float, list[Any]] = (0.0, [])
        """The addresses of the host and until when they are believed."""

    async def ask(self, request: bytes, may_leave: MayLeave | None = None) -> ApiAnswer:
        """NoAnswerError where none comes. A call that is cancelled closes its connection: what has not left by then
        does not arrive. `may_leave` is asked when there is a connection and the bytes leave.
        """
        line = await self._line(self._time_limit)
        try:
            return await line.ask(request, AnswerParser(self._most, self._most_error), may_leave)
        except (OSError, HttpError) as error:
            raise NoAnswerError(describe(error)) from None
        finally:
            self._give_back(line)

    @asynccontextmanager
    async def stream(self, request: bytes, silence: float) -> AsyncIterator[LineBody]:
        """An answer whose body goes on; `silence` is how many seconds may pass without a byte. Its head has to come
        within the time limit of any answer. NoAnswerError where no connection comes about.
        """
        line = await self._line(min(silence, self._time_limit))
        line.streams = True

        def came() -> None:
            self._busy[line] = self._loop.time() + silence

        body = LineBody(self._loop, line, came)
        body.answer = line.ask(request, AnswerParser(self._most, self._most_error, body.feed))
        body.answer.add_done_callback(body.wake)
        try:
            yield body
        finally:
            line.close()
            if not body.answer.cancel() and not body.answer.cancelled():
                body.answer.exception()  # it is known; asyncio need not say that nothing asked for it
            self._give_back(line)

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

    async def _line(self, seconds: float) -> Line:
        """One that is given up if nothing comes of it for so long."""
        line = self._rested() or await self._connected(min(CONNECT_LIMIT, self._time_limit))
        self._busy[line] = self._loop.time() + seconds
        if self._look is None:
            self._plan_look()
        return line

    def _give_back(self, line: Line) -> None:
        del self._busy[line]
        if line.rests and not self._is_retired:
            self._idle.append(line)
        else:
            line.close()

    def _rested(self) -> Line | None:
        now = self._loop.time()
        while self._idle:
            line = self._idle.pop()
            if line.is_open and now - line.since < IDLE_LIMIT:
                return line
            line.close()
        return None

    def _plan_look(self) -> None:
        self._look = self._loop.call_later(self._time_limit / LOOKS, self._give_up_late)

    def _give_up_late(self) -> None:
        now = self._loop.time()
        for line in [line for line, deadline in self._busy.items() if deadline <= now]:
            line.fail(TimeoutError())
        if self._busy:
            self._plan_look()
        else:
            self._look = None

    async def _connected(self, limit: float) -> Line:
        try:
            async with asyncio.timeout(limit):
                return Line(self._loop, await self._connect())
        except OSError as error:  # TimeoutError and errors of TLS among them
            raise NoAnswerError(describe(error)) from None

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


async def _until(add: Callable[..., Any], remove: Callable[[Any], Any], made: socket.socket) -> None:
    ready = asyncio.get_running_loop().create_future()
    number = made.fileno()
    add(number, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(number)
