"""`/healthz`, `/readyz`, `/metrics` and guarded pages, on the event loop that sockets live on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from fairway.errors import InputError

Answer = Callable[[], tuple[bool, str]]
"""Whether all is well, and what to say."""
Page = Callable[[Mapping[str, str]], Awaitable[bytes]]
"""JSON, for the query of a request; InputError for one that is wrong."""
Guard = Callable[[str, str, str | None], str]
"""Why a request may not have a page, by its peer, host and origin; "" if it may."""


class HealthServer:
    """Serves the answers it was given, until it is closed."""

    def __init__(self, healthy: Answer, ready: Answer, metrics: Callable[[], bytes]) -> None:
        self._healthy = healthy
        self._ready = ready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None
        self._pages: dict[str, tuple[Page, Guard]] = {}
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
        app = web.Application()
        app.router.add_get("/healthz", self._answering(self._healthy))
        app.router.add_get("/livez", self._answering(self._healthy))
        app.router.add_get("/readyz", self._answering(self._ready))
        app.router.add_get("/metrics", self._show_metrics)
        for path, (page, guard) in self._pages.items():
            app.router.add_get(path, self._guarded(page, guard))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, host.strip("[]") or None, int(port))
            await site.start()
        except OSError as error:
            raise InputError(f"httpAddress {address}: {error.strerror or error}") from None
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @staticmethod
    def _answering(answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            well, text = answer()
            return web.Response(text=text + "\n", status=200 if well else 503)

        return handle

    @staticmethod
    def _guarded(page: Page, guard: Guard) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            why = guard(request.remote or "", request.headers.get("Host", ""), request.headers.get("Origin"))
            if why:
                return web.json_response({"error": why}, status=403)
            try:
                return web.Response(body=await page(request.query), content_type="application/json")
            except InputError as error:
                return web.json_response({"error": str(error)}, status=400)
            except TimeoutError:
                return web.json_response({"error": "the deciding thread is busy; try again"}, status=503)

        return handle

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
