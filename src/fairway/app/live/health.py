"""`/healthz`, `/readyz`, `/metrics` and guarded pages, on the event loop that sockets live on.

Requests of probes and of Prometheus are all there is, so that a connection has one request, and a server of HTTP for
everything is not imported for them.
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
"""Whether all is well, and what to say."""
Page = Callable[[Mapping[str, str]], Awaitable[bytes]]
"""JSON, for the query of a request; InputError for one that is wrong."""
Guard = Callable[[str, str, str | None], str]
"""Why a request may not have a page, by its peer, host and origin; "" if it may."""

MOST_HEAD = 16 << 10
"""Bytes of a request; bodies are not read."""
HEAD_LIMIT = 10.0
"""Seconds for a request to arrive."""
TIME_LIMIT = 60.0
"""Seconds for a request and its answer."""
MOST_CONNECTIONS = 500
FAREWELL = 1.0
"""Seconds that answers under way have to end when the server is closed."""

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class _Asked(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in small letters."""


class _Reply(NamedTuple):
    status: int
    body: bytes
    content_type: str = _TEXT


class HealthServer:
    """Serves what it is told to, until it is closed."""

    def __init__(self, healthy: Answer, ready: Answer, metrics: Callable[[], bytes]) -> None:
        self._answers = {"/healthz": healthy, "/livez": healthy, "/readyz": ready}
        self._metrics = metrics
        self._pages: dict[str, tuple[Page, Guard]] = {}
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0
        """Where it listens."""

    def add(self, path: str, page: Page, guard: Guard) -> None:
        """Before it starts: a page that not every client may see."""
        self._pages[path] = (page, guard)

    async def start(self, address: str) -> None:
        """`host:port`; no host means all of them. InputError where that is no address, or is taken."""
        host, _, port = address.rpartition(":")
        if not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise InputError(f"httpAddress is {address!r}, expected host:port")
        try:
            self._server = await asyncio.start_server(
                self._connected, host.strip("[]") or None, int(port), limit=MOST_HEAD
            )
        except OSError as error:
            raise InputError(f"httpAddress {address}: {error.strerror or error}") from None
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        if self._open:
            await asyncio.wait(self._open, timeout=FAREWELL)
        for task in self._open:
            task.cancel()

    # -- one connection --------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= MOST_CONNECTIONS:
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
        asked = _read(head)
        peer = writer.get_extra_info("peername")
        reply = _plain(400) if asked is None else await self._reply(asked, peer[0] if peer else "")
        body = b"" if asked is not None and asked.method == "HEAD" else reply.body
        writer.write(_head(reply) + body)
        await writer.drain()

    async def _reply(self, asked: _Asked, peer: str) -> _Reply:
        known = asked.path in self._answers or asked.path in self._pages or asked.path == "/metrics"
        if not known or asked.method not in ("GET", "HEAD"):
            return _plain(405 if known else 404)
        answer = self._answers.get(asked.path)
        if answer is not None:
            well, text = answer()
            return _Reply(200 if well else 503, f"{text}\n".encode())
        if asked.path in self._pages:
            return await self._page(*self._pages[asked.path], asked, peer)
        return _Reply(200, self._metrics(), _METRICS)

    @staticmethod
    async def _page(page: Page, guard: Guard, asked: _Asked, peer: str) -> _Reply:
        why = guard(peer, asked.headers.get("host", ""), asked.headers.get("origin"))
        if why:
            return _error(403, why)
        try:
            return _Reply(200, await page(asked.query), _JSON)
        except InputError as error:
            return _error(400, str(error))
        except TimeoutError:
            return _error(503, "the deciding thread is busy; try again")


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


def _read(head: bytes) -> _Asked | None:
    """None for what is no request that a browser, a probe or Prometheus would send."""
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
    with suppress(ValueError):  # of `urlsplit` for brackets that make no address
        target = urlsplit(words[1])
        return _Asked(words[0], target.path, dict(parse_qsl(target.query)), headers)
    return None
