"""`HistoryRing`: what was, in a SQLite file of bounded size. When it is full, the oldest tenth goes.

A sample is taken at most every `INTERVAL` of the time that is shown; waits are kept for each job that started.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from fairway.app.view.job_journal import JobRecord
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.history import HistoryRange
from fairway.app.view.picture import Picture
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.errors import InputError, StoreError

INTERVAL = 10 * SECOND
MOST_BYTES = 64 << 20
CHECKED_EVERY = 100
"""Samples between two looks at the size."""
IN_MEMORY = ":memory:"
MOST_REASONS = 10
SIGN = b"SQLite format 3\0"


class QueueSample(msgspec.Struct, array_like=True):
    share: float
    allocated: dict[str, float]
    """As parts of the cluster."""
    deserved: dict[str, float]
    namespaces: dict[str, float]
    """Weighted shares."""


class HistorySample(msgspec.Struct, array_like=True):
    """What is kept of a moment."""

    utilisation: dict[str, float]
    queues: dict[str, QueueSample]
    namespaces: dict[str, float]
    waiting: int
    running: int
    evictions: dict[str, int]
    """By rule, since the ring began."""


class KeptWait(NamedTuple):
    namespace: str
    pods: int
    seconds: float


class HistoryRing:
    """See the module. May be used from any thread. A file that cannot be written leaves gaps, and ends nothing."""

    def __init__(self, path: str | Path = IN_MEMORY, most_bytes: int = MOST_BYTES) -> None:
        """InputError where the file is something else, or cannot be made. A damaged history is put aside."""
        self._most = most_bytes
        self._lock = Lock()
        self.failed: Callable[[str], None] = lambda why: None
        """Is told why nothing was written, once for each reason."""
        self._failures: set[str] = set()
        self._database = self._open(str(path))
        self._last: Micros = self._database.execute("SELECT coalesce(max(at), 0) FROM samples").fetchone()[0]
        self._written = 0

    def _open(self, path: str) -> sqlite3.Connection:
        try:
            return _opened(path)
        except sqlite3.DatabaseError as error:
            if not _is_damaged(path):
                raise InputError(
                    f"{path}: cannot be used for the history: {error}; expected a file that can be written, or none yet"
                ) from None
        Path(path).replace(f"{path}.damaged")
        for part in ("-wal", "-shm"):
            Path(path + part).unlink(missing_ok=True)
        return _opened(path)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    # -- writing -------------------------------------------------------------------------------------------------

    def take(self, mirror: Mirror, picture: Picture) -> None:
        """After each picture."""
        try:
            self._take(mirror, picture)
        except sqlite3.Error as error:  # the disk is full, or the file is damaged: what is shown goes on
            if str(error) not in self._failures and len(self._failures) < MOST_REASONS:
                self._failures.add(str(error))
                self.failed(str(error))

    def _take(self, mirror: Mirror, picture: Picture) -> None:
        started, mirror.journal.started_jobs = mirror.journal.started_jobs, []
        with self._lock:
            self._add_waits(started)
            if mirror.now < self._last:
                for table in ("samples", "waits"):  # a clock was set back, or a sandbox begins again
                    self._database.execute(f"DELETE FROM {table} WHERE at > ?", (mirror.now,))
            elif mirror.now < self._last + INTERVAL and self._last:
                return
            self._last = mirror.now
            data = msgspec.msgpack.encode(sample(mirror, picture))
            self._database.execute("INSERT OR REPLACE INTO samples VALUES (?, ?)", (mirror.now, data))
            self._written += 1
            if self._written % CHECKED_EVERY == 0:
                self._forget()

    def _add_waits(self, started: Iterable[JobRecord]) -> None:
        rows = [
            (record.first_started, record.key.partition("/")[0], record.pods, wait / SECOND)
            for record in started
            if record.first_started is not None
            and record.created is not None
            and (wait := max(0, record.first_started - record.created)) >= 0
        ]
        self._database.executemany("INSERT INTO waits VALUES (?, ?, ?, ?)", rows)

    def _forget(self) -> None:
        """The oldest tenth, as often as there is too much."""
        for _ in range(10):
            if self._bytes() <= self._most:
                return
            first, last = self._database.execute("SELECT min(at), max(at) FROM samples").fetchone()
            if first is None:
                self._database.execute("DELETE FROM waits")
                return
            bound = first + (last - first) // 10 + 1
            self._database.execute("DELETE FROM samples WHERE at < ?", (bound,))
            self._database.execute("DELETE FROM waits WHERE at < ?", (bound,))

    def _bytes(self) -> int:
        pages = self._database.execute("PRAGMA page_count").fetchone()[0]
        return int(pages * self._database.execute("PRAGMA page_size").fetchone()[0])

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """StoreError where the file cannot be read."""
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise StoreError(f"the history cannot be read: {error}") from None

    # -- reading -------------------------------------------------------------------------------------------------

    def samples(self, start: Micros | None, end: Micros | None, most: int) -> list[tuple[Micros, HistorySample]]:
        """At most so many, evenly chosen, the last one included."""
        low, high = -(1 << 62) if start is None else start, 1 << 62 if end is None else end
        with self._reading():
            times = [
                row[0]
                for row in self._database.execute(
                    "SELECT at FROM samples WHERE at BETWEEN ? AND ? ORDER BY at", (low, high)
                )
            ]
            chosen = evenly(times, most)
            found = [self._database.execute("SELECT data FROM samples WHERE at = ?", (at,)).fetchone() for at in chosen]
        decoder = msgspec.msgpack.Decoder(HistorySample)
        return [(at, decoder.decode(row[0])) for at, row in zip(chosen, found, strict=True) if row is not None]

    def waits(self, start: Micros | None, end: Micros | None) -> list[KeptWait]:
        low, high = -(1 << 62) if start is None else start, 1 << 62 if end is None else end
        with self._reading():
            rows = self._database.execute(
                "SELECT namespace, pods, seconds FROM waits WHERE at BETWEEN ? AND ? ORDER BY at DESC LIMIT 100000",
                (low, high),
            ).fetchall()
        return [KeptWait(*row) for row in rows]

    def kept(self) -> HistoryRange:
        with self._reading():
            first, last, count = self._database.execute("SELECT min(at), max(at), count(*) FROM samples").fetchone()
            size = self._bytes()
        return HistoryRange(
            None if first is None else format_rfc3339(first),
            None if last is None else format_rfc3339(last),
            count,
            size,
            self._most,
        )


def _opened(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    try:
        database.execute("PRAGMA auto_vacuum = FULL")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")  # of a history the last seconds may be lost
        database.execute("CREATE TABLE IF NOT EXISTS samples (at INTEGER PRIMARY KEY, data BLOB NOT NULL)")
        database.execute("CREATE TABLE IF NOT EXISTS waits (at INTEGER, namespace TEXT, pods INTEGER, seconds REAL)")
        database.execute("CREATE INDEX IF NOT EXISTS waits_at ON waits (at)")
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    except BaseException:
        database.close()
        raise
    return database


def _is_damaged(path: str) -> bool:
    """Whether it is a file of SQLite's: no other file is touched."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(SIGN)) == SIGN
    except OSError:
        return False


def evenly(times: list[Micros], most: int) -> list[Micros]:
    if len(times) <= most:
        return times
    step = (len(times) - 1) / (most - 1)
    return [times[round(place * step)] for place in range(most)]


def sample(mirror: Mirror, picture: Picture) -> HistorySample:
    whole = {one.name: one.capacity for one in picture.summary.resources if one.capacity}
    namespaces: dict[str, float] = {}
    queues: dict[str, QueueSample] = {}
    for node in picture.queues.queues:
        for space in node.namespaces:
            namespaces[space.namespace] = round(namespaces.get(space.namespace, 0.0) + space.share, 5)
        parts = [
            (one.resource, one.allocated / whole[one.resource], one.deserved / whole[one.resource])
            for one in node.amounts
            if one.resource in whole
        ]
        queues[node.name] = QueueSample(
            round(node.dominant_share, 5),
            {name: round(part, 5) for name, part, _ in parts},
            {name: round(part, 5) for name, _, part in parts},
            {space.namespace: round(space.weighted_share, 5) for space in node.namespaces},
        )
    counts = picture.summary.jobs
    return HistorySample(
        {one.name: round(one.allocated / one.capacity, 5) for one in picture.summary.resources if one.capacity},
        queues,
        namespaces,
        counts.waiting + counts.starting,
        counts.running,
        dict(mirror.journal.evicted_by_rule),
    )
