"""Writes that may leave, and which of them is next.

What matters most goes first: binds with their claims, evictions, reservations and nominations, statuses, events. While
bindings are under way, what only tells (statuses and events) waits, though there are workers for it: it would take the
server's time from them. It does not wait long.

A namespace with thousands of pending pods has thousands of statuses and events. Namespaces take turns in them, and only
a few are under way at the same time (`TALKERS`), so that a binding that comes meanwhile does not find the server busy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from enum import IntEnum

from fairway.kube.http.exchange import Ending, Script

TALK_WAIT = 5.0
"""Seconds that statuses and events wait for bindings at most."""
TALKERS, OVERDUE_TALKERS, QUIET_TALKERS = 2, 4, 16
"""Maximum number of statuses and events under way: usually, where they have waited for too long, and where no pod was
bound for `QUIET` seconds. With as many as there are workers, 300 statuses of one namespace delayed the bindings of
others by half a second on a server with two cores.
"""
QUIET = 1.0


class WriteRank(IntEnum):
    """In the order in which writes leave."""

    BIND = 0
    EVICTION = 1
    RESERVATION = 2
    STATUS = 3
    EVENT = 4


class QueuedWrite:
    """One write: how to make its script anew for each try, and what is called when it has ended."""

    __slots__ = ("ended", "is_overtaken", "lane", "last_sent", "rank", "script", "since", "term", "tries")

    def __init__(
        self,
        lane: Hashable,
        rank: WriteRank,
        script: Callable[[], Script],
        ended: Callable[[Ending], None],
        term: int | None = None,
    ) -> None:
        """`term` is the time as the leader in which it was decided; None: it decides nothing."""
        self.lane = lane
        self.rank = rank
        self.script = script
        self.ended = ended
        self.term = term
        self.tries = 0
        self.last_sent: float | None = None
        self.since = 0.0
        """When what only tells became ready."""
        self.is_overtaken = False


class WritesInTurn:
    """Writes of equal rank: the namespaces take turns, and each has its writes in order."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[QueuedWrite]] = {}
        """By namespace; the next one comes first. None of them is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> QueuedWrite:
        assert index == 0, "only the next one is known"
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
    """The namespace of the object that a lane is about, where it is one: lanes are the keys of objects."""
    match lane:
        case (str(), str(namespace), str()):
            return namespace
        case (str(), (str(), str(namespace), str())):
            return namespace
    return ""


class ReadyWrites:
    """See the module. `wake` is told how many writes became ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[int], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._ready: tuple[deque[QueuedWrite] | WritesInTurn, ...] = tuple(
            deque() if rank < WriteRank.STATUS else WritesInTurn() for rank in WriteRank
        )
        """By rank, in the order in which they leave."""
        self._binding = 0
        """Bindings that are under way."""
        self._talking = 0
        """Statuses and events that are under way."""
        self._bound = -QUIET
        """When the last binding was answered."""
        self._look: asyncio.TimerHandle | None = None
        """When what only tells is looked at again, while bindings are under way."""

    def add(self, write: QueuedWrite) -> None:
        """Among its equals in order; one that was tried before goes first, since it came before."""
        equals = self._ready[write.rank]
        if write.tries:
            equals.appendleft(write)
        else:
            equals.append(write)
        if write.rank >= WriteRank.STATUS:
            write.since = write.since or self._loop.time()
            if self._are_binding:
                self._look_at(write.since + TALK_WAIT)
                return
        self._wake(1)

    def next(self) -> QueuedWrite | None:
        """What leaves now."""
        for rank, equals in enumerate(self._ready):
            if equals and (rank < WriteRank.STATUS or self._may_talk(equals[0])):
                return equals.popleft()
        return None

    def leaves(self, write: QueuedWrite) -> None:
        self._binding += write.rank is WriteRank.BIND
        self._talking += write.rank >= WriteRank.STATUS

    def left(self, write: QueuedWrite) -> None:
        """It was answered, or will be tried again later."""
        if write.rank >= WriteRank.STATUS:
            self._talking -= 1
            if self._is_quiet:
                self._talk()
        if write.rank is WriteRank.BIND:
            self._binding -= 1
            self._bound = self._loop.time()
            if not self._are_binding:
                self._talk()

    @property
    def _are_binding(self) -> bool:
        return self._binding > 0 or bool(self._ready[WriteRank.BIND])

    @property
    def _is_quiet(self) -> bool:
        return not self._are_binding and self._loop.time() >= self._bound + QUIET

    def _may_talk(self, write: QueuedWrite) -> bool:
        """Where this is False for the number of others, the worker of one that ends takes the next."""
        due = write.since + TALK_WAIT
        if due <= self._loop.time():
            return self._talking < (QUIET_TALKERS if self._is_quiet else OVERDUE_TALKERS)
        if self._are_binding:
            self._look_at(due)
            return False
        return self._talking < (QUIET_TALKERS if self._is_quiet else TALKERS)

    def _look_at(self, due: float) -> None:
        if self._look is None:
            self._look = self._loop.call_at(due, self._talk)

    def _talk(self) -> None:
        """Bindings have ended, or something has waited for them long enough."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._wake(len(self._ready[WriteRank.STATUS]) + len(self._ready[WriteRank.EVENT]))
