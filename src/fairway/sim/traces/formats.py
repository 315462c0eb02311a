"""The formats by name: which reader reads the jobs of a file, and which the machines, where it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from fairway.errors import InputError
from fairway.sim.traces.batsim import read_batsim, read_batsim_nodes
from fairway.sim.traces.columns import Columns, read_csv
from fairway.sim.traces.faults import TraceFaults
from fairway.sim.traces.openb import read_openb, read_openb_nodes
from fairway.sim.traces.order import in_submit_order
from fairway.sim.traces.philly import read_philly
from fairway.sim.traces.record import TraceJob, TraceNode
from fairway.sim.traces.recording import read_recording, read_recording_nodes
from fairway.sim.traces.swf import read_swf, read_swf_nodes

_JOBS: Mapping[str, Callable[[Path, TraceFaults], Iterator[TraceJob]]] = {
    "openb": read_openb,
    "swf": read_swf,
    "batsim": read_batsim,
    "philly": read_philly,
    "recording": read_recording,
}
_NODES: Mapping[str, Callable[[Path, TraceFaults], Iterator[TraceNode]]] = {
    "openb": read_openb_nodes,
    "swf": lambda path, _: read_swf_nodes(path),
    "batsim": lambda path, _: read_batsim_nodes(path),
    "recording": read_recording_nodes,
}
FORMATS = (*_JOBS, "csv")


def open_trace(path: Path, format: str, faults: TraceFaults, columns: Columns | None = None) -> Iterator[TraceJob]:
    """The jobs of a trace by time of submission, read as they are asked for."""
    if format == "csv":
        if columns is None:
            raise InputError(f"{path}: a trace in CSV needs `columns`, to say which column means what")
        return in_submit_order(read_csv(path, faults, columns))
    if format not in _JOBS:
        raise InputError(f"format: {format!r} is unknown, expected one of {', '.join(FORMATS)}")
    return in_submit_order(_JOBS[format](path, faults))


def open_nodes(path: Path, format: str, faults: TraceFaults) -> Iterator[TraceNode]:
    """The machines that a file of this format describes."""
    if format not in _NODES:
        raise InputError(f"format: {format!r} describes no machines, expected one of {', '.join(_NODES)}")
    return _NODES[format](path, faults)
