"""The file of a sandbox: one SQLite database with the objects, the virtual time, events and finished jobs.

Everything that happens in an instant is written in one transaction, and nothing is shown or answered before. So a
sandbox that is killed resumes from its last complete instant: what was done is not done again, and what was not written
was never seen. The file belongs to one process at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from fairway.api.kinds import KINDS, ApiObject, Kind, ObjectKey
from fairway.api.shape import path_text
from fairway.app.records import FinishedJob, Instant, LaterJob, SandboxEvent
from fairway.clock import Micros
from fairway.errors import StoreError

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

FORMAT = "1"
KEPT_HAPPENINGS = 10_000
KEPT_OUTCOMES = 10_000
_STRUCTS = {kind.name: kind.struct for kind in KINDS}
_KINDS = {kind.name: kind for kind in KINDS}
_TABLES = ("settings", "objects", "arrivals", "happenings", "outcomes")
_HINT = "start again with --fresh"
_SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (kind TEXT, namespace TEXT, name TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, namespace, name));
CREATE TABLE arrivals (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE happenings (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE outcomes (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""


class Store:
    """One file, or `:memory:` for a sandbox that is not saved."""

    def __init__(self, path: str, *, fresh: bool = False) -> None:
        """With `fresh`, whatever state is there, damaged or not, is deleted."""
        self.path = path
        self.set_aside: tuple[str, ...] = ()
        """Errors of the objects that were set aside when all objects were last read."""
        if path != ":memory:":
            self._make_folder(Path(path).parent)
        try:
            self._connection = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"{path}: cannot be opened: {error}") from None
        with self.closed_on_error():
            self._open(fresh=fresh)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """Close the file if the caller cannot use it."""
        try:
            yield
        except sqlite3.OperationalError as error:
            self.close()
            locked = "locked" in str(error)
            said = "another sandbox is running on it" if locked else f"cannot be opened: {error}"
            raise StoreError(f"{self.path}: {said}") from None
        except sqlite3.DatabaseError as error:
            self.close()
            raise StoreError(f"{self.path}: not the state of a sandbox: {error}") from None
        except BaseException:
            self.close()
            raise

    def _make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            expected = "expected a file in a folder that can be written to"
            raise StoreError(f"{self.path}: {folder}: {error.strerror}, {expected}") from None

    def _open(self, *, fresh: bool) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN EXCLUSIVE")
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "settings" not in tables:
            run("ROLLBACK")
            raise sqlite3.DatabaseError("the database belongs to another program")
        if not tables:
            self._make_tables()
        run("COMMIT")
        if fresh:
            self.erase()
        if (version := self.setting("format")) != FORMAT:
            raise StoreError(f"{self.path}: has format {version}, expected {FORMAT}; {_HINT}")

    def _make_tables(self) -> None:
        for statement in _SCHEMA.strip().split(";\n"):
            self._connection.execute(statement)
        self._connection.execute("INSERT INTO settings VALUES ('format', ?)", (FORMAT,))

    def erase(self) -> None:
        """Delete everything in one transaction; damaged tables are recreated."""
        with self.transaction():
            for table in _TABLES:
                self._run(f"DROP TABLE IF EXISTS {table}")
            self._make_tables()

    def check(self) -> None:
        """Read everything, so that a damaged file is rejected before it is used."""
        self.objects()
        self.arrivals()
        self.happenings(KEPT_HAPPENINGS)
        self.outcomes(KEPT_OUTCOMES)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all or nothing; StoreError if writing fails, for example on a full disk."""
        self._run("BEGIN")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have already rolled back
                self._connection.execute("ROLLBACK")
            raise

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OverflowError) as error:
            raise self._unusable(error) from None

    def _run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        try:
            self._connection.executemany(statement, rows)
        except (sqlite3.Error, OverflowError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(f"{self.path}: can no longer be used: {error}")

    def _decoded(self, table: str, body: object, kind: type[T]) -> T:
        """A stored body; StoreError if it is damaged."""
        try:
            if not isinstance(body, bytes):
                raise TypeError(f"{type(body).__name__} instead of bytes")
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError) as error:
            raise self._damaged(table, error) from None

    def _damaged(self, table: str, error: object) -> StoreError:
        return StoreError(f"{self.path}: the table {table} is damaged: {error}; {_HINT}")

    # -- settings ------------------------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        rows = self._run("SELECT value FROM settings WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def set(self, name: str, value: str) -> None:
        self._run("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def decoded_setting(self, name: str, kind: type[T]) -> T | None:
        """A setting stored as JSON."""
        text = self.setting(name)
        return None if text is None else self._decoded("settings", text.encode(errors="replace"), kind)

    @property
    def now(self) -> Micros | None:
        """The virtual time up to which everything is saved; None in a new file."""
        return self.decoded_setting("now", Instant)

    # -- objects -------------------------------------------------------------------------------------------

    def objects(self) -> list[ApiObject]:
        """All valid objects. Invalid ones stay in the file; `set_aside` says why."""
        rows = self._run("SELECT kind, namespace, name, body FROM objects ORDER BY kind, namespace, name")
        self.set_aside = ()
        found: list[ApiObject] = []
        for kind, namespace, name, body in rows:
            self._struct(kind)
            known = _KINDS[kind]
            errors = self._invalid(known, body)
            if errors:
                where = f"{namespace}/{name}" if namespace else name
                self.set_aside += (f"{kind.lower()} {where} is set aside: {errors}",)
            else:
                found.append(cast(ApiObject, self._decoded("objects", body, known.struct)))
        return found

    def _invalid(self, kind: Kind, body: object) -> str:
        """The errors of an object that was written completely; "" if it has none."""
        if not isinstance(body, bytes) or not body.lstrip().startswith(b"{"):
            return ""
        try:
            findings = kind.settle(cast(ApiObject, msgspec.json.decode(body, type=kind.struct)))
        except msgspec.ValidationError as error:
            return str(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return "; ".join(f"{path_text(path)}: {message}" for path, message in findings)

    def _struct(self, kind: object) -> type[msgspec.Struct]:
        if not isinstance(kind, str) or kind not in _STRUCTS:
            raise self._damaged("objects", f"unknown kind {kind!r}")
        return _STRUCTS[kind]

    def write_objects(self, changed: Mapping[ObjectKey, ApiObject | None]) -> None:
        """Save changed objects; None for deleted ones."""
        gone = [key for key, thing in changed.items() if thing is None]
        there = [(*key, msgspec.json.encode(thing)) for key, thing in changed.items() if thing is not None]
        self._run_many("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", gone)
        self._run_many("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", there)

    # -- later jobs ----------------------------------------------------------------------------------------

    def arrivals(self) -> list[LaterJob]:
        rows = self._run("SELECT number, at, body FROM arrivals ORDER BY at, number")
        for _, at, _ in rows:
            self._decoded("arrivals", str(at).encode(), Instant)
        return [LaterJob(at, self._decoded("arrivals", body, list[msgspec.Raw]), number) for number, at, body in rows]

    def add_arrivals(self, arrivals: Iterable[LaterJob]) -> None:
        rows = [(arrival.number, arrival.at, msgspec.json.encode(arrival.objects)) for arrival in arrivals]
        self._run_many("INSERT INTO arrivals VALUES (?, ?, ?)", rows)

    def remove_arrivals(self, numbers: Iterable[int]) -> None:
        self._run_many("DELETE FROM arrivals WHERE number = ?", [(number,) for number in numbers])

    # -- events and finished jobs-----------------------------------------------------------------------------

    def happenings(self, last: int) -> list[SandboxEvent]:
        """The last events, oldest first."""
        return self._last("happenings", SandboxEvent, last)

    def happenings_after(self, number: int, most: int) -> list[tuple[int, SandboxEvent]]:
        """Events after the one with this number, with their own numbers."""
        rows = self._run("SELECT number, body FROM happenings WHERE number > ? ORDER BY number LIMIT ?", (number, most))
        return [(found, self._decoded("happenings", body, SandboxEvent)) for found, body in rows]

    def add_happenings(self, happenings: Iterable[SandboxEvent]) -> None:
        self._append("happenings", happenings, KEPT_HAPPENINGS)

    def outcomes(self, last: int) -> list[FinishedJob]:
        return self._last("outcomes", FinishedJob, last)

    def last_event(self) -> int:
        """The number of the last event; 0 if there is none yet."""
        return self._highest("happenings")

    def count_outcomes(self) -> int:
        """The number of all finished jobs, including those no longer kept."""
        return self._highest("outcomes")

    def _highest(self, table: str) -> int:
        ((highest,),) = self._run(f"SELECT MAX(number) FROM {table}")
        return int(highest or 0)

    def add_outcomes(self, outcomes: Iterable[FinishedJob]) -> None:
        self._append("outcomes", outcomes, KEPT_OUTCOMES)

    def _last(self, table: str, record: type[R], last: int) -> list[R]:
        rows = self._run(f"SELECT body FROM {table} ORDER BY number DESC LIMIT ?", (last,))
        return [self._decoded(table, body, record) for (body,) in rows][::-1]

    def _append(self, table: str, records: Iterable[msgspec.Struct], kept: int) -> None:
        rows = [(msgspec.json.encode(record),) for record in records]
        if rows:
            self._run_many(f"INSERT INTO {table} (body) VALUES (?)", rows)
            self._run(f"DELETE FROM {table} WHERE number <= (SELECT MAX(number) FROM {table}) - ?", (kept,))
