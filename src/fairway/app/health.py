"""`/healthz`, `/readyz`, `/metrics` and guarded pages, served on the program's own event loop.

The only clients are probes, Prometheus and `kubectl port-forward`, so a connection carries one request. That is simple
enough to do here, and saves every program the import and the memory of a general HTTP server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from fairway.errors import InputError

Answer = Callable[[], tuple[bool, str]]
"""Whether all is well, and the text of the response."""
Page = Callable[[Mapping[str, str]], Awaitable[bytes]]
"""Returns JSON for the query of a request; InputError if the query is invalid."""
Guard = Callable[[str, str, str | None], str]
"""Why a request may not see a page, from its peer, host and origin; "" if it may."""

MAX_HEAD = 16 << 10
"""Maximum bytes of a request; bodies are not read."""
HEAD_LIMIT = 10.0
"""Seconds for a request to arrive."""
TIME_LIMIT = 60.0
"""Seconds for a request and its response."""
MAX_CONNECTIONS = 500
CLOSE_TIMEOUT = 1.0
"""Seconds for responses in progress when the server closes."""

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class _Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""


class _Reply(NamedTuple):
    status: int
    body: bytes
    content_type: str = _TEXT


class HealthServer:
    """Serves until it is closed."""

    def __init__(self, healthy: Answer, ready: Answer, metrics: Callable[[], bytes]) -> None:
        self._answers = {"/healthz": healthy, "/livez": healthy, "/readyz": ready}
        self._metrics = metrics
        self._pages: dict[str, tuple[Page, Guard]] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        """The port it listens on."""

    def add(self, path: str, page: Page, guard: Guard) -> None:
        """Add a page that not every client may see; before `start`."""
        self._pages[path] = (page, guard)

    async def start(self, address: str) -> None:
        """Listen on `host:port`; without a host, on all interfaces. InputError if the address is invalid or in use."""
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise InputError(f"httpAddress is {address!r}, expected host:port")
        try:
            self._server = await asyncio.start_server(
                self._connected, host.strip("[]") or None, int(port), limit=MAX_HEAD
            )
        except OSError as error:
            raise InputError(f"httpAddress {address}: {error.strerror or error}") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        if self._open:
            await asyncio.wait(self._open, timeout=CLOSE_TIMEOUT)
        for task in self._open:
            task.cancel()

    # -- one connection --------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= MAX_CONNECTIONS:
                async with asyncio.timeout(TIME_LIMIT):
                    await self._serve(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client is gone, or too slow
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_LIMIT):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            head = b""
        request = _read(head)
        peer = writer.get_extra_info("peername")
        reply = _plain(400) if request is None else await self._reply(request, peer[0] if peer else "")
        body = b"" if request is not None and request.method == "HEAD" else reply.body
        writer.write(_head(reply) + body)
        await writer.drain()

    async def _reply(self, request: _Request, peer: str) -> _Reply:
        known = request.path in self._answers or request.path in self._pages or request.path == "/metrics"
        if not known or request.method not in ("GET", "HEAD"):
            return _plain(405 if known else 404)
        answer = self._answers.get(request.path)
        if answer is not None:
            well, text = answer()
            return _Reply(200 if well else 503, f"{text}\n".encode())
        if request.path in self._pages:
            return await self._page(*self._pages[request.path], request, peer)
        return _Reply(200, self._metrics(), _METRICS)

    @staticmethod
    async def _page(page: Page, guard: Guard, request: _Request, peer: str) -> _Reply:
        why = guard(peer, request.headers.get("host", ""), request.headers.get("origin"))
        if why:
            return _error(403, why)
        try:
            return _Reply(200, await page(request.query), _JSON)
        except InputError as error:
            return _error(400, str(error))
        except TimeoutError:
            return _error(503, "the deciding thread is busy; try again later")


def _plain(status: int) -> _Reply:
    return _Reply(status, f"{HTTPStatus(status).phrase}\n".encode())


def _error(status: int, text: str) -> _Reply:
    return _Reply(status, json.dumps({"error": text}).encode(), _JSON)


def _head(reply: _Reply) -> bytes:
    lines = (
        f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode()


def _read(head: bytes) -> _Request | None:
    """The request; None if no browser, probe or Prometheus would send it."""
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[1].startswith("/") or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        return None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name != name.strip() or (name == "host" and name in headers):
            return None
        headers[name] = value.strip()
    with suppress(ValueError):  # from `urlsplit`, for brackets that enclose no address
        target = urlsplit(words[1])
        return _Request(words[0], target.path, dict(parse_qsl(target.query)), headers)
    return None
