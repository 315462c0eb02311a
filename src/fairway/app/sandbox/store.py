"""Where a sandbox is kept: one SQLite file with the objects, the virtual time and what was carried out.

Everything that happened up to an instant is written in one transaction, and nothing is shown or answered before it is.
So a sandbox that is killed goes on from its last whole instant: what was done is not done again, and what was not
written down was never seen. The file belongs to one process at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from fairway.api.kinds import KINDS, ApiObject, ObjectKey
from fairway.app.sandbox.records import Arrival, Happening, Outcome
from fairway.clock import Micros
from fairway.errors import InputError

R = TypeVar("R", bound=msgspec.Struct)

FORMAT = "1"
KEPT_HAPPENINGS = 10_000
KEPT_OUTCOMES = 10_000
_STRUCTS = {kind.name: kind.struct for kind in KINDS}
_SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (kind TEXT, namespace TEXT, name TEXT, body BLOB NOT NULL, PRIMARY KEY (kind, namespace, name));
CREATE TABLE arrivals (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE happenings (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE outcomes (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
"""


class Store:
    """One file, or `:memory:` for a sandbox that is not kept."""

    def __init__(self, path: str) -> None:
        self.path = path
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._connection = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
            self._open()
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise InputError(f"{path}: another sandbox is running on it") from None
            raise InputError(f"{path}: cannot be opened: {error}") from None
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path}: not the state of a sandbox: {error}") from None

    def _open(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN EXCLUSIVE")
        tables = {name for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "settings" not in tables:
            run("ROLLBACK")
            raise sqlite3.DatabaseError("it is a database of something else")
        if not tables:
            for statement in _SCHEMA.strip().split(";\n"):
                run(statement)
            run("INSERT INTO settings VALUES ('format', ?)", (FORMAT,))
        run("COMMIT")
        if (found := self.setting("format")) != FORMAT:
            raise InputError(f"{self.path}: has the format {found}, expected {FORMAT}; begin anew with --fresh")

    def erase(self) -> None:
        """Forget everything, in one transaction."""
        with self.transaction():
            for table in ("objects", "arrivals", "happenings", "outcomes"):
                self._connection.execute(f"DELETE FROM {table}")
            self._connection.execute("DELETE FROM settings WHERE name <> 'format'")

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing of what is written inside."""
        self._connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    # -- settings ------------------------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        row = self._connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    @property
    def now(self) -> Micros | None:
        """The virtual time up to which everything is written; None in a new file."""
        text = self.setting("now")
        return None if text is None else int(text)

    # -- objects -------------------------------------------------------------------------------------------

    def objects(self) -> list[ApiObject]:
        rows = self._connection.execute("SELECT kind, body FROM objects ORDER BY kind, namespace, name")
        return [cast(ApiObject, msgspec.json.decode(body, type=_STRUCTS[kind])) for kind, body in rows]

    def write_objects(self, changed: Mapping[ObjectKey, ApiObject | None]) -> None:
        """None means that it is gone."""
        gone = [key for key, thing in changed.items() if thing is None]
        there = [(*key, msgspec.json.encode(thing)) for key, thing in changed.items() if thing is not None]
        run = self._connection.executemany
        run("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", gone)
        run("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", there)

    # -- jobs to come --------------------------------------------------------------------------------------

    def arrivals(self) -> list[Arrival]:
        rows = self._connection.execute("SELECT number, at, body FROM arrivals ORDER BY at, number")
        return [Arrival(at, msgspec.json.decode(body, type=list[msgspec.Raw]), number) for number, at, body in rows]

    def add_arrivals(self, arrivals: Iterable[Arrival]) -> None:
        rows = [(arrival.number, arrival.at, msgspec.json.encode(arrival.objects)) for arrival in arrivals]
        self._connection.executemany("INSERT INTO arrivals VALUES (?, ?, ?)", rows)

    def remove_arrivals(self, numbers: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM arrivals WHERE number = ?", [(number,) for number in numbers])

    # -- what was carried out --------------------------------------------------------------------------------

    def happenings(self, last: int) -> list[Happening]:
        """The last so many, in order of time."""
        return self._last("happenings", Happening, last)

    def happenings_after(self, number: int, most: int) -> list[tuple[int, Happening]]:
        """Those that came after the one of this number, with their own numbers."""
        rows = self._connection.execute(
            "SELECT number, body FROM happenings WHERE number > ? ORDER BY number LIMIT ?", (number, most)
        )
        return [(found, msgspec.json.decode(body, type=Happening)) for found, body in rows]

    def add_happenings(self, happenings: Iterable[Happening]) -> None:
        self._append("happenings", happenings, KEPT_HAPPENINGS)

    def outcomes(self, last: int) -> list[Outcome]:
        return self._last("outcomes", Outcome, last)

    def last_happening(self) -> int:
        """The number of the last one; 0 if there is none yet."""
        (highest,) = self._connection.execute("SELECT MAX(number) FROM happenings").fetchone()
        return int(highest or 0)

    def count_outcomes(self) -> int:
        """All that ever were, those no longer kept included."""
        (highest,) = self._connection.execute("SELECT MAX(number) FROM outcomes").fetchone()
        return int(highest or 0)

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        self._append("outcomes", outcomes, KEPT_OUTCOMES)

    def _last(self, table: str, record: type[R], last: int) -> list[R]:
        rows = self._connection.execute(f"SELECT body FROM {table} ORDER BY number DESC LIMIT ?", (last,))
        return [msgspec.json.decode(body, type=record) for (body,) in rows][::-1]

    def _append(self, table: str, records: Iterable[msgspec.Struct], kept: int) -> None:
        rows = [(msgspec.json.encode(record),) for record in records]
        if rows:
            self._connection.executemany(f"INSERT INTO {table} (body) VALUES (?)", rows)
            self._connection.execute(
                f"DELETE FROM {table} WHERE number <= (SELECT MAX(number) FROM {table}) - ?", (kept,)
            )
