"""All nodes as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairway.api.core import Node
from fairway.app.view.amounts import divisor, is_resource, rank
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.moves import ReservationEntry
from fairway.app.view.models.nodes import NodeColumn, NodesMap
from fairway.clock import format_rfc3339
from fairway.state.tables import PODS

STATE_NAMES = ["Ready", "NotReady", "SchedulingDisabled"]
POOL_LABELS = (
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "agentpool",
    "pool",
)
"""Labels by which clusters name their pools, the most telling first."""


def node_map(mirror: Mirror, reservations: Sequence[ReservationEntry]) -> NodesMap:
    table = mirror.state.nodes
    rows = np.flatnonzero(table.alive[: len(table)])
    names = [table.names[row] for row in rows.tolist()]
    order = sorted(range(len(names)), key=names.__getitem__)
    rows, names = rows[order], [names[place] for place in order]
    ready, schedulable = table.ready[rows], table.schedulable[rows]
    states = np.where(~ready, 1, np.where(~schedulable, 2, 0))
    kept: dict[str, int] = {}
    for entry in reservations:
        if entry.state != "planned":
            kept[entry.node] = kept.get(entry.node, 0) + 1
    pools = [_pool(mirror, name) for name in names]
    pool_names = sorted(set(pools))
    places = {name: place for place, name in enumerate(pool_names)}
    return NodesMap(
        revision=mirror.revision,
        now=format_rfc3339(mirror.now),
        names=names,
        states=states.tolist(),
        state_names=STATE_NAMES,
        pods=table.used.data[PODS, rows].tolist() if names else [],
        reserved=[kept.get(name, 0) for name in names],
        pools=[places[pool] for pool in pools],
        pool_names=pool_names,
        columns=[_column(mirror, name, rows) for name in _resource_names(mirror, rows)],
    )


def _resource_names(mirror: Mirror, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> list[str]:
    nodes = mirror.state.nodes
    have = np.atleast_1d(nodes.allocatable.data[:, rows].any(axis=1)).tolist()
    names = [name for name, has in zip(mirror.state.axis.names, have, strict=False) if has and is_resource(name)]
    return sorted(names, key=rank)


def _column(mirror: Mirror, name: str, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> NodeColumn:
    nodes, place = mirror.state.nodes, mirror.state.axis.row(name)
    step = divisor(name)
    columns = [table.data[place, rows] for table in (nodes.allocatable, nodes.used, nodes.reserved)]
    return NodeColumn(name, *((column if step == 1 else column / step).tolist() for column in columns))


def _pool(mirror: Mirror, name: str) -> str:
    node = mirror.objects.get(("Node", "", name))
    if isinstance(node, Node):
        for label in POOL_LABELS:
            found = node.metadata.labels.get(label)
            if found:
                return found
    return ""
