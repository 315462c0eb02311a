"""Our own recording of what jobs did on a Kubernetes cluster: JSON lines, one event each, in order of time.

    {"at": "2026-01-01T00:00:00Z", "event": "node", "name": "n1", "allocatable": {"cpu": "64"}, "labels": {}}
    {"at": "2026-01-01T00:00:05Z", "event": "submitted", "job": "team-a/train", "queue": "research",
     "tasks": 4, "request": {"cpu": "8", "nvidia.com/gpu": 1}, "priority": 0, "limit": 3600}
    {"at": "2026-01-01T00:01:00Z", "event": "started", "job": "team-a/train"}
    {"at": "2026-01-01T00:20:00Z", "event": "evicted", "job": "team-a/train"}
    {"at": "2026-01-01T00:31:00Z", "event": "started", "job": "team-a/train"}
    {"at": "2026-01-01T01:00:00Z", "event": "ended", "job": "team-a/train"}

`at` is RFC 3339; amounts are Kubernetes quantities for one task; `limit` is in seconds. `queue`, `tasks`,
`priority`, `limit` and `labels` may be left out. A job's run is from its last start to its end. A job that
still ran when the recording stopped has run at least until then, and that is taken; one that never started
tells no run time and is left out, counted as wrong. The same job may be submitted again after it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from fairway.api.meta import Amounts, Count, Int32, Positive
from fairway.api.shape import describe, fit, path_text
from fairway.api.validation.labels import is_dns_label, is_dns_subdomain
from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.resources.quantity import parse_amount
from fairway.sim.spans import shown
from fairway.sim.traces.trace_file import GPU, TraceJob, TraceNode, TraceProblems, read_lines


class _RecordedLine(msgspec.Struct, frozen=True):
    at: str
    event: Literal["node", "submitted", "started", "evicted", "ended"]
    name: str = ""
    allocatable: Amounts = {}
    labels: dict[str, str] = {}
    job: str = ""
    queue: str = "default"
    tasks: Positive = 1
    request: Amounts = {}
    priority: Int32 = 0
    limit: Count | None = None


class _Open(msgspec.Struct):
    """A job that was submitted and has not ended."""

    line: int
    job: TraceJob
    started: Micros | None = None


_DECODE = msgspec.json.Decoder(_RecordedLine).decode


def read_recording(path: Path, problems: TraceProblems) -> Iterator[TraceJob]:
    """The jobs in the order in which they ended: only unfinished ones are held in memory."""
    open_jobs: dict[str, _Open] = {}
    latest = 0
    for number, line in _lines(path, problems):
        try:
            latest = _advance(latest, line)
            if (ended := _apply(open_jobs, number, line, latest)) is not None:
                yield ended
        except InputError as error:
            problems.add(number, str(error))
    for entry in open_jobs.values():
        if entry.started is None:
            problems.add(entry.line, f"{entry.job.key} never started")
        else:
            yield msgspec.structs.replace(entry.job, run=latest - entry.started)


def read_recording_nodes(path: Path, problems: TraceProblems) -> Iterator[TraceNode]:
    """The machines in order of first appearance."""
    for number, line in _lines(path, problems):
        if line.event == "node":
            try:
                yield _node(line)
            except InputError as error:
                problems.add(number, str(error))


def _lines(path: Path, problems: TraceProblems) -> Iterator[tuple[int, _RecordedLine]]:
    for number, text in enumerate(read_lines(path), 1):
        if text.strip():
            try:
                yield number, _read(text)
            except InputError as error:
                problems.add(number, f"not an event: {error}")


def _read(text: str) -> _RecordedLine:
    """One event. What the decoder refuses is read again more leniently: amounts may be plain numbers."""
    try:
        return _DECODE(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        data = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InputError("not JSON, expected one object") from None
    if not isinstance(data, dict):
        raise InputError(f"{describe(data)}, expected an object")
    event, findings = fit(data, _RecordedLine)
    if findings:
        raise InputError(f"{path_text(findings[0][0])}: {findings[0][1]}")
    return event


def _advance(latest: Micros, line: _RecordedLine) -> Micros:
    at = parse_rfc3339(line.at)
    if at < latest:
        raise InputError(f"at: {line.at} is before the event above it")
    return at


def _apply(open_jobs: dict[str, _Open], number: int, line: _RecordedLine, at: Micros) -> TraceJob | None:
    """Applies one event; returns the job if it ended."""
    if line.event == "node":
        return None
    if line.event == "submitted":
        if line.job in open_jobs:
            raise InputError(f"{line.job} was submitted already, in line {open_jobs[line.job].line}")
        open_jobs[line.job] = _Open(number, _job(line, at))
        return None
    if (entry := open_jobs.get(line.job)) is None:
        what = shown(line.job) if line.job else "a job without a name"
        raise InputError(f"{what} {line.event}, but was never submitted")
    if line.event != "ended":
        entry.started = at if line.event == "started" else None
        return None
    del open_jobs[line.job]
    if entry.started is None:
        raise InputError(f"{line.job} ended, but never started")
    return msgspec.structs.replace(entry.job, run=at - entry.started)


def _job(line: _RecordedLine, at: Micros) -> TraceJob:
    namespace, _, name = line.job.partition("/")
    if not (is_dns_label(namespace) and is_dns_subdomain(name)):
        raise InputError(f"job: {shown(line.job)}, expected namespace/name in lower case letters, digits, '-' and '.'")
    if not is_dns_subdomain(line.queue):
        raise InputError(f"queue: {shown(line.queue)}, expected a name in lower case letters, digits, '-' and '.'")
    request = {resource: parse_amount(resource, value) for resource, value in line.request.items()}
    return TraceJob(
        name=name,
        namespace=namespace,
        queue=line.queue,
        submit=at,
        run=0,
        tasks=line.tasks,
        request=request,
        priority=line.priority,
        limit=None if line.limit is None else line.limit * SECOND,
        gpus=-(-request.get(GPU, 0) // 1000),
        gpu_milli=min(request.get(GPU, 0), 1000),
    )


def _node(line: _RecordedLine) -> TraceNode:
    if not is_dns_subdomain(line.name):
        raise InputError(f"name: {shown(line.name)}, expected a name in lower case letters, digits, '-' and '.'")
    allocatable = {resource: parse_amount(resource, value) for resource, value in line.allocatable.items()}
    return TraceNode(line.name, allocatable, line.labels, gpus=allocatable.get(GPU, 0) // 1000)
