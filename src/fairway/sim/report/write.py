"""The files of a report: `report.json`, `report.html`, `speed.json`, and `jobs.csv` as jobs finish."""

from __future__ import annotations

import csv

import msgspec

from fairway.clock import SECOND, Micros
from fairway.sim.metrics import JobOutcome
from fairway.sim.report.files import OutputFiles
from fairway.sim.report.model import RunReport, Speed, to_json
from fairway.sim.report.page import Origin, page

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


def write_report(files: OutputFiles, report: RunReport, speed: Speed, origin: Origin | None = None) -> None:
    """Everything but the jobs, which were written while the run went on."""
    files.write("report.json", to_json(report))
    files.write("report.html", page([report], origin=origin).encode())
    files.write("speed.json", msgspec.json.format(msgspec.json.encode(speed), indent=1) + b"\n")


class JobsFile:
    """One line for each finished job, times in seconds since the start of the run."""

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
