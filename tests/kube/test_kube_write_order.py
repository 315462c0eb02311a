"""What only tells waits for bindings that are under way: until they end, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from fairway.kube.http.exchange import ApiAnswer, ApiRequest, Script, plain_ending
from fairway.kube.writing import write_queue
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank


class SlowServer:
    """Answers when it is told to: `bind` waits for `go`, all else is answered at once."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.queue = WriteQueue(self.send, workers=8, random=Random(0))

    async def send(self, request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        self.asked.append(request.path)
        if request.path == "BIND":
            await self.go.wait()
            return ApiAnswer(self.statuses.pop(0) if self.statuses else 200, retry_after=0.2)
        return ApiAnswer(200)

    def add(self, rank: WriteRank, number: int = 0) -> None:
        def script() -> Script:
            answer = yield ApiRequest("POST", rank.name)
            return plain_ending(answer)

        self.queue.add(QueuedWrite((rank, number), rank, script, lambda ending: None))

    async def until(self, *asked: str) -> None:
        while self.asked != list(asked):
            await asyncio.sleep(0.005)


def played(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


def test_statuses_and_events_wait_until_no_binding_is_under_way_and_then_leave_together() -> None:
    async def story() -> None:
        server = SlowServer()
        server.queue.start()
        server.add(WriteRank.BIND)
        await server.until("BIND")
        server.add(WriteRank.EVENT)
        server.add(WriteRank.STATUS, 1)
        server.add(WriteRank.STATUS, 2)
        server.add(WriteRank.EVICTION)
        await server.until("BIND", "EVICTION")
        await asyncio.sleep(0.05)
        assert server.asked == ["BIND", "EVICTION"]
        server.go.set()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        assert server.asked == ["BIND", "EVICTION", "STATUS", "STATUS", "EVENT"]
        await server.queue.stop()

    played(story)


def test_a_binding_that_takes_long_does_not_hold_them_up_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "REPORT_DELAY", 0.05)

    async def story() -> None:
        server = SlowServer()
        server.queue.start()
        server.add(WriteRank.BIND)
        await server.until("BIND")
        for number in range(3):
            server.add(WriteRank.EVENT, number)
            await asyncio.sleep(0.02)
        await server.until("BIND", "EVENT", "EVENT", "EVENT")
        server.go.set()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        await server.queue.stop()

    played(story)


def test_a_binding_that_waits_for_another_try_holds_nothing_up() -> None:
    async def story() -> None:
        server = SlowServer(500)
        server.go.set()
        server.queue.start()
        server.add(WriteRank.BIND)
        await server.until("BIND")
        server.add(WriteRank.STATUS)
        await server.until("BIND", "STATUS", "BIND")
        assert await server.queue.settle(WriteRank.EVENT, 10)
        await server.queue.stop()

    played(story)


class HeldServer:
    """Answers bindings at once, and all else as often as `answer` says."""

    def __init__(self) -> None:
        self._answers = asyncio.Semaphore(0)
        self.asked: list[str] = []
        self.queue = WriteQueue(self.send, workers=32, random=Random(0))

    async def send(self, request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        self.asked.append(request.path)
        if request.path != "BIND":
            await self._answers.acquire()
        return ApiAnswer(200)

    def answer(self, number: int = 1000) -> None:
        for _ in range(number):
            self._answers.release()

    def add(self, rank: WriteRank, namespace: str, number: int) -> None:
        path = "BIND" if rank is WriteRank.BIND else namespace

        def script() -> Script:
            answer = yield ApiRequest("POST", path)
            return plain_ending(answer)

        self.queue.add(QueuedWrite(("Pod", namespace, f"{rank.name}-{number}"), rank, script, lambda ending: None))


def test_few_statuses_and_events_are_under_way_while_pods_are_bound() -> None:
    async def story() -> None:
        server = HeldServer()
        server.queue.start()
        server.add(WriteRank.BIND, "good", 0)
        await asyncio.sleep(0.02)
        for number in range(100):
            server.add(WriteRank.STATUS, "hostile", number)
            server.add(WriteRank.EVENT, "hostile", number)
        await asyncio.sleep(0.05)
        assert server.asked == ["BIND", *["hostile"] * write_queue.MAX_REPORTS]
        server.add(WriteRank.BIND, "good", 1)
        await asyncio.sleep(0.05)
        assert server.asked[-1] == "BIND", "a binding needs no turn"
        server.answer()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        assert len(server.asked) == 202
        await server.queue.stop()

    played(story)


def test_more_are_under_way_where_no_pod_was_bound_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "QUIET", 0.05)

    async def story() -> None:
        server = HeldServer()
        server.queue.start()
        await asyncio.sleep(0)  # the workers wait
        for number in range(100):
            server.add(WriteRank.STATUS, "some", number)
        await asyncio.sleep(0.02)
        assert len(server.asked) == write_queue.MAX_QUIET_REPORTS
        server.answer()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        assert len(server.asked) == 100
        await server.queue.stop()

    played(story)


def test_many_are_under_way_again_after_the_last_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one that ends, others leave as well as the next."""
    monkeypatch.setattr(write_queue, "QUIET", 0.05)

    async def story() -> None:
        server = HeldServer()
        server.queue.start()
        server.add(WriteRank.BIND, "good", 0)
        await asyncio.sleep(0.01)
        for number in range(100):
            server.add(WriteRank.STATUS, "some", number)
        await asyncio.sleep(0.1)
        assert len(server.asked) == 1 + write_queue.MAX_REPORTS
        server.answer(1)
        await asyncio.sleep(0.05)
        assert server.queue.in_flight == write_queue.MAX_QUIET_REPORTS
        server.answer()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        await server.queue.stop()

    played(story)


def test_namespaces_take_turns_in_statuses() -> None:
    async def story() -> None:
        server = HeldServer()
        server.answer()
        for number in range(50):
            server.add(WriteRank.STATUS, "hostile", number)
        for number in range(2):
            server.add(WriteRank.STATUS, "good", number)
        server.queue.start()
        assert await server.queue.settle(WriteRank.EVENT, 10)
        assert server.asked[:4] == ["hostile", "good", "hostile", "good"]
        assert server.asked[4:] == ["hostile"] * 48
        await server.queue.stop()

    played(story)
