"""`HistoryRing`: samples of utilisation, shares and counts in a SQLite file of bounded size, and pages made from them.

When the file is full, the oldest tenth is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import msgspec

from fairway.app.view.job_journal import JobRecord
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.common import SeriesLine, TimeSeries
from fairway.app.view.models.history import HistoryPage, HistoryRange, QueueHistory, WaitGroup
from fairway.app.view.picture import Picture
from fairway.clock import SECOND, Micros, format_rfc3339
from fairway.errors import InputError, StoreError

INTERVAL = 10 * SECOND
MAX_BYTES = 64 << 20
CHECKED_EVERY = 100
"""Number of samples between two checks of the size."""
IN_MEMORY = ":memory:"
MAX_REASONS = 10
SIGN = b"SQLite format 3\0"


class QueueSample(msgspec.Struct, array_like=True):
    share: float
    allocated: dict[str, float]
    """As fractions of the cluster."""
    deserved: dict[str, float]
    namespaces: dict[str, float]
    """Weighted shares."""


class HistorySample(msgspec.Struct, array_like=True):
    """One sample."""

    utilisation: dict[str, float]
    queues: dict[str, QueueSample]
    namespaces: dict[str, float]
    waiting: int
    running: int
    evictions: dict[str, int]
    """Evictions by rule since the ring began."""


class KeptWait(NamedTuple):
    namespace: str
    pods: int
    seconds: float


class HistoryRing:
    """The samples of a cluster. Thread-safe. Failed writes leave gaps, but never raise."""

    def __init__(self, path: str | Path = IN_MEMORY, most_bytes: int = MAX_BYTES) -> None:
        """Raises InputError if the file is not a history or cannot be created. A damaged history is renamed."""
        self._most = most_bytes
        self._lock = Lock()
        self.failed: Callable[[str], None] = lambda why: None
        """Called once for each reason why a sample was not written."""
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
        """Called after each picture."""
        try:
            self._take(mirror, picture)
        except sqlite3.Error as error:  # the disk is full, or the file is damaged: what is shown goes on
            if str(error) not in self._failures and len(self._failures) < MAX_REASONS:
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
        """Deletes the oldest tenth until the size is within the limit."""
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
        """Raises StoreError if the file cannot be read."""
        try:
            with self._lock:
                yield
        except sqlite3.Error as error:
            raise StoreError(f"the history cannot be read: {error}") from None

    # -- reading -------------------------------------------------------------------------------------------------

    def samples(self, start: Micros | None, end: Micros | None, most: int) -> list[tuple[Micros, HistorySample]]:
        """At most this many, evenly spaced, including the last one."""
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
    """Whether it is an SQLite file: no other file is touched."""
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


SIZES = ((1, "1 pod"), (8, "2-8 pods"), (64, "9-64 pods"), (512, "65-512 pods"), (1 << 60, "more than 512 pods"))
MAX_LINES = 30
"""Maximum number of lines of a series; those with the largest mean are kept."""

Samples = Sequence[tuple[Micros, HistorySample]]
Values = Callable[[HistorySample], Mapping[str, float]]


def history_page(
    ring: HistoryRing, picture: Picture, start: Micros | None, end: Micros | None, points: int
) -> HistoryPage:
    samples = ring.samples(start, end, points)
    waits = ring.waits(start, end)
    return HistoryPage(
        revision=picture.revision,
        now=picture.now,
        kept=ring.kept(),
        utilisation=_series("Allocated part of the cluster", "share", samples, lambda one: one.utilisation),
        queues=_series("Dominant share of queues", "share", samples, _queue_shares),
        namespaces=_series("Dominant share of namespaces", "share", samples, lambda one: one.namespaces),
        jobs=_series("Jobs", "count", samples, lambda one: {"waiting": one.waiting, "running": one.running}),
        evictions=_differences(_series("Pods evicted", "count", samples, lambda one: one.evictions)),
        waits_by_size=_by_size(waits),
        waits_by_namespace=_by_namespace(waits),
    )


def queue_history(
    ring: HistoryRing, picture: Picture, queue: str, start: Micros | None, end: Micros | None, points: int
) -> QueueHistory:
    samples = ring.samples(start, end, points)

    def of(part: str) -> Values:
        return lambda one: getattr(one.queues[queue], part) if queue in one.queues else {}

    return QueueHistory(
        revision=picture.revision,
        queue=queue,
        allocated=_series("Allocated, as a part of the cluster", "share", samples, of("allocated")),
        deserved=_series("Deserved, as a part of the cluster", "share", samples, of("deserved")),
        namespaces=_series("Weighted share of namespaces", "share", samples, of("namespaces")),
    )


def _queue_shares(one: HistorySample) -> dict[str, float]:
    return {name: queue.share for name, queue in one.queues.items()}


def _series(title: str, unit: str, samples: Samples, values: Values) -> TimeSeries:
    rows = [values(one) for _, one in samples]
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in row.items():
            sums[name] = sums.get(name, 0.0) + value
    names = sorted(sums, key=lambda name: (-sums[name], name))[:MAX_LINES]
    return TimeSeries(
        title=title,
        unit=unit,  # type: ignore[arg-type]
        times=[at / SECOND for at, _ in samples],
        lines=[SeriesLine(name, [row.get(name) for row in rows]) for name in sorted(names)],
    )


def _differences(series: TimeSeries) -> TimeSeries:
    """Differences between consecutive values of counters, which restart from zero with the program."""
    lines = []
    for line in series.lines:
        values: list[float | None] = []
        last = 0.0
        for value in line.values:
            now = value or 0.0
            values.append(now - last if now >= last else now)
            last = now
        lines.append(SeriesLine(line.name, values))
    return TimeSeries(series.title, series.unit, series.times, lines)


def _by_size(waits: Iterable[KeptWait]) -> list[WaitGroup]:
    found: dict[str, list[float]] = {name: [] for _, name in SIZES}
    for wait in waits:
        found[next(name for most, name in SIZES if wait.pods <= most)].append(wait.seconds)
    return [_group(name, values) for name, values in found.items() if values]


def _by_namespace(waits: Iterable[KeptWait]) -> list[WaitGroup]:
    found: dict[str, list[float]] = {}
    for wait in waits:
        found.setdefault(wait.namespace, []).append(wait.seconds)
    return [_group(name, found[name]) for name in sorted(found)]


def _group(name: str, values: list[float]) -> WaitGroup:
    values.sort()
    count = len(values)
    return WaitGroup(
        name,
        count,
        round(sum(values) / count, 3),
        round(values[count // 2], 3),
        round(values[(count - 1) * 9 // 10], 3),
        round(values[-1], 3),
    )
