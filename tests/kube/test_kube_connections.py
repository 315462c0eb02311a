"""Requests over connections of our own: kept, closed, broken off, and never answered by what was meant for another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http import wire
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import ApiRequest
from fairway.kube.http.wire import HttpConnection
from fairway.kube.server.connection import Connection, Credentials, FixedCredentials, Identity

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


class PlayedServer:
    """Takes requests apart and lets the test answer; knows how many connections there were and how many have ended."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.connections = 0
        self.ended = 0
        self.requests: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                self.requests.append(head + await reader.readexactly(length))
                await self._answer(self.requests[-1], writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.ended += 1
        finally:
            writer.close()


async def plain(request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(OK)


def play(
    answer: Answer,
    story: Callable[[ApiClient, PlayedServer], Awaitable[None]],
    *,
    time_limit: float = 30.0,
    base: str = "",
    identity: Identity | None = None,
    credentials: Credentials | None = None,
) -> None:
    async def run() -> None:
        played = PlayedServer(answer)
        server = await asyncio.start_server(played.handle, "127.0.0.1", 0, limit=1 << 24)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{base}"
        known = credentials or FixedCredentials(identity or Identity())
        client = ApiClient(Connection(address, known), time_limit=time_limit)
        try:
            await story(client, played)
        finally:
            await client.close()
            server.close()

    asyncio.run(run())


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def story(client: ApiClient, server: PlayedServer) -> None:
        for _ in range(3):
            assert (await client.send(ApiRequest("POST", "/a", b"{}"))).ok
        assert server.connections == 1

    play(plain, story)


def test_requests_at_the_same_time_have_one_each_and_get_their_own_answers() -> None:
    async def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
        body = request.partition(b"\r\n\r\n")[2]
        await asyncio.sleep(0.02 if body == b"1" else 0)
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))

    async def story(client: ApiClient, server: PlayedServer) -> None:
        for _ in range(2):
            sent = [client.send(ApiRequest("POST", "/a", str(number).encode())) for number in range(5)]
            assert [answer.body for answer in await asyncio.gather(*sent)] == [b"0", b"1", b"2", b"3", b"4"]
        assert server.connections == 5

    play(echo, story)


def test_a_request_has_all_headers_and_the_path_of_the_server() -> None:
    async def story(client: ApiClient, server: PlayedServer) -> None:
        await client.send(ApiRequest("PATCH", "/api/x%2Fy", b"{}", "application/merge-patch+json"))
        await client.send(ApiRequest("GET", "/api"))
        first, second = (request.split(b"\r\n") for request in server.requests)
        assert first[0] == b"PATCH /k8s/c-1/api/x%2Fy HTTP/1.1"
        assert {b"Content-Length: 2", b"Content-Type: application/merge-patch+json", b"Authorization: Bearer t"} < set(
            first
        )
        assert sum(line.startswith((b"Host: 127.0.0.1:", b"User-Agent: fairway/")) for line in first) == 2
        assert second[0] == b"GET /k8s/c-1/api HTTP/1.1"
        assert not any(line.startswith(b"Content-") for line in second)

    play(plain, story, base="/k8s/c-1", identity=Identity("Bearer t"))


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/ä", "/a\tb"])
def test_a_path_that_is_not_escaped_is_never_sent(path: str) -> None:
    async def story(client: ApiClient, server: PlayedServer) -> None:
        with pytest.raises(ValueError, match="not an escaped path"):
            await client.send(ApiRequest("GET", path))
        assert not server.requests

    play(plain, story)


def test_a_header_with_a_line_end_is_never_sent() -> None:
    async def story(client: ApiClient, server: PlayedServer) -> None:
        with pytest.raises(ValueError, match="Authorization has a line end"):
            await client.send(ApiRequest("GET", "/"))
        assert not server.requests

    play(plain, story, identity=Identity("Bearer a\r\nX: y"))


@pytest.mark.parametrize("ending", ["says so", "closes", "talks on"])
def test_a_connection_that_the_server_ends_is_not_used_again(ending: str) -> None:
    ended: list[bytes] = []

    async def last(request: bytes, writer: asyncio.StreamWriter) -> None:
        said = b"Connection: close\r\n" if ending == "says so" else b""
        writer.write(b"HTTP/1.1 200 OK\r\n" + said + b"Content-Length: 2\r\n\r\n{}")
        if ending == "closes":
            writer.close()
        elif ending == "talks on":
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(OK.replace(b"{}", b"[]"))
        ended.append(request)

    async def story(client: ApiClient, server: PlayedServer) -> None:
        for number in range(1, 4):
            assert (await client.send(ApiRequest("GET", "/"))).body == b"{}"
            await eventually(lambda: len(ended) == number)  # noqa: B023 - called here
            await asyncio.sleep(0.02)  # what was written is there: the client has only to look
            assert server.connections == number

    play(last, story)


def test_what_was_not_answered_in_time_does_not_answer_another_request() -> None:
    async def late(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"GET /slow" in request:
            await asyncio.sleep(0.5)
            writer.write(OK.replace(b"{}", b"[]"))
        else:
            writer.write(OK)

    async def story(client: ApiClient, server: PlayedServer) -> None:
        assert (await client.send(ApiRequest("GET", "/slow"))).status == 0
        assert (await client.send(ApiRequest("GET", "/quick"))).body == b"{}"
        assert server.connections == 2

    play(late, story, time_limit=0.2)


def test_a_request_that_is_broken_off_closes_its_connection() -> None:
    async def never(request: bytes, writer: asyncio.StreamWriter) -> None: ...

    async def story(client: ApiClient, server: PlayedServer) -> None:
        task = asyncio.create_task(client.send(ApiRequest("POST", "/", b"{}")))
        await eventually(lambda: bool(server.requests))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await eventually(lambda: server.ended == 1)

    play(never, story)


@pytest.mark.parametrize("text", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"nonsense\r\n\r\n", b""])
def test_an_answer_that_is_cut_off_or_is_none_is_no_answer(text: bytes) -> None:
    async def broken(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        writer.close()

    async def story(client: ApiClient, server: PlayedServer) -> None:
        assert (await client.send(ApiRequest("GET", "/"))).status == 0

    play(broken, story)


def test_bodies_that_do_not_fit_a_socket_arrive_whole() -> None:
    body = bytes(range(256)) * (1 << 15)

    async def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
        found = request.partition(b"\r\n\r\n")[2]
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for place in range(0, len(found), 1_000_000):
            part = found[place : place + 1_000_000]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    async def story(client: ApiClient, server: PlayedServer) -> None:
        assert (await client.send(ApiRequest("POST", "/", body))).body == body

    play(echo, story)


def test_closing_the_client_ends_what_is_under_way() -> None:
    async def never(request: bytes, writer: asyncio.StreamWriter) -> None: ...

    async def story(client: ApiClient, server: PlayedServer) -> None:
        task = asyncio.create_task(client.send(ApiRequest("POST", "/", b"{}")))
        await eventually(lambda: bool(server.requests))
        await client.close()
        assert (await task).status == 0

    play(never, story)


# -- bodies that go on ------------------------------------------------------------------------------------------------


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def piece(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


async def taken(client: ApiClient, silence: float = 30) -> list[bytes]:
    found: list[bytes] = []
    async with client.stream("/w", {"watch": "true", "fieldSelector": "a!=b c"}, silence=silence) as body:
        found += [part async for part in body.iter_any()]
    return found


def test_a_stream_gives_what_comes_as_it_comes_and_ends_with_it() -> None:
    async def slowly(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for text in (b"one\n", b"two\n", b"three\n"):
            await asyncio.sleep(0.02)
            writer.write(piece(text))
        writer.write(b"0\r\n\r\n")

    async def story(client: ApiClient, server: PlayedServer) -> None:
        found = await taken(client)
        assert b"".join(found) == b"one\ntwo\nthree\n"
        assert len(found) == 3
        assert server.requests[0].startswith(b"GET /w?watch=true&fieldSelector=a%21%3Db+c HTTP/1.1\r\n")
        await eventually(lambda: server.ended == 1)

    play(slowly, story)


@pytest.mark.parametrize(("text", "why"), [(b"", "closed"), (piece(b"a"), "closed"), (b"zz\r\n", "size of a chunk")])
def test_a_stream_that_breaks_off_is_no_answer(text: bytes, why: str) -> None:
    async def broken(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + text)
        await writer.drain()
        writer.close()

    async def story(client: ApiClient, server: PlayedServer) -> None:
        with pytest.raises(NoAnswerError, match=f"GET /w: no answer: .*{why}"):
            await taken(client)

    play(broken, story)


def test_a_stream_that_is_silent_for_too_long_is_no_answer() -> None:
    async def silent(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + piece(b"a"))

    async def story(client: ApiClient, server: PlayedServer) -> None:
        with pytest.raises(NoAnswerError, match="within the time limit"):
            await taken(client, silence=0.1)
        await eventually(lambda: server.ended == 1)

    play(silent, story, time_limit=1)


def test_a_stream_that_is_refused_is_an_error_and_after_401_fresh_credentials_are_tried() -> None:
    class Expired:
        fresh = False

        async def identity(self) -> Identity:
            return Identity("Bearer new" if self.fresh else "Bearer old")

        def refused(self, identity: Identity | None = None) -> None:
            self.fresh = True

    async def refusing(request: bytes, writer: asyncio.StreamWriter) -> None:
        status = b"410 Gone" if b"Bearer new" in request else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 18\r\n\r\n" + b'{"message":"none"}')

    async def story(client: ApiClient, server: PlayedServer) -> None:
        with pytest.raises(ApiError, match="GET /w: 410 Error: none"):
            await taken(client)
        assert len(server.requests) == 2

    play(refusing, story, credentials=Expired())


def test_a_stream_that_comes_faster_than_it_is_taken_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_UNREAD", 1 << 16)
    text = b"x" * 100_000

    async def fast(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for _ in range(50):
            writer.write(piece(text))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    async def story(client: ApiClient, server: PlayedServer) -> None:
        found = 0
        async with client.stream("/w", {}, silence=30) as body:
            async for part in body.iter_any():
                await asyncio.sleep(0.001)
                found += len(part)
        assert found == 50 * len(text)

    play(fast, story)


def test_small_pieces_of_a_stream_are_read_together_and_their_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server sends an event at a time: to look at the socket for each of them would cost more than they do."""
    looks = 0
    read = HttpConnection._read

    def counted(connection: HttpConnection) -> None:
        nonlocal looks
        looks += 1
        read(connection)

    monkeypatch.setattr(HttpConnection, "_read", counted)

    async def often(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for number in range(200):
            writer.write(piece(b"%d\n" % number))
            await asyncio.sleep(0.0002)
        writer.write(b"0\r\n\r\n")

    async def story(client: ApiClient, server: PlayedServer) -> None:
        found = b"".join(await taken(client))
        assert found == b"".join(b"%d\n" % number for number in range(200))
        assert looks < 100

    play(often, story)
