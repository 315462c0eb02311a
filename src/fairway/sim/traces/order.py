"""Puts the jobs of a trace in the order of their submission without holding the trace in memory.

The clock of a simulation only goes forward, and many traces are not sorted. Runs of `CHUNK` jobs are sorted
and put aside in temporary files, then merged: what is held is one run, then one job of each run.
"""

from __future__ import annotations

import heapq
import struct
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO

import msgspec

from fairway.sim.traces.record import TraceJob

CHUNK = 50_000
_LENGTH = struct.Struct("<I")
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(TraceJob).decode


def in_submit_order(jobs: Iterable[TraceJob], chunk: int = CHUNK) -> Iterator[TraceJob]:
    """All jobs by time of submission; of equals, the one that the trace has first."""
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
