"""`Guard`: what every request passes before it is answered, whatever it asks for.

Only the hosts that the page is served under are answered, so that a name that is made to lead here opens nothing; what
a page of another origin sends is refused; bodies and the time to send them are limited; and every answer tells the
browser to run nothing but the page's own scripts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairway.app.live.logs import RunLog
from fairway.web.page_log import report_error

MOST_BYTES = 16 << 20
"""Of a request's body."""
MOST_HEADER_BYTES = 32 << 10
READING = 30.0
"""Seconds in which a body must have come whole."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Guard:
    """ASGI middleware. `hosts` gives the names with ports that requests may be made under; None is any."""

    def __init__(self, app: ASGIApp, hosts: Callable[[], frozenset[str] | None], log: RunLog) -> None:
        self._app = app
        self._hosts = hosts
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(scope["method"], headers)
        if refused is not None:
            await _refuse(send, *refused)
            return
        if scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
            body = await _read(receive)
            if body is None:
                await _refuse(send, 413, f"a body of more than {MOST_BYTES} bytes, or sent too slowly")
                return
            receive = _once(body, receive)
        try:
            await self._app(scope, receive, _with_headers(send))
        except Exception as error:  # in the middle of an answer: all that can be done is to say so
            report_error(self._log, Request(scope), error)

    def _refusal(self, method: str, headers: dict[bytes, str]) -> tuple[int, str] | None:
        if sum(len(name) + len(value) for name, value in headers.items()) > MOST_HEADER_BYTES:
            return 431, f"headers of more than {MOST_HEADER_BYTES} bytes"
        hosts, host = self._hosts(), headers.get(b"host", "")
        if hosts is not None and host not in hosts:
            return 403, "requested under a host name that is not served here"
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            return 403, "requested by a page of another origin"
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin") and method != "GET":
            return 403, "requested by a page of another origin"
        if method not in ("POST", "PUT", "PATCH", "DELETE"):
            return None
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return 415, f"the body is {kind or 'of no stated type'}, expected application/json"
        length = headers.get(b"content-length")
        if length is None:
            return 411, "the request does not say how long it is, expected Content-Length"
        if not (length.isascii() and length.isdigit()) or len(length) > 12 or int(length) > MOST_BYTES:
            return 413, f"a body of {length[:20]} bytes, expected at most {MOST_BYTES}"
        return None


async def _read(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READING):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > MOST_BYTES:
                    return None
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        return None


def _once(body: bytes, rest: Receive) -> Receive:
    """The body, and then what comes after it: that the client is gone."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await rest()

    return receive


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return sending


async def _refuse(send: Send, status: int, text: str) -> None:
    body = msgspec.json.encode({"error": text}) + b"\n"
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
        *HEADERS,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
