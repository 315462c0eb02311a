"""`WriteQueue`: writes to one server, in their order, by a fixed number of workers. It lives on the asyncio thread.

What matters most goes first: binds with their claims, evictions, reservations and nominations, statuses, events. Writes
to one object (a *lane*) go one after the other, whatever their rank. A write ends by evidence only: its script says
that it was done, or that it was refused; until then it is tried again. While the server does not answer, or asks for
time, all workers pause together, so that a server in trouble is not asked by each of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import Any

from fairway.kube.http.exchange import (
    LONG_PAUSE,
    NO_ANSWER,
    ApiAnswer,
    ApiRequest,
    Backoff,
    Ending,
    GuardedSender,
    WriteResult,
    is_budget_refusal,
    perform,
)
from fairway.kube.writing.ready_writes import QueuedWrite, ReadyWrites, WriteRank

WORKERS = 32
LONGEST_PAUSE = 5.0
"""Seconds that all workers wait at most while the server does not answer."""
LONGEST_RETRY = 10.0
MOST_MISTAKES = 3
FORGOTTEN = 60.0
"""Seconds after which no request of ours can still be on its way: twice the time limit of one."""


class WriteQueue:
    """See the module."""

    def __init__(
        self,
        send: GuardedSender,
        *,
        may_write: Callable[[], bool] = lambda: True,
        term: Callable[[], int] = lambda: 0,
        workers: int = WORKERS,
        random: Random | None = None,
    ) -> None:
        """`may_write` is called before each request that changes something, when its bytes leave (spec K13).
        `term` counts the times that this replica became the leader: what was decided in an earlier one is not sent,
        since another replica may have given away meanwhile what it takes.
        """
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._may_write = may_write
        self._term = term
        self._holds = False
        self._count = workers
        self._random = random or Random()
        self._pause = Backoff(self._random, longest=LONGEST_PAUSE)
        self._resume_at = 0.0
        self._ready = ReadyWrites(self._loop, self._wake)
        self._first: dict[Hashable, QueuedWrite] = {}
        """Of each lane the write that is ready, under way or waiting for another try."""
        self._behind: dict[Hashable, deque[QueuedWrite]] = {}
        """The writes behind that one, where there are any."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._unended = dict.fromkeys(WriteRank, 0)
        self._sending: set[asyncio.Task[Any]] = set()
        """Workers whose request is under way and changes something."""
        self._calm = asyncio.Event()
        self._calm.set()
        self.in_flight = 0
        self.on_request: Callable[[ApiRequest, ApiAnswer, float], None] | None = None
        """Is told of each request, its answer and the seconds it took."""
        self.on_mistake: Callable[[Exception], None] = lambda error: None
        """Is told of errors that only a mistake in this program explains."""

    def start(self) -> None:
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._count)]

    async def stop(self) -> None:
        """Without waiting for anything: see `settle`."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def unended(self, up_to: WriteRank = WriteRank.EVENT) -> int:
        """Writes that have not ended yet, of these ranks."""
        return sum(number for rank, number in self._unended.items() if rank <= up_to)

    async def settle(self, up_to: WriteRank, seconds: float) -> bool:
        """Wait until no write of these ranks is left; False if some are after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self.unended(up_to):
                    self._calm.clear()
                    await self._calm.wait()
        except TimeoutError:
            return False
        return True

    async def hold(self, seconds: float) -> bool:
        """Send nothing any more, and wait until what has left is answered; False if something is not after so many
        seconds: it may still arrive, so no other replica may be asked to begin.
        """
        self._holds = True
        try:
            async with asyncio.timeout(seconds):
                while self._sending:
                    self._calm.clear()
                    await self._calm.wait()
        except TimeoutError:
            self.abandon()
            return False
        return True

    def add(self, write: QueuedWrite) -> None:
        self._unended[write.rank] += 1
        lane = write.lane
        if lane in self._first and write.rank < WriteRank.STATUS:
            self._overtake(lane)
        if lane in self._first:
            self._behind.setdefault(lane, deque()).append(write)
        else:
            self._first[lane] = write
            self._ready.add(write)

    def _overtake(self, lane: Hashable) -> None:
        """What decides something does not wait behind what only tells, and makes it untrue."""
        writes = [self._first.pop(lane), *self._behind.pop(lane, ())]
        overtaken = [write for write in writes if write.rank >= WriteRank.STATUS and not write.tries]
        left = [write for write in writes if write not in overtaken]
        if left:
            self._first[lane] = left[0]
            if len(left) > 1:
                self._behind[lane] = deque(left[1:])
            if left[0] is not writes[0]:
                self._ready.add(left[0])
        for write in overtaken:
            write.is_overtaken = True
            self._unended[write.rank] -= 1
            write.ended(Ending(WriteResult.REFUSED, "overtaken"))

    # -- workers ---------------------------------------------------------------------------------------------

    def _wake(self, number: int) -> None:
        """So many writes are ready."""
        while number and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                number -= 1

    async def _work(self) -> None:
        loop = self._loop
        worker = asyncio.current_task()
        assert worker is not None
        while True:
            if self._resume_at:
                wait = self._resume_at - loop.time()
                if wait > 0:
                    await asyncio.sleep(wait)
                    continue
                self._resume_at = 0.0
            write = self._ready.next()
            if write is None:
                waiter = loop.create_future()
                self._idle.append(waiter)
                await waiter
            elif not write.is_overtaken:
                await self._perform(write, worker)

    async def _perform(self, write: QueuedWrite, worker: asyncio.Task[Any]) -> None:
        if not self._may_send(write) and self._has_no_hope(write):
            self._end(write, Ending(WriteResult.REFUSED, "this replica is not the leader"))
            return
        write.tries += 1
        self.in_flight += 1
        self._ready.leaves(write)
        try:
            ending = await perform(write.script(), partial(self._checked_send, write, worker))
        except Exception as error:  # a mistake of ours must cost this write, and not one of the workers
            ending = self._mistaken(write, error)
        finally:
            self.in_flight -= 1
            self._ready.left(write)
        if ending.result is WriteResult.AGAIN and write.rank is WriteRank.EVENT:
            self._end(write, Ending(WriteResult.REFUSED, ending.why))  # events are not worth a second try
        elif ending.result is WriteResult.AGAIN:
            wait = max(ending.wait, min(LONGEST_RETRY, 0.1 * 2 ** min(write.tries, 10)) * self._random.random())
            self._loop.call_later(wait, self._ready.add, write)
        elif ending.result is WriteResult.REFUSED and ending.wait > 0:
            self._loop.call_later(ending.wait, self._end, write, ending)
        else:
            self._end(write, ending)

    def _mistaken(self, write: QueuedWrite, error: Exception) -> Ending:
        """Some answer was not foreseen, and it is not known what became of the write: a few times it is tried again."""
        self.on_mistake(error)
        why = f"this is an error in Fairway, please report it: {type(error).__name__}: {error}"
        return Ending(WriteResult.AGAIN if write.tries < MOST_MISTAKES else WriteResult.REFUSED, why, LONG_PAUSE)

    def _may_send(self, write: QueuedWrite) -> bool:
        return (write.term is None or write.term == self._term()) and not self._holds and self._may_write()

    def _has_no_hope(self, write: QueuedWrite) -> bool:
        """Whether a write that may no longer be sent is not under way either: it never left, or it left so long ago
        that what was read since is what became of it.
        """
        now = self._loop.time()
        if write.last_sent is None:
            return True
        return now - write.last_sent > FORGOTTEN

    async def _checked_send(self, write: QueuedWrite, worker: asyncio.Task[Any], request: ApiRequest) -> ApiAnswer:
        """A request that would come after the lease has expired is not sent; the script takes it for one that was not
        answered, and looks at what is there.
        """
        clock = self._loop.time
        begin = clock()
        if request.method == "GET":
            answer = await self._send(request, None)
        else:
            if not self._may_send(write):
                return NO_ANSWER
            write.last_sent = begin
            answer = await self._send_while_leading(write, worker, request)
        if self.on_request is not None:
            self.on_request(request, answer, clock() - begin)
        if answer.ok:
            self._pause.reset()
        elif _is_in_trouble(answer):
            self._resume_at = max(self._resume_at, clock() + self._pause.next(answer.retry_after))
        return answer

    async def _send_while_leading(
        self, write: QueuedWrite, worker: asyncio.Task[Any], request: ApiRequest
    ) -> ApiAnswer:
        self._sending.add(worker)
        try:
            return await self._send(request, partial(self._may_send, write))
        except asyncio.CancelledError:
            if worker in self._sending or worker.uncancel():
                raise
            return NO_ANSWER  # it was `abandon`, which has taken it out, and nothing else
        finally:
            self._sending.discard(worker)
            if not self._sending:
                self._calm.set()

    def abandon(self) -> None:
        """The lease is over: requests that are under way are broken off and their connections closed, so that what has
        not arrived by now does not arrive under another leader.
        """
        sending, self._sending = self._sending, set()
        for task in sending:
            task.cancel()

    def _end(self, write: QueuedWrite, ending: Ending) -> None:
        self._unended[write.rank] -= 1
        behind = self._behind.get(write.lane)
        if behind:
            following = self._first[write.lane] = behind.popleft()
            self._ready.add(following)
        else:
            del self._first[write.lane]
            self._behind.pop(write.lane, None)
        self._calm.set()
        write.ended(ending)


def _is_in_trouble(answer: ApiAnswer) -> bool:
    """Whether the server as a whole asks for a pause. A 500 may be about one object only, and so may a 429: a webhook
    that fails for one namespace, or a budget that forbids an eviction, must not slow the others.
    """
    busy = answer.status == 429 and answer.retry_after is not None and not is_budget_refusal(answer)
    return busy or answer.status in (0, 503)
