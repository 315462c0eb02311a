"""`Reflector`: one kind of object, listed once and watched from then on (spec K1 to K4).

    not installed --(found)--> list --> watch --(time limit)--> watch from where it ended
         ^                      ^         |
         |                      +---------+  410 Gone, an ERROR event, a line that cannot be read
         +--(404)------------------------ +

The list is streamed if the server supports that (as the initial events of a watch), and read in pages otherwise. A list
is delivered as a whole: the receiver takes the difference to what it has. Its parts are delivered as they arrive, too,
so that the receiver may start with them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from random import Random
from typing import NamedTuple, Protocol

from fairway.api.kinds import ApiObject, Kind, ObjectKey
from fairway.errors import ApiError, NoAnswerError
from fairway.kube.http.client import ApiClient
from fairway.kube.http.exchange import Backoff
from fairway.kube.http.wire import StreamedBody
from fairway.kube.reading.decoding import (
    BOOKMARK,
    DELETED,
    ObjectDecoder,
    Sharing,
    UnreadableObject,
    WatchEvent,
    is_kept,
)
from fairway.kube.reading.served import ServedKind, find_served

PAGE = 500
LOOK_AGAIN = 60.0
"""Seconds until a missing kind is looked for again."""
MIN_WATCH, MAX_WATCH = 300, 600
"""Seconds after which the server is asked to end a watch, chosen at random between the two."""
SILENCE = 150.0
"""Seconds without a byte after which a watch is resumed on a new connection: a server sends bookmarks every minute, so
a connection that is silent for longer was dropped somewhere in between.
"""
MAX_LINE = 64 << 20
"""Bytes of one event."""
_QUICK = 1.0
"""A watch that ends within so many seconds counts as a failure: otherwise a broken proxy would be asked in a loop."""

_NOT_FOUND, _GONE, _BUSY = 404, 410, 429
_INITIALIZING = "initializing"
"""Part of the message of a server whose watch cache is not filled yet: it asks to wait, and serves lists."""
_CANNOT_STREAM = (400, 422)


class Gone(NamedTuple):
    """A deleted object: its last version, or its key if that version cannot be read."""

    last: ApiObject | ObjectKey


class Delivery(NamedTuple):
    """News of one kind for the loop's thread."""

    kind: Kind
    api_version: str
    """The version in which it is read; "" if it is not installed."""
    items: Sequence[ApiObject | Gone]
    is_list: bool = False
    """Whether these are all objects of the kind; otherwise they are changes, in order."""
    is_part: bool = False
    """Whether these are some objects of a list that has not ended; the list will have them again."""
    version: str = ""
    """Version of a list: everything that was written before is in it."""


class ReadObserver(Protocol):
    """Is called for what happens while reading, for logs, metrics and readiness. On the asyncio thread."""

    def listed(self, kind: Kind, count: int, seconds: float) -> None: ...

    def not_installed(self, kind: Kind) -> None: ...

    def left_out(self, kind: Kind, unreadable: UnreadableObject) -> None:
        """Called each time; a log names each object once."""

    def failed(self, kind: Kind, error: ApiError, wait: float) -> None:
        """Reading failed, and is retried after so many seconds."""

    def relists(self, kind: Kind, why: str) -> None: ...


class _ListAgain(Exception):  # noqa: N818 - not an error: the next step
    """The watch cannot be resumed."""


class Reflector:
    """Lists and watches one kind. `run` continues until it is cancelled."""

    def __init__(
        self,
        client: ApiClient,
        kind: Kind,
        deliver: Callable[[Delivery], None],
        observer: ReadObserver,
        *,
        scheduler_names: Collection[str],
        sharing: Sharing,
        random: Random,
    ) -> None:
        self._client = client
        self._kind = kind
        self._deliver = deliver
        self._observer = observer
        self._names = scheduler_names
        self._sharing = sharing
        self._random = random
        self._backoff = Backoff(random)
        self._can_stream = True
        self._version = ""
        """The version from which the watch is resumed; "" if a list has to come first."""
        self._heard = 0.0
        """When something last arrived from the watch."""
        self._served: ServedKind | None = None
        self._decoder: ObjectDecoder | None = None

    async def run(self) -> None:
        while True:
            try:
                await self._once()
            except _ListAgain as again:
                self._observer.relists(self._kind, str(again))
                self._version = ""
                await asyncio.sleep(self._backoff.next())
            except ApiError as error:
                if error.status == _NOT_FOUND:
                    self._uninstalled()
                    await asyncio.sleep(self._backoff.next())  # the list of APIs may still have it
                    continue
                wait = self._backoff.next(error.retry_after)
                self._observer.failed(self._kind, error, wait)
                await asyncio.sleep(wait)
            except Exception as error:  # a bug that some object triggers must not end the reading
                self._version = ""
                wait = self._backoff.next()
                self._observer.failed(self._kind, ApiError(0, "Error", _bug(error)), wait)
                await asyncio.sleep(wait)

    def forget(self) -> None:
        """Start with a list when it runs next."""
        self._version = ""

    async def _once(self) -> None:
        if self._served is None and not await self._find():
            await asyncio.sleep(LOOK_AGAIN * (0.9 + 0.2 * self._random.random()))
            return
        if not self._version and not self._can_stream:
            await self._list_by_pages()
        begin = time.monotonic()
        await self._watch()
        if time.monotonic() - begin < _QUICK:
            await asyncio.sleep(self._backoff.next())

    async def _find(self) -> bool:
        served = (await find_served(self._client, [self._kind]))[self._kind]
        if served is None:
            self._observer.not_installed(self._kind)
            self._deliver(Delivery(self._kind, "", (), is_list=True))
            return False
        if self._decoder is None or served != self._served:
            self._decoder = ObjectDecoder(served)
        self._served = served
        return True

    def _uninstalled(self) -> None:
        """The API was removed while it was watched. Looking for it again reports that its objects are gone."""
        self._served, self._version = None, ""

    # -- lists -----------------------------------------------------------------------------------------------

    async def _list_by_pages(self) -> None:
        assert self._served is not None
        assert self._decoder is not None
        begin = time.monotonic()
        things: list[ApiObject] = []
        query = {"limit": str(PAGE)}
        while True:
            try:
                body = await self._client.request("GET", self._served.path, query=query)
            except ApiError as error:
                if error.status == _GONE:
                    raise _ListAgain("the list took longer than the server keeps its history") from None
                raise
            page = self._decoder.page(body)
            for unreadable in page.unreadable:
                self._observer.left_out(self._kind, unreadable)
            things += [self._sharing.slim(thing) for thing in page.things if is_kept(thing, self._names)]
            if not page.more:
                break
            query["continue"] = page.more
        self._listed(things, page.version, begin)

    def _listed(self, things: list[ApiObject], version: str, begin: float) -> None:
        assert self._served is not None
        self._version = version
        self._backoff.reset()
        self._deliver(Delivery(self._kind, self._served.api_version, things, is_list=True, version=version))
        self._observer.listed(self._kind, len(things), time.monotonic() - begin)

    # -- watches ---------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        assert self._served is not None
        limit = self._random.randint(MIN_WATCH, MAX_WATCH)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(limit)}
        if self._version:
            query["resourceVersion"] = self._version
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""}
        try:
            async with self._client.stream(self._served.path, query, silence=SILENCE) as body:
                self._heard = time.monotonic()
                await self._read(_lines(body))
        except ApiError as error:
            if self._version and isinstance(error, NoAnswerError) and time.monotonic() - self._heard >= SILENCE:
                return  # not a failure: servers before 1.36 send no bookmarks for a kind that never changed
            if error.status == _GONE:
                raise _ListAgain(error.message) from None
            if error.status in _CANNOT_STREAM and not self._version and self._can_stream:
                self._can_stream = False
                return
            if self._version and error.status == 200:
                raise _ListAgain(error.message) from None
            if not self._version and error.status == _BUSY and _INITIALIZING in error.message:
                await self._list_by_pages()  # the list need not wait; the watch that follows does
            raise

    async def _read(self, chunks: AsyncIterator[list[bytes]]) -> None:
        assert self._served is not None
        initial = _Initial(time.monotonic()) if not self._version else None
        async for lines in chunks:
            self._heard = time.monotonic()
            items: list[ApiObject | Gone] = []
            in_list = initial is not None
            for line in lines:
                event = self._event(line)
                if event.type == BOOKMARK:
                    if event.ends_list and initial is not None:
                        self._listed(list(initial.things.values()), event.version, initial.begin)
                        initial, items, in_list = None, [], False
                    if initial is None:
                        self._version = event.version
                elif initial is not None:
                    kept = self._kept(event)
                    initial.take(event, kept)
                    if kept is not None:
                        items.append(kept)
                else:
                    self._version = event.version or self._version
                    item = self._item(event)
                    if item is not None:
                        items.append(item)
            if items and in_list:
                self._deliver(Delivery(self._kind, self._served.api_version, items, is_part=True))
            elif items:
                self._backoff.reset()
                self._deliver(Delivery(self._kind, self._served.api_version, items))

    def _event(self, line: bytes) -> WatchEvent:
        assert self._decoder is not None
        try:
            event = self._decoder.event(line)
        except ApiError as error:
            raise _ListAgain(f"{error.reason}: {error.message}") from None
        if event.unreadable is not None:
            self._observer.left_out(self._kind, event.unreadable)
        return event

    def _kept(self, event: WatchEvent) -> ApiObject | None:
        thing = event.thing
        if thing is None or event.type == DELETED or not is_kept(thing, self._names):
            return None
        return self._sharing.slim(thing)

    def _item(self, event: WatchEvent) -> ApiObject | Gone | None:
        """An unreadable object stays in its last version: that is nearer to the truth than none."""
        kept = self._kept(event)
        if kept is not None:
            return kept
        if event.thing is not None:
            return Gone(event.thing)
        return Gone(event.unreadable.key) if event.type == DELETED and event.unreadable is not None else None


def _bug(error: Exception) -> str:
    return f"this is an error in Fairway, please report it: {type(error).__name__}: {error}"


class _Initial:
    """The objects of a streamed list, until its end."""

    def __init__(self, begin: float) -> None:
        self.begin = begin
        self.things: dict[tuple[str, str], ApiObject] = {}

    def take(self, event: WatchEvent, kept: ApiObject | None) -> None:
        if event.thing is None:
            return
        meta = event.thing.metadata
        if kept is None:
            self.things.pop((meta.namespace, meta.name), None)
        else:
            self.things[meta.namespace, meta.name] = kept


async def _lines(body: StreamedBody) -> AsyncIterator[list[bytes]]:
    """Yields the complete lines that have arrived."""
    rest = b""
    async for chunk in body.iter_any():
        if b"\n" not in chunk:
            rest += chunk
            if len(rest) > MAX_LINE:
                raise ApiError(200, "TooLarge", f"an event has more than {MAX_LINE} bytes")
            continue
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield [line for line in lines if line]
