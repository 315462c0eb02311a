"""What a member cluster reports to its hub: what is free, how many pods of which size would fit, how long work waits,
and what the workloads of placements use.

All of it is one report, made from one state: what a workload uses and what is free no longer change together, so that
the books of the hub balance at every moment.
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
from fairway.drive.loop import Cycle
from fairway.fleet.names import FREE, SHAPES, USAGE, USED_BY_NAME, USED_BY_NAMESPACE, WAITS
from fairway.resources import format_amount
from fairway.resources.columns import Vector
from fairway.scheduler.placement import matching
from fairway.state.cluster import ClusterState, Deleted, Event
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import ON_NODE
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy

MOST_SHAPES = 12
"""Sizes of pods that are reported: those that most pods have."""
LONGEST_SHAPE = 2000
"""Characters of one size as it is reported. A longer one (a node selector of a hundred labels) is left out."""
MOST_PLACEMENTS = 300
"""Whose usage is reported: those that most pods name. Labels are free text, and a hub takes a report up to a size."""
MOST_QUEUES = 50
_STEPS = (0, 60, 300, 900, 3600, 4 * 3600, 86_400)
"""Waits are reported in these steps, in seconds: a wait that only grows is no news."""

MemberReport = Mapping[str, str]
"""Annotations of the ManagedCluster."""


class PlacementPods:
    """The pods that carry the labels of a placement: a listener of the loop, so that no report looks at all pods."""

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
        """What pods on nodes use, by placement: amounts that are not free, of resources that nodes have. Of a placement
        that is left out all that is reserved seems to be unused: the hub then gives away too little, never too much.
        """
        has = _offered(state)
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
                if row in has:
                    used[row] = used.get(row, 0) + amount
        most = sorted(sorted(sums, key=lambda owner: (-counts[owner], owner))[:MOST_PLACEMENTS])
        return {owner: _amounts(state, tuple(sorted(sums[owner].items()))) for owner in most}


def _owner(labels: Mapping[str, str]) -> str:
    namespace, name = labels.get(USED_BY_NAMESPACE, ""), labels.get(USED_BY_NAME, "")
    return f"{namespace}/{name}" if namespace and name else ""


def report(state: ClusterState, pods: PlacementPods, now: Micros) -> MemberReport:
    idle = _idle(state)
    return {
        **_amounts_only(state, pods, idle),
        SHAPES: _json(_shapes(state, idle)),
        WAITS: _json(_waits(state, now)),
    }


def scores(state: ClusterState) -> dict[str, int]:
    """How much of each resource is free, as Open Cluster Management counts: from -100, nothing, to 100, all of it."""
    idle = _idle(state)
    totals = state.nodes.allocatable.data[:, _usable(state)].sum(axis=1).tolist()
    found = zip(state.axis.names, idle.sum(axis=1).tolist(), totals, strict=False)
    return {f"{name}Free": 200 * free // total - 100 for name, free, total in found if total and not _is_counted(name)}


def amounts_report(state: ClusterState, pods: PlacementPods) -> MemberReport:
    """The part of a report that placement counts with: what is free, and what placements use."""
    return _amounts_only(state, pods, _idle(state))


def _amounts_only(state: ClusterState, pods: PlacementPods, idle: Any) -> dict[str, str]:
    return {FREE: _json(_free(state, idle)), USAGE: _json(pods.usage(state))}


def _idle(state: ClusterState) -> Any:
    """What nodes that take pods can still take: by resource and node, nothing negative. What is being released for a
    nominated pod is not free.
    """
    nodes = state.nodes
    nodes.reach()
    usable = _usable(state)
    owed = np.maximum(nodes.pipelined.data[:, usable] - nodes.releasing.data[:, usable], 0)
    taken = nodes.used.data[:, usable] + nodes.drawn.data[:, usable]
    return np.maximum(nodes.allocatable.data[:, usable] - taken - owed, 0)


def _usable(state: ClusterState) -> Any:
    """Rows of the nodes that take pods."""
    nodes, size = state.nodes, len(state.nodes)
    return np.flatnonzero(nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size])


def _free(state: ClusterState, idle: Any) -> dict[str, str]:
    named = zip(state.axis.names, idle.sum(axis=1).tolist(), strict=False)
    has = _offered(state)
    return {
        name: format_amount(name, amount)
        for row, (name, amount) in enumerate(named)
        if row in has and not _is_counted(name)
    }


def _offered(state: ClusterState) -> set[int]:
    """Rows of the resources that some node has. A pod that names its node itself may request any."""
    return set(np.flatnonzero(state.nodes.allocatable.data.any(axis=1)).tolist())


def _shapes(state: ClusterState, idle: Any) -> list[dict[str, Any]]:
    """How many more pods of a size fit at once on nodes that they may use: also the largest gang of that size."""
    alike: dict[tuple[Any, ...], list[Shape]] = {}
    for shape in state.shapes():
        if shape.tasks and not shape.best_effort and not shape.giant:
            key = shape.key
            alike.setdefault((key.vector, key.node_selector, key.node_affinity, key.tolerations), []).append(shape)
    most = sorted(alike.items(), key=lambda entry: (-sum(shape.tasks for shape in entry[1]), repr(entry[0])))
    made = (_shape(state, shapes[0], idle) for _, shapes in most[: 4 * MOST_SHAPES])
    return list(islice((one for one in made if len(_json(one)) <= LONGEST_SHAPE), MOST_SHAPES))


def _shape(state: ClusterState, shape: Shape, idle: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"request": _amounts(state, shape.vector)}
    if shape.node_selector:
        made["nodeSelector"] = dict(shape.node_selector)
    return {**made, "fits": _fits(shape.vector, idle[:, _admitting(state, shape)[_usable(state)]])}


def _admitting(state: ClusterState, shape: Shape) -> Any:
    """The nodes whose labels and taints let pods of the shape in, by the scheduler's own rules."""
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
    """What matching reads of a working copy."""

    state: ClusterState
    size: int
    names: Any


def _fits(vector: Vector, idle: Any) -> int:
    if any(amount and row >= len(idle) for row, amount in vector):
        return 0
    counts = [idle[row] // amount for row, amount in vector if amount]
    return int(np.minimum.reduce(counts).sum()) if counts else 0


def _waits(state: ClusterState, now: Micros) -> dict[str, dict[str, dict[str, int]]]:
    """Jobs that wait, by queue and priority class ("" for none), and the longest wait in steps of seconds."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for queue, name, jobs, since in _waiting(state):
        if queue not in found and len(found) >= MOST_QUEUES:
            continue
        entry = found.setdefault(queue, {}).setdefault(name, {"jobs": 0, "longestSeconds": 0})
        entry["jobs"] += jobs
        waited = 0 if since is None else max(0, (now - since) // SECOND)
        entry["longestSeconds"] = max(entry["longestSeconds"], max(step for step in _STEPS if step <= waited))
    return {queue: dict(sorted(found[queue].items())) for queue in sorted(found)}


def _waiting(state: ClusterState) -> Iterator[tuple[str, str, int, Micros | None]]:
    """By class of equal jobs, of which the first has waited longest; then jobs that have started in part."""
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
    """Whether a row counts devices by class or kind, beside the resources that nodes have."""
    return name.startswith((CLASS_PREFIX, KIND_PREFIX))


def _json(thing: object) -> str:
    return json.dumps(thing, separators=(",", ":"))
