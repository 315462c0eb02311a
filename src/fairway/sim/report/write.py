"""The files of a report: `report.json`, `report.html`, `speed.json`, and `jobs.csv` as jobs finish."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType

import msgspec

from fairway.clock import SECOND, Micros
from fairway.sim.metrics import JobOutcome
from fairway.sim.report.model import RunReport, Speed, to_json
from fairway.sim.report.page import page

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
"""Times are seconds; `limit` is the requested run time; `planned` is hard or soft, `plannedResult` kept or missed."""


def write_report(folder: Path, report: RunReport, speed: Speed) -> list[Path]:
    """Everything but the jobs, which were written while the run went on."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "report.json": to_json(report),
        "report.html": page([report]).encode(),
        "speed.json": msgspec.json.format(msgspec.json.encode(speed), indent=1) + b"\n",
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


class JobsFile:
    """One line for each finished job, times in seconds since the start of the run. It gets its name when the run is
    over: one that fails leaves nothing behind.
    """

    def __init__(self, path: Path, start: Micros) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}.part")
        self._start = start

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

    def __enter__(self) -> JobsFile:
        self._file = self._part.open("w", newline="")
        self._rows = csv.writer(self._file, lineterminator="\n")
        self._rows.writerow(COLUMNS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if kind is None:
            self._part.replace(self._path)
        else:
            self._part.unlink()
