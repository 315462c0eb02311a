"""A member cluster's report to its hub: free capacity, how many pods of which size would fit, how long work waits, and
what the workloads of placements use.

All of it is one report, made from one state: a pod that starts moves from the free capacity to the usage of its
placement in one step, so that the hub's accounts balance at every moment.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from fairway.api.kinds import ObjectKey
from fairway.api.pods import Pod
from fairway.clock import SECOND, Micros
from fairway.devices.model.pools import KIND_PREFIX
from fairway.drive.change import Change
from fairway.drive.scheduler_loop import Cycle
from fairway.fleet.names import FREE, SHAPES, USAGE, USED_BY_NAME, USED_BY_NAMESPACE, WAITS
from fairway.resources import format_amount
from fairway.resources.columns import Vector
from fairway.scheduler.placement import matching
from fairway.state.cluster import ClusterState, Deleted, Event
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import ON_NODE
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy

MAX_SHAPES = 12
"""Number of pod sizes in a report: the most frequent ones."""
MAX_SHAPE_TEXT = 2000
"""Characters of one size in a report. A longer one (a node selector of a hundred labels) is left out."""
MAX_PLACEMENTS = 300
"""Number of placements whose usage is reported: those that most pods name. Labels are free text, and a hub accepts
reports up to a size only.
"""
MAX_QUEUES = 50
_STEPS = (0, 60, 300, 900, 3600, 4 * 3600, 86_400)
"""Waits are rounded down to these steps, in seconds, so that a wait that only grows is no new report."""

MemberReport = Mapping[str, str]
"""Annotations of the ManagedCluster."""


class PlacementPods:
    """The pods with the labels of a placement. A listener of the loop, so that no report walks all pods."""

    def __init__(self) -> None:
        self._owners: dict[ObjectKey, str] = {}

    def applied(self, events: Sequence[Event]) -> None:
        for event in events:
            pod = event.object
            if not isinstance(pod, Pod):
                continue
            key = ("Pod", pod.metadata.namespace, pod.metadata.name)
            owner = "" if isinstance(event, Deleted) else _owner(pod.metadata.labels)
            if owner:
                self._owners[key] = owner
            else:
                self._owners.pop(key, None)

    def decided(self, cycle: Cycle) -> None: ...

    def refused(self, change: Change, why: str) -> None: ...

    def usage(self, state: ClusterState) -> dict[str, dict[str, str]]:
        """What pods on nodes use, by placement, of the resources that nodes have. The whole reservation of a placement
        that is left out looks unused: the hub then places too little, never too much.
        """
        offered = _offered(state)
        sums: dict[str, dict[int, int]] = {}
        counts: Counter[str] = Counter()
        for (_, namespace, name), owner in self._owners.items():
            key = f"{namespace}/{name}"
            task = state.tasks.get(key) or state.foreign.get(key)
            if task is None or task.state not in ON_NODE:
                continue
            counts[owner] += 1
            used = sums.setdefault(owner, {})
            for row, amount in task.shape.vector:
                if row in offered:
                    used[row] = used.get(row, 0) + amount
        reported = sorted(sorted(sums, key=lambda owner: (-counts[owner], owner))[:MAX_PLACEMENTS])
        return {owner: _amounts(state, tuple(sorted(sums[owner].items()))) for owner in reported}


def _owner(labels: Mapping[str, str]) -> str:
    namespace, name = labels.get(USED_BY_NAMESPACE, ""), labels.get(USED_BY_NAME, "")
    return f"{namespace}/{name}" if namespace and name else ""


def member_report(state: ClusterState, pods: PlacementPods, now: Micros) -> MemberReport:
    idle = _idle(state)
    return {
        **_amounts_only(state, pods, idle),
        SHAPES: _json(_shapes(state, idle)),
        WAITS: _json(_waits(state, now)),
    }


def member_scores(state: ClusterState) -> dict[str, int]:
    """The free part of each resource on the scale of Open Cluster Management: -100 is nothing, 100 is all of it."""
    idle = _idle(state)
    totals = state.nodes.allocatable.data[:, _usable(state)].sum(axis=1).tolist()
    rows = zip(state.axis.names, idle.sum(axis=1).tolist(), totals, strict=False)
    return {f"{name}Free": 200 * free // total - 100 for name, free, total in rows if total and not _is_counted(name)}


def amounts_report(state: ClusterState, pods: PlacementPods) -> MemberReport:
    """The part of a report that placing depends on: free capacity, and what placements use."""
    return _amounts_only(state, pods, _idle(state))


def _amounts_only(state: ClusterState, pods: PlacementPods, idle: Any) -> dict[str, str]:
    return {FREE: _json(_free(state, idle)), USAGE: _json(pods.usage(state))}


def _idle(state: ClusterState) -> Any:
    """Free capacity of the nodes that accept pods, by resource and node, never negative. Capacity that is being
    released for a nominated pod is not free.
    """
    nodes = state.nodes
    nodes.reach()
    usable = _usable(state)
    owed = np.maximum(nodes.pipelined.data[:, usable] - nodes.releasing.data[:, usable], 0)
    taken = nodes.used.data[:, usable] + nodes.drawn.data[:, usable]
    return np.maximum(nodes.allocatable.data[:, usable] - taken - owed, 0)


def _usable(state: ClusterState) -> Any:
    """Columns of the nodes that accept pods."""
    nodes, size = state.nodes, len(state.nodes)
    return np.flatnonzero(nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size])


def _free(state: ClusterState, idle: Any) -> dict[str, str]:
    named = zip(state.axis.names, idle.sum(axis=1).tolist(), strict=False)
    offered = _offered(state)
    return {
        name: format_amount(name, amount)
        for row, (name, amount) in enumerate(named)
        if row in offered and not _is_counted(name)
    }


def _offered(state: ClusterState) -> set[int]:
    """Rows of the resources that some node has. A pod that names its node itself may request others."""
    return set(np.flatnonzero(state.nodes.allocatable.data.any(axis=1)).tolist())


def _shapes(state: ClusterState, idle: Any) -> list[dict[str, Any]]:
    """How many more pods of a size fit at once on nodes that they may use, which is also the largest gang of it."""
    alike: dict[tuple[Any, ...], list[Shape]] = {}
    for shape in state.shapes():
        if shape.tasks and not shape.best_effort and not shape.giant:
            key = shape.key
            alike.setdefault((key.vector, key.node_selector, key.node_affinity, key.tolerations), []).append(shape)
    most = sorted(alike.items(), key=lambda entry: (-sum(shape.tasks for shape in entry[1]), repr(entry[0])))
    made = (_shape(state, shapes[0], idle) for _, shapes in most[: 4 * MAX_SHAPES])
    return list(islice((one for one in made if len(_json(one)) <= MAX_SHAPE_TEXT), MAX_SHAPES))


def _shape(state: ClusterState, shape: Shape, idle: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"request": _amounts(state, shape.vector)}
    if shape.node_selector:
        made["nodeSelector"] = dict(shape.node_selector)
    return {**made, "fits": _fits(shape.vector, idle[:, _admitting(state, shape)[_usable(state)]])}


def _admitting(state: ClusterState, shape: Shape) -> Any:
    """The nodes whose labels and taints admit pods of the shape, by the scheduler's own rules."""
    nodes = cast(WorkingCopy, _NodesOnly(state, len(state.nodes), state.nodes.names))
    passes = matching.selector_column(shape, nodes)
    required = matching.required_affinity_column(shape, nodes)
    if required is not None:
        passes = passes & required
    taints = state.nodes.taints
    tolerated = [
        all(one.effect == "PreferNoSchedule" or matching.tolerates(shape.tolerations, one) for one in found)
        for found in taints.sets
    ]
    return passes & np.array(tolerated)[taints.codes(nodes.size)]


class _NodesOnly(NamedTuple):
    """The part of a working copy that matching reads."""

    state: ClusterState
    size: int
    names: Any


def _fits(vector: Vector, idle: Any) -> int:
    if any(amount and row >= len(idle) for row, amount in vector):
        return 0
    counts = [idle[row] // amount for row, amount in vector if amount]
    return int(np.minimum.reduce(counts).sum()) if counts else 0


def _waits(state: ClusterState, now: Micros) -> dict[str, dict[str, dict[str, int]]]:
    """Pending jobs by queue and priority class ("" for none), and the longest wait in steps of seconds."""
    waits: dict[str, dict[str, dict[str, int]]] = {}
    for queue, name, jobs, since in _waiting(state):
        if queue not in waits and len(waits) >= MAX_QUEUES:
            continue
        entry = waits.setdefault(queue, {}).setdefault(name, {"jobs": 0, "longestSeconds": 0})
        entry["jobs"] += jobs
        waited = 0 if since is None else max(0, (now - since) // SECOND)
        entry["longestSeconds"] = max(entry["longestSeconds"], max(step for step in _STEPS if step <= waited))
    return {queue: dict(sorted(waits[queue].items())) for queue in sorted(waits)}


def _waiting(state: ClusterState) -> Iterator[tuple[str, str, int, Micros | None]]:
    """By equivalence class, of which the first job has waited longest; then jobs that have started in part."""
    for template in state.waiting.templates_in_use():
        for key, alike in template.classes.items():
            if alike.jobs:
                first = alike.jobs[0].job
                yield key.queue, first.priority_class, len(alike.jobs), first.waits_since
        for job in template.started:
            yield job.queue, job.priority_class, 1, job.waits_since


def _amounts(state: ClusterState, vector: Vector) -> dict[str, str]:
    names = state.axis.names
    return {names[row]: format_amount(names[row], amount) for row, amount in vector if not _is_counted(names[row])}


def _is_counted(name: str) -> bool:
    """Whether a row counts devices by class or kind, in addition to the resources that nodes have."""
    return name.startswith((CLASS_PREFIX, KIND_PREFIX))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
