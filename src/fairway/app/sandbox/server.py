"""The door of the sandbox: HTTP on the loopback address, with limits on whatever a stranger could overdo.

Only this machine can reach it. Pages of other origins, which a browser on this machine may show, cannot: requests that
name another host (a name made to lead here) or come from another origin are refused.
"""

from __future__ import annotations

from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Semaphore, Thread, Timer
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from fairway.app.sandbox.api import Api, HttpAnswer
from fairway.errors import InputError

HOST = "127.0.0.1"
DEFAULT_PORT = 7333
MOST_BYTES = 16 << 20
"""Of a request's body."""
MOST_CONNECTIONS = 32
TIMEOUT = 10.0
"""Seconds that a connection may be silent."""
READING = 30.0
"""Seconds in which a request must have been sent whole, however it trickles in."""
MOST_HEADER_BYTES = 16 << 10


class Server:
    """Serves an API from threads of its own until it is stopped."""

    def __init__(self, api: Api, port: int) -> None:
        handler = type("Handler", (_Handler,), {"api": api})
        try:
            self._server = _LimitedServer((HOST, port), handler)
        except OSError as error:
            raise InputError(
                f"port {port}: {error.strerror}; another sandbox may run, or choose a port with --port (0: any)"
            ) from None
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="sandbox-api", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _LimitedServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._free = Semaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._turn_away(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off is no error and nothing to print."""

    def _turn_away(self, request: socket) -> None:
        body = b'{"error": "too many connections, try again"}'
        head = f"HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with suppress(OSError):
            request.sendall(head.encode() + body)
        self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    api: Api
    timeout = TIMEOUT
    protocol_version = "HTTP/1.1"
    server_version = "fairway"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        self._limit = Timer(READING, self._hang_up)
        self._limit.daemon = True
        self._limit.start()

    def finish(self) -> None:
        self._limit.cancel()
        super().finish()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(SHUT_RDWR)

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _serve(self, method: str) -> None:
        self.close_connection = True
        refused = self._refusal(method)
        if refused is not None:
            self._send(refused)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0") or "0")) if method == "POST" else b""
        self._limit.cancel()
        path = unquote(urlsplit(self.path).path)
        try:
            answer = self.api.answer(method, path, body)
            status, document = answer.status, msgspec.json.encode(answer.document)
        except Exception as error:  # one request that meets an error must not end the sandbox
            text = f"an error in Fairway, please report it: {type(error).__name__}: {error}"
            status, document = 500, msgspec.json.encode({"error": text})
        self._write(status, document)

    def _refusal(self, method: str) -> HttpAnswer | None:
        port = self.connection.getsockname()[1]
        names = {f"{HOST}:{port}", f"localhost:{port}", HOST, "localhost"}
        headers = self.headers
        if sum(len(name) + len(value) for name, value in headers.items()) > MOST_HEADER_BYTES:
            return HttpAnswer(431, {"error": f"headers of more than {MOST_HEADER_BYTES} bytes"})
        if headers.get("Host", "") not in names:
            return HttpAnswer(403, {"error": "requested under another host name, expected the loopback address"})
        origin = headers.get("Origin")
        if origin is not None and origin not in {f"http://{name}" for name in names}:
            return HttpAnswer(403, {"error": "requested by a page of another origin"})
        if method != "POST":
            return None
        if headers.get_content_type() != "application/json":
            return HttpAnswer(415, {"error": f"the body is {headers.get_content_type()}, expected application/json"})
        length = headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return HttpAnswer(411, {"error": "the request does not say how long it is, expected Content-Length"})
        if len(length) > 12 or int(length) > MOST_BYTES:
            return HttpAnswer(413, {"error": f"a body of {length} bytes, expected at most {MOST_BYTES}"})
        return None

    def _send(self, answer: HttpAnswer) -> None:
        self._write(answer.status, msgspec.json.encode(answer.document))

    def _write(self, status: int, document: bytes) -> None:
        body = document + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the request parser refuses is an error in JSON too."""
        self.close_connection = True
        self.request_version = getattr(self, "request_version", "") or "HTTP/1.1"
        self._send(HttpAnswer(code, {"error": message or explain or "the request cannot be read"}))

    def log_message(self, format: str, *args: object) -> None:
        """The terminal belongs to the view."""
