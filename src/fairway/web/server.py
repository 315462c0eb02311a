"""`PageServer`: an application on a port, from a thread of its own, with limits on whatever a client could overdo.

A connection passes a door first, which counts it (`connections`) and speaks TLS where there is a certificate. The
protocol behind it reads heads by `heads`, takes no byte of a body before the application asks for it, and ends
connections that are silent or do not read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextvars import ContextVar
from http import HTTPStatus
from threading import Event, Thread
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairway.app.logs import RunLog
from fairway.errors import InputError
from fairway.web.connections import (
    END,
    MAX_HEAD_BYTES,
    RELOAD_INTERVAL,
    ConnectionTable,
    HeadRefusal,
    ReloadedCertificate,
    Ticket,
    read_head,
)
from fairway.web.contract import MAX_BYTES
from fairway.web.page_log import forward_server_logs

HOST = "127.0.0.1"
HEADERS = 10.0
"""Time limit in seconds for the head of a request, and for a TLS handshake."""
STALLED = 60.0
"""Seconds that a client may leave an answer unread."""
ENDING = 2
"""Seconds for running answers to finish at shutdown."""
LINGER = 2.0
"""Seconds for which the rest of a refused body is read and dropped, so that its sender can read the answer."""

_seat: ContextVar[tuple[ConnectionTable, Ticket] | None] = ContextVar("seat", default=None)


def identify_connection(user: str, limit: int) -> tuple[int, str] | None:
    """Assigns the current request to a user; returns the refusal if the user has too many connections."""
    found = _seat.get()
    return None if found is None else found[0].identify(found[1], user, limit)


class _LingeringTransport:
    """A transport that keeps reading and dropping an unread request after it is closed. The kernel answers unread bytes
    with a reset, which would discard the answer for a client that is still sending.
    """

    def __init__(self, transport: asyncio.Transport, protocol: _LimitedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._protocol.is_discarding or self._transport.is_closing()

    def close(self) -> None:
        if self._protocol.is_discarding:
            return
        if self._transport.is_closing() or not self._protocol.unread_body:
            self._transport.close()
            return
        self._protocol.discard_rest()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()


class _LimitedProtocol(H11Protocol):
    """Passes on unambiguous heads only, and closes connections that send no request in time or do not read their
    answer.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._head = b""
        """The start of an incomplete head."""
        self._early = b""
        """Bytes that arrived with the end of the handshake, before there was a transport."""
        self.unread_body = 0
        """Bytes of the current request still to come."""
        self.is_discarding = False
        self._discarded = 0
        self.seat: tuple[ConnectionTable, Ticket] | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_LingeringTransport(transport, self))
        self._limit("head", HEADERS)
        early, self._early = self._early, b""
        self.data_received(early)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        if self.seat is not None:
            self.seat[0].leave(self.seat[1])
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Splits the data into heads and bodies. The time limit applies to the head of each request, not only the
        first.
        """
        if self.transport is None:
            self._early += data
            return
        if self.is_discarding:
            self._discarded += len(data)
            if self._discarded > MAX_BYTES:
                self.transport.abort()
            return
        _seat.set(self.seat)  # the task that answers is made here, with a copy of this context
        while data and not self.transport.is_closing():
            if self.unread_body:
                part, data = data[: self.unread_body], data[self.unread_body :]
                self.unread_body -= len(part)
                super().data_received(part)
            else:
                data = self._take_head(data)

    def _take_head(self, data: bytes) -> bytes:
        """Continues after a complete head."""
        begin = max(0, len(self._head) - len(END))
        self._head += data
        end = self._head.find(END, begin)
        if end < 0 or end > MAX_HEAD_BYTES:
            if len(self._head) > MAX_HEAD_BYTES:
                self._refuse(HeadRefusal(431, f"the head has more than {MAX_HEAD_BYTES} bytes"))
            elif "head" not in self._timers:
                self._limit("head", HEADERS)
            return b""
        head, rest = self._head[: end + len(END)], self._head[end + len(END) :]
        self._head = b""
        found = read_head(head)
        if isinstance(found, HeadRefusal):
            self._refuse(found)
            return b""
        self._stop("head")
        self.unread_body = found
        super().data_received(head)
        if found:
            self.flow.pause_reading()  # until the application asks for the body: it looks at the token first
        return rest

    def _refuse(self, why: HeadRefusal) -> None:
        """Refuses without calling the application, for which the request is ambiguous. Nothing more is read."""
        self._stop("head")
        if not self._is_between_requests:  # an answer is being written: it must not have another one in it
            self.transport.abort()
            return
        body = msgspec.json.encode({"error": why.text}) + b"\n"
        lines = (
            f"HTTP/1.1 {why.status} {HTTPStatus(why.status).phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        )
        self.transport.write("\r\n".join((*lines, "", "")).encode() + body)
        self.unread_body = 1  # it cannot be said how much comes
        self.transport.close()

    def discard_rest(self) -> None:
        self.is_discarding = True
        self._limit("rest", LINGER)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit("answer", STALLED)

    def resume_writing(self) -> None:
        self._stop("answer")
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Ignores upgrades, as a server may, without logging: anyone could fill the log with them."""

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _limit(self, name: str, seconds: float) -> None:
        self._stop(name)
        self._timers[name] = self.loop.call_later(seconds, self._late, name)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _late(self, name: str) -> None:
        self._timers.pop(name, None)
        if name != "head" or self._is_between_requests:
            self.transport.abort()


class _Door(asyncio.Protocol):
    """Counts a connection from its beginning, so that unfinished handshakes count too."""

    def __init__(
        self,
        table: ConnectionTable,
        make: Callable[[], _LimitedProtocol],
        certificate: ReloadedCertificate | None,
    ) -> None:
        self._table = table
        self._make = make
        self._certificate = certificate
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        peer = transport.get_extra_info("peername")
        ticket = self._table.admit(peer[0] if peer else "", transport.abort)
        protocol = self._make()
        protocol.seat = self._table, ticket
        if self._certificate is None:
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return
        transport.pause_reading()  # what comes now is for TLS
        self._handshake = asyncio.create_task(self._secure(transport, protocol, ticket))

    async def _secure(self, transport: Any, protocol: _LimitedProtocol, ticket: Ticket) -> None:
        assert self._certificate is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport,
                protocol,
                self._certificate.context,
                server_side=True,
                ssl_handshake_timeout=HEADERS,
                ssl_shutdown_timeout=ENDING,
            )
        except OSError:  # TimeoutError and ssl.SSLError are such
            secured = None
        if secured is None:
            self._table.leave(ticket)
            transport.abort()
        else:
            protocol.connection_made(secured)


class PageServer:
    """Serves an application on a port, from its own thread."""

    def __init__(
        self, app: ASGIApp, port: int, log: RunLog, host: str = HOST, certificate: ReloadedCertificate | None = None
    ) -> None:
        """Raises InputError if the port is in use."""
        forward_server_logs(log)
        try:
            self._socket = socket.create_server((host, port), family=_family(host), backlog=256)
        except OSError as error:
            raise InputError(
                f"port {port}: {error.strerror}; another sandbox may run, or choose a port with --port (0: any)"
            ) from None
        self.port = int(self._socket.getsockname()[1])
        self.host = host
        self._scheme = "http" if certificate is None else "https"
        config = uvicorn.Config(
            app,
            http=_LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=int(HEADERS),
            timeout_graceful_shutdown=ENDING,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        self._server = _Uvicorn(config, certificate)
        self._thread = Thread(target=self._run, name="page", daemon=True)

    @property
    def connections(self) -> ConnectionTable:
        return self._server.table

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The server's event loop, once it runs."""
        return self._server.loop

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.host}:{self.port}"

    def start(self) -> None:
        """Returns once the server answers."""
        self._thread.start()
        self._server.answers.wait(10)

    def stop(self, first: Callable[[], None] = lambda: None) -> None:
        """`first` is called on the server's thread."""
        if self._server.loop is not None:
            self._server.loop.call_soon_threadsafe(first)
        self._server.should_exit = True
        self._thread.join(ENDING + 5)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, certificate: ReloadedCertificate | None) -> None:
        super().__init__(config)
        self.answers = Event()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.table = ConnectionTable()
        self._certificate = certificate
        self._reloading: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's own, with connections counted before its protocol."""
        await self.lifespan.startup()
        self.loop = loop = asyncio.get_running_loop()

        def make() -> _LimitedProtocol:
            return _LimitedProtocol(
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )

        self.servers = [
            await loop.create_server(lambda: _Door(self.table, make, self._certificate), sock=one, backlog=256)
            for one in sockets or ()
        ]
        if self._certificate is not None:
            self._reloading = asyncio.create_task(self._reload(self._certificate))
        self.started = True
        self.answers.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
        await super().shutdown(sockets)

    async def _reload(self, certificate: ReloadedCertificate) -> None:
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            await asyncio.to_thread(certificate.check)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
