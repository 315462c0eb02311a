"""`PageServer`: an application on a port, from a thread of its own, with limits on whatever a client could overdo."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from fairway.app.live.logs import RunLog
from fairway.errors import InputError
from fairway.web.guard import MOST_HEADER_BYTES
from fairway.web.page_log import forward_server_logs

HOST = "127.0.0.1"
MOST_CONNECTIONS = 600
HEADERS = 10.0
"""Seconds in which the head of a request must have come."""
STALLED = 60.0
"""Seconds for which a client may leave an answer unread."""
ENDING = 2
"""Seconds for answers under way to end."""


class _LimitedProtocol(H11Protocol):
    """Ends connections that are too many, that do not ask anything in time, or do not read what they asked for."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._limit("head", HEADERS)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The head of each request has its time, not that of the first alone."""
        if self._is_between_requests and "head" not in self._timers:
            self._limit("head", HEADERS)
        super().data_received(data)
        if not self._is_between_requests:
            self._stop("head")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit("answer", STALLED)

    def resume_writing(self) -> None:
        self._stop("answer")
        super().resume_writing()

    @property
    def _is_between_requests(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _limit(self, name: str, seconds: float) -> None:
        self._timers[name] = self.loop.call_later(seconds, self._late, name)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _late(self, name: str) -> None:
        self._timers.pop(name, None)
        if name == "answer" or self._is_between_requests:
            self.transport.abort()


class PageServer:
    """See the module."""

    def __init__(self, app: ASGIApp, port: int, log: RunLog, host: str = HOST) -> None:
        """InputError where the port is taken."""
        forward_server_logs(log)
        try:
            self._socket = socket.create_server((host, port), family=_family(host), backlog=256)
        except OSError as error:
            raise InputError(
                f"port {port}: {error.strerror}; another sandbox may run, or choose a port with --port (0: any)"
            ) from None
        self.port = int(self._socket.getsockname()[1])
        self.host = host
        config = uvicorn.Config(
            app,
            http=_LimitedProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=int(HEADERS),
            timeout_graceful_shutdown=ENDING,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        )
        self._server = _Uvicorn(config)
        self._thread = Thread(target=self._run, name="page", daemon=True)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that answers are made on, once it has started."""
        return self._server.loop

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
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
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.answers.set()


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
