"""The HTTP client, against a small server of the test's own: errors, credentials, limits, and no secret in any text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http import client as client_module
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import MERGE_PATCH, ApiRequest
from fairway.kube.server.connection import Connection, FixedCredentials, Identity, Trust, ssl_context

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Story = Callable[[ApiClient], Awaitable[None]]


def play(handler: Handler, story: Story, *, credentials: Any = None, time_limit: float = 30.0) -> None:
    async def run() -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        client = ApiClient(Connection(address, credentials or FixedCredentials()), time_limit=time_limit)
        try:
            await story(client)
        finally:
            await client.close()
            await runner.cleanup()

    asyncio.run(run())


def answering(status: int, body: object = None, **headers: str) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        text = body if isinstance(body, bytes) else msgspec.json.encode(body)
        return web.Response(
            status=status, body=text, headers={name.replace("_", "-"): h for name, h in headers.items()}
        )

    return handle


async def error_of(client: ApiClient) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await client.request("GET", "/api/v1/pods")
    return caught.value


def test_a_request_carries_its_body_its_type_and_the_user_agent() -> None:
    seen: list[tuple[str, str, str, str, bytes]] = []

    async def handle(request: web.Request) -> web.Response:
        headers = request.headers
        who = headers.get("Authorization", "")
        seen.append((request.method, request.path_qs, headers.get("Content-Type", ""), who, await request.read()))
        assert headers["User-Agent"].startswith("fairway/")
        return web.Response(body=b"{}")

    async def story(client: ApiClient) -> None:
        body = {"a": 1}
        await client.request("PATCH", "/x", body, content_type=MERGE_PATCH, query={"dryRun": "All"})
        assert (await client.send(ApiRequest("POST", "/y", b"[]"))).ok

    play(handle, story, credentials=FixedCredentials(Identity("Bearer secret")))
    assert seen == [
        ("PATCH", "/x?dryRun=All", MERGE_PATCH, "Bearer secret", b'{"a":1}'),
        ("POST", "/y", "application/json", "Bearer secret", b"[]"),
    ]


def test_an_error_says_what_the_servers_status_says() -> None:
    status = {"reason": "Conflict", "message": "the object  has been\nmodified", "details": {"retryAfterSeconds": 7}}

    async def story(client: ApiClient) -> None:
        error = await error_of(client)
        assert (error.status, error.reason, error.message) == (409, "Conflict", "the object has been modified")
        assert error.retry_after == 7
        assert str(error) == "GET /api/v1/pods: 409 Conflict: the object has been modified"

    play(answering(409, status), story)


@pytest.mark.parametrize(("header", "wait"), [("3", 3.0), ("soon", None), ("99999999999999999999", None)])
def test_the_header_says_when_to_come_again(header: str, wait: float | None) -> None:
    async def story(client: ApiClient) -> None:
        assert (await error_of(client)).retry_after == wait
        assert (await client.send(ApiRequest("GET", "/"))).retry_after == wait

    play(answering(429, {}, Retry_After=header), story)


def test_an_error_that_is_no_status_is_shown_by_its_beginning() -> None:
    async def story(client: ApiClient) -> None:
        error = await error_of(client)
        assert error.status == 502
        assert error.message.startswith("<html> bad gateway")
        assert len(error.message) <= 200

    play(answering(502, b"<html>\nbad gateway" + b"x" * 1_000_000), story)


@pytest.mark.parametrize("status", [301, 307])
def test_a_redirect_is_an_error_and_not_followed(status: int) -> None:
    """Else a token would go wherever a proxy points to."""

    async def story(client: ApiClient) -> None:
        assert (await error_of(client)).status == status

    play(answering(status, b"", Location="http://127.0.0.1:1/"), story)


class Rotating:
    """Credentials of which the server takes only the newest."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def identity(self) -> Identity:
        return Identity(f"Bearer {self.tokens[0]}")

    def refused(self, identity: Identity | None = None) -> None:
        if len(self.tokens) > 1:
            self.tokens.pop(0)


@pytest.mark.parametrize(("tokens", "works"), [(("old", "new"), True), (("old",), False), (("old", "older"), False)])
def test_after_401_fresh_credentials_are_tried_once(tokens: tuple[str, ...], works: bool) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.headers["Authorization"])
        return web.Response(status=200 if asked[-1] == "Bearer new" else 401, body=b"{}")

    async def story(client: ApiClient) -> None:
        assert (await client.send(ApiRequest("GET", "/"))).ok is works

    play(handle, story, credentials=Rotating(*tokens))
    assert asked == [f"Bearer {token}" for token in tokens]


def test_no_answer_in_time_is_no_answer() -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async def story(client: ApiClient) -> None:
        assert (await client.send(ApiRequest("GET", "/"))).status == 0
        with pytest.raises(NoAnswerError, match="no answer within the time limit"):
            await client.request("GET", "/")

    play(handle, story, time_limit=0.2)


def test_a_connection_that_breaks_is_no_answer() -> None:
    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def story(client: ApiClient) -> None:
        assert (await client.send(ApiRequest("POST", "/", b"{}"))).status == 0

    play(handle, story)


def test_an_answer_that_is_far_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MAX_ANSWER", 1 << 20)

    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for _ in range(100):
            await answer.write(b"x" * (1 << 16))
        return answer

    async def story(client: ApiClient) -> None:
        with pytest.raises(NoAnswerError, match="more than 1048576 bytes"):
            await client.request("GET", "/")

    play(handle, story)


def test_what_is_read_must_have_its_form() -> None:
    async def story(client: ApiClient) -> None:
        with pytest.raises(ApiError, match="Expected `int`, got `str`"):
            await client.read("/", dict[str, int])

    play(answering(200, {"a": "b"}), story)


def test_a_server_that_is_not_there_is_no_answer_and_no_secret_is_told() -> None:
    connection = Connection("http://127.0.0.1:1", FixedCredentials(Identity("Bearer s3cret")))

    async def story() -> str:
        client = ApiClient(connection)
        with pytest.raises(NoAnswerError) as error:
            await client.request("GET", "/version")
        await client.close()
        return str(error.value)

    text = asyncio.run(story())
    assert text.startswith("GET /version: no answer: ")
    assert "s3cret" not in text + repr(connection)


def test_certificates_that_are_none_are_said_to_be() -> None:
    from fairway.errors import InputError
    from fairway.kube.server.connection import Certificate

    with pytest.raises(InputError, match="certificate-authority: not a certificate in PEM"):
        ssl_context(Trust(b"nonsense"), None)
    with pytest.raises(InputError, match="client-certificate: not a certificate"):
        ssl_context(Trust(), Certificate(b"a", b"b"))


@pytest.mark.parametrize("together", [True, False])
def test_a_connection_with_bytes_behind_its_answer_is_not_used_again(together: bool) -> None:
    """Whoever sits between, or a server with an error, must not be able to answer a request before it is made."""
    body = b'{"metadata":{"name":"true"}}'
    true = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    false = true.replace(b"true", b"fake")
    connections = 0
    said = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(true + false if together else true)
                await writer.drain()
                if not together:
                    await asyncio.sleep(0.05)
                    writer.write(false)
                    await writer.drain()
                said.set()
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client is done with it
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = ApiClient(Connection(f"http://127.0.0.1:{port}", FixedCredentials()))
        try:
            for _ in range(3):
                said.clear()
                assert await client.request("GET", "/api/v1/pods") == body
                await said.wait()
                await asyncio.sleep(0.05)  # what was said is there: the client gets to see it
        finally:
            await client.close()
            server.close()
            await asyncio.sleep(0.05)  # the connections see their end
        assert connections == 3

    asyncio.run(run())
