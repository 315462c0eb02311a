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

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import msgspec

from fairway import __version__
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http.exchange import JSON, NO_ANSWER, ApiAnswer, ApiRequest, MayLeave, pause_of, status_of
from fairway.kube.http.lean import LeanClient
from fairway.kube.server.connection import Connection, Identity, TlsContexts, ssl_context

T = TypeVar("T")

TIME_LIMIT = 30.0
"""Seconds for one answer."""
MAX_ANSWER = 256 << 20
"""Bytes of one answer; a page of 500 pods has a few million."""
MAX_ERROR = 64 << 10
"""Bytes that are read of an answer that is an error."""

_UNAUTHORIZED = 401
_FIRST_ERROR = 300

Query = Mapping[str, str]


class StreamedBody(Protocol):
    """A body as it comes."""

    def iter_any(self) -> AsyncIterator[bytes]: ...


class _Transport(Protocol):
    """How requests travel: by connections of our own, or through a proxy."""

    async def ask(self, request: ApiRequest, identity: Identity, may_leave: MayLeave | None = None) -> ApiAnswer: ...

    def stream(self, request: ApiRequest, identity: Identity, silence: float) -> AbstractAsyncContextManager[Any]: ...

    async def close(self) -> None: ...


class ApiClient:
    """See the module."""

    def __init__(self, connection: Connection, *, time_limit: float = TIME_LIMIT) -> None:
        self.connection = connection
        headers = {
            "User-Agent": f"fairway/{__version__}",
            "Accept": JSON,
            "Accept-Encoding": "identity",  # the server would compress large lists, and that costs both sides more
        }
        contexts = TlsContexts(connection)
        make: Callable[..., _Transport] = LeanClient
        if connection.proxy:
            from fairway.kube.http.proxied import ProxiedClient

            make = ProxiedClient
        self._transport = make(
            connection, contexts, headers, time_limit=time_limit, most=MAX_ANSWER, most_error=MAX_ERROR
        )

    async def check(self) -> None:
        """InputError where the certificates of the configuration cannot be used."""
        if self.connection.server.startswith("https"):
            ssl_context(self.connection.trust, (await self.connection.credentials.identity()).certificate)

    async def close(self) -> None:
        await self._transport.close()

    # -- requests --------------------------------------------------------------------------------------------

    async def send(self, request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
        """The answer, whatever it says; `NO_ANSWER` if there is none. `may_leave` is asked when there is a connection
        and the bytes of the request leave: one that came too late is not sent.
        """
        try:
            return await self._sent(request, may_leave)
        except NoAnswerError:
            return NO_ANSWER

    async def _sent(self, request: ApiRequest, may_leave: MayLeave | None = None) -> ApiAnswer:
        """After a 401 once more, if there are credentials that were not refused yet."""
        credentials = self.connection.credentials
        identity = await credentials.identity()
        answer = await self._transport.ask(request, identity, may_leave)
        if answer.status == _UNAUTHORIZED:
            credentials.refused(identity)
            fresh = await credentials.identity()
            if fresh != identity:
                answer = await self._transport.ask(request, fresh, may_leave)
        return answer

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, query: Query | None = None
    ) -> bytes:
        """The body of the answer. `path` is escaped already; `body` is bytes, or anything msgspec can encode."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            answer = await self._sent(ApiRequest(method, _with_query(path, query), data, content_type))
        except NoAnswerError as error:
            raise NoAnswerError(error.message, request=f"{method} {path}") from None
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
        async with AsyncExitStack() as lines:
            body = await lines.enter_async_context(self._transport.stream(request, identity, silence))
            refusal = await body.error()
            if refusal is not None and refusal.status == _UNAUTHORIZED:
                credentials.refused(identity)
                fresh = await credentials.identity()
                if fresh != identity:
                    body = await lines.enter_async_context(self._transport.stream(request, fresh, silence))
                    refusal = await body.error()
            if refusal is not None:
                raise _error(refusal, f"GET {path}")
            yield body


def _with_query(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _error(answer: ApiAnswer, name: str) -> ApiError:
    """From the Status object, where there is one; a proxy in between may have answered with something else."""
    status = status_of(answer)
    message = " ".join((status.message or answer.body[:200].decode("utf-8", "replace")).split())
    has_wait = answer.retry_after is not None or (status.details is not None and status.details.retry_after_seconds > 0)
    wait = pause_of(answer) if has_wait else None
    reason = status.reason or "Error"
    return ApiError(answer.status, reason, message or reason, request=name, retry_after=wait)
