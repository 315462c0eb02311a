"""The formats by name: which reader reads the jobs of a file, and which the machines, where it has them.

The clock of a simulation only moves forward, and many traces are not sorted. `in_submit_order` sorts the jobs of a
trace by submission without holding the trace in memory: chunks of `CHUNK` jobs are sorted and written to temporary
files, then merged. It holds one chunk, then one job of each chunk.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec

from fairway.errors import InputError
from fairway.sim.traces.batsim import read_batsim, read_batsim_nodes
from fairway.sim.traces.csv_traces import TraceColumns, read_csv, read_openb, read_openb_nodes, read_philly
from fairway.sim.traces.job_recording import read_recording, read_recording_nodes
from fairway.sim.traces.swf import read_swf, read_swf_nodes
from fairway.sim.traces.trace_file import TraceJob, TraceNode, TraceProblems

CHUNK = 50_000
_LENGTH = struct.Struct("<I")
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(TraceJob).decode


def in_submit_order(jobs: Iterable[TraceJob], chunk: int = CHUNK) -> Iterator[TraceJob]:
    """All jobs by time of submission; equal ones in the order of the trace."""
    rest = iter(jobs)
    first = _sorted_run(rest, chunk)
    if len(first) < chunk:
        yield from first
        return
    runs = [_put_aside(first)]
    while run := _sorted_run(rest, chunk):
        runs.append(_put_aside(run))
    # A stable merge of runs in the trace's order keeps the trace's order among equals.
    yield from heapq.merge(*map(_take_back, runs), key=_submit)


def _submit(job: TraceJob) -> int:
    return job.submit


def _sorted_run(jobs: Iterator[TraceJob], chunk: int) -> list[TraceJob]:
    return sorted(islice(jobs, chunk), key=_submit)


def _put_aside(run: list[TraceJob]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its last job is taken back
    for job in run:
        data = _ENCODE(job)
        file.write(_LENGTH.pack(len(data)))
        file.write(data)
    file.seek(0)
    return file


def _take_back(file: IO[bytes]) -> Iterator[TraceJob]:
    with file:
        while head := file.read(_LENGTH.size):
            yield _DECODE(file.read(_LENGTH.unpack(head)[0]))


_JOBS: Mapping[str, Callable[[Path, TraceProblems], Iterator[TraceJob]]] = {
    "openb": read_openb,
    "swf": read_swf,
    "batsim": read_batsim,
    "philly": read_philly,
    "recording": read_recording,
}
_NODES: Mapping[str, Callable[[Path, TraceProblems], Iterator[TraceNode]]] = {
    "openb": read_openb_nodes,
    "swf": lambda path, _: read_swf_nodes(path),
    "batsim": lambda path, _: read_batsim_nodes(path),
    "recording": read_recording_nodes,
}
FORMATS = (*_JOBS, "csv")
NODE_FORMATS = tuple(_NODES)


def check_format(format: str) -> None:
    if format not in FORMATS:
        raise InputError(f"{format!r} is unknown, expected one of {', '.join(FORMATS)}")


def check_node_format(format: str) -> None:
    if format not in NODE_FORMATS:
        raise InputError(f"{format!r} describes no machines, expected one of {', '.join(NODE_FORMATS)}")


def open_trace(
    path: Path, format: str, problems: TraceProblems, columns: TraceColumns | None = None
) -> Iterator[TraceJob]:
    """The jobs of a trace by time of submission, read on demand."""
    check_format(format)
    if format == "csv":
        if columns is None:
            raise InputError(f"{path}: a trace in CSV needs `columns`, to say which column means what")
        jobs = read_csv(path, problems, columns)
    else:
        jobs = _JOBS[format](path, problems)
    return in_submit_order(_not_all_wrong(jobs, format, problems))


def _not_all_wrong(jobs: Iterator[TraceJob], format: str, problems: TraceProblems) -> Iterator[TraceJob]:
    """Refuses a file without a single readable row."""
    first = next(jobs, None)
    if first is not None:
        yield first
        yield from jobs
    elif problems.count:
        raise problems.nothing_left(format)


def open_nodes(path: Path, format: str, problems: TraceProblems) -> Iterator[TraceNode]:
    """The machines that a file of this format describes."""
    check_node_format(format)
    return _NODES[format](path, problems)
