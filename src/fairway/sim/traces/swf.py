"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments after `;`. Tools append
columns of their own: they are not read.

A processor is one task that asks for one CPU, and for the memory per processor where the log has it. Users
become namespaces. A job without processors or without a run time tells a scheduler nothing: it is a wrong
row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fairway.clock import Micros
from fairway.errors import InputError
from fairway.resources.quantity import check_amount
from fairway.sim.traces.trace_file import (
    TraceJob,
    TraceNode,
    TraceProblems,
    check_nodes,
    count,
    numbered,
    read_lines,
    seconds,
    whole,
)

_FIELDS = 18
_NUMBER, _SUBMIT, _RUN, _ALLOCATED, _ASKED, _ASKED_TIME, _ASKED_KB, _USER, _QUEUE = (
    0,
    1,
    3,
    4,
    7,
    8,
    9,
    11,
    14,
)
_HEADER = re.compile(r";\s*(\w+):\s*(.*)")
_MILLI_CPU = 1000


def read_swf(path: Path, problems: TraceProblems) -> Iterator[TraceJob]:
    """The jobs in the order of the file."""
    for number, line in enumerate(read_lines(path), 1):
        fields = line.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) > _FIELDS:
            problems.note(f"line {number} has {len(fields)} fields: those after the first {_FIELDS} are not read")
        try:
            yield _job(fields)
        except InputError as error:
            problems.add(number, str(error))


def read_swf_nodes(path: Path) -> Iterator[TraceNode]:
    """The machine that the header describes: `MaxNodes` nodes that share `MaxProcs` processors evenly."""
    header = _header(path)
    processors = header.get("MaxProcs") or header.get("MaxNodes")
    if not processors:
        raise InputError(f"{path}: the header has no MaxProcs, the machine is not known")
    nodes = check_nodes(path, min(header.get("MaxNodes") or processors, processors))
    width = len(str(nodes - 1))
    for index in range(nodes):
        share = processors // nodes + (index < processors % nodes)
        yield TraceNode(f"node-{index:0{width}d}", {"cpu": share * _MILLI_CPU})


def _header(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in read_lines(path):
        if line.strip() and not line.lstrip().startswith(";"):
            break
        match = _HEADER.match(line)
        number = whole(match[2]) if match else None
        if match and number is not None and number >= 0:
            found.setdefault(match[1], number)
    return found


def _job(fields: list[str]) -> TraceJob:
    if len(fields) < _FIELDS:
        raise InputError(f"{len(fields)} fields, expected {_FIELDS}")
    tasks = _known(fields[_ASKED]) or _known(fields[_ALLOCATED])
    if not tasks:
        raise InputError("no processors, neither requested nor allocated")
    if fields[_RUN].startswith("-"):
        raise InputError("no run time")
    return TraceJob(
        name=numbered("job", count(fields[_NUMBER], "job number")),
        namespace=f"user-{_known(fields[_USER])}",
        queue=f"queue-{queue}" if (queue := _known(fields[_QUEUE])) else "default",
        submit=seconds(fields[_SUBMIT]),
        run=seconds(fields[_RUN]),
        limit=_limit(fields[_ASKED_TIME]),
        tasks=tasks,
        request={"cpu": _MILLI_CPU}
        | ({"memory": check_amount("memory", kb << 10)} if (kb := _known(fields[_ASKED_KB])) else {}),
    )


def _known(text: str) -> int:
    """A count; the format writes -1 for unknown values, which is 0 here."""
    return 0 if text.startswith("-") else count(text, "field")


def _limit(text: str) -> Micros | None:
    return None if text.startswith("-") else seconds(text) or None
