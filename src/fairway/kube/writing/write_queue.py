"""`WriteQueue`: writes to one server, in their order, by a fixed number of workers. It lives on the asyncio thread.

The most important writes leave first: binds with their claims, evictions, reservations and nominations, statuses,
events. Writes to one object (a *lane*) leave one after the other, whatever their rank. A write ends by evidence only:
its script says that it was done, or that it was refused; until then it is retried. While the server does not answer, or
asks for time, all workers pause together, so that each of them does not press a server in trouble.

**Binds before reports.** Statuses and events (`REPORTS`) only describe what was decided. While binds are in flight they
wait, though workers are idle: they would take the server's time from the binds. They do not wait for longer than
`REPORT_DELAY`. A namespace with thousands of pending pods has thousands of them, so namespaces take turns, and only a
few are in flight at a time (`MAX_REPORTS`): a bind that comes next must not find the server busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from enum import IntEnum
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
    Script,
    WriteResult,
    is_budget_refusal,
    perform,
)

REPORT_DELAY = 5.0
"""Seconds that statuses and events wait for binds at most."""
MAX_REPORTS, MAX_OVERDUE_REPORTS, MAX_QUIET_REPORTS = 2, 4, 16
"""Maximum number of statuses and events in flight: usually, after `REPORT_DELAY`, and when no pod was bound for `QUIET`
seconds. With as many as there are workers, 300 statuses of one namespace delayed the binds of others by half a second
on a server with two cores.
"""
QUIET = 1.0
"""Seconds without a bind after which reports may use most of the workers."""


class WriteRank(IntEnum):
    """In the order in which writes leave. From `STATUS` on they are reports: they decide nothing."""

    BIND = 0
    EVICTION = 1
    RESERVATION = 2
    STATUS = 3
    EVENT = 4


class QueuedWrite:
    """One write: `script` makes a new script for each attempt; `ended` is called once, at its end."""

    __slots__ = ("ended", "is_overtaken", "lane", "last_sent", "rank", "script", "since", "term", "tries")

    def __init__(
        self,
        lane: Hashable,
        rank: WriteRank,
        script: Callable[[], Script],
        ended: Callable[[Ending], None],
        term: int | None = None,
    ) -> None:
        """`term` is the leader's term in which it was decided; None: it decides nothing."""
        self.lane = lane
        self.rank = rank
        self.script = script
        self.ended = ended
        self.term = term
        self.tries = 0
        self.last_sent: float | None = None
        self.since = 0.0
        """When a report became ready."""
        self.is_overtaken = False


class _NamespaceTurns:
    """Writes of equal rank, with the interface of a deque: namespaces take turns, and each has its writes in order."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[QueuedWrite]] = {}
        """By namespace, the next one first. None of them is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> QueuedWrite:
        assert index == 0, "only the next write is accessible"
        return next(iter(self._queues.values()))[0]

    def append(self, write: QueuedWrite) -> None:
        self._queues.setdefault(_namespace(write.lane), deque()).append(write)
        self._count += 1

    def appendleft(self, write: QueuedWrite) -> None:
        self._queues.setdefault(_namespace(write.lane), deque()).appendleft(write)
        self._count += 1

    def popleft(self) -> QueuedWrite:
        namespace = next(iter(self._queues))
        queue = self._queues.pop(namespace)
        write = queue.popleft()
        if queue:
            self._queues[namespace] = queue  # behind the others
        self._count -= 1
        return write


def _namespace(lane: Hashable) -> str:
    """The namespace of a lane: lanes are keys of objects, or tuples with one."""
    match lane:
        case (str(), str(namespace), str()):
            return namespace
        case (str(), (str(), str(namespace), str())):
            return namespace
    return ""


class ReadyWrites:
    """Writes that may leave, and which is next. `wake` is called with the number of writes that became ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[int], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._ready: tuple[deque[QueuedWrite] | _NamespaceTurns, ...] = tuple(
            deque() if rank < WriteRank.STATUS else _NamespaceTurns() for rank in WriteRank
        )
        """By rank, in the order in which they leave."""
        self._binds = 0
        """Binds in flight."""
        self._reports = 0
        """Statuses and events in flight."""
        self._bound = -QUIET
        """When the last bind was answered."""
        self._look: asyncio.TimerHandle | None = None
        """When reports are checked again, while binds are in flight."""

    def add(self, write: QueuedWrite) -> None:
        """In order among its rank; a retry goes first, since it came before."""
        equals = self._ready[write.rank]
        if write.tries:
            equals.appendleft(write)
        else:
            equals.append(write)
        if write.rank >= WriteRank.STATUS:
            write.since = write.since or self._loop.time()
            if self._has_binds:
                self._look_at(write.since + REPORT_DELAY)
                return
        self._wake(1)

    def next(self) -> QueuedWrite | None:
        """The write that leaves now; None if none may."""
        for rank, equals in enumerate(self._ready):
            if equals and (rank < WriteRank.STATUS or self._may_report(equals[0])):
                return equals.popleft()
        return None

    def leaves(self, write: QueuedWrite) -> None:
        self._binds += write.rank is WriteRank.BIND
        self._reports += write.rank >= WriteRank.STATUS

    def left(self, write: QueuedWrite) -> None:
        """It was answered, or will be retried later."""
        if write.rank >= WriteRank.STATUS:
            self._reports -= 1
            if self._is_quiet:
                self._wake_reports()
        if write.rank is WriteRank.BIND:
            self._binds -= 1
            self._bound = self._loop.time()
            if not self._has_binds:
                self._wake_reports()

    @property
    def _has_binds(self) -> bool:
        return self._binds > 0 or bool(self._ready[WriteRank.BIND])

    @property
    def _is_quiet(self) -> bool:
        return not self._has_binds and self._loop.time() >= self._bound + QUIET

    def _may_report(self, write: QueuedWrite) -> bool:
        """Whether a status or event may leave now. If there are too many in flight, nothing has to wake it: the worker
        of one that ends takes the next.
        """
        due = write.since + REPORT_DELAY
        if due <= self._loop.time():
            return self._reports < (MAX_QUIET_REPORTS if self._is_quiet else MAX_OVERDUE_REPORTS)
        if self._has_binds:
            self._look_at(due)
            return False
        return self._reports < (MAX_QUIET_REPORTS if self._is_quiet else MAX_REPORTS)

    def _look_at(self, due: float) -> None:
        if self._look is None:
            self._look = self._loop.call_at(due, self._wake_reports)

    def _wake_reports(self) -> None:
        """The binds have ended, or a report has waited for them long enough."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._wake(len(self._ready[WriteRank.STATUS]) + len(self._ready[WriteRank.EVENT]))


# -- the queue ---------------------------------------------------------------------------------------------------------


WORKERS = 32
MAX_PAUSE = 5.0
"""Maximum number of seconds that all workers pause while the server does not answer."""
MAX_RETRY_WAIT = 10.0
MAX_BUGS = 3
"""Attempts of a write whose script raises."""
FORGOTTEN = 60.0
"""Seconds after which no request of ours can still arrive: twice the time limit of one."""


class WriteQueue:
    """Writes to one server, by priority and by lane."""

    def __init__(
        self,
        send: GuardedSender,
        *,
        may_write: Callable[[], bool] = lambda: True,
        term: Callable[[], int] = lambda: 0,
        workers: int = WORKERS,
        random: Random | None = None,
    ) -> None:
        """`may_write` is called before each request that changes something, when its bytes leave (spec K13). `term`
        counts how often this replica became the leader: a write that was decided in an earlier term is not sent, since
        another replica may have allocated the same capacity meanwhile.
        """
        self._loop = asyncio.get_running_loop()
        self._send = send
        self._may_write = may_write
        self._term = term
        self._holds = False
        self._count = workers
        self._random = random or Random()
        self._pause = Backoff(self._random, longest=MAX_PAUSE)
        self._resume_at = 0.0
        self._ready = ReadyWrites(self._loop, self._wake)
        self._first: dict[Hashable, QueuedWrite] = {}
        """The first write of each lane: ready, in flight, or waiting for a retry."""
        self._behind: dict[Hashable, deque[QueuedWrite]] = {}
        """The writes behind it, if there are any."""
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._unended = dict.fromkeys(WriteRank, 0)
        self._sending: set[asyncio.Task[Any]] = set()
        """Workers with a request in flight that changes something."""
        self._calm = asyncio.Event()
        self._calm.set()
        self.in_flight = 0
        self.on_request: Callable[[ApiRequest, ApiAnswer, float], None] | None = None
        """Called with each request, its answer and the seconds it took."""
        self.on_bug: Callable[[Exception], None] = lambda error: None
        """Called with errors that only a bug in this program explains."""

    def start(self) -> None:
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._count)]

    async def stop(self) -> None:
        """Does not wait for writes: `settle` does."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def unended(self, up_to: WriteRank = WriteRank.EVENT) -> int:
        """Number of writes of these ranks that have not ended."""
        return sum(number for rank, number in self._unended.items() if rank <= up_to)

    async def settle(self, up_to: WriteRank, seconds: float) -> bool:
        """Wait until all writes of these ranks have ended; False if some have not after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self.unended(up_to):
                    self._calm.clear()
                    await self._calm.wait()
        except TimeoutError:
            return False
        return True

    async def hold(self, seconds: float) -> bool:
        """Send nothing more, and wait until all requests are answered; False if one is not after so many seconds: it
        may still arrive, so the lease must not be released.
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
        """A write that decides does not wait behind reports about its object, and makes them outdated."""
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
        """Wake workers for so many ready writes."""
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
        if not self._may_send(write) and self._is_forgotten(write):
            self._end(write, Ending(WriteResult.REFUSED, "this replica is not the leader"))
            return
        write.tries += 1
        self.in_flight += 1
        self._ready.leaves(write)
        try:
            ending = await perform(write.script(), partial(self._checked_send, write, worker))
        except Exception as error:  # a bug must cost this write, and not one of the workers
            ending = self._after_bug(write, error)
        finally:
            self.in_flight -= 1
            self._ready.left(write)
        if ending.result is WriteResult.AGAIN and write.rank is WriteRank.EVENT:
            self._end(write, Ending(WriteResult.REFUSED, ending.why))  # events are not worth a retry
        elif ending.result is WriteResult.AGAIN:
            wait = max(ending.wait, min(MAX_RETRY_WAIT, 0.1 * 2 ** min(write.tries, 10)) * self._random.random())
            self._loop.call_later(wait, self._ready.add, write)
        elif ending.result is WriteResult.REFUSED and ending.wait > 0:
            self._loop.call_later(ending.wait, self._end, write, ending)
        else:
            self._end(write, ending)

    def _after_bug(self, write: QueuedWrite, error: Exception) -> Ending:
        """An answer that no script expects leaves the outcome of the write unknown: it is retried a few times."""
        self.on_bug(error)
        why = f"this is an error in Fairway, please report it: {type(error).__name__}: {error}"
        return Ending(WriteResult.AGAIN if write.tries < MAX_BUGS else WriteResult.REFUSED, why, LONG_PAUSE)

    def _may_send(self, write: QueuedWrite) -> bool:
        return (write.term is None or write.term == self._term()) and not self._holds and self._may_write()

    def _is_forgotten(self, write: QueuedWrite) -> bool:
        """Whether a write that may no longer be sent cannot arrive either: it never left, or it left so long ago that
        what was read since shows its outcome.
        """
        now = self._loop.time()
        if write.last_sent is None:
            return True
        return now - write.last_sent > FORGOTTEN

    async def _checked_send(self, write: QueuedWrite, worker: asyncio.Task[Any], request: ApiRequest) -> ApiAnswer:
        """A request after the lease has expired is not sent; to the script it looks like one without an answer, and it
        reads the object.
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
            return NO_ANSWER  # cancelled by `abandon`, which removed it from `_sending`, and by nothing else
        finally:
            self._sending.discard(worker)
            if not self._sending:
                self._calm.set()

    def abandon(self) -> None:
        """The lease has expired: requests in flight are cancelled and their connections closed, so that what has not
        arrived by now does not arrive under another leader.
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
    """Whether the server as a whole needs a pause. A 500 may concern one object only, and so may a 429: a webhook that
    fails for one namespace, or a budget that forbids an eviction, must not slow the others.
    """
    busy = answer.status == 429 and answer.retry_after is not None and not is_budget_refusal(answer)
    return busy or answer.status in (0, 503)
