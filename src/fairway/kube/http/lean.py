"""`LeanClient`: requests over connections of our own: writes, the lease, lists and watches.

A request is made of texts that are kept ready: the headers of one identity and type of body are one piece of bytes. Its
connections are those of `line_pool`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from fairway.kube.http.exchange import ApiAnswer, ApiRequest, MayLeave
from fairway.kube.http.line_body import LineBody
from fairway.kube.http.line_pool import LinePool
from fairway.kube.server.connection import Certificate, Connection, Identity, TlsContexts

_PORTS = {"http": 80, "https": 443}


class LeanClient:
    """See the module. It belongs to the thread of one event loop. `headers` are sent with every request."""

    def __init__(
        self,
        connection: Connection,
        contexts: TlsContexts,
        headers: dict[str, str],
        *,
        time_limit: float,
        most: int,
        most_error: int,
    ) -> None:
        address = urlsplit(connection.server)
        self._host = address.hostname or ""
        self._port = address.port or _PORTS.get(address.scheme, 443)
        self._base = address.path
        self._trust = connection.trust
        self._contexts = contexts
        self._headers = {"Host": address.netloc.rpartition("@")[2], **headers}
        self._time_limit = time_limit
        self._most, self._most_error = most, most_error
        self._heads: tuple[str, dict[str, bytes]] = ("", {})
        """The headers by the type of the body, for the authorization that was used last."""
        self._pool: LinePool | None = None
        self._certificate: Certificate | None = None

    async def ask(self, request: ApiRequest, identity: Identity, may_leave: MayLeave | None = None) -> ApiAnswer:
        """NoAnswerError where none comes."""
        return await self._lines(identity.certificate).ask(self._bytes(request, identity), may_leave)

    def stream(self, request: ApiRequest, identity: Identity, silence: float) -> AbstractAsyncContextManager[LineBody]:
        """An answer whose body goes on; `silence` is how many seconds may pass without a byte."""
        return self._lines(identity.certificate).stream(self._bytes(request, identity), silence)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _bytes(self, request: ApiRequest, identity: Identity) -> bytes:
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
        if self._heads[0] != identity.authorization:
            self._heads = (identity.authorization, {})
        found = self._heads[1].get(content_type)
        if found is None:
            headers = {**self._headers}
            if content_type:
                headers["Content-Type"] = content_type
            if identity.authorization:
                headers["Authorization"] = identity.authorization
            found = self._heads[1][content_type] = _encoded(headers)
        return found

    def _lines(self, certificate: Certificate | None) -> LinePool:
        """Of the certificate that counts now; a new one replaces it, and what is under way then ends as it can."""
        if self._pool is None or certificate != self._certificate:
            if self._pool is not None:
                self._pool.retire()
            self._certificate = certificate
            context = self._contexts.of(certificate)
            self._pool = LinePool(
                self._host,
                self._port,
                context,
                server_name=self._trust.server_name,
                time_limit=self._time_limit,
                most=self._most,
                most_error=self._most_error,
            )
        return self._pool


def _encoded(headers: dict[str, str]) -> bytes:
    """A value with a line end in it would be a header of its own."""
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"the header {name} has a line end in it")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
