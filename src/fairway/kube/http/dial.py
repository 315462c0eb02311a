"""`Dialer`: makes connections to one API server, directly or through an HTTP proxy.

    direct        TCP, then TLS to the server
    proxy         TCP to the proxy, TLS to the proxy if its address says https, CONNECT, then TLS to the server inside
    plain server  a server without TLS behind a proxy gets no tunnel: each request names it in full to the proxy

The proxy sees the server's name and port and nothing else: credentials and certificates of the cluster are sent inside
the tunnel only, and the proxy's own credentials to the proxy only. All steps share one time limit, the caller's.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from fairway.kube.http.parser import MAX_HEAD
from fairway.kube.http.wire import Channel

ADDRESS_LIMIT = 60.0
"""Seconds for which the addresses of a host name are reused."""
UNACKNOWLEDGED = 5_000
"""Milliseconds that the kernel tries to deliver a request. Not longer than another replica waits after the deadline of
this one, so that nothing arrives under the next leader.
"""
PORTS = {"http": 80, "https": 443}
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: ([ -~]{0,100}))?\r\n")

_T = TypeVar("_T")


class TunnelError(ConnectionError):
    """The proxy did not open a tunnel."""


class Proxy(NamedTuple):
    """An HTTP proxy, from an address such as `http://user:password@proxy:3128`."""

    host: str
    port: int
    authorization: str
    """The value of the header Proxy-Authorization; "" sends none."""
    context: ssl.SSLContext | None
    """How to reach the proxy itself; None: in the clear."""

    @classmethod
    def parse(cls, address: str, context: ssl.SSLContext | None) -> Proxy:
        """`context` is for a proxy that is itself reached by TLS."""
        parts = urlsplit(address)
        authorization = ""
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            authorization = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 80)
        return cls(host, port, authorization, context if parts.scheme == "https" else None)


class Dialer:
    """To one server. It belongs to the thread of one event loop."""

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        *,
        server_name: str | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """`context` is that of the server; None: without TLS. `server_name` is the name its certificate must have, if
        that is not `host`.
        """
        self._loop = asyncio.get_running_loop()
        self._host, self._port = host, port
        self._context = context
        self._server_name = server_name or host
        self._proxy = proxy
        self._resolved: tuple[float, list[Any]] = (0.0, [])
        """The addresses of the host that is connected to, and until when they are reused."""

    async def connect(self) -> Channel:
        """OSError if there is no way, errors of TLS among them."""
        failure: OSError = OSError("the host name has no address")
        for address in await self._addresses():
            dialed = keepalive_socket(address)
            try:
                dialed.setblocking(False)
                dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(dialed, address[4])
                return await self._prepared(dialed)
            except OSError as error:
                dialed.close()
                failure = error
            except BaseException:
                dialed.close()
                raise
        raise failure

    async def _addresses(self) -> list[Any]:
        until, addresses = self._resolved
        if not addresses or self._loop.time() > until:
            host, port = (self._proxy.host, self._proxy.port) if self._proxy else (self._host, self._port)
            addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._resolved = self._loop.time() + ADDRESS_LIMIT, addresses
        return addresses

    async def _prepared(self, dialed: socket.socket) -> Channel:
        """The connected socket with TLS and a tunnel, as far as they are needed."""
        proxy = self._proxy
        if proxy is None:
            return dialed if self._context is None else await _encrypted(dialed, self._context, self._server_name)
        outer = dialed if proxy.context is None else await _encrypted(dialed, proxy.context, proxy.host)
        try:
            if self._context is None:
                return outer
            await self._open_tunnel(outer, proxy)
            if isinstance(outer, ssl.SSLSocket):
                return await _handshaken(NestedTls(outer, self._context, self._server_name))
            return await _encrypted(outer, self._context, self._server_name)
        except BaseException:
            outer.close()
            raise

    async def _open_tunnel(self, channel: Channel, proxy: Proxy) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        name = f"{host}:{self._port}"
        lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        request = "\r\n".join([*lines, "", ""]).encode("ascii")
        await _send_all(channel, request)
        head = b""
        while b"\r\n\r\n" not in head:
            data = await _retried(channel, lambda: channel.recv(1 << 12))
            if not data:
                raise TunnelError("the proxy closed the connection")
            head += data
            if len(head) > MAX_HEAD:
                raise TunnelError(f"the proxy's answer has more than {MAX_HEAD} bytes of headers")
        _check_tunnel(head)


def _check_tunnel(head: bytes) -> None:
    """A TLS server is silent until it is spoken to: bytes behind the head are not the server's."""
    status = _STATUS.match(head)
    if status is None:
        raise TunnelError(f"not the answer of an HTTP proxy: {head[:40]!r}")
    if not status[1].startswith(b"2"):
        reason = (status[2] or b"").decode("ascii").strip()
        raise TunnelError(f"the proxy refused the tunnel: {status[1].decode()} {reason}".rstrip())
    if not head.endswith(b"\r\n\r\n") or head.count(b"\r\n\r\n") > 1:
        raise TunnelError("the proxy sent data before the tunnel was used")


class NestedTls:
    """TLS to the server inside the TLS connection to a proxy. A socket of the ssl module cannot wrap another one.

    `send` keeps to the rule of OpenSSL: after SSLWantWriteError it is called again with the same data. Until then the
    encrypted bytes that did not fit wait here, and nothing counts as sent.
    """

    def __init__(self, outer: ssl.SSLSocket, context: ssl.SSLContext, server_name: str) -> None:
        self._outer = outer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._unsent = b""
        self._accepted = 0

    def fileno(self) -> int:
        return self._outer.fileno()

    def do_handshake(self) -> None:
        self._flush()
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            finally:
                self._flush()

    def send(self, data: bytes, /) -> int:
        if not self._accepted:
            self._accepted = self._tls.write(data[: 1 << 14])
        self._flush()
        accepted, self._accepted = self._accepted, 0
        return accepted

    def recv(self, size: int, /) -> bytes:
        """All that one read of the outer connection brought, `size` or not: no event would announce what is left."""
        parts: list[bytes] = []
        while True:
            try:
                part = self._tls.read(size)
            except ssl.SSLWantReadError:
                if parts:
                    break
                self._receive()
                continue
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                break  # the end, as a socket of the ssl module reports it
            if not part:
                break
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self._outer.close()

    def _flush(self) -> None:
        """SSLWantWriteError if the proxy's connection takes no more."""
        self._unsent += self._outgoing.read()
        while self._unsent:
            self._unsent = self._unsent[self._outer.send(self._unsent) :]

    def _receive(self) -> None:
        """SSLWantReadError if nothing has arrived."""
        data = self._outer.recv(1 << 16)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()


_Encrypted = TypeVar("_Encrypted", ssl.SSLSocket, NestedTls)


async def _encrypted(dialed: socket.socket, context: ssl.SSLContext, server_name: str) -> ssl.SSLSocket:
    return await _handshaken(context.wrap_socket(dialed, server_hostname=server_name, do_handshake_on_connect=False))


async def _handshaken(channel: _Encrypted) -> _Encrypted:
    try:
        await _retried(channel, channel.do_handshake)
    except BaseException:
        channel.close()
        raise
    return channel


async def _send_all(channel: Channel, data: bytes) -> None:
    view = memoryview(data)
    while view:
        piece = bytes(view)
        view = view[await _retried(channel, lambda: channel.send(piece), writes=True) :]  # noqa: B023 - awaited here


async def _retried(channel: Channel, operation: Callable[[], _T], *, writes: bool = False) -> _T:
    """Repeats a non-blocking operation until the socket lets it happen. `writes` tells what a socket without TLS waits
    for; one with TLS says it.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            return operation()
        except ssl.SSLWantReadError:
            writes = False
        except ssl.SSLWantWriteError:
            writes = True
        except BlockingIOError:
            pass
        if writes:
            await _until(loop.add_writer, loop.remove_writer, channel)
        else:
            await _until(loop.add_reader, loop.remove_reader, channel)


async def _until(add: Callable[..., Any], remove: Callable[[Any], Any], channel: Channel) -> None:
    ready = asyncio.get_running_loop().create_future()
    number = channel.fileno()
    add(number, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        remove(number)


def keepalive_socket(address: Any) -> socket.socket:
    """A socket whose peer is probed by the kernel: a half-open connection must not look idle."""
    family, kind, protocol, _, _ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED),
    ):
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened
