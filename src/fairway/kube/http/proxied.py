"""`ProxiedClient`: requests to an API server that is behind an HTTP proxy, by aiohttp, which knows how to ask one.

It is imported only where a configuration names a proxy: most do not, and aiohttp takes longer to import than everything
else here together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from fairway.errors import NoAnswerError
from fairway.kube.http.exchange import ApiAnswer, ApiRequest, MayLeave
from fairway.kube.http.line_body import describe
from fairway.kube.http.sockets import watched_socket
from fairway.kube.server.connection import Connection, Identity, TlsContexts

CONNECT_LIMIT = 10.0
CHUNK = 1 << 18
GOODBYE = 0.1
"""Seconds for encrypted connections to end properly, which aiohttp does not wait for."""

_FIRST_ERROR = 300


class ProxiedAnswer:
    """An answer whose body goes on."""

    def __init__(self, answer: aiohttp.ClientResponse, most: int, most_error: int) -> None:
        self._answer = answer
        self._most, self._most_error = most, most_error

    async def error(self) -> ApiAnswer | None:
        """The whole answer, if it is an error."""
        if self._answer.status < _FIRST_ERROR:
            return None
        return await _read(self._answer, self._most, self._most_error)

    def iter_any(self) -> AsyncIterator[bytes]:
        return self._answer.content.iter_any()


class ProxiedClient:
    """See the module. It belongs to the thread of one event loop. `headers` are sent with every request."""

    def __init__(
        self,
        connection: Connection,
        contexts: TlsContexts,
        headers: Mapping[str, str],
        *,
        time_limit: float,
        most: int,
        most_error: int,
    ) -> None:
        self._connection = connection
        self._contexts = contexts
        self._headers = headers
        self._limit = aiohttp.ClientTimeout(total=time_limit, sock_connect=min(CONNECT_LIMIT, time_limit))
        self._most, self._most_error = most, most_error
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, request: ApiRequest, identity: Identity, may_leave: MayLeave | None = None) -> ApiAnswer:
        """NoAnswerError where none comes."""
        try:
            answer = await self._open(request, identity, self._limit, may_leave)
            try:
                return await _read(answer, self._most, self._most_error)
            finally:
                answer.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(describe(error)) from None

    @asynccontextmanager
    async def stream(self, request: ApiRequest, identity: Identity, silence: float) -> AsyncIterator[ProxiedAnswer]:
        """An answer whose body goes on; `silence` is how many seconds may pass without a byte."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT, sock_read=silence)
        try:
            async with asyncio.timeout(self._limit.total):
                answer = await self._open(request, identity, limit)
            try:
                yield ProxiedAnswer(answer, self._most, self._most_error)
            finally:
                answer.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(describe(error)) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(GOODBYE)

    async def _open(
        self,
        request: ApiRequest,
        identity: Identity,
        limit: aiohttp.ClientTimeout,
        may_leave: MayLeave | None = None,
    ) -> aiohttp.ClientResponse:
        """The answer with its body still to be read."""
        body = request.body if request.body is None or may_leave is None else _TimelyBody(request.body, may_leave)
        headers = dict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        return await self._pool().request(
            request.method,
            URL(self._connection.server + request.path, encoded=True),
            data=body,
            headers=headers,
            timeout=limit,
            ssl=self._contexts.of(identity.certificate) or True,
            server_hostname=self._connection.trust.server_name,
            proxy=self._connection.proxy,
            allow_redirects=False,
        )

    def _pool(self) -> aiohttp.ClientSession:
        """Made on first use, since it belongs to the event loop that runs then. Its size is what its users request:
        each keeps to a number of its own, and the lease must never wait for a connection.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, ttl_dns_cache=60, keepalive_timeout=60, socket_factory=watched_socket
            )
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=CHUNK
            )
        return self._session


class _TimelyBody(aiohttp.BytesPayload):
    """A body that does not leave when it is too late; a request without its body is none."""

    def __init__(self, body: bytes, may_leave: MayLeave) -> None:
        super().__init__(body)
        self._may_leave = may_leave

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        if not self._may_leave():
            raise ConnectionAbortedError("the request may not be sent any more")
        await super().write_with_length(writer, content_length)


async def _read(answer: aiohttp.ClientResponse, most: int, most_error: int) -> ApiAnswer:
    most = most if answer.status < _FIRST_ERROR else most_error
    length = answer.content_length
    if length is not None and length <= min(CHUNK, most):
        body = await answer.read()
    else:
        body = await _limited(answer, most)
    return ApiAnswer(answer.status, body, _wait(answer.headers.get("Retry-After")))


async def _limited(answer: aiohttp.ClientResponse, most: int) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            answer.close()
            if answer.status >= _FIRST_ERROR:
                break  # of an error the beginning is enough
            raise NoAnswerError(f"the answer has more than {most} bytes")
    return b"".join(parts)[:most]


def _wait(text: str | None) -> float | None:
    """Whole seconds; a date, which HTTP allows too, is not used by Kubernetes and not read."""
    text = (text or "").strip()
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else None
