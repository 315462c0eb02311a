"""Output files that appear together: all of them once the run is over, or none."""

from __future__ import annotations

import csv
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, TextIO

from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.sim.metrics import JobOutcome

COLUMNS = (
    "job",
    "queue",
    "namespace",
    "tasks",
    "size",
    "submit",
    "start",
    "end",
    "run",
    "evictions",
    "processors",
    "limit",
    "plannedStart",
    "planned",
    "plannedResult",
    "hosts",
)
"""Columns of `jobs.csv`; `limit` is the requested run time, `planned` hard or soft, `plannedResult` kept or missed."""


class OutputFiles:
    """The output files of one run. They are written under temporary names and renamed when the context ends without an
    error; if a file cannot be written, none appears and InputError says why.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: list[IO[Any]] = []
        self._names: list[str] = []
        self._removed: list[str] = []

    def create(self, name: str) -> BinaryIO:
        """A new file, open until the context ends."""
        target = self.folder / name
        if target.is_dir():
            raise InputError(f"{target}: is a folder, expected the name of a file")
        try:
            file = self._part(name).open("wb")
        except OSError as error:
            raise InputError(f"{target}: {error.strerror}, expected a file that can be written") from None
        self._names.append(name)
        self._open.append(file)
        return file

    def create_text(self, name: str) -> TextIO:
        """A new text file, open until the context ends."""
        file = TextIOWrapper(self.create(name), encoding="utf-8", newline="")
        self._open.insert(0, file)
        return file

    def write(self, name: str, data: bytes) -> None:
        self.create(name).write(data)

    def remove(self, name: str) -> None:
        """When the others appear, a file of this name from an earlier run goes."""
        self._removed.append(name)

    @property
    def paths(self) -> list[Path]:
        return [self.folder / name for name in self._names]

    def __enter__(self) -> OutputFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for file in self._open:
                file.close()
            if kind is None:
                for name in self._names:
                    self._part(name).replace(self.folder / name)
                for path in (self.folder / name for name in self._removed):
                    if path.is_file():
                        path.unlink()
        except OSError as problem:
            error = problem
        if error is not None:
            self._discard()
        if isinstance(error, OSError):
            raise InputError(f"{error.filename or self.folder}: {error.strerror}: nothing was written") from None

    def _part(self, name: str) -> Path:
        return self.folder / f"{name}.part"

    def _discard(self) -> None:
        for file in self._open:
            with suppress(OSError):
                file.close()
        for name in self._names:
            with suppress(OSError):
                self._part(name).unlink()


class JobsFile:
    """`jobs.csv`: one line per finished job, with times in seconds since the start of the run."""

    def __init__(self, files: OutputFiles, start: Micros) -> None:
        self._start = start
        self._rows = csv.writer(files.create_text("jobs.csv"), lineterminator="\n")
        self._rows.writerow(COLUMNS)

    def __call__(self, job: JobOutcome) -> None:
        times = [f"{(at - self._start) / SECOND:.6f}" for at in (job.submit, job.start, job.end)]
        run = f"{job.run / SECOND:.6f}"
        limit = "" if job.limit is None else f"{job.limit / SECOND:.6f}"
        row = (job.key, job.queue, job.namespace, job.tasks, job.size, *times, run, job.evictions)
        processors = f"{job.processors / 1000:.3f}".rstrip("0").rstrip(".")
        self._rows.writerow((*row, processors, limit, *self._planned(job), " ".join(job.hosts)))

    def _planned(self, job: JobOutcome) -> tuple[str, str, str]:
        planned = job.planned
        if planned is None:
            return "", "", ""
        at = f"{(planned.at - self._start) / SECOND:.6f}"
        return at, "hard" if planned.hard else "soft", "kept" if planned.kept else "missed"
