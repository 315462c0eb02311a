"""API servers behind HTTP proxies, on a real proxy of the test's own: tunnels, TLS in TLS, credentials, refusals."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairway.errors import InputError, NoAnswerError
from fairway.kube.http import dial
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest
from fairway.kube.server.connection import Connection, FixedCredentials, Identity, Trust
from fairway.kube.server.kubeconfig import environment_proxy, read_kubeconfig
from support.certificates import OPENSSL, MadeCertificate, make_certificate

pytestmark = pytest.mark.skipif(OPENSSL is None, reason="certificates need openssl")

BODY = bytes(range(256)) * 4096
"""One megabyte: many TLS records, and more than a socket holds."""


class TunnellingProxy:
    """Opens tunnels on CONNECT, and passes requests in absolute form on."""

    def __init__(self, users: dict[str, str] | None = None, answer: bytes | None = None) -> None:
        self.heads: list[str] = []
        self.port = 0
        self._users = users
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode())
            if self._answer is not None:
                writer.write(self._answer)
                await writer.drain()
            elif self._users is not None and not self._knows(head.decode()):
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
            else:
                await self._pass_on(head, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _knows(self, head: str) -> bool:
        assert self._users is not None
        tokens = {b64encode(f"{user}:{password}".encode()).decode() for user, password in self._users.items()}
        return any(f"Proxy-Authorization: Basic {token}\r\n" in head for token in tokens)

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = head.decode().split(" ", 2)
        address = target if method == "CONNECT" else target.removeprefix("http://").partition("/")[0]
        host, _, port = address.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        else:
            back.write(head)
        await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 15):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


class EchoingServer:
    """An API server that sends each body back, and a stream of events for /watch."""

    def __init__(self) -> None:
        self.heads: list[str] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Length:")), 0)
                body = await reader.readexactly(length)
                if "/watch" in head:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    for number in range(300):
                        text = b"%d\n" % number
                        writer.write(b"%x\r\n%b\r\n" % (len(text), text))
                        await writer.drain()
                    writer.write(b"0\r\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def server_context(made: MadeCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    return context


@pytest.fixture(name="certificate", scope="module")
def a_certificate(tmp_path_factory: pytest.TempPathFactory) -> MadeCertificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


Story = Callable[[ApiClient, EchoingServer, TunnellingProxy], Awaitable[None]]


def play(
    certificate: MadeCertificate,
    story: Story,
    *,
    proxy: TunnellingProxy | None = None,
    proxy_scheme: str = "http",
    user: str = "",
    scheme: str = "https",
    trusts: bool = True,
    time_limit: float = 30.0,
) -> None:
    async def run() -> None:
        context, played, between = server_context(certificate), EchoingServer(), proxy or TunnellingProxy()
        server = await asyncio.start_server(
            played.handle, "127.0.0.1", 0, ssl=context if scheme == "https" else None, limit=1 << 24
        )
        tunnel = await asyncio.start_server(
            between.handle, "127.0.0.1", 0, ssl=context if proxy_scheme == "https" else None
        )
        between.port = tunnel.sockets[0].getsockname()[1]
        connection = Connection(
            f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            FixedCredentials(Identity("Bearer s3cret")),
            Trust(certificate.certificate.read_bytes() if trusts else None),
            f"{proxy_scheme}://{user}127.0.0.1:{between.port}",
        )
        client = ApiClient(connection, time_limit=time_limit)
        try:
            await story(client, played, between)
        finally:
            await client.close()
            server.close()
            tunnel.close()
            await asyncio.sleep(0.05)  # both ends of the tunnels see the end

    asyncio.run(run())


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
def test_requests_and_watches_go_through_a_tunnel(certificate: MadeCertificate, proxy_scheme: str) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        for _ in range(3):
            assert (await client.send(ApiRequest("POST", "/api", BODY))).body == BODY
        assert len(proxy.heads) == 1, "the tunnel is kept for the next request"
        assert proxy.heads[0].startswith("CONNECT 127.0.0.1:")
        assert "s3cret" not in proxy.heads[0]
        assert "Authorization: Bearer s3cret" in server.heads[0]
        found = b""
        async with client.stream("/watch", {}, silence=10) as body:
            async for part in body.iter_any():
                found += part
        assert found == b"".join(b"%d\n" % number for number in range(300))

    play(certificate, story, proxy_scheme=proxy_scheme)


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
def test_many_requests_at_once_have_tunnels_of_their_own(certificate: MadeCertificate, proxy_scheme: str) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        bodies = [BODY[: 100_000 + number] for number in range(8)]
        answers = await asyncio.gather(*(client.send(ApiRequest("POST", "/", body)) for body in bodies))
        assert [answer.body for answer in answers] == bodies

    play(certificate, story, proxy_scheme=proxy_scheme)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_gets_its_own_credentials_and_the_server_does_not(certificate: MadeCertificate, scheme: str) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        assert (await client.send(ApiRequest("GET", "/"))).ok
        token = b64encode(b"joe:p@ss word").decode()
        assert f"Proxy-Authorization: Basic {token}\r\n" in proxy.heads[0]
        if scheme == "https":
            assert "Proxy-Authorization" not in server.heads[0]

    proxy = TunnellingProxy({"joe": "p@ss word"})
    play(certificate, story, proxy=proxy, user="joe:p%40ss%20word@", scheme=scheme)


def test_a_server_without_tls_is_named_in_full_to_its_proxy(certificate: MadeCertificate) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        assert (await client.send(ApiRequest("POST", "/api?a=b", b"{}"))).body == b"{}"
        assert proxy.heads[0].startswith(f"POST {client.connection.server}/api?a=b HTTP/1.1\r\nContent-Length: 2\r\n")

    play(certificate, story, scheme="http")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n<html>", "the proxy refused the tunnel: 403 Forbidden"),
        (b"HTTP/1.1 302\r\nLocation: http://elsewhere/\r\n\r\n", "the proxy refused the tunnel: 302"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "the proxy sent data before the tunnel was used"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "not the answer of an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n", "the proxy closed the connection"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 17), "more than 65536 bytes"),
        (b"", "the proxy closed the connection"),
    ],
)
def test_a_tunnel_that_is_not_opened_is_no_answer(certificate: MadeCertificate, answer: bytes, why: str) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        with pytest.raises(NoAnswerError, match=why):
            await client.request("GET", "/version")
        assert not server.heads

    play(certificate, story, proxy=TunnellingProxy(answer=answer))


def test_wrong_credentials_for_a_proxy_are_said_to_be_and_not_shown(certificate: MadeCertificate) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        with pytest.raises(NoAnswerError) as error:
            await client.request("GET", "/version")
        text = str(error.value)
        assert "the proxy refused the tunnel: 407 Proxy Authentication Required" in text
        assert "hunter2" not in text + repr(client.connection)

    play(certificate, story, proxy=TunnellingProxy({"joe": "right"}), user="joe:hunter2@")


@pytest.mark.parametrize("proxy_scheme", ["http", "https"])
def test_an_unknown_certificate_is_refused_behind_and_on_a_proxy(
    certificate: MadeCertificate, proxy_scheme: str
) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        with pytest.raises(NoAnswerError, match="certificate verify failed"):
            await client.request("GET", "/version")
        assert not server.heads
        assert len(proxy.heads) == (1 if proxy_scheme == "http" else 0)

    play(certificate, story, proxy_scheme=proxy_scheme, trusts=False)


def test_a_proxy_that_says_nothing_is_given_up_in_time(certificate: MadeCertificate) -> None:
    class Silent(TunnellingProxy):
        async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            await reader.read()  # until the client gives up
            writer.close()

    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        with pytest.raises(NoAnswerError, match="no answer within the time limit"):
            await client.request("GET", "/version")

    play(certificate, story, proxy=Silent(), time_limit=0.2)


def test_a_request_that_comes_too_late_does_not_leave_through_a_tunnel(certificate: MadeCertificate) -> None:
    async def story(client: ApiClient, server: EchoingServer, proxy: TunnellingProxy) -> None:
        assert (await client.send(ApiRequest("POST", "/", b"{}"), lambda: False)).status == 0
        assert len(proxy.heads) == 1
        assert not server.heads

    play(certificate, story, proxy_scheme="https")


def test_encrypted_bytes_that_do_not_fit_count_as_sent_only_when_they_have_left(certificate: MadeCertificate) -> None:
    """As with sockets of the ssl module: the same data is given again, and nothing is sent twice."""
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=certificate.certificate.read_text())
    peer = server_context(certificate).wrap_bio(inside, outside, server_side=True)

    class Outer:
        """A connection that takes a few bytes at a time."""

        room = 1 << 20

        def send(self, data: bytes) -> int:
            if not self.room:
                raise ssl.SSLWantWriteError
            sent = inside.write(data[: self.room])
            self.room -= sent
            return sent

        def recv(self, size: int) -> bytes:
            if not outside.pending:
                raise ssl.SSLWantReadError
            return outside.read(size)

    outer: Any = Outer()
    nested = dial.NestedTls(outer, trusting, "localhost")
    for _ in range(4):
        for side in (nested.do_handshake, peer.do_handshake):
            try:
                side()
            except ssl.SSLWantReadError:
                continue
    outer.room, found, blocked, left = 100, b"", 0, BODY[:40_000]
    while left:
        try:
            left = left[nested.send(left) :]
        except ssl.SSLWantWriteError:
            blocked += 1
            outer.room = 1000
        try:
            while True:
                found += peer.read(1 << 16)
        except ssl.SSLWantReadError:
            pass
    assert found == BODY[:40_000]
    assert blocked > 30


@pytest.mark.parametrize(
    ("server", "exceptions", "proxied"),
    [
        ("https://api.example.com:6443", "", True),
        ("https://api.example.com:6443", "example.com", False),
        ("https://api.example.com:6443", ".example.com", False),
        ("https://api.example.com:6443", "*.example.com", False),
        ("https://api.example.com:6443", "ample.com, other.org", True),
        ("https://api.example.com:6443", "api.example.com:443", True),
        ("https://API.example.com:6443", "api.Example.com:6443", False),
        ("https://10.96.0.1", "10.96.0.0/12", False),
        ("https://10.96.0.1", "10.97.0.0/16,10.96.0.1", False),
        ("https://10.96.0.1", "10.97.0.0/16,nonsense/99", True),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://anything", "*", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://api.example.com", "", False),
    ],
)
def test_the_environment_names_a_proxy_and_its_exceptions(server: str, exceptions: str, proxied: bool) -> None:
    environment = {"HTTPS_PROXY": "proxy.example.net:3128", "NO_PROXY": exceptions}
    assert environment_proxy(server, environment) == ("http://proxy.example.net:3128" if proxied else None)


def test_a_proxy_that_cannot_be_used_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="HTTPS_PROXY is 'proxy:1080', expected an http or https address"):
        environment_proxy("https://api.example.com", {"https_proxy": "socks5://joe:hunter2@proxy:1080"})
    path = tmp_path / "config"
    cluster = "{server: 'https://a', proxy-url: 'socks5://joe:hunter2@proxy:1080'}"
    path.write_text(
        f"clusters: [{{name: c, cluster: {cluster}}}]\n"
        "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
    )
    with pytest.raises(InputError) as error:
        read_kubeconfig([path], required=True).connection()
    assert "proxy-url is 'proxy:1080'" in str(error.value)
    assert "hunter2" not in str(error.value)
