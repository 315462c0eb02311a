"""`ApiClient`: requests to one API server, over one pool of connections.

    await client.send(ApiRequest("POST", "/api/v1/namespaces/a/pods/p/binding", body))   -> ApiAnswer, never an error
    await client.request("GET", "/version")                                         -> bytes of the answer, or ApiError
    await client.read("/version", ServerVersion)                                    -> a decoded answer
    async with client.stream("/api/v1/pods", {"watch": "true"}, silence=60) as body: ...

`request`, `read` and `stream` raise `ApiError` with the server's Status object where the answer is not a success, and
`NoAnswerError` where none arrives in time. Nothing is retried here, except once with fresh credentials after a 401:
only the caller can tell whether a second request is harmless. A client belongs to the thread of one event loop. No text
it produces contains a secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from fairway import __version__
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http.dial import PORTS, Dialer, Proxy
from fairway.kube.http.exchange import JSON, NO_ANSWER, ApiAnswer, ApiRequest, MayLeave, pause_of, status_of
from fairway.kube.http.parser import FIRST_ERROR
from fairway.kube.http.pool import AnswerLimits, ConnectionPool
from fairway.kube.http.wire import StreamedBody
from fairway.kube.server.connection import Certificate, Connection, Identity, TlsContexts, ssl_context

T = TypeVar("T")

TIME_LIMIT = 30.0
"""Seconds for one answer."""
MAX_ANSWER = 256 << 20
"""Bytes of one answer; a page of 500 pods has a few million."""
MAX_ERROR = 64 << 10
"""Bytes that are read of an answer that is an error."""

_UNAUTHORIZED = 401

Query = Mapping[str, str]


class ApiClient:
    """Requests to the server of a `Connection`."""

    def __init__(self, connection: Connection, *, time_limit: float = TIME_LIMIT) -> None:
        self.connection = connection
        self._limits = AnswerLimits(time_limit, MAX_ANSWER, MAX_ERROR)
        self._contexts = TlsContexts(connection)
        self._requests = _RequestBytes(connection)
        self._pool: ConnectionPool | None = None
        self._certificate: Certificate | None = None

    async def check(self) -> None:
        """InputError where the certificates of the configuration cannot be used."""
        if self.connection.is_encrypted:
            ssl_context(self.connection.trust, (await self.connection.credentials.identity()).certificate)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    # -- requests --------------------------------------------------------------------------------------------

    async def send(self, request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
        """The answer, whatever its status; `NO_ANSWER` if there is none. `may_leave` is called once there is a
        connection, when the bytes of the request leave: a request that comes too late is not sent.
        """
        try:
            return await self._answer(request, may_leave)
        except NoAnswerError:
            return NO_ANSWER

    async def _answer(self, request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
        """After a 401 once more, if there are credentials that were not refused yet."""
        credentials = self.connection.credentials
        identity = await credentials.identity()
        answer = await self._ask(request, identity, may_leave)
        if answer.status == _UNAUTHORIZED:
            credentials.refused(identity)
            fresh = await credentials.identity()
            if fresh != identity:
                answer = await self._ask(request, fresh, may_leave)
        return answer

    async def _ask(self, request: ApiRequest, identity: Identity, may_leave: MayLeave | None) -> ApiAnswer:
        return await self._connections(identity.certificate).ask(self._requests.of(request, identity), may_leave)

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, query: Query | None = None
    ) -> bytes:
        """The body of the answer. `path` is escaped already; `body` is bytes, or anything msgspec can encode."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            answer = await self._answer(ApiRequest(method, _with_query(path, query), data, content_type))
        except NoAnswerError as error:
            raise NoAnswerError(error.message, request=f"{method} {path}") from None
        if answer.status >= FIRST_ERROR:
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
        """A body that goes on, as that of a watch does. `silence` is how many seconds may pass without a byte."""
        try:
            async with self._stream(path, query, silence) as body:
                yield body
        except NoAnswerError as error:
            raise NoAnswerError(error.message, request=f"GET {path}") from None

    @asynccontextmanager
    async def _stream(self, path: str, query: Query, silence: float) -> AsyncIterator[StreamedBody]:
        credentials = self.connection.credentials
        request = ApiRequest("GET", _with_query(path, query))
        identity = await credentials.identity()
        async with AsyncExitStack() as streams:
            body = await streams.enter_async_context(self._open(request, identity, silence))
            refusal = await body.error()
            if refusal is not None and refusal.status == _UNAUTHORIZED:
                credentials.refused(identity)
                fresh = await credentials.identity()
                if fresh != identity:
                    body = await streams.enter_async_context(self._open(request, fresh, silence))
                    refusal = await body.error()
            if refusal is not None:
                raise _error(refusal, f"GET {path}")
            yield body

    def _open(
        self, request: ApiRequest, identity: Identity, silence: float
    ) -> AbstractAsyncContextManager[StreamedBody]:
        return self._connections(identity.certificate).stream(self._requests.of(request, identity), silence)

    def _connections(self, certificate: Certificate | None) -> ConnectionPool:
        """The pool of the current client certificate. A new certificate gets a new pool, made on first use since it
        belongs to the event loop that is running.
        """
        if self._pool is None or certificate != self._certificate:
            if self._pool is not None:
                self._pool.retire()
            self._certificate = certificate
            self._pool = ConnectionPool(self._dialer(certificate), self._limits)
        return self._pool

    def _dialer(self, certificate: Certificate | None) -> Dialer:
        address = urlsplit(self.connection.server)
        proxy = self.connection.proxy
        return Dialer(
            address.hostname or "",
            address.port or PORTS.get(address.scheme, 443),
            self._contexts.of(certificate),
            server_name=self.connection.trust.server_name,
            proxy=None if proxy is None else Proxy.parse(proxy, self._contexts.of_proxy()),
        )


class _RequestBytes:
    """Requests as bytes. The headers for one identity and content type are encoded once: they are the same for
    thousands of binds, and encoding them would cost more than all else about a request.
    """

    def __init__(self, connection: Connection) -> None:
        address = urlsplit(connection.server)
        self._base = address.path
        self._headers = {
            "Host": address.netloc.rpartition("@")[2],
            "User-Agent": f"fairway/{__version__}",
            "Accept": JSON,
            "Accept-Encoding": "identity",  # the server would compress large lists, and that costs both sides more
        }
        if connection.proxy is not None and not connection.is_encrypted:
            # Without a tunnel each request names its server to the proxy, and carries the proxy's credentials.
            self._base = connection.server
            authorization = Proxy.parse(connection.proxy, None).authorization
            if authorization:
                self._headers["Proxy-Authorization"] = authorization
        self._encoded: tuple[str, dict[str, bytes]] = ("", {})
        """Headers by content type, for the authorization that was used last."""

    def of(self, request: ApiRequest, identity: Identity) -> bytes:
        path = request.path
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"not an escaped path: {path!r}")
        body = request.body
        if body is None:
            return f"{request.method} {self._base}{path} HTTP/1.1\r\n".encode() + self._head(identity, "") + b"\r\n"
        head = self._head(identity, request.content_type)
        line = f"{request.method} {self._base}{path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
        return b"".join((line.encode(), head, b"\r\n", body))

    def _head(self, identity: Identity, content_type: str) -> bytes:
        if self._encoded[0] != identity.authorization:
            self._encoded = (identity.authorization, {})
        head = self._encoded[1].get(content_type)
        if head is None:
            headers = {**self._headers}
            if content_type:
                headers["Content-Type"] = content_type
            if identity.authorization:
                headers["Authorization"] = identity.authorization
            head = self._encoded[1][content_type] = _header_lines(headers)
        return head


def _header_lines(headers: Mapping[str, str]) -> bytes:
    """ValueError for a value with a line end in it, which would be read as another header."""
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} has a line end in it")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


def _with_query(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _error(answer: ApiAnswer, name: str) -> ApiError:
    """From the Status object if there is one; a proxy in front of the server may have answered in another form."""
    status = status_of(answer)
    message = " ".join((status.message or answer.body[:200].decode("utf-8", "replace")).split())
    has_wait = answer.retry_after is not None or (status.details is not None and status.details.retry_after_seconds > 0)
    wait = pause_of(answer) if has_wait else None
    reason = status.reason or "Error"
    return ApiError(answer.status, reason, message or reason, request=name, retry_after=wait)
