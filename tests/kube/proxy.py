"""`FaultProxy`: stands between `fairway run` and the API server, on plain HTTP, and does to requests what networks do.

    fairway run --http--> FaultProxy --https--> kube-apiserver

`choose` is asked once for each request and names its fault, "" for none. A watch has its fault while it runs. Nothing
is ever reordered for one object: a delayed event delays all that come after it on that watch.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from kube.controlplane.plane import ControlPlane

ANSWERS = {
    "busy": (429, {"Retry-After": "1"}, "TooManyRequests"),
    "too-many": (429, {}, "TooManyRequests"),
    "error": (500, {}, "InternalError"),
    "unavailable": (503, {}, "ServiceUnavailable"),
    "conflict": (409, {}, "Conflict"),
    "expired": (410, {}, "Expired"),
    "unauthorized": (401, {}, "Unauthorized"),
    "no-streaming": (400, {}, "BadRequest"),
}
"""Faults that are an answer of the proxy's own: nothing was done."""
OTHER_CONTENT = {
    "not-found": (404, "text/plain", "404 page not found\n"),
    "page": (200, "text/html", "<html>You are logged out</html>"),
    "empty-object": (200, "application/json", "{}"),
    "status-object": (
        200,
        "application/json",
        '{"kind":"Status","metadata":{"resourceVersion":"9"},"status":"Success"}',
    ),
    "other-list": (200, "application/json", '{"kind":"LeaseList","metadata":{"resourceVersion":"9"},"items":[]}'),
}
"""What a gateway may say in the server's place."""
WRITE_FAULTS = (
    "reset",
    "lost",
    "late",
    "slow",
    "failed-after",
    "truncated",
    "kill-before",
    "kill-after",
    "busy",
    "too-many",
    "error",
    "unavailable",
    "unauthorized",
    "conflict",
)
READ_FAULTS = ("reset", "slow", "truncated", "busy", "error", "unavailable", "expired")
WATCH_FAULTS = (
    "cut",
    "end",
    "gone-event",
    "garbage",
    "duplicate",
    "delay",
    "freeze",
    "reset",
    "expired",
    "busy",
    "error",
    "unavailable",
)
_REVISION = re.compile(rb'"resourceVersion":"(\d+)"')
_LOOK = 0.1
"""Seconds between two looks at the clock."""
UNNOTICED = 3 * _LOOK
"""Seconds that this process may be without a processor before it is a stall."""
_NEED_A_LINE = ("duplicate", "delay")
LONGEST_WATCH = 8.0
"""Seconds after which a watch on which nothing happens has its fault at the latest."""
_DROPPED = {"host", "transfer-encoding", "connection", "content-length", "accept-encoding"}


class Asked(NamedTuple):
    """A request as `choose` sees it."""

    method: str
    path: str
    is_watch: bool
    is_list: bool = False
    """By streaming: a watch that begins with all objects there are."""
    token: str = ""
    is_dry_run: bool = False
    """The server answers as if it had written, and writes nothing."""

    @property
    def is_write(self) -> bool:
        return self.method != "GET" and not self.is_dry_run and "/apis/auth" not in self.path  # reviews write nothing


class Passed(NamedTuple):
    """A write that was forwarded, and what the server answered."""

    asked: Asked
    status: int
    body: bytes
    at: float
    was_told: bool
    """Whether the answer reached Fairway."""
    since: int = 0
    """The newest revision known when it was sent: the answer to a patch that changed nothing has none newer."""
    sent: float = 0.0
    """When it came from Fairway."""
    request: bytes = b""
    """The body that it had."""


class FaultProxy:
    """`with FaultProxy(plane) as proxy:`; it lives on a thread of its own."""

    def __init__(self, plane: ControlPlane, *, user: str = "scheduler", random: Random | None = None) -> None:
        self._plane = plane
        self._user = user
        self._random = random or Random(0)
        self.choose: Callable[[Asked], str] = lambda asked: ""
        self.kill: Callable[[], None] = lambda: None
        """Ends the process on the other side with SIGKILL."""
        self.is_cut = False
        """Nothing passes, and no connection is closed: a cable that was pulled."""
        self.longest_delay = 0.5
        self.injected: Counter[str] = Counter()
        self.passed: list[Passed] = []
        self.asked: list[tuple[float, Asked]] = []
        """With the time on the monotonic clock."""
        self._held: Counter[str] = Counter()
        """Writes by path that were not forwarded yet, though Fairway may have given them up."""
        self.stalls: list[tuple[float, float]] = []
        """From when to when this process was not given the processor: what was sent to it meanwhile looks younger."""
        self._newest = 0
        """The largest revision that went through."""
        self._era = 0
        self._watches = 0
        """Watches that were opened."""
        self._silent = 0
        """So many of the first of them give nothing any more."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self.port = 0

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def kubeconfig(self, folder: Path) -> Path:
        """The user's own, with this proxy as the server."""
        found = json.loads(self._plane.kubeconfig(self._user).read_text())
        found["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self.port}"}
        path = folder / f"proxy-{self.port}.kubeconfig"
        path.write_text(json.dumps(found))
        return path

    def cut_watches(self) -> None:
        """All that run now end without a word."""
        self._era += 1

    def silence_watches(self) -> None:
        """All that run now give nothing any more, and stay open: a path that a gateway has forgotten."""
        self._silent = self._watches

    def forget_held(self) -> None:
        """The process on the other side is dead, and what it had not sent yet with it."""
        self._era += 1

    @property
    def held(self) -> int:
        return sum(self._held.values())

    # -- on its thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._run())
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.05))  # sockets under TLS are closed in later turns of the loop
        self._loop.close()

    async def _run(self) -> None:
        context = ssl.create_default_context(cafile=str(self._plane.ca_file))
        connector = aiohttp.TCPConnector(limit=0, ssl=context)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
            self._session = session
            app = web.Application(client_max_size=16 << 20)
            app.router.add_route("*", "/{path:.*}", self._handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._started.set()
            watchman = asyncio.ensure_future(self._watch_the_clock())
            await self._stop.wait()
            watchman.cancel()
            self._era += 1
            await runner.cleanup()

    async def _watch_the_clock(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LOOK)
            if time.monotonic() > before + UNNOTICED:
                self.stalls.append((before, time.monotonic()))

    def stalled_before(self, when: float) -> float:
        """How long a request that came then may have lain here already."""
        return max((end - begin for begin, end in self.stalls if begin < when < end + _LOOK), default=0.0)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(
            request.method,
            request.path,
            "watch" in request.query,
            "sendInitialEvents" in request.query,
            request.headers.get("Authorization", "").removeprefix("Bearer "),
            is_dry_run="dryRun" in request.query,
        )
        self.asked.append((time.monotonic(), asked))
        try:
            await self._while_cut(request)
        except ConnectionError:
            return self._abort(request)
        fault = self.choose(asked)
        if fault == "conflict" and self._held[asked.path]:
            fault = ""  # a server that refuses a write for good does not make it later
        if fault and (not asked.is_watch or fault in {*ANSWERS, *OTHER_CONTENT, "reset", "no-head", "drip"}):
            self.injected[fault] += 1  # what is done to a watch that runs is counted when it is done
        if fault == "reset":
            return self._abort(request)
        if fault in ANSWERS:
            return _status(*ANSWERS[fault])
        if fault in OTHER_CONTENT:
            status, kind, text = OTHER_CONTENT[fault]
            return web.Response(status=status, text=text, content_type=kind)
        if fault in ("no-head", "drip"):
            return await self._drip(request, fault == "drip")
        try:
            if asked.is_watch:
                return await self._watch(request, fault)
            return await self._once(request, asked, fault)
        except (aiohttp.ClientError, ConnectionError):  # one side is gone
            return self._abort(request)

    async def _while_cut(self, request: web.Request) -> None:
        while self.is_cut:
            await asyncio.sleep(0.05)
            if _is_gone(request):
                raise ConnectionResetError

    async def _once(self, request: web.Request, asked: Asked, fault: str) -> web.StreamResponse:
        sent = time.monotonic()
        body = await request.read()
        if fault == "kill-before":
            self.kill()
            return self._abort(request)
        if fault == "hang":
            await self._while_cut(request)
        if fault == "late":
            self._abort(request)
        if fault in ("late", "slow") and not await self._hold(asked):
            return self._abort(request)
        since = self._newest
        async with self._forward(request, body) as answer:
            text = await answer.read()
        self._see(text)
        if fault == "kill-after":
            self.kill()
        is_lost = (
            fault in ("lost", "late", "kill-after", "failed-after", "truncated") or self.is_cut or _is_gone(request)
        )
        if asked.is_write:
            self.passed.append(Passed(asked, answer.status, text, time.monotonic(), not is_lost, since, sent, body))
        await self._while_cut(request)
        if fault in ("lost", "late", "kill-after"):
            return self._abort(request)
        if fault == "failed-after":
            return _status(500, {}, "InternalError")
        if fault == "truncated":
            return await self._truncated(request, text)
        return web.Response(status=answer.status, body=text, headers=_headers(answer))

    def _see(self, text: bytes) -> None:
        """Keep the newest revision in an answer or an event."""
        self._newest = max([self._newest, *map(int, _REVISION.findall(text))])

    async def _hold(self, asked: Asked) -> bool:
        """Whether the sender was not killed meanwhile."""
        era = self._era
        if asked.is_write:
            self._held[asked.path] += 1
        try:
            await asyncio.sleep(self._random.random() * self.longest_delay)
        finally:
            if asked.is_write:
                self._held[asked.path] -= 1
        return era == self._era

    def _forward(self, request: web.Request, body: bytes) -> Any:
        headers = {name: text for name, text in request.headers.items() if name.lower() not in _DROPPED}
        url = self._plane.url + request.raw_path
        return self._session.request(request.method, url, data=body or None, headers=headers, allow_redirects=False)

    async def _truncated(self, request: web.Request, text: bytes) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(len(text)), "Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(text[: len(text) // 2])
        return self._abort(request)

    async def _drip(self, request: web.Request, drips: bool) -> web.StreamResponse:
        """The head of an answer that does not come to its end, one byte now and then."""
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000:
            if request.transport is None or request.transport.is_closing():
                break
            if drips:
                request.transport.write(bytes([byte]))
            await asyncio.sleep(0.2)
        return self._abort(request)

    def _abort(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)

    # -- watches ---------------------------------------------------------------------------------------------

    async def _watch(self, request: web.Request, fault: str) -> web.StreamResponse:
        era = self._era
        self._watches += 1
        own_number = self._watches
        after = self._random.randint(0, 12)
        async with self._forward(request, b"") as upstream:
            if upstream.status != 200:
                return web.Response(status=upstream.status, body=await upstream.read(), headers=_headers(upstream))
            answer = web.StreamResponse(headers={"Content-Type": "application/json"})
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            number, lines, begin, was_done = 0, _Lines(upstream), self._loop.time(), False
            limit = self._random.random() * LONGEST_WATCH
            while era == self._era and not _is_gone(request):
                line = await lines.next(0.5)
                if line == b"":
                    break
                self._see(line or b"")
                await self._while_cut(request)
                if own_number <= self._silent:
                    continue
                number += line is not None
                is_due = fault and (number > after or self._loop.time() > begin + limit)
                if not is_due or (line is None and fault in _NEED_A_LINE):
                    await _write(answer, line or b"")
                    continue
                self.injected[fault] += not was_done
                was_done = True
                if await self._spoil(answer, line or b"", fault):
                    return self._abort(request) if fault in ("cut", "freeze") else answer
        return answer

    async def _spoil(self, answer: web.StreamResponse, line: bytes, fault: str) -> bool:
        """Whether the watch is over."""
        if fault == "cut":
            await _write(answer, line[: len(line) // 2])
            return True
        if fault == "freeze":
            await asyncio.sleep(2.0)
            return True
        if fault == "end":
            return True
        if fault == "gone-event":
            error = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired", "message": "too old"}
            await _write(answer, json.dumps({"type": "ERROR", "object": error}).encode() + b"\n")
            return True
        if fault == "garbage":
            await _write(answer, b"<html>a gateway</html>\n")
            return True
        if fault == "delay":
            await asyncio.sleep(self._random.random() * self.longest_delay)
        await _write(answer, line)
        if fault == "duplicate":
            await _write(answer, line)
        return False


class _Lines:
    """The lines of a watch, of any length."""

    def __init__(self, upstream: aiohttp.ClientResponse) -> None:
        self._upstream = upstream
        self._ready: list[bytes] = []
        self._rest = b""
        self._reading: asyncio.Task[bytes] | None = None

    async def next(self, seconds: float) -> bytes | None:
        """None if none came in time, an empty one at the end. Reading is not broken off in the middle."""
        while not self._ready:
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            done, _ = await asyncio.wait({self._reading}, timeout=seconds)
            if not done:
                return None
            chunk, self._reading = self._reading.result(), None
            if not chunk:
                return b""
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._ready = [line + b"\n" for line in lines]
        return self._ready.pop(0)

    async def _read(self) -> bytes:
        try:
            return await self._upstream.content.readany()
        except (aiohttp.ClientError, OSError):
            return b""


async def _write(answer: web.StreamResponse, data: bytes) -> None:
    if data:
        await answer.write(data)


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    kept = ("Content-Type", "Retry-After")
    return {name: answer.headers[name] for name in kept if name in answer.headers}


def _status(code: int, headers: dict[str, str], reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    text = json.dumps({**status, "message": f"{reason}, says the test"})
    return web.Response(status=code, text=text, headers={**headers, "Content-Type": "application/json"})
