"""`ApiClient`: requests to one API server, over one pool of connections.

    await client.request("POST", "/api/v1/namespaces/a/pods/p/binding", body)     -> bytes of the answer
    await client.read("/version", ServerVersion)                                    -> a decoded answer
    async with client.stream("/api/v1/pods", {"watch": "true"}) as lines: ...       -> a body that goes on

An answer that is not a success raises `ApiError` with what the server's Status object said; no answer in time raises
`NoAnswerError`. Nothing is tried again here, but for one new try with fresh credentials after a 401: who asks knows
whether asking twice is harmless. It must be used on the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from fairway import __version__
from fairway.api.meta import ApiStruct
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.connection import Certificate, Connection, ssl_context

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

TIME_LIMIT = 30.0
"""Seconds for one answer."""
MAX_ANSWER = 256 << 20
"""Bytes of one answer. A page of 500 pods has at most 750 MB in theory (etcd's limit) and 10 MB in practice."""
MAX_ERROR = 64 << 10
"""Bytes that are read of an answer that is an error."""
CHUNK = 1 << 18

_UNAUTHORIZED = 401
_FIRST_ERROR = 400

Query = Mapping[str, str]


class _StatusDetails(ApiStruct, frozen=True):
    retry_after_seconds: int = 0


class _Status(ApiStruct, frozen=True):
    """The object that Kubernetes answers with when it refuses."""

    message: str = ""
    reason: str = ""
    details: _StatusDetails | None = None


_STATUS = msgspec.json.Decoder(_Status)


class ApiClient:
    """See the module."""

    def __init__(self, connection: Connection, *, time_limit: float = TIME_LIMIT) -> None:
        self.connection = connection
        self._time_limit = aiohttp.ClientTimeout(total=time_limit, sock_connect=min(10.0, time_limit))
        self._headers = {
            "User-Agent": f"fairway/{__version__}",
            "Accept": JSON,
            "Accept-Encoding": "identity",  # the server would compress large lists, and that costs both sides more
        }
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[Certificate | None, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- requests --------------------------------------------------------------------------------------------

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
        name = f"{method} {path}"
        try:
            async with self._ask(method, path, query, data, content_type, limit) as answer:
                if answer.status >= _FIRST_ERROR:
                    raise await _error(answer, name)
                return await _whole(answer, name)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(_describe(error), request=name) from None

    async def read(self, path: str, form: type[T], query: Query | None = None) -> T:
        """GET, decoded; an answer of another form is an `ApiError`."""
        raw = await self.request("GET", path, query=query)
        try:
            return msgspec.json.decode(raw, type=form)
        except msgspec.DecodeError as error:
            raise ApiError(200, "Unreadable", str(error), request=f"GET {path}") from None

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *, silence: float) -> AsyncIterator[aiohttp.StreamReader]:
        """A body that goes on, as watches do. `silence` is how many seconds may pass without a byte."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=silence)
        name = f"GET {path}"
        try:
            async with self._ask("GET", path, query, None, JSON, limit) as answer:
                if answer.status >= _FIRST_ERROR:
                    raise await _error(answer, name)
                yield answer.content
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NoAnswerError(_describe(error), request=name) from None

    # -- inside ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _ask(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        credentials, trust = self.connection.credentials, self.connection.trust
        url = URL(self.connection.server + path, encoded=True)
        if query:
            url = url.with_query(query)
        for last_try in (False, True):
            identity = await credentials.identity()
            headers = self._headers if data is None else {**self._headers, "Content-Type": content_type}
            if identity.authorization:
                headers = {**headers, "Authorization": identity.authorization}
            async with self._pool().request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=limit,
                ssl=self._context(identity.certificate),
                server_hostname=trust.server_name,
                proxy=self.connection.proxy,
                allow_redirects=False,
            ) as answer:
                if answer.status == _UNAUTHORIZED and not last_try:
                    credentials.refused()
                    if await credentials.identity() != identity:
                        continue
                yield answer
                return

    def _pool(self) -> aiohttp.ClientSession:
        """Made on first use, since it belongs to the event loop that runs then. Its size is what its users ask for:
        each keeps to a number of its own, and the lease must never wait for a connection.
        """
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True, read_bufsize=CHUNK
            )
        return self._session

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext | bool:
        if not self.connection.server.startswith("https"):
            return True
        context = self._contexts.get(certificate)
        if context is None:
            self._contexts.clear()  # a new certificate replaces the old one
            context = self._contexts[certificate] = ssl_context(self.connection.trust, certificate)
        return context


async def _whole(answer: aiohttp.ClientResponse, name: str) -> bytes:
    if (answer.content_length or 0) <= CHUNK and answer.content_length is not None:
        return await answer.read()
    parts, size = [], 0
    async for part in answer.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            raise ApiError(answer.status, "TooLarge", f"the answer has more than {MAX_ANSWER} bytes", request=name)
    return b"".join(parts)


async def _error(answer: aiohttp.ClientResponse, name: str) -> ApiError:
    """From the Status object, where there is one; a proxy in between may have answered with something else."""
    body = b""
    try:
        body = await answer.content.read(MAX_ERROR)
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, aiohttp.ClientError, TimeoutError):
        status = _Status(message=body[:200].decode("utf-8", "replace").strip())
    reason = status.reason or answer.reason or "Error"
    return ApiError(answer.status, reason, status.message or reason, request=name, retry_after=_wait(answer, status))


def _wait(answer: aiohttp.ClientResponse, status: _Status) -> float | None:
    """Whole seconds; a date, which HTTP allows too, is not used by Kubernetes and not read."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal() and len(text) <= 6:
        return float(text)
    return float(status.details.retry_after_seconds) if status.details and status.details.retry_after_seconds else None


def _describe(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "no answer within the time limit"
    text = str(error) or type(error).__name__
    return f"no answer: {text}"
