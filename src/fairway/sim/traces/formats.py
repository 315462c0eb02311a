"""The formats by name: which reader reads the jobs of a file, and which the machines, where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fairway.errors import InputError
from fairway.sim.traces.batsim import read_batsim, read_batsim_nodes
from fairway.sim.traces.columns import TraceColumns, read_csv
from fairway.sim.traces.openb import read_openb, read_openb_nodes
from fairway.sim.traces.order import in_submit_order
from fairway.sim.traces.philly import read_philly
from fairway.sim.traces.record import TraceJob, TraceNode, TraceProblems
from fairway.sim.traces.recording import read_recording, read_recording_nodes
from fairway.sim.traces.swf import read_swf, read_swf_nodes

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
    """The jobs of a trace by time of submission, read as they are asked for."""
    check_format(format)
    if format == "csv":
        if columns is None:
            raise InputError(f"{path}: a trace in CSV needs `columns`, to say which column means what")
        jobs = read_csv(path, problems, columns)
    else:
        jobs = _JOBS[format](path, problems)
    return in_submit_order(_not_all_wrong(jobs, format, problems))


def _not_all_wrong(jobs: Iterator[TraceJob], format: str, problems: TraceProblems) -> Iterator[TraceJob]:
    """Refuse a file of which no row can be read."""
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
