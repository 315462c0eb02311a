"""Microsoft's Philly trace, reduced to one row per job: when, how long, how many GPUs, which virtual cluster.

A job is a gang with one task per GPU; the virtual cluster is its namespace. The rows are not in order of
time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairway.errors import InputError
from fairway.sim.traces.record import GPU, TraceJob, TraceProblems
from fairway.sim.traces.text import count, moment, numbered, plain_name, read_rows, seconds

_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")
_WHOLE = 1000


def read_philly(path: Path, problems: TraceProblems) -> Iterator[TraceJob]:
    """The jobs in the order of the file, named by their row."""
    for index, (line, row) in enumerate(read_rows(path, _COLUMNS, problems)):
        try:
            tasks = count(row["num_gpus"], "num_gpus")
            if not tasks:
                raise InputError("num_gpus: 0, expected at least 1")
            yield TraceJob(
                name=numbered("job", index),
                namespace=plain_name(row["cluster"]),
                submit=moment(row["timestamp"]),
                run=seconds(row["duration"]),
                tasks=tasks,
                request={GPU: _WHOLE},
                gpus=1,
                gpu_milli=_WHOLE,
            )
        except InputError as error:
            problems.add(line, str(error))
