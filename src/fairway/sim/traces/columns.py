"""Any CSV file with a header, by saying which column means what.

columns:
  submit: timestamp           # a number of seconds, or a date and time
  run: duration
  tasks: replicas
  namespace: user
  request: {cpu: cores, memory: {column: mem_mb, suffix: M}}
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.resources.quantity import parse_amount
from fairway.sim.spans import shown
from fairway.sim.traces.record import TraceJob, TraceProblems
from fairway.sim.traces.text import Row, count, moment, numbered, plain_name, read_rows, span, whole

UNITS = {"s": SECOND, "ms": 1000, "us": 1, "min": 60 * SECOND, "h": 3600 * SECOND}


class AmountColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of amounts; `suffix` is put behind each number, as in a Kubernetes quantity."""

    column: str
    suffix: str = ""


class TraceColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which column means what. Without `tasks` a job is one task; without a name it is called by its row."""

    submit: str
    run: str
    request: dict[str, str | AmountColumn] = {}
    name: str | None = None
    namespace: str | None = None
    queue: str | None = None
    tasks: str | None = None
    limit: str | None = None
    priority: str | None = None
    unit: str = "s"
    """Of the times that are numbers: s, ms, us, min or h."""

    def used(self) -> list[str]:
        """The columns that the file must have."""
        single = (
            self.submit,
            self.run,
            self.name,
            self.namespace,
            self.queue,
            self.tasks,
            self.limit,
            self.priority,
        )
        amounts = (entry if isinstance(entry, str) else entry.column for entry in self.request.values())
        return [name for name in (*single, *amounts) if name is not None]


def check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise InputError(f"{unit!r} is unknown, expected one of {', '.join(UNITS)}")


def read_csv(path: Path, problems: TraceProblems, columns: TraceColumns) -> Iterator[TraceJob]:
    """The jobs in the order of the file."""
    check_unit(columns.unit)
    for index, (line, row) in enumerate(read_rows(path, columns.used(), problems)):
        try:
            yield _job(row, index, columns)
        except InputError as error:
            problems.add(line, str(error))


def _job(row: Row, index: int, columns: TraceColumns) -> TraceJob:
    unit = UNITS[columns.unit]
    tasks = count(row[columns.tasks], columns.tasks) if columns.tasks else 1
    if not tasks:
        raise InputError(f"{columns.tasks}: 0 tasks, expected at least 1")
    return TraceJob(
        name=plain_name(row[columns.name]) if columns.name else numbered("job", index),
        namespace=plain_name(row[columns.namespace]) if columns.namespace else "default",
        queue=plain_name(row[columns.queue]) if columns.queue else "default",
        submit=_time(row[columns.submit], unit),
        run=span(row[columns.run], unit),
        limit=span(row[columns.limit], unit) if columns.limit and row[columns.limit].strip() else None,
        tasks=tasks,
        priority=_priority(row[columns.priority]) if columns.priority else 0,
        request={name: _amount(row, name, entry) for name, entry in columns.request.items()},
    )


def _time(text: str, unit: Micros) -> Micros:
    """A number on the trace's own clock, or else a date and time."""
    try:
        return span(text, unit)
    except InputError:
        pass
    try:
        return moment(text)
    except InputError:
        raise InputError(f"{shown(text)} is not a time, expected a number from 0 up, or a date and time") from None


def _amount(row: Row, name: str, entry: str | AmountColumn) -> int:
    column, suffix = (entry, "") if isinstance(entry, str) else (entry.column, entry.suffix)
    return parse_amount(name, (row[column].strip() or "0") + suffix)


def _priority(text: str) -> int:
    """A blank cell is priority 0, as a pod without one has."""
    number = whole(text) if text.strip() else 0
    if number is None or not -(2**31) <= number < 2**31:
        raise InputError(f"priority: {shown(text)} is not a whole number that fits 32 bits")
    return number
