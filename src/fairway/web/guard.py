"""`Guard`: what every request passes before it is answered; and errors as answers.

A request that meets an error must not end anything: whatever is raised becomes an answer, and an unexpected error has
a reference under which the log has its traceback.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairway.app.logs import RunLog
from fairway.errors import InputError, StoreError
from fairway.web.asking import RequestRefusedError
from fairway.web.contract import MAX_BYTES
from fairway.web.page_log import report_error

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
HEALTH = "/healthz"
"""Answered under any host name, because a kubelet probes the pod's address; it reveals nothing."""
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
    """ASGI middleware. `hosts` returns the accepted Host headers; None accepts any."""

    def __init__(self, app: ASGIApp, hosts: Callable[[], frozenset[str] | None], log: RunLog) -> None:
        self._app = app
        self._hosts = hosts
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        refused = None if scope["path"] == HEALTH else self._refusal(scope, headers)
        if refused is not None:
            await _refuse(send, *refused)
            return
        body = _Body(receive, headers.get(b"content-length", "0"))
        try:
            await self._app(scope, body.receive, _with_headers(send, body))
        except Exception as error:  # in the middle of an answer: all that can be done is to say so
            report_error(self._log, Request(scope), error)

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        method = scope["method"]
        hosts, host = self._hosts(), headers.get(b"host", "")
        if hosts is not None and host not in hosts:
            return 403, "the Host header names a host that is not served here"
        origin = headers.get(b"origin")
        if origin is not None and not _is_own(origin, host, scope["scheme"]):
            return 403, "requested by a page of another origin"
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin") and method != "GET":
            return 403, "requested by a page of another origin"
        if method not in CHANGING:
            return None
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return 415, f"the body is {kind or 'of no stated type'}, expected application/json"
        length = headers.get(b"content-length")
        if length is None:
            return 411, "the length is missing, expected Content-Length"
        if not (length.isascii() and length.isdigit()) or len(length) > 12 or int(length) > MAX_BYTES:
            return 413, f"the body has {length[:20]} bytes, expected at most {MAX_BYTES}"
        return None


class _Body:
    """Whether the whole request was read: a remainder must not be parsed as the next request."""

    def __init__(self, receive: Receive, length: str) -> None:
        self._receive = receive
        self.is_unread = length != "0"

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.is_unread = False
        return message


def _is_own(origin: str, host: str, scheme: str) -> bool:
    """Behind TLS, an http origin is a foreign page. Without TLS here, a proxy may have terminated it."""
    kind, _, name = origin.partition("://")
    return name == host and (scheme != "https" or kind == "https")


def _with_headers(send: Send, body: _Body) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            close = [(b"connection", b"close")] if body.is_unread else []
            message["headers"] = [*message.get("headers", []), *HEADERS, *close]
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


NO_STORE = {"Cache-Control": "no-store"}


async def answering(answer: Awaitable[Response], request: Request, log: RunLog) -> Response:
    """The answer, or the error as one. An unexpected error is logged in full; its answer carries only a reference."""
    try:
        return await answer
    except RequestRefusedError as refusal:
        return problem(refusal.status, str(refusal))
    except TimeoutError:
        return problem(504, "the answer took too long; try again")
    except StoreError as error:
        return problem(507, str(error))
    except InputError as error:
        return problem(422, str(error))
    except Exception as error:
        reference = report_error(log, request, error)
        return problem(500, f"internal error; the log has the details under the reference {reference}")


def problem(status: int, text: str) -> Response:
    body: Any = {"error": text}
    return Response(msgspec.json.encode(body), status, media_type="application/json", headers=NO_STORE)
