"""How trace files are opened and how their times, counts and names are read, the same for every format."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path

from fairway.clock import SECOND, Micros, from_datetime
from fairway.errors import InputError
from fairway.sim.traces.faults import TraceFaults

_GZIP = b"\x1f\x8b"
_LONGEST_TIME = 2**62
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_COUNT = re.compile(r"[0-9]{1,15}", re.ASCII)

Row = dict[str, str]


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, compressed with gzip or not (told by its first bytes, not by its name)."""
    try:
        with path.open("rb") as start:
            compressed = start.read(2) == _GZIP
        opened = gzip.open if compressed else open
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as lines:
            yield from lines
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None


def read_rows(path: Path, columns: Collection[str], faults: TraceFaults) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV file with a header that has at least `columns`, each with its line.

    A row that is too short or too long is a fault; a file without one of the columns is an error.
    """
    reader = csv.reader(read_lines(path))
    try:
        header = next(reader, [])
        if missing := [name for name in columns if name not in header]:
            have = ", ".join(header) or "nothing"
            raise InputError(f"{path}:1: the column {missing[0]!r} is missing, the header has: {have}")
        for values in reader:
            if len(values) == len(header):
                yield reader.line_num, dict(zip(header, values, strict=True))
            elif values:
                faults.add(reader.line_num, f"{len(values)} fields, expected {len(header)}")
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def seconds(text: str) -> Micros:
    """A span in seconds, at least zero, rounded to the microsecond."""
    return span(text, SECOND)


def span(text: str, unit: Micros) -> Micros:
    """A number of `unit`s, at least zero, rounded to the microsecond."""
    if _COUNT.fullmatch(text):
        return int(text) * unit
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise InputError(f"{text!r} is not a number of seconds") from None
    if not number.is_finite() or number < 0 or number > _LONGEST_TIME // unit:
        raise InputError(f"{text!r} is not a time, expected a number from 0 up")
    return int((number * unit).to_integral_value())


def moment(text: str) -> Micros:
    """A date and time; without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError(f"{text!r} is not a time, expected for example 2017-10-09 07:01:55") from None
    return from_datetime(read if read.tzinfo else read.replace(tzinfo=UTC))


def count(text: str, what: str) -> int:
    """A whole number, at least zero."""
    if not _COUNT.fullmatch(text.strip()):
        raise InputError(f"{what}: {text!r} is not a whole number from 0 up")
    return int(text)


def numbered(name: str, number: int) -> str:
    """A name whose order among its like is the order of the numbers: ties in scheduling fall by name."""
    return f"{name}-{number:06d}"


def plain_name(text: str) -> str:
    """A name that Kubernetes would take: lower case letters, digits and dashes."""
    return _NOT_IN_A_NAME.sub("-", text.lower()).strip("-")[:63].rstrip("-") or "unnamed"
