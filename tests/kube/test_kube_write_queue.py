"""The order of writes, what becomes of those that were refused or not answered, and the lease (spec K7, K13)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

import pytest

from fairway.kube.http.exchange import (
    DONE,
    NO_ANSWER,
    ApiAnswer,
    ApiRequest,
    Ending,
    Script,
    WriteResult,
    again,
    plain_ending,
    refused,
)
from fairway.kube.writing import write_queue
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank

OK = ApiAnswer(200)


class Ended(list[tuple[str, Ending]]):
    """Which writes ended, and how."""


class Server:
    """Answers what it is told to, and remembers what it was asked."""

    def __init__(self, *answers: ApiAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.times: list[float] = []
        self.at_once = 0
        self.most_at_once = 0

    async def send(self, request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        self.asked.append(request.path)
        self.times.append(asyncio.get_running_loop().time())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self.answers.pop(0) if self.answers else OK


def one_request(path: str) -> Script:
    answer = yield ApiRequest("POST", path)
    return plain_ending(answer)


def write(path: str, ended: Ended, *, lane: str = "", rank: WriteRank = WriteRank.BIND) -> QueuedWrite:
    return QueuedWrite(lane or path, rank, lambda: one_request(path), lambda ending: ended.append((path, ending)))


def played(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


def queue_to(server: Server, *, workers: int = 1, may_write: Callable[[], bool] = lambda: True) -> WriteQueue:
    return WriteQueue(server.send, workers=workers, may_write=may_write, random=Random(0))


async def settled(queue: WriteQueue) -> None:
    assert await queue.settle(WriteRank.EVENT, 15)
    await queue.stop()


def test_what_matters_most_goes_first_and_what_came_first_before_its_equals() -> None:
    server, ended = Server(), Ended()

    async def story() -> None:
        queue = queue_to(server)
        for rank in reversed(WriteRank):
            queue.add(write(f"{rank.name}-1", ended, rank=rank))
            queue.add(write(f"{rank.name}-2", ended, rank=rank))
        queue.start()
        await settled(queue)

    played(story)
    assert server.asked == [f"{rank.name}-{number}" for rank in WriteRank for number in (1, 2)]
    assert [ending for _, ending in ended] == [DONE] * 10


def test_writes_to_one_object_go_one_after_the_other_whatever_their_rank() -> None:
    server, ended = Server(), Ended()

    async def story() -> None:
        queue = queue_to(server, workers=8)
        queue.add(write("nominate", ended, lane="pod", rank=WriteRank.RESERVATION))
        queue.add(write("bind", ended, lane="pod", rank=WriteRank.BIND))
        queue.start()
        await settled(queue)

    played(story)
    assert server.asked == ["nominate", "bind"]
    assert server.most_at_once == 1


def test_what_decides_overtakes_what_only_tells_of_the_same_object() -> None:
    """A pod that waited and is bound now: that it waits is not true any more, and must not be written after."""
    server, ended = Server(), Ended()

    async def story() -> None:
        queue = queue_to(server)
        queue.add(write("other", ended, rank=WriteRank.EVICTION))
        queue.add(write("waits", ended, lane="pod", rank=WriteRank.STATUS))
        queue.add(write("why", ended, lane="pod", rank=WriteRank.EVENT))
        queue.add(write("bind", ended, lane="pod", rank=WriteRank.BIND))
        queue.add(write("after", ended, lane="pod", rank=WriteRank.STATUS))
        queue.start()
        await settled(queue)

    played(story)
    assert server.asked == ["bind", "other", "after"]
    assert [name for name, ending in ended if ending.why == "overtaken"] == ["waits", "why"]


def test_an_event_that_is_not_answered_is_given_up() -> None:
    server, ended = Server(NO_ANSWER), Ended()

    async def story() -> None:
        queue = queue_to(server)
        queue.start()
        queue.add(write("event", ended, rank=WriteRank.EVENT))
        await settled(queue)

    played(story)
    assert server.asked == ["event"]
    assert [ending.result for _, ending in ended] == [WriteResult.REFUSED]


def test_workers_write_at_the_same_time_and_no_more_than_there_are() -> None:
    server, ended = Server(), Ended()

    async def story() -> None:
        queue = queue_to(server, workers=4)
        queue.start()
        for number in range(50):
            queue.add(write(str(number), ended))
        await settled(queue)

    played(story)
    assert server.most_at_once == 4
    assert len(ended) == 50


@pytest.mark.parametrize("trouble", [NO_ANSWER, ApiAnswer(500), ApiAnswer(503), ApiAnswer(429, retry_after=0.01)])
def test_K7_a_write_that_is_not_answered_is_made_again_until_it_is(
    trouble: ApiAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.kube.http.exchange.PAUSE", 0.01)
    server, ended = Server(trouble, trouble, trouble), Ended()

    async def story() -> None:
        queue = queue_to(server)
        queue.start()
        queue.add(write("w", ended))
        await settled(queue)

    played(story)
    assert server.asked == ["w"] * 4
    assert ended == [("w", DONE)]


def test_a_failing_write_holds_up_its_own_object_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook that fails for one namespace is answered with 500: the others go on."""
    monkeypatch.setattr("fairway.kube.http.exchange.PAUSE", 0.05)
    server, ended = Server(ApiAnswer(500)), Ended()

    async def story() -> None:
        queue = queue_to(server)
        queue.start()
        queue.add(write("bad", ended))
        queue.add(write("behind", ended, lane="bad"))
        for number in range(3):
            queue.add(write(str(number), ended))
        await settled(queue)

    played(story)
    again = server.asked.index("bad", 1)
    assert server.asked.index("0") < again < server.asked.index("behind")


def test_all_workers_pause_while_a_server_is_in_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairway.kube.http.exchange.PAUSE", 0.01)
    server, ended = Server(*[ApiAnswer(503)] * 3), Ended()

    async def story() -> None:
        queue = queue_to(server, workers=2)
        for number in range(100):
            queue.add(write(str(number), ended))
        queue.start()
        await settled(queue)

    played(story)
    assert len(ended) == 100
    assert server.times[3] - server.times[1] > 0.05, "two were under way when the first pause began"


def test_a_budget_that_forbids_an_eviction_makes_no_other_write_wait() -> None:
    cause = b'{"details": {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 10}}'
    server, ended = Server(ApiAnswer(429, cause, 10.0)), list[Ending]()

    def evict() -> Script:
        yield ApiRequest("POST", "eviction")
        return refused("budget")

    async def story() -> None:
        queue = queue_to(server)
        queue.start()
        queue.add(QueuedWrite("victim", WriteRank.BIND, evict, ended.append))
        queue.add(write("other", Ended()))
        await settled(queue)
        assert server.times[1] - server.times[0] < 5

    played(story)


def test_a_refusal_that_reading_again_will_not_cure_is_held_back() -> None:
    ended: list[Ending] = []
    times: list[float] = []

    def script() -> Script:
        yield ApiRequest("POST", "w")
        times.append(asyncio.get_running_loop().time())
        return refused("forbidden", 0.05)

    def tell(ending: Ending) -> None:
        times.append(asyncio.get_running_loop().time())
        ended.append(ending)

    async def story() -> None:
        queue = queue_to(Server())
        queue.start()
        queue.add(QueuedWrite("w", WriteRank.BIND, script, tell))
        await settled(queue)

    played(story)
    assert [ending.why for ending in ended] == ["forbidden"]
    assert times[1] - times[0] > 0.04


def test_K13_nothing_leaves_after_the_lease_and_what_never_left_is_refused() -> None:
    server, ended = Server(), Ended()

    async def story() -> None:
        queue = queue_to(server, may_write=lambda: False)
        queue.start()
        queue.add(write("w", ended))
        await settled(queue)

    played(story)
    assert server.asked == []
    assert [ending.why for _, ending in ended] == ["this replica is not the leader"]


@pytest.mark.parametrize("was_done", [True, False])
def test_K13_a_write_that_left_before_the_lease_ended_is_looked_at_until_it_is_known(
    was_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "FORGOTTEN", 0.2)
    leads = [True]
    ended: list[Ending] = []
    asked: list[str] = []

    async def send(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        asked.append(request.method)
        leads[0] = False
        return NO_ANSWER if request.method == "POST" or not was_done else OK

    def script() -> Script:
        answer = yield ApiRequest("POST", "w")
        if answer.ok:
            return DONE
        look = yield ApiRequest("GET", "w")
        return DONE if look.ok else again(ApiAnswer(0, retry_after=0.01))

    async def story() -> None:
        queue = WriteQueue(send, workers=1, may_write=lambda: leads[0], random=Random(0))
        queue.start()
        queue.add(QueuedWrite("w", WriteRank.BIND, script, ended.append))
        await settled(queue)

    played(story)
    assert asked.count("POST") == 1
    results: Sequence[WriteResult] = [ending.result for ending in ended]
    assert results == [WriteResult.DONE if was_done else WriteResult.REFUSED]


def test_K13_requests_that_are_under_way_when_the_lease_ends_are_broken_off() -> None:
    leads, ended = [True], Ended()
    broken: list[str] = []
    begun = asyncio.Event()

    async def send(request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            broken.append(request.path)
            raise
        return OK

    async def story() -> None:
        queue = WriteQueue(send, workers=1, may_write=lambda: leads[0], random=Random(0))
        queue.start()
        queue.add(write("w", ended, rank=WriteRank.EVENT))
        await begun.wait()
        leads[0] = False
        queue.abandon()
        await settled(queue)

    played(story)
    assert broken == ["w"]
    assert [ending.result for _, ending in ended] == [WriteResult.REFUSED]


def test_waiting_for_writes_to_end_has_a_limit() -> None:
    async def story() -> None:
        queue = queue_to(Server(*[NO_ANSWER] * 1000))
        queue.start()
        queue.add(write("w", Ended()))
        assert not await queue.settle(WriteRank.BIND, 0.05)
        assert queue.unended() == 1
        await queue.stop()

    played(story)


def test_an_error_of_ours_costs_one_write_and_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that no script foresaw: with each one less, all workers would be gone one day, and nothing said so."""
    monkeypatch.setattr(write_queue, "LONG_PAUSE", 0.0)
    server, ended = Server(), Ended()
    mistakes: list[Exception] = []

    def broken() -> Script:
        yield ApiRequest("POST", "broken")
        raise KeyError("a field that was always there")

    async def story() -> None:
        queue = queue_to(server)
        queue.on_bug = mistakes.append
        queue.add(QueuedWrite("broken", WriteRank.BIND, broken, lambda ending: ended.append(("broken", ending))))
        queue.add(write("good", ended))
        queue.start()
        await settled(queue)

    played(story)
    assert dict(ended)["good"] == DONE
    assert dict(ended)["broken"].result is WriteResult.REFUSED
    assert "KeyError" in dict(ended)["broken"].why
    assert server.asked.count("broken") == len(mistakes) == write_queue.MAX_BUGS
