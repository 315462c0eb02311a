"""What every trace reader gives and shares: `TraceJob` and `TraceNode`, and how files are opened and their times,
counts and names are read.

Amounts are kept amounts (see `resources.quantity`), times are whole microseconds on the trace's own clock: only their
differences have a meaning. `TraceProblems` counts wrong rows: the first are kept to be shown, or refused where the user
is strict.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec

from fairway.clock import SECOND, Micros, from_datetime
from fairway.errors import InputError, Problem, ProblemsError
from fairway.sim.limits import MAX_NODES, MAX_SPAN
from fairway.sim.spans import shown

GPU = "nvidia.com/gpu"
GPU_MODEL_LABEL = "nvidia.com/gpu.product"
"""The node label that carries the GPU model, as GPU feature discovery writes it."""


class TraceJob(msgspec.Struct, frozen=True, gc=False):
    """A job as in its trace: `tasks` equal tasks that start together."""

    name: str
    submit: Micros
    run: Micros
    """How long it ran, from its start to its end."""
    request: dict[str, int]
    """What one task requests; a part of one GPU counts as that part of `nvidia.com/gpu`."""
    namespace: str = "default"
    queue: str = "default"
    tasks: int = 1
    minimum: int | None = None
    """Tasks that must start together; by default all of them."""
    limit: Micros | None = None
    """The run time that its user requested, if the trace has one."""
    priority: int = 0
    gpus: int = 0
    """Distinct GPUs of one task."""
    gpu_milli: int = 0
    """What it needs of each of them, in thousandths."""
    gpu_models: tuple[str, ...] = ()
    """The models it may run on; empty is any."""
    node_selector: dict[str, str] = {}

    @property
    def duration(self) -> Micros:
        """How long it has its capacity: a job is ended when its requested time is over."""
        return self.run if self.limit is None else min(self.run, self.limit)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class TraceNode(msgspec.Struct, frozen=True, gc=False):
    """A machine as in its trace."""

    name: str
    allocatable: dict[str, int]
    labels: dict[str, str] = {}
    gpus: int = 0


EXAMPLES = 5


class TraceProblems:
    """The problems of one trace file. A wrong row is skipped; it never stops the rest."""

    def __init__(self, source: str, *, strict: bool = False) -> None:
        self.source = source
        self.strict = strict
        self.count = 0
        self.examples: list[Problem] = []
        self._note = ""

    def note(self, text: str) -> None:
        """A warning that skips nothing; only the first is kept."""
        self._note = self._note or f"{self.source}: {text}"

    def add(self, line: int, message: str, path: str = "") -> None:
        """Counts a skipped row; if the user is strict it is an error instead."""
        problem = Problem(self.source, line, path, message)
        if self.strict:
            raise ProblemsError([problem])
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(problem)

    def summary(self) -> list[str]:
        """The warning; a line with the count, then examples; empty if nothing was wrong."""
        noted = [self._note] if self._note else []
        if not self.count:
            return noted
        rows = "row was" if self.count == 1 else "rows were"
        shown = "" if self.count == len(self.examples) else f"; the first {len(self.examples)}"
        return [*noted, f"{self.source}: {self.count} invalid {rows} left out{shown}:", *map(str, self.examples)]

    def nothing_left(self, format: str) -> InputError:
        """A file without a usable row is in another format: a run of it would have no meaning."""
        lines = "\n".join(map(str, self.examples))
        return InputError(f"{self.source}: no row could be read, expected a trace of format {format}:\n{lines}")


_GZIP = b"\x1f\x8b"
MAX_LINE = 1 << 20
"""Characters of one line; a longer one means that the file is not in this format."""

_CHUNK = 1 << 16
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_COUNT = re.compile(r"[0-9]{1,15}")
_WHOLE = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
"""A number as these formats write it: ASCII digits, without the underscores and foreign digits that Python reads."""

Row = dict[str, str]


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, compressed with gzip or not (detected by its first bytes, not by its name)."""
    try:
        with path.open("rb") as start:
            compressed = start.read(2) == _GZIP
        opened = gzip.open if compressed else open
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as text:
            number = 0
            while line := text.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE and not line.endswith("\n"):
                    raise InputError(f"{path}:{number}: a line of more than {MAX_LINE} characters")
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def read_chunks(path: Path) -> Iterator[str]:
    """The text of a file in chunks, compressed or not, for formats without lines."""
    try:
        with path.open("rb") as start:
            compressed = start.read(2) == _GZIP
        opened = gzip.open if compressed else open
        with opened(path, "rt", encoding="utf-8", errors="replace", newline="") as text:
            while chunk := text.read(_CHUNK):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error) or "it ends too early"
    return InputError(f"{path}: cannot be read: {reason}")


def read_rows(path: Path, columns: Collection[str], problems: TraceProblems) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV file with a header that has at least `columns`, each with its line.

    A row that is too short or too long is a problem; a file without one of the columns is an error.
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
                problems.add(reader.line_num, f"{len(values)} fields, expected {len(header)}")
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def seconds(text: str) -> Micros:
    """A span in seconds, at least zero, rounded to the microsecond."""
    return span(text, SECOND)


def span(text: str, unit: Micros) -> Micros:
    """A number of `unit`s, at least zero, rounded to the microsecond."""
    stripped = text.strip()
    if _COUNT.fullmatch(stripped):
        number = Decimal(int(stripped))
    elif _NUMBER.fullmatch(stripped):
        number = Decimal(stripped)
    else:
        raise InputError(f"{shown(text)} is not a number of seconds")
    if not 0 <= number <= MAX_SPAN // unit:
        most = MAX_SPAN // unit
        raise InputError(f"{shown(text)} is not a time, expected a number from 0 to {most}")
    return int((number * unit).to_integral_value())


def moment(text: str) -> Micros:
    """A date and time; without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(text.strip())
        at = from_datetime(read if read.tzinfo else read.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise InputError(f"{shown(text)} is not a time, expected for example 2017-10-09 07:01:55") from None
    if not 0 <= at <= MAX_SPAN:
        raise InputError(f"{shown(text)} is not a time, expected a year from 1970 to 2255")
    return at


def check_nodes(path: Path, nodes: int) -> int:
    """Checks the stated number of machines before any of them is created."""
    if nodes > MAX_NODES:
        raise InputError(f"{path}: {nodes} machines, expected at most {MAX_NODES}")
    return nodes


def whole(text: str) -> int | None:
    """A whole number of at most 15 digits, blanks around it left out; None for all other text.

    What is checked is what is converted: `strip` removes characters at which `int` fails.
    """
    stripped = text.strip()
    return int(stripped) if _WHOLE.fullmatch(stripped) else None


def count(text: str, what: str) -> int:
    """A whole number, at least zero."""
    number = whole(text)
    if number is None or number < 0:
        raise InputError(f"{what}: {shown(text)} is not a whole number from 0 to {10**15 - 1}")
    return number


def numbered(name: str, number: int) -> str:
    """A name that sorts in numerical order: ties in scheduling are broken by name."""
    return f"{name}-{number:06d}"


def plain_name(text: str) -> str:
    """A name that Kubernetes accepts: lower case letters, digits and dashes."""
    return _NOT_IN_A_NAME.sub("-", text.lower()).strip("-")[:63].rstrip("-") or "unnamed"
