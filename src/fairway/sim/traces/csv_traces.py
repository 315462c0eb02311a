"""Traces in CSV: any file with a header, by stating which column means what, and two published GPU traces.

    columns:
      submit: timestamp           # a number of seconds, or a date and time
      run: duration
      tasks: replicas
      namespace: user
      request: {cpu: cores, memory: {column: mem_mb, suffix: M}}

Alibaba's GPU trace of 2023 (`openb_pod_list_*.csv`, `openb_node_list_*.csv`): a pod requests `num_gpu` GPUs with
`gpu_milli` thousandths of each, on one of the models in `gpu_spec` (separated by `|`). Its run is from the time it was
scheduled, or where it never was from its creation, to its deletion. The trace has no users: the namespace is the pod's
QoS class.

Microsoft's Philly trace, reduced to one row per job: a job is a gang with one task per GPU; the virtual cluster is its
namespace. The rows are not in order of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.resources.quantity import check_amount, parse_amount
from fairway.sim.spans import shown
from fairway.sim.traces.trace_file import (
    GPU,
    GPU_MODEL_LABEL,
    Row,
    TraceJob,
    TraceNode,
    TraceProblems,
    count,
    moment,
    numbered,
    plain_name,
    read_rows,
    seconds,
    span,
    whole,
)

UNITS = {"s": SECOND, "ms": 1000, "us": 1, "min": 60 * SECOND, "h": 3600 * SECOND}


class AmountColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of amounts; `suffix` is appended to each number, as in a Kubernetes quantity."""

    column: str
    suffix: str = ""


class TraceColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which column means what. Without `tasks` a job is one task; without a name it is named by its row."""

    submit: str
    run: str
    request: dict[str, str | AmountColumn] = {}
    name: str | None = None
    namespace: str | None = None
    queue: str | None = None
    tasks: str | None = None
    limit: str | None = None
    priority: str | None = None
    unit: str = "s"
    """The unit of numeric times: s, ms, us, min or h."""

    def used(self) -> list[str]:
        """The columns that the file must have."""
        single = (
            self.submit,
            self.run,
            self.name,
            self.namespace,
            self.queue,
            self.tasks,
            self.limit,
            self.priority,
        )
        amounts = (entry if isinstance(entry, str) else entry.column for entry in self.request.values())
        return [name for name in (*single, *amounts) if name is not None]


def check_unit(unit: str) -> None:
    if unit not in UNITS:
        raise InputError(f"{unit!r} is unknown, expected one of {', '.join(UNITS)}")


def read_csv(path: Path, problems: TraceProblems, columns: TraceColumns) -> Iterator[TraceJob]:
    """The jobs in the order of the file."""
    check_unit(columns.unit)
    for index, (line, row) in enumerate(read_rows(path, columns.used(), problems)):
        try:
            yield _job(row, index, columns)
        except InputError as error:
            problems.add(line, str(error))


def _job(row: Row, index: int, columns: TraceColumns) -> TraceJob:
    unit = UNITS[columns.unit]
    tasks = count(row[columns.tasks], columns.tasks) if columns.tasks else 1
    if not tasks:
        raise InputError(f"{columns.tasks}: 0 tasks, expected at least 1")
    return TraceJob(
        name=plain_name(row[columns.name]) if columns.name else numbered("job", index),
        namespace=plain_name(row[columns.namespace]) if columns.namespace else "default",
        queue=plain_name(row[columns.queue]) if columns.queue else "default",
        submit=_time(row[columns.submit], unit),
        run=span(row[columns.run], unit),
        limit=span(row[columns.limit], unit) if columns.limit and row[columns.limit].strip() else None,
        tasks=tasks,
        priority=_priority(row[columns.priority]) if columns.priority else 0,
        request={name: _amount(row, name, entry) for name, entry in columns.request.items()},
    )


def _time(text: str, unit: Micros) -> Micros:
    """A number on the trace's own clock, or else a date and time."""
    try:
        return span(text, unit)
    except InputError:
        pass
    try:
        return moment(text)
    except InputError:
        raise InputError(f"{shown(text)} is not a time, expected a number from 0 up, or a date and time") from None


def _amount(row: Row, name: str, entry: str | AmountColumn) -> int:
    column, suffix = (entry, "") if isinstance(entry, str) else (entry.column, entry.suffix)
    return parse_amount(name, (row[column].strip() or "0") + suffix)


def _priority(text: str) -> int:
    """A blank cell is priority 0, as a pod without one has."""
    number = whole(text) if text.strip() else 0
    if number is None or not -(2**31) <= number < 2**31:
        raise InputError(f"priority: {shown(text)} is not a whole number that fits 32 bits")
    return number


_SHAPE = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_NODE = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1 << 20
WHOLE_GPU = 1000


class OpenbPod(msgspec.Struct, frozen=True, gc=False):
    """What a pod requests, without its times: all that packing needs. Some lists have no more."""

    name: str
    cpu_milli: int
    memory_mib: int
    num_gpu: int
    gpu_milli: int
    gpu_models: tuple[str, ...] = ()


def read_openb_pods(path: Path, problems: TraceProblems) -> Iterator[OpenbPod]:
    """The pods in the order of the file, times ignored."""
    for line, row in read_rows(path, _SHAPE, problems):
        try:
            yield _pod(row)
        except InputError as error:
            problems.add(line, str(error))


def read_openb(path: Path, problems: TraceProblems) -> Iterator[TraceJob]:
    """The pods as jobs of one task with their own times."""
    for line, row in read_rows(path, _SHAPE + _TIMES, problems):
        try:
            yield _job_of_pod(row)
        except InputError as error:
            problems.add(line, str(error))


def read_openb_nodes(path: Path, problems: TraceProblems) -> Iterator[TraceNode]:
    """The machines; the model of their GPUs is a label."""
    for line, row in read_rows(path, _NODE, problems):
        try:
            yield _node(row)
        except InputError as error:
            problems.add(line, str(error))


def _pod(row: Row) -> OpenbPod:
    gpus, milli = count(row["num_gpu"], "num_gpu"), count(row["gpu_milli"], "gpu_milli")
    if milli > WHOLE_GPU or (gpus == 0) != (milli == 0) or (gpus > 1 and milli < WHOLE_GPU):
        raise InputError(f"{gpus} GPUs of {milli} thousandths each: several GPUs are whole, one may be a part")
    return OpenbPod(
        name=row["name"],
        cpu_milli=count(row["cpu_milli"], "cpu_milli"),
        memory_mib=count(row["memory_mib"], "memory_mib"),
        num_gpu=gpus,
        gpu_milli=milli,
        gpu_models=tuple(model for model in row.get("gpu_spec", "").split("|") if model),
    )


def _job_of_pod(row: Row) -> TraceJob:
    pod = _pod(row)
    created = count(row["creation_time"], "creation_time")
    started = count(row["scheduled_time"], "scheduled_time") if row["scheduled_time"].strip() else created
    ended = count(row["deletion_time"], "deletion_time")
    if not created <= started <= ended:
        raise InputError(f"created at {created}, scheduled at {started}, deleted at {ended}: not in this order")
    return TraceJob(
        name=plain_name(pod.name),
        namespace=plain_name(row.get("qos", "default")),
        submit=seconds(str(created)),
        run=seconds(str(ended - started)),
        request=_amounts(pod.cpu_milli, pod.memory_mib, pod.num_gpu * pod.gpu_milli),
        gpus=pod.num_gpu,
        gpu_milli=pod.gpu_milli,
        gpu_models=pod.gpu_models,
    )


def _node(row: Row) -> TraceNode:
    gpus = count(row["gpu"], "gpu")
    cpu, memory = count(row["cpu_milli"], "cpu_milli"), count(row["memory_mib"], "memory_mib")
    return TraceNode(
        name=plain_name(row["sn"]),
        allocatable=_amounts(cpu, memory, gpus * WHOLE_GPU),
        labels={GPU_MODEL_LABEL: row["model"]} if row["model"] else {},
        gpus=gpus,
    )


def _amounts(cpu_milli: int, memory_mib: int, gpu_milli: int) -> dict[str, int]:
    amounts = {"cpu": cpu_milli, "memory": check_amount("memory", memory_mib * _MIB)}
    return amounts | ({GPU: check_amount(GPU, gpu_milli)} if gpu_milli else {})


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
