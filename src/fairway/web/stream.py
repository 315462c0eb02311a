"""`EventHub`: sends every client what changed, as server-sent events that can be resumed.

Differences between two pictures are worked out once, on a thread of the hub, and written once for all clients that may
see the same. Each client has a short queue: one that does not keep up is dropped, and none waits for it. The last
deltas are kept, so that a client that reconnects gets what it missed.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TypeVar

import msgspec

from fairway.app.view.models.jobs import JobSummary
from fairway.app.view.models.session import (
    BehindEvent,
    DeltaEvent,
    GoodbyeEvent,
    HelloEvent,
    ResetEvent,
    StreamEvent,
    ViewName,
)
from fairway.app.view.picture import Picture
from fairway.app.view.watch import ClusterWatch
from fairway.web.asking import RequestRefusedError, Viewer
from fairway.web.concealing import conceal, summary_for

T = TypeVar("T")

MAX_CLIENTS = 400
MAX_OF_ONE = 50
"""Maximum number of clients per user, where there are several users."""
RECHECK = 15.0
"""Seconds after which the rights of a client with a token of the cluster are asked for again. What the API server said
is believed for a while (`cluster_access.KEPT`), so a right that was taken ends after both together."""
LONGEST = 600.0
"""Seconds after which such a client has to reconnect in any case."""
KEPT = 256
"""Number of deltas kept for clients that reconnect."""
WAITING = 32
"""Maximum number of queued events per client."""
MAX_JOBS = 200
MAX_FEED = 100
HEARTBEAT = 15.0
"""Seconds without an event before a comment is sent, so that proxies keep the connection open."""
TURN = 1.0
RIGHTS_ENDED = "your permissions have changed; sign in again"
UNAVAILABLE = 503

Rights = Callable[[], Awaitable[Viewer]]
"""The user of a client and its current permissions. Raises RequestRefusedError if the token or session has ended."""


class _Client:
    def __init__(self, viewer: Viewer, rights: Rights | None) -> None:
        self.viewer = viewer
        self.rights = rights
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self.reason = ""
        self.task: asyncio.Task[object] | None = None


class EventHub:
    """Sends events to all clients. Methods run on the event loop's thread."""

    def __init__(self, watch: ClusterWatch, behind: Callable[[], str | None] = lambda: None) -> None:
        """`behind` returns how far the page is behind."""
        self._watch = watch
        self._behind = behind
        self._text_behind: str | None = None
        self._clients: dict[_Client, None] = {}
        """Kept deltas, the oldest first."""
        self._deltas: deque[tuple[int, DeltaEvent]] = deque(maxlen=KEPT)
        self._run = secrets.token_hex(4)
        """Distinguishes ids of this run of the server from those of another."""
        self._number = 0
        self._stopped = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.dropped = 0

    @property
    def clients(self) -> int:
        return len(self._clients)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        Thread(target=self._follow, name="events", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        for client in list(self._clients):
            self._drop(client, "the server ends")

    # -- on the hub's thread ---------------------------------------------------------------------------------------

    def _follow(self) -> None:
        assert self._loop is not None
        last, looked = self._watch.picture, 0.0
        while not self._stopped.is_set():
            is_new = self._watch.wait(last.revision, TURN)
            if time.monotonic() >= looked + TURN:  # also where no picture comes: that may be what there is to tell
                looked = time.monotonic()
                if not self._call(self._tell_behind, self._behind()):
                    return
            if not is_new:
                continue
            newest = self._watch.picture
            if newest.revision == last.revision:
                self._stopped.wait(TURN)
                continue
            try:
                found, last = delta(last, newest), newest
            except Exception as error:
                self._watch.failed(error)
                last = newest
                continue
            if not self._call(self._publish, found):
                return

    def _call(self, method: Callable[[T], None], argument: T) -> bool:
        """Calls on the event loop's thread; False if the loop is closed."""
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(method, argument)
        except RuntimeError:
            return False
        return True

    # -- on the event loop's thread --------------------------------------------------------------------------------

    def _publish(self, found: DeltaEvent) -> None:
        self._number += 1
        self._deltas.append((self._number, found))
        written: dict[Viewer, bytes] = {}
        for client in list(self._clients):
            kind = client.viewer._replace(name="", token="")
            if kind not in written:
                written[kind] = self._delta(found, self._number, kind)
            try:
                client.queue.put_nowait(written[kind])
            except asyncio.QueueFull:
                self.dropped += 1
                self._drop(client, "events were read too slowly")

    def _tell_behind(self, text: str | None) -> None:
        """Not a delta: a client that reconnects gets the newest text only."""
        if text == self._text_behind:
            return
        self._text_behind = text
        written = self._text(BehindEvent(text), self._number)
        for client in list(self._clients):
            with suppress(asyncio.QueueFull):  # it is about to be dropped, and told when it reconnects
                client.queue.put_nowait(written)

    def _drop(self, client: _Client, reason: str) -> None:
        self._clients.pop(client, None)
        client.reason = reason
        if client.queue.full() and client.task is not None:
            client.task.cancel()  # it waits for a client that does not read
        else:
            client.queue.put_nowait(None)

    def connect(self, viewer: Viewer, last_id: str | None, rights: Rights | None = None) -> AsyncIterator[bytes]:
        """All events for a client, beginning with those that it missed. Raises RequestRefusedError if there are too
        many clients. With `rights`, the stream ends when the user loses a permission.
        """
        if viewer.token and sum(one.viewer.name == viewer.name for one in self._clients) >= MAX_OF_ONE:
            raise RequestRefusedError(429, f"{MAX_OF_ONE} of your clients follow the events already")
        if len(self._clients) >= MAX_CLIENTS:
            self._make_room(viewer.name)
        client = _Client(viewer, rights)
        picture = self._watch.picture
        missed = self._missed(last_id)
        first: list[bytes] = []
        if missed is None and last_id:
            first.append(self._text(ResetEvent(picture.revision, picture.now), self._number))
        else:
            hello = HelloEvent(picture.revision, picture.now, resumed=missed is not None)
            first.append(self._text(hello, self._number if missed is None or not missed else missed[0][0] - 1))
        first += [self._delta(found, number, viewer) for number, found in missed or ()]
        if self._text_behind is not None:
            first.append(self._text(BehindEvent(self._text_behind), self._number))
        self._clients[client] = None
        return self._events(client, first)

    def _make_room(self, user: str) -> None:
        """Disconnects a client of the user with the most, for a user with fewer; else raises RequestRefusedError."""
        numbers = Counter(client.viewer.name for client in self._clients)
        largest, number = numbers.most_common(1)[0]
        if number <= numbers[user] + 1:
            raise RequestRefusedError(503, "too many clients follow the events; try again later")
        victim = next(client for client in self._clients if client.viewer.name == largest)
        self._drop(victim, "disconnected for a user with fewer clients")

    async def _may_go_on(self, client: _Client) -> bool:
        """Whether the client may still see all that it saw; what it may see besides, it sees from now on. An API server
        that cannot be asked takes nothing: what it said last counts until the client connects again.
        """
        assert client.rights is not None
        try:
            now = await client.rights()
        except RequestRefusedError as refused:
            return refused.status == UNAVAILABLE
        if now.name != client.viewer.name or not _includes(now, client.viewer):
            return False
        client.viewer = now
        return True

    async def _events(self, client: _Client, first: list[bytes]) -> AsyncIterator[bytes]:
        client.task = asyncio.current_task()
        of_cluster = bool(client.viewer.token)
        end = time.monotonic() + LONGEST if of_cluster else math.inf
        check = time.monotonic() + RECHECK if of_cluster and client.rights is not None else math.inf
        try:
            yield b"".join(first)
            while True:
                if time.monotonic() > end:
                    yield self._text(GoodbyeEvent("your permissions are checked again"), self._number)
                    return
                if time.monotonic() >= check:
                    if not await self._may_go_on(client):
                        yield self._text(GoodbyeEvent(RIGHTS_ENDED), self._number)
                        return
                    check = time.monotonic() + RECHECK
                try:
                    async with asyncio.timeout(max(0.0, min(HEARTBEAT, check - time.monotonic()))):
                        text = await client.queue.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if text is None:
                    yield self._text(GoodbyeEvent(client.reason), self._number)
                    return
                yield text
        finally:
            self._clients.pop(client, None)

    def _missed(self, last_id: str | None) -> list[tuple[int, DeltaEvent]] | None:
        """The deltas after an id; None if they are no longer kept."""
        run, _, number = (last_id or "").partition("-")
        if run != self._run or not number.isascii() or not number.isdecimal() or len(number) > 15:
            return None
        last = int(number)
        first = self._deltas[0][0] if self._deltas else self._number + 1
        if last > self._number or last < first - 1:
            return None
        return [(each, found) for each, found in self._deltas if each > last]

    def _delta(self, found: DeltaEvent, number: int, viewer: Viewer) -> bytes:
        return conceal(self._text(visible(found, viewer, self._watch.picture), number), viewer, self._watch.namespaces)

    def _text(self, event: StreamEvent, number: int) -> bytes:
        kind = type(event).__struct_config__.tag
        return f"id: {self._run}-{number}\nevent: {kind}\ndata: ".encode() + msgspec.json.encode(event) + b"\n\n"


def _includes(now: Viewer, before: Viewer) -> bool:
    """Whether no permission was lost."""
    if before.nodes > now.nodes or before.queues > now.queues:
        return False
    return now.namespaces is None or (before.namespaces is not None and before.namespaces <= now.namespaces)


# -- differences -----------------------------------------------------------------------------------------------


def delta(before: Picture, after: Picture) -> DeltaEvent:
    """The difference between two pictures."""
    old, new = before.jobs.by_name, after.jobs.by_name
    rows = [row for name, row in new.items() if (known := old.get(name)) is not row and known != row]
    feed = [entry for entry in after.recent if entry.id > before.last_entry]
    changed: list[ViewName] = []
    removed = [name for name in old if name not in new]
    if rows or removed:
        changed.append("jobs")
    changed += [name for name, part in _COMPARED.items() if part(before) != part(after)]
    changed += ["scheduler", "history"]
    return DeltaEvent(
        revision=after.revision,
        now=after.now,
        changed=changed,
        summary=after.summary,
        jobs=rows[:MAX_JOBS],
        removed=removed[:MAX_JOBS],
        jobs_complete=len(rows) <= MAX_JOBS and len(removed) <= MAX_JOBS,
        feed=feed[-MAX_FEED:],
    )


_COMPARED: dict[ViewName, Callable[[Picture], object]] = {
    "queues": lambda picture: (picture.queues.queues, picture.queues.loans),
    "nodes": lambda picture: (picture.nodes.names, picture.nodes.states, picture.nodes.reserved, picture.nodes.columns),
    "devices": lambda picture: picture.devices,
    "evictions": lambda picture: picture.summary.evictions,
    "reservations": lambda picture: picture.reservations.rows,
}


def visible(found: DeltaEvent, viewer: Viewer, newest: Picture) -> DeltaEvent:
    """The part of a delta that a viewer may see. Without access to all namespaces, its figures are the newest ones."""
    if viewer.namespaces is None:
        return found
    jobs: list[JobSummary] = [row for row in found.jobs if viewer.sees(row.job)]
    return msgspec.structs.replace(
        found,
        summary=msgspec.structs.replace(summary_for(newest, viewer), revision=found.revision, now=found.now),
        jobs=jobs,
        removed=[job for job in found.removed if viewer.sees(job)],
        feed=[entry for entry in found.feed if entry.job and viewer.sees(entry.job)],
    )
