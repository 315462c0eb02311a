"""`ApiClient`: requests to one API server, over one pool of connections.

    await client.send(ApiRequest("POST", "/api/v1/namespaces/a/pods/p/binding", body))   -> ApiAnswer, never an error
    await client.request("GET", "/version")                                         -> bytes of the answer, or ApiError
    await client.read("/version", ServerVersion)                                    -> a decoded answer
    async with client.stream("/api/v1/pods", {"watch": "true"}, silence=60) as body: ...

`request`, `read` and `stream` raise `ApiError` with what the server's Status object said where the answer is not a
success, and `NoAnswerError` where none came in time. Nothing is tried again here, but for one new try with fresh
credentials after a 401: only the caller can tell whether a second request is harmless. A client belongs to the thread
of one event loop. No text that it makes has a secret in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from fairway import __version__
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.connection import Connection, Identity, TlsContexts, ssl_context
from fairway.kube.exchange import JSON, NO_ANSWER, ApiAnswer, ApiRequest, MayLeave, pause_of, status_of
from fairway.kube.lean import LeanClient
from fairway.kube.line_body import describe
from fairway.kube.sockets import watched_socket

T = TypeVar("T")

TIME_LIMIT = 30.0
"""Seconds for one answer."""
CONNECT_LIMIT = 10.0
MAX_ANSWER = 256 << 20
"""Bytes of one answer; a page of 500 pods has a few million."""
MAX_ERROR = 64 << 10
"""Bytes that are read of an answer that is an error."""
CHUNK = 1 << 18
GOODBYE = 0.1
"""Seconds for encrypted connections to end properly, which aiohttp does not wait for."""

_UNAUTHORIZED = 401
_FIRST_ERROR = 300

Query = Mapping[str, str]


class StreamedBody(Protocol):
    """A body as it comes."""

    def iter_any(self) -> AsyncIterator[bytes]: ...


class ApiClient:
    """See the module."""

    def __init__(self, connection: Connection, *, time_limit: float = TIME_LIMIT) -> None:
        self.connection = connection
        self._time_limit = aiohttp.ClientTimeout(total=time_limit, sock_connect=min(CONNECT_LIMIT, time_limit))
        self._headers = {
            "User-Agent": f"fairway/{__version__}",
            "Accept": JSON,
            "Accept-Encoding": "identity",  # the server would compress large lists, and that costs both sides more
        }
        self._common: tuple[str, dict[str, dict[str, str]]] = ("", {})
        """The headers of requests by the type of their body, for the authorization that was used last."""
        self._session: aiohttp.ClientSession | None = None
        self._contexts = TlsContexts(connection)
        self._lean = LeanClient(
            connection,
            self._contexts,
            self._headers,
            time_limit=time_limit,
            most=MAX_ANSWER,
            most_error=MAX_ERROR,
        )

    async def check(self) -> None:
        """InputError where the certificates of the configuration cannot be used."""
        if self.connection.server.startswith("https"):
            ssl_context(self.connection.trust, (await self.connection.credentials.identity()).certificate)

    async def close(self) -> None:
        self._lean.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(GOODBYE)

    # -- requests --------------------------------------------------------------------------------------------

    async def send(self, request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
        """The answer, whatever it says; `NO_ANSWER` if there is none. `may_leave` is asked when there is a connection
        and the bytes of the request leave: one that came too late is not sent.
        """
        try:
            if self.connection.proxy:
                return await self._answer(request, None, self._time_limit, may_leave)
            return await self._sent(request, may_leave)
        except NoAnswerError:
            return NO_ANSWER

    async def _sent(self, request: ApiRequest, may_leave: MayLeave | None) -> ApiAnswer:
        """Over a line of its own; after a 401 once more, if there are credentials that were not refused yet."""
        credentials = self.connection.credentials
        identity = await credentials.identity()
        answer = await self._lean.ask(request, identity, may_leave)
        if answer.status == _UNAUTHORIZED:
            credentials.refused()
            fresh = await credentials.identity()
            if fresh != identity:
                answer = await self._lean.ask(request, fresh, may_leave)
        return answer

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        query: Query | None = None,
        time_limit: float | None = None,
    ) -> bytes:
        """The body of the answer. `path` is escaped already; `body` is bytes, or anything msgspec can encode."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        limit = self._time_limit if time_limit is None else aiohttp.ClientTimeout(total=time_limit)
        answer = await self._answer(ApiRequest(method, path, data, content_type), query, limit)
        if answer.status >= _FIRST_ERROR:
            raise _error(answer, f"{method} {path}")
        return answer.body

    async def read(self, path: str, form: type[T], query: Query | None = None) -> T:
        """GET, decoded; an answer of another form is an `ApiError`."""
        raw = await self.request("GET", path, query=query)
        try:
            return msgspec.json.decode(raw, type=form)
        except msgspec.DecodeError as error:
            raise ApiError(200, "Unreadable", str(error), request=f"GET {path}") from None

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *, silence: float) -> AsyncIterator[StreamedBody]:
        """A body that goes on, as watches do. `silence` is how many seconds may pass without a byte."""
        opened = self._stream_by_proxy if self.connection.proxy else self._stream
        try:
            async with opened(path, query, silence) as body:
                yield body
        except NoAnswerError as error:
            raise NoAnswerError(error.message, request=f"GET {path}") from None

    @asynccontextmanager
    async def _stream(self, path: str, query: Query, silence: float) -> AsyncIterator[StreamedBody]:
        credentials = self.connection.credentials
        request = ApiRequest("GET", f"{path}?{urlencode(query)}")
        identity = await credentials.identity()
        async with AsyncExitStack() as lines:
            body = await lines.enter_async_context(self._lean.stream(request, identity, silence))
            refusal = await body.error()
            if refusal is not None and refusal.status == _UNAUTHORIZED:
                credentials.refused()
                fresh = await credentials.identity()
                if fresh != identity:
                    body = await lines.enter_async_context(self._lean.stream(request, fresh, silence))
                    refusal = await body.error()
            if refusal is not None:
                raise _error(refusal, f"GET {path}")
            yield body

    @asynccontextmanager
    async def _stream_by_proxy(self, path: str, query: Query, silence: float) -> AsyncIterator[StreamedBody]:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT, sock_read=silence)
        try:
            answer = await self._open(ApiRequest("GET", path), query, limit)
            try:
                if answer.status >= _FIRST_ERROR:
                    raise _error(await _read(answer, path), f"GET {path}")
                yield answer.content
            finally:
                answer.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(describe(error)) from None

    # -- inside ----------------------------------------------------------------------------------------------

    async def _answer(
        self,
        request: ApiRequest,
        query: Query | None,
        limit: aiohttp.ClientTimeout,
        may_leave: MayLeave | None = None,
    ) -> ApiAnswer:
        try:
            answer = await self._open(request, query, limit, may_leave)
            try:
                return await _read(answer, request.path)
            finally:
                answer.release()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(describe(error), request=f"{request.method} {request.path}") from None

    async def _open(
        self,
        request: ApiRequest,
        query: Query | None,
        limit: aiohttp.ClientTimeout,
        may_leave: MayLeave | None = None,
    ) -> aiohttp.ClientResponse:
        """The answer with its body still to be read; after a 401 that of a second try, if there are credentials that
        the server has not refused yet.
        """
        credentials = self.connection.credentials
        url = URL(self.connection.server + request.path, encoded=True)
        if query:
            url = url.with_query(query)
        body = request.body if request.body is None or may_leave is None else _TimelyBody(request.body, may_leave)
        identity = await credentials.identity()
        answer = await self._try(request, url, limit, identity, body)
        if answer.status == _UNAUTHORIZED:
            credentials.refused()
            fresh = await credentials.identity()
            if fresh != identity:
                answer.release()
                answer = await self._try(request, url, limit, fresh, body)
        return answer

    async def _try(
        self,
        request: ApiRequest,
        url: URL,
        limit: aiohttp.ClientTimeout,
        identity: Identity,
        body: bytes | _TimelyBody | None,
    ) -> aiohttp.ClientResponse:
        return await self._pool().request(
            request.method,
            url,
            data=body,
            headers=self._headers_of(identity.authorization, "" if body is None else request.content_type),
            timeout=limit,
            ssl=self._contexts.of(identity.certificate) or True,
            server_hostname=self.connection.trust.server_name,
            proxy=self.connection.proxy,
            allow_redirects=False,
        )

    def _headers_of(self, authorization: str, content_type: str) -> dict[str, str]:
        if self._common[0] != authorization:
            self._common = (authorization, {})
        found = self._common[1].get(content_type)
        if found is None:
            found = {**self._headers}
            if content_type:
                found["Content-Type"] = content_type
            if authorization:
                found["Authorization"] = authorization
            self._common[1][content_type] = found
        return found

    def _pool(self) -> aiohttp.ClientSession:
        """Made on first use, since it belongs to the event loop that runs then. Its size is what its users ask for:
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


async def _read(answer: aiohttp.ClientResponse, path: str) -> ApiAnswer:
    most = MAX_ANSWER if answer.status < _FIRST_ERROR else MAX_ERROR
    length = answer.content_length
    if length is not None and length <= min(CHUNK, most):
        body = await answer.read()
    else:
        body = await _limited(answer, most, path)
    return ApiAnswer(answer.status, body, _wait(answer.headers.get("Retry-After")))


async def _limited(answer: aiohttp.ClientResponse, most: int, path: str) -> bytes:
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            answer.close()
            if answer.status >= _FIRST_ERROR:
                break  # of an error the beginning is enough
            raise NoAnswerError(f"the answer has more than {most} bytes", request=path)
    return b"".join(parts)[:most]


def _wait(text: str | None) -> float | None:
    """Whole seconds; a date, which HTTP allows too, is not used by Kubernetes and not read."""
    text = (text or "").strip()
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else None


def _error(answer: ApiAnswer, name: str) -> ApiError:
    """From the Status object, where there is one; a proxy in between may have answered with something else."""
    status = status_of(answer)
    message = " ".join((status.message or answer.body[:200].decode("utf-8", "replace")).split())
    has_wait = answer.retry_after is not None or (status.details is not None and status.details.retry_after_seconds > 0)
    wait = pause_of(answer) if has_wait else None
    reason = status.reason or "Error"
    return ApiError(answer.status, reason, message or reason, request=name, retry_after=wait)
