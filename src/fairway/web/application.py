"""The ASGI application: routes from the contract, answers from the views, and the files of the built page.

`LoopbackPage` serves it on the loopback address, from start to stop.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import NamedTuple

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fairway.errors import InputError, StoreError
from fairway.web.access import Access, LoopbackAccess
from fairway.web.answers import ANSWERS
from fairway.web.asking import Asked, RequestRefusedError, Viewer, read_body, read_query
from fairway.web.concealing import conceal
from fairway.web.connections import MAX_KNOWN, MAX_OF_USER
from fairway.web.contract import OPERATIONS, PREFIX, Operation
from fairway.web.guard import HEALTH, NO_STORE, Guard, answering, problem
from fairway.web.limits import BodyBudget, read_limited
from fairway.web.openapi import document
from fairway.web.page_log import text_of
from fairway.web.server import HOST, PageServer, identify_connection
from fairway.web.shown import ShownCluster
from fairway.web.stream import EventHub

FOLDER = Path(__file__).parent / "page"
MISSING = (
    "The page is not built yet; the terminal and the API under /api/v1 work. After `make sandbox` it is being built: "
    "reload in a minute. To build it: make page (with Node, or with Node from PyPI)."
)
FOREVER = "public, max-age=31536000, immutable"


class PageFiles:
    """Serves the files of the page, and the page itself for the address of every view."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder.resolve()

    def answer(self, path: str) -> Response:
        """A file, or else the page, which reads its view from the address."""
        if path.startswith("assets/") or "." in path.rpartition("/")[2]:
            found = self._find(path)
            if found is None:
                return self.plain("There is no such file.", 404)
            kind = mimetypes.guess_type(found.name)[0] or "application/octet-stream"
            # Names of assets have a digest of what is in them.
            cache = FOREVER if path.startswith("assets/") else "no-cache"
            return FileResponse(found, media_type=kind, headers={"Cache-Control": cache})
        index = self._folder / "index.html"
        if not index.is_file():
            return self.plain(MISSING, 200)
        return FileResponse(index, media_type="text/html", headers={"Cache-Control": "no-cache"})

    def _find(self, path: str) -> Path | None:
        """A file of the page; None for names outside of it or that no file can have."""
        try:
            found = (self._folder / path).resolve()
            return found if found.is_relative_to(self._folder) and found.is_file() else None
        except (OSError, ValueError):
            return None

    def plain(self, text: str, status: int) -> Response:
        body = f"<!doctype html><html lang=en><meta charset=utf-8><title>Fairway</title><h1>Fairway</h1><p>{text}</p>"
        return HTMLResponse(body, status, headers={"Cache-Control": "no-store"})


ANSWERING = 120.0
"""Maximum seconds for an answer."""
SLOW_THREADS = 6
MAX_QUESTIONS = 30
"""Maximum number of questions of a kind in progress or queued."""
MAX_OF_ONE = 4
"""The same per user, where there are several users."""
LOGIN_BYTES = 32 << 10
"""Maximum bytes of a login body, which anyone may send; tokens of identity providers have a few thousand."""
LONGEST_SESSION = 30 * 86_400

Handler = Callable[[Request], Awaitable[Response]]


class PageSite(NamedTuple):
    app: Guard
    hub: EventHub


def application(shown: ShownCluster, access: Access, hosts: Callable[[], frozenset[str] | None]) -> PageSite:
    """The whole application, behind its guard."""
    hub = EventHub(shown.watch, shown.behind)
    if shown.history is not None:
        shown.history.failed = lambda why: shown.log.error("the history was not written", why=why)
    shown.watch.failed = lambda error: shown.log.error("error in the views", traceback=text_of(error))
    shown.viewers = lambda: hub.clients
    shown.ahead.followers = shown.viewers
    shown.watch.look_ahead = shown.ahead.estimates
    site = _Site(shown, access, hub)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        hub.start()
        yield
        hub.stop()

    routes = [Route(f"{PREFIX}/openapi.json", site.openapi, methods=["GET"])]
    routes += [
        Route(PREFIX + operation.path, site.handler(operation), methods=[operation.method]) for operation in OPERATIONS
    ]
    routes += [
        Route(f"{PREFIX}/login", site.login, methods=["POST"]),
        Route(f"{PREFIX}/logout", site.logout, methods=["POST"]),
        Route(HEALTH, site.healthy, methods=["GET"]),
        Route(f"{PREFIX}/{{rest:path}}", site.unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        Route("/{path:path}", site.page, methods=["GET"]),
    ]
    routed = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: not_routed})
    return PageSite(Guard(routed, hosts, shown.log), hub)


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class _Site:
    def __init__(self, shown: ShownCluster, access: Access, hub: EventHub) -> None:
        self._shown = shown
        self._access = access
        self._hub = hub
        self._files = PageFiles()
        self._document: bytes | None = None
        self._slow = CapacityLimiter(SLOW_THREADS)
        self._long = CapacityLimiter(SLOW_THREADS)
        self._asking: Counter[tuple[bool, str]] = Counter()
        """Questions in progress, by whether they are long, and by user."""
        self._bodies = BodyBudget()

    def handler(self, operation: Operation) -> Handler:
        async def handle(request: Request) -> Response:
            answer = self._stream if operation.streams else self._answer
            return await answering(answer(operation, request), request, self._shown.log)

        return handle

    async def _answer(self, operation: Operation, request: Request) -> Response:
        viewer = await self._viewer(request)
        if operation.sandbox_only and self._shown.sandbox is None:
            raise RequestRefusedError(404, "this is not a sandbox")
        query = read_query(operation, request.query_params)
        with self._bodies.reading(viewer.name) as held:
            body = None
            if operation.body is not None:
                body = read_body(operation.body, await read_limited(request, operation.most_bytes, held))
            asked = Asked(viewer, request.path_params, query, body, Event())
            self._shown.ahead.viewed()
            async with asyncio.timeout(ANSWERING):
                try:
                    found = await self._worked_out(operation, asked, request)
                except InputError as error:
                    raise self._concealed(error, viewer) from None
        return Response(found, media_type="application/json", headers=NO_STORE)

    async def _worked_out(self, operation: Operation, asked: Asked, request: Request) -> bytes:
        """Answers on a thread. Questions have their own threads, so that they never block other requests."""
        if not (operation.is_slow or operation.is_long):
            answer: bytes = await run_in_threadpool(self._encoded, operation, asked)
            return answer
        threads = self._long if operation.is_long else self._slow
        if threads.statistics().tasks_waiting + threads.borrowed_tokens >= MAX_QUESTIONS:
            raise RequestRefusedError(503, "busy with other questions, try again")
        who = operation.is_long, asked.viewer.name
        if asked.viewer.token and self._asking[who] >= MAX_OF_ONE:
            raise RequestRefusedError(429, f"{MAX_OF_ONE} of your questions are queued already; try again later")
        leaving = asyncio.ensure_future(_noted(request, asked.gone))
        self._asking[who] += 1
        try:
            found: bytes = await to_thread.run_sync(self._encoded, operation, asked, limiter=threads)
            return found
        finally:
            self._asking[who] -= 1
            if not self._asking[who]:
                del self._asking[who]
            leaving.cancel()

    def _encoded(self, operation: Operation, asked: Asked) -> bytes:
        found = msgspec.json.encode(ANSWERS[operation.name](self._shown, asked))
        return found if operation.own_words else conceal(found, asked.viewer, self._shown.watch.namespaces)

    def _concealed(self, error: InputError, viewer: Viewer) -> InputError:
        """The same error without names that the user may not see."""
        if viewer.namespaces is None:
            return error
        text = conceal(msgspec.json.encode(str(error)), viewer, self._shown.watch.namespaces)
        default = 507 if isinstance(error, StoreError) else 422
        status = error.status if isinstance(error, RequestRefusedError) else default
        return RequestRefusedError(status, msgspec.json.decode(text, type=str))

    async def _stream(self, operation: Operation, request: Request) -> Response:
        viewer = await self._viewer(request)
        query = read_query(operation, request.query_params)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=NO_STORE)
        last = request.headers.get("last-event-id") or query["lastEventId"]
        headers = {**NO_STORE, "X-Accel-Buffering": "no"}
        events = self._hub.connect(viewer, last, lambda: self._seen_as(request))
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def _viewer(self, request: Request) -> Viewer:
        viewer = await self._seen_as(request)
        # A loopback page has one user, who may use all that there is.
        refused = identify_connection(viewer.name, MAX_OF_USER if viewer.token else MAX_KNOWN)
        if refused is not None:
            raise RequestRefusedError(*refused)
        return viewer

    async def _seen_as(self, request: Request) -> Viewer:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else None
        return await self._access.viewer(given, request.cookies.get(self._access.cookie))

    # -- entering ------------------------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        async def enter() -> Response:
            with self._bodies.reading("") as held:
                body = await read_limited(request, LOGIN_BYTES, held)
            request.state.login_token = read_body(LoginRequest, body).token  # cut from whatever is logged
            value = await self._access.login(request.state.login_token)
            return self._with_cookie(Response(b"{}", media_type="application/json", headers=NO_STORE), request, value)

        return await answering(enter(), request, self._shown.log)

    async def logout(self, request: Request) -> Response:
        answer = Response(b"{}", media_type="application/json", headers=NO_STORE)
        await self._access.logout(request.cookies.get(self._access.cookie))
        answer.delete_cookie(self._access.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def _with_cookie(self, answer: Response, request: Request, value: str) -> Response:
        answer.set_cookie(
            self._access.cookie,
            value,
            max_age=LONGEST_SESSION,
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    # -- the page ------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        return await answering(self._page(request), request, self._shown.log)

    async def _page(self, request: Request) -> Response:
        """The page reads a token after the `#` of its address, which browsers send to no server. A token in the query
        would end up in logs and histories, and a link of another site could use it to log a browser in.
        """
        return await run_in_threadpool(self._files.answer, request.path_params["path"])

    async def healthy(self, request: Request) -> Response:
        """For probes, without a token: the server answers."""
        return PlainTextResponse("ok\n", headers=NO_STORE)

    async def openapi(self, request: Request) -> Response:
        if self._document is None:
            self._document = await run_in_threadpool(lambda: msgspec.json.encode(document()))
        return Response(self._document, media_type="application/json")

    async def unknown(self, request: Request) -> Response:
        return problem(404, f"{request.url.path}: there is nothing here, see {PREFIX}/openapi.json")


async def _noted(request: Request, gone: Event) -> None:
    """Sets `gone` when the client disconnects: opening another job abandons a question that may still be running."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def not_routed(request: Request, error: HTTPException) -> Response:
    """A request without a route: a wrong method, or a path with invalid characters."""
    return problem(error.status_code, f"{request.method} is not for {request.url.path}: {error.detail}")


class LoopbackPage:
    """A page on the loopback address. Raises InputError if the port is in use."""

    def __init__(self, shown: ShownCluster, port: int, token: str) -> None:
        self.shown = shown
        self.watch = shown.watch
        self.token = token
        self._access = LoopbackAccess(token)
        self._site = application(shown, self._access, self._hosts)
        self.server = PageServer(self._site.app, port, shown.log)
        self._access.port = self.server.port

    def _hosts(self) -> frozenset[str]:
        port = self.server.port
        return frozenset({f"{HOST}:{port}", f"localhost:{port}", HOST, "localhost"})

    @property
    def url(self) -> str:
        """Address for commands, which send the token in a header."""
        return self.server.url

    @property
    def address(self) -> str:
        """Address for a browser, which exchanges the token for a cookie. The part after the `#` is sent to no server,
        so the token is in no log.
        """
        return f"{self.server.url}/#token={self.token}"

    def start(self) -> None:
        self.watch.start()
        self.server.start()

    def stop(self) -> None:
        self.server.stop(self._site.hub.stop)
        self.watch.stop()
        if self.shown.history is not None:
            self.shown.history.close()
