"""Spec K13 at the socket: a request is judged when its bytes leave, whatever it had to wait for before that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest

from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import DONE, NO_ANSWER, ApiAnswer, ApiRequest, Ending, Script, WriteResult, again
from fairway.kube.server.connection import Connection, Identity
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank
from kube.test_kube_connections import PlayedServer, plain, play

POST = ApiRequest("POST", "/w", b"{}")


class Lead:
    """The right to write, which a test takes away."""

    def __init__(self) -> None:
        self.holds = True
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.holds


class SlowCredentials:
    """They take so long that the right to write is over when they are there."""

    def __init__(self, lead: Lead, *, at: int) -> None:
        self._lead, self._at, self._times = lead, at, 0

    async def identity(self) -> Identity:
        self._times += 1
        await asyncio.sleep(0)
        if self._times == self._at:
            self._lead.holds = False
        return Identity(f"Bearer {self._times}")

    def refused(self, identity: Identity | None = None) -> None: ...


async def unauthorized(request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}")


Story = Callable[[ApiClient, PlayedServer], Awaitable[None]]


def story_of(lead: Lead, arrives: int) -> Story:
    async def story(client: ApiClient, server: PlayedServer) -> None:
        answer = await client.send(POST, lead)
        assert answer == NO_ANSWER
        await client.send(ApiRequest("GET", "/last"))  # what had left before would be there by now
        assert [request.split()[0] for request in server.requests].count(b"POST") == arrives

    return story


def test_K13_a_request_whose_credentials_took_too_long_never_leaves() -> None:
    lead = Lead()
    play(plain, story_of(lead, 0), credentials=SlowCredentials(lead, at=1))


def test_K13_a_request_is_not_sent_again_with_fresh_credentials_when_it_is_too_late() -> None:
    lead = Lead()
    play(unauthorized, story_of(lead, 1), credentials=SlowCredentials(lead, at=2))


def test_K13_a_request_whose_connection_took_too_long_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = Lead()
    connect = asyncio.BaseEventLoop.getaddrinfo

    async def slow(loop: asyncio.BaseEventLoop, *arguments: object, **more: object) -> object:
        found = await connect(loop, *arguments, **more)  # type: ignore[arg-type]
        lead.holds = False
        return found

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", slow)
    play(plain, story_of(lead, 0))


def test_K13_what_is_left_of_a_long_request_does_not_leave_when_it_is_too_late() -> None:
    """A socket takes a part of it, and the right to write ends before it takes the rest."""
    answers: Iterator[bool] = iter([True, False])

    async def story(client: ApiClient, server: PlayedServer) -> None:
        long = ApiRequest("POST", "/w", b"x" * (32 << 20))
        assert await client.send(long, lambda: next(answers)) == NO_ANSWER
        await client.send(ApiRequest("GET", "/last"))
        assert [request.split()[0] for request in server.requests] == [b"GET"]

    play(plain, story)


def test_K13_by_a_proxy_too_a_request_that_is_too_late_has_no_body() -> None:
    """Without its body, which is announced, a server does nothing."""
    arrived: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.read(1 << 16))
        while part := await reader.read(1 << 16):
            arrived.append(part)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        lead = Lead()
        credentials = SlowCredentials(lead, at=1)
        client = ApiClient(Connection("http://cluster.example", credentials, proxy=address))
        assert await client.send(ApiRequest("POST", "/w", b'{"late":1}'), lead) == NO_ANSWER
        await client.close()
        server.close()

    asyncio.run(run())
    assert b"late" not in b"".join(arrived)


# -- what was decided in an earlier time as the leader ---------------------------------------------------------------


def _binding() -> Script:
    answer = yield POST
    if answer.ok:
        return DONE
    look = yield ApiRequest("GET", "/w")
    return DONE if look.ok else again(ApiAnswer(0, retry_after=0.01))


@pytest.mark.parametrize("was_sent", [True, False])
def test_K13_what_was_decided_before_another_led_is_not_sent_when_this_replica_leads_again(
    was_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.kube.writing.write_queue.FORGOTTEN", 0.2)
    term, asked, ended = [1], [], list[Ending]()

    async def send(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        asked.append(request.method)
        term[0] = 2  # lost, held by another, and won again, all before the next try
        return NO_ANSWER

    async def story() -> None:
        queue = WriteQueue(send, term=lambda: term[0], workers=1, random=Random(0))
        queue.start()
        if not was_sent:
            term[0] = 2
        queue.add(QueuedWrite("w", WriteRank.BIND, _binding, ended.append, term=1))
        assert await queue.settle(WriteRank.EVENT, 15)
        await queue.stop()

    asyncio.run(story())
    assert asked.count("POST") == was_sent
    assert [ending.result for ending in ended] == [WriteResult.REFUSED]


@pytest.mark.parametrize("is_answered", [True, False])
def test_K13_the_lease_may_be_released_only_when_all_that_left_was_answered(is_answered: bool) -> None:
    begun, broken = asyncio.Event(), []

    async def send(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        begun.set()
        try:
            await asyncio.sleep(0.02 if is_answered else 30)
        except asyncio.CancelledError:
            broken.append(request.method)
            raise
        return ApiAnswer(200)

    async def story() -> None:
        queue = WriteQueue(send, workers=1, random=Random(0))
        queue.start()
        ended: list[Ending] = []
        queue.add(QueuedWrite("a", WriteRank.BIND, _binding, ended.append))
        queue.add(QueuedWrite("b", WriteRank.BIND, _binding, ended.append))
        await begun.wait()
        assert await queue.hold(5 if is_answered else 0.05) is is_answered
        await asyncio.sleep(0.05)
        await queue.stop()
        assert [ending.result for ending in ended][:1] == ([WriteResult.DONE] if is_answered else [])

    asyncio.run(story())
    assert broken.count("POST") == (not is_answered)
