"""`Outbox`: passes statuses and events to the write queue, where they leave after everything that decides.

Only the newest status of each object is kept. Events are kept up to a number; beyond it they are dropped and counted.
Both are submitted on the loop's thread, and failures are reported there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from fairway.api.kinds import ObjectKey
from fairway.kube.http.exchange import Ending, Script, WriteResult
from fairway.kube.requests.statuses import EventWrite, StatusWrite
from fairway.kube.writing.loop_thread import HandOver
from fairway.kube.writing.write_queue import QueuedWrite, WriteQueue, WriteRank

MAX_EVENTS = 10_000
"""Maximum number of events that have not left."""

Failed = Callable[[ObjectKey], None]


class Outbox:
    """`status_failed` and `event_failed` are called with the keys of what was not written."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        queue: WriteQueue,
        hand_over: HandOver,
        *,
        status_failed: Failed,
        event_failed: Failed,
        max_events: int = MAX_EVENTS,
        status_rank: WriteRank = WriteRank.STATUS,
    ) -> None:
        self._loop = loop
        self._queue = queue
        self._hand_over = hand_over
        self._status_failed = status_failed
        self._event_failed = event_failed
        self._max_events = max_events
        self._status_rank = status_rank
        self._statuses: dict[ObjectKey, StatusWrite] = {}
        """The newest of each object that has not left yet; on the asyncio thread."""
        self._events = 0
        """Events that have not ended. Counted on the loop's thread only."""

    # -- on the loop's thread ----------------------------------------------------------------------------------

    def statuses(self, writes: Sequence[StatusWrite]) -> None:
        self._loop.call_soon_threadsafe(self._take_statuses, writes)

    def events(self, writes: Sequence[EventWrite]) -> int:
        """The number of events that were accepted, from the first on."""
        taken = writes[: max(0, self._max_events - self._events)]
        if taken:
            self._events += len(taken)
            self._loop.call_soon_threadsafe(self._take_events, taken)
        return len(taken)

    # -- on the asyncio thread -----------------------------------------------------------------------------------

    def _take_statuses(self, writes: Sequence[StatusWrite]) -> None:
        for write in writes:
            key = write.key
            waits = key in self._statuses
            self._statuses[key] = write
            if not waits:
                ended = partial(self._status_ended, key)
                self._queue.add(QueuedWrite(key, self._status_rank, partial(self._newest, key, [write]), ended))

    def _newest(self, key: ObjectKey, last: list[StatusWrite]) -> Script:
        """The newest status; on a retry without a newer one, the last."""
        last[0] = self._statuses.pop(key, last[0])
        return last[0].script()

    def _status_ended(self, key: ObjectKey, ending: Ending) -> None:
        if ending.result is not WriteResult.DONE:
            self._statuses.pop(key, None)
            self._hand_over(partial(self._status_failed, key))

    def _take_events(self, writes: Sequence[EventWrite]) -> None:
        for write in writes:
            ended = partial(self._event_ended, write.key)
            self._queue.add(QueuedWrite(write.key, WriteRank.EVENT, write.script, ended))

    def _event_ended(self, key: ObjectKey, ending: Ending) -> None:
        self._hand_over(partial(self._count_event, key, ending))

    def _count_event(self, key: ObjectKey, ending: Ending) -> None:
        self._events -= 1
        if ending.result is not WriteResult.DONE:
            self._event_failed(key)
