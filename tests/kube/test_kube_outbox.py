"""Statuses and events on their way out: of statuses the newest, of events not more than fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from fairway.api.kinds import ObjectKey
from fairway.kube.http.exchange import ApiAnswer, ApiRequest
from fairway.kube.requests.statuses import EventWrite, StatusWrite
from fairway.kube.writing.outbox import Outbox
from fairway.kube.writing.write_queue import WriteQueue, WriteRank

POD: ObjectKey = ("Pod", "a", "p")


def status(text: str) -> StatusWrite:
    return StatusWrite(POD, ApiRequest("PATCH", text))


def event(name: str) -> EventWrite:
    return EventWrite(("Event", "a", name), ApiRequest("POST", name))


class Wired:
    """An outbox with a queue to a server that answers with the given statuses, then with 200."""

    def __init__(self, *answers: int, max_events: int = 2) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.failed: list[ObjectKey] = []
        self.queue = WriteQueue(self._send, workers=1, random=Random(0))
        self.outbox = Outbox(
            asyncio.get_running_loop(),
            self.queue,
            self._at_once,
            status_failed=self.failed.append,
            event_failed=self.failed.append,
            max_events=max_events,
        )

    async def _send(self, request: ApiRequest, may_leave: object = None) -> ApiAnswer:
        self.asked.append(request.path)
        return ApiAnswer(self.answers.pop(0) if self.answers else 200, retry_after=0.01)

    def _at_once(self, call: Callable[[], None]) -> None:
        call()

    async def flush(self) -> None:
        await asyncio.sleep(0)
        self.queue.start()
        assert await self.queue.settle(WriteRank.EVENT, 10)
        await self.queue.stop()


def test_only_the_newest_status_of_an_object_leaves() -> None:
    async def story() -> None:
        wired = Wired()
        wired.outbox.statuses([status("one")])
        wired.outbox.statuses([status("two"), status("three")])
        await wired.flush()
        assert wired.asked == ["three"]

    asyncio.run(story())


def test_a_status_that_is_made_again_says_what_it_said_last() -> None:
    async def story() -> None:
        wired = Wired(500)
        wired.outbox.statuses([status("one")])
        wired.outbox.statuses([status("two")])
        await wired.flush()
        assert wired.asked == ["two", "two"]
        assert wired.failed == []

    asyncio.run(story())


def test_who_wrote_a_status_or_an_event_is_told_that_it_was_not_written() -> None:
    async def story() -> None:
        wired = Wired(404, 409)
        wired.outbox.statuses([status("one")])
        assert wired.outbox.events([event("e")]) == 1
        await wired.flush()
        assert wired.failed == [POD, ("Event", "a", "e")]

    asyncio.run(story())


def test_events_beyond_a_number_are_not_taken_until_some_have_left() -> None:
    async def story() -> None:
        wired = Wired()
        assert wired.outbox.events([event(str(number)) for number in range(3)]) == 2
        await wired.flush()
        assert wired.asked == ["0", "1"]
        assert wired.outbox.events([event("later")]) == 1

    asyncio.run(story())


def test_of_events_that_come_together_the_first_are_taken() -> None:
    async def story() -> None:
        wired = Wired()
        assert wired.outbox.events([event("e"), event("f"), event("g")]) == 2
        await wired.flush()
        assert wired.asked == ["e", "f"]

    asyncio.run(story())
