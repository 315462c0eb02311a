"""Alibaba's GPU trace of 2023 (`openb_pod_list_*.csv`, `openb_node_list_*.csv`).

A pod asks for `num_gpu` GPUs with `gpu_milli` thousandths of each, on one of the models in `gpu_spec`
(separated by `|`). Its run is from the time it was scheduled, or where it never was from its creation, to its
deletion. The trace has no users: the namespace is the pod's QoS class.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fairway.errors import InputError
from fairway.resources.quantity import check_amount
from fairway.sim.traces.record import GPU, GPU_MODEL_LABEL, TraceJob, TraceNode, TraceProblems
from fairway.sim.traces.text import Row, count, plain_name, read_rows, seconds

_SHAPE = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_TIMES = ("creation_time", "deletion_time", "scheduled_time")
_NODE = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MIB = 1 << 20
WHOLE_GPU = 1000


class OpenbPod(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks for, without its times: all that packing needs. Some lists have no more."""

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
            yield _job(row)
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


def _job(row: Row) -> TraceJob:
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
