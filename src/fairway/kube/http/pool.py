"""`ConnectionPool`: connections to one server, each of which carries one request at a time and stays open for the next.

A bind is a few hundred bytes each way, and there are thousands of them. A general HTTP client spends several times what
such a request costs on objects for URLs, headers, timers and streams (docs/design/0005). Here there is no object per
request but its future, and one timer for all of them.

A pool belongs to the thread of one event loop. Nothing is retried here: only the caller knows whether a second request
is harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from fairway.errors import NoAnswerError
from fairway.kube.http.dial import Dialer
from fairway.kube.http.exchange import ApiAnswer, MayLeave
from fairway.kube.http.parser import AnswerParser, HttpError
from fairway.kube.http.wire import HttpConnection, StreamedBody, describe

CONNECT_LIMIT = 10.0
"""Seconds until a connection is ready to use, with TLS and a proxy's tunnel."""
IDLE_LIMIT = 60.0
"""Seconds after which an idle connection is not used again: the server may be about to close it."""
CHECKS = 20
"""How often within its time limit a request is checked for being late."""


class AnswerLimits(NamedTuple):
    seconds: float
    """Until an answer, or the head of one that goes on, has arrived."""
    max_size: int
    """Bytes of an answer's body."""
    max_error: int
    """Bytes that are kept of an error's body."""


class ConnectionPool:
    """Its size is what its users need at a time: each keeps to a number of its own, and the lease must never wait for
    a connection.
    """

    def __init__(self, dialer: Dialer, limits: AnswerLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._dialer = dialer
        self._limits = limits
        self._idle: list[HttpConnection] = []
        self._busy: dict[HttpConnection, float] = {}
        """With the time at which each is given up."""
        self._is_retired = False
        self._check: asyncio.TimerHandle | None = None

    async def ask(self, request: bytes, may_leave: MayLeave | None = None) -> ApiAnswer:
        """NoAnswerError if none arrives. Cancelling the call closes its connection: what has not left by then does not
        arrive. `may_leave` is called once there is a connection, when the bytes leave.
        """
        connection = await self._acquire(self._limits.seconds)
        try:
            parser = AnswerParser(self._limits.max_size, self._limits.max_error)
            return await connection.ask(request, parser, may_leave)
        except (OSError, HttpError) as error:
            raise NoAnswerError(describe(error)) from None
        finally:
            self._release(connection)

    @asynccontextmanager
    async def stream(self, request: bytes, silence: float) -> AsyncIterator[StreamedBody]:
        """An answer whose body goes on. `silence` is how many seconds may pass without a byte; the head has to arrive
        within the time limit of any answer. NoAnswerError if no connection can be made.
        """
        connection = await self._acquire(min(silence, self._limits.seconds))
        connection.streams = True

        def received() -> None:
            self._busy[connection] = self._loop.time() + silence

        body = StreamedBody(self._loop, connection, received)
        parser = AnswerParser(self._limits.max_size, self._limits.max_error, body.feed)
        body.answer = connection.ask(request, parser)
        body.answer.add_done_callback(body.wake)
        try:
            yield body
        finally:
            connection.close()
            if not body.answer.cancel() and not body.answer.cancelled():
                body.answer.exception()  # marks it as retrieved, or asyncio would log it
            self._release(connection)

    def retire(self) -> None:
        """Another pool is used from now on: requests under way end as they may, and their connections with them."""
        self._is_retired = True
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        self.retire()
        for connection in tuple(self._busy):
            connection.fail(ConnectionAbortedError("the client was closed"))
        if self._check is not None:
            self._check.cancel()

    async def _acquire(self, seconds: float) -> HttpConnection:
        """A connection that is given up unless something arrives within so many seconds."""
        connection = self._reused() or await self._connected(min(CONNECT_LIMIT, self._limits.seconds))
        self._busy[connection] = self._loop.time() + seconds
        if self._check is None:
            self._plan_check()
        return connection

    def _release(self, connection: HttpConnection) -> None:
        del self._busy[connection]
        if connection.is_idle and not self._is_retired:
            self._idle.append(connection)
        else:
            connection.close()

    def _reused(self) -> HttpConnection | None:
        now = self._loop.time()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and now - connection.idle_since < IDLE_LIMIT:
                return connection
            connection.close()
        return None

    def _plan_check(self) -> None:
        self._check = self._loop.call_later(self._limits.seconds / CHECKS, self._give_up_late)

    def _give_up_late(self) -> None:
        """One timer for all requests: setting and cancelling one for each costs as much as sending it."""
        now = self._loop.time()
        for connection in [late for late, deadline in self._busy.items() if deadline <= now]:
            connection.fail(TimeoutError())
        if self._busy:
            self._plan_check()
        else:
            self._check = None

    async def _connected(self, limit: float) -> HttpConnection:
        try:
            async with asyncio.timeout(limit):
                return HttpConnection(self._loop, await self._dialer.connect())
        except OSError as error:  # TimeoutError, TunnelError and errors of TLS among them
            raise NoAnswerError(describe(error)) from None
