"""One node in full, and how much fits: what fragmentation leaves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fairway.api.core import Node
from fairway.app.view.amounts import base, base_of_rows
from fairway.app.view.device_list import devices_on
from fairway.app.view.job_detail import pod_devices, requests_of
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.nodes import FitAnswer, NodeDetail, NodePod
from fairway.app.view.node_map import STATE_NAMES
from fairway.app.view.picture import POD_STATES, Picture
from fairway.clock import format_rfc3339
from fairway.errors import InputError
from fairway.resources.quantity import parse_amount
from fairway.state.jobs import ON_NODE, Task
from fairway.state.snapshot import snapshot_of
from fairway.state.tables import PODS

MOST_COUNTED = 1 << 40


def node_detail(mirror: Mirror, picture: Picture, name: str) -> NodeDetail:
    """InputError where there is no such node."""
    node, row = mirror.objects.get(("Node", "", name)), mirror.state.nodes.find(name)
    if not isinstance(node, Node) or row is None:
        raise InputError(f"{name}: there is no such node")
    table, axis = mirror.state.nodes, mirror.state.axis
    place = 1 if not table.ready[row] else 2 if not table.schedulable[row] else 0
    return NodeDetail(
        revision=picture.revision,
        now=picture.now,
        name=name,
        state=STATE_NAMES[place],
        allocatable=base_of_rows(axis, table.allocatable.data[:, row].tolist()),
        used=base_of_rows(axis, table.used.data[:, row].tolist()),
        reserved_amounts=base_of_rows(axis, table.reserved.data[:, row].tolist()),
        labels=dict(node.metadata.labels),
        taints=[f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints],
        pods=[
            _pod(mirror, task)
            for task in sorted(table.tasks[row], key=lambda task: task.key)
            if task.state in ON_NODE and task.node == row
        ],
        devices=devices_on(mirror, name),
        reservations=[entry for entry in picture.reservations.rows if entry.node == name],
    )


def _pod(mirror: Mirror, task: Task) -> NodePod:
    record = mirror.journal.records.get(task.job.key)
    since = None if record is None else record.placed.get(task.key)
    return NodePod(
        pod=task.key,
        job=task.job.key,
        queue=task.job.queue,
        state=POD_STATES[task.state],
        requests=requests_of(mirror, task.shape.vector),
        since=None if since is None else format_rfc3339(since),
        devices=pod_devices(mirror, task.key),
    )


def fit(mirror: Mirror, pods: int, requests: Iterable[str]) -> FitAnswer:
    """By free capacity of nodes that take pods; selectors, taints and topology are not looked at."""
    amounts = dict(map(_request, requests))
    state, snapshot = mirror.state, snapshot_of(mirror.state)
    nodes, size = state.nodes, snapshot.size
    usable = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    free = np.maximum(snapshot.idle[:, usable] - nodes.reserved.data[:, :size][:, usable], 0)
    fits = np.full(int(usable.sum()), MOST_COUNTED, dtype=np.int64)
    for name, amount in [*amounts.items(), ("pods", 1)]:
        row = PODS if name == "pods" else state.axis.find(name)
        if amount:
            fits = np.minimum(fits, free[row] // amount) if row is not None else np.zeros_like(fits)
    total = int(fits.sum())
    per_node = dict(zip(*(one.tolist() for one in np.unique(fits, return_counts=True)), strict=True))
    return FitAnswer(
        revision=mirror.revision,
        pods=pods,
        requests={name: base(name, amount) for name, amount in amounts.items()},
        total_pods=total,
        gangs=total // pods,
        nodes=int((fits > 0).sum()),
        per_node={str(number): count for number, count in per_node.items()},
        stranded=base_of_rows(state.axis, free[:, fits == 0].sum(axis=1).tolist()),
        free=base_of_rows(state.axis, free.sum(axis=1).tolist()),
    )


def _request(text: str) -> tuple[str, int]:
    name, sign, amount = text.partition("=")
    if not sign or not name:
        raise InputError(f"request={text}: expected resource=amount, as cpu=8")
    return name, parse_amount(name, amount)
