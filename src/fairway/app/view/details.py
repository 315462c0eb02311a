"""One job or one node in full, and what an action on a job has to address.

A job: its state and reason, pods, history, victims, and the controller that recreates its pods. A node: pods, devices,
reservations, and how many more pods of a shape fit, which shows what fragmentation costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import yaml

from fairway.api.core import Node
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.explain import stop_history
from fairway.app.records import without_free_text, written
from fairway.app.view.amounts import base, base_of_rows, is_resource
from fairway.app.view.job_journal import JobRecord
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.cluster import FitAnswer, NodeDetail, NodePod
from fairway.app.view.models.jobs import (
    DeviceShare,
    JobDetail,
    JobManifest,
    JobStateChange,
    JobSummary,
    NodeCause,
    PodPlace,
    PodShape,
)
from fairway.app.view.node_map import STATE_NAMES, devices_on
from fairway.app.view.picture import POD_STATES, Picture, pod_of
from fairway.clock import format_rfc3339
from fairway.devices.track.record import read as read_record
from fairway.errors import InputError
from fairway.resources.columns import Vector
from fairway.resources.quantity import parse_amount
from fairway.scheduler.plan import Pending
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import ON_NODE, WAITING, Job, Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import snapshot_of
from fairway.state.tables import PODS

MAX_PODS = 1_000
EXAMPLES = 5
"""Maximum number of nodes named for each cause."""
HIDDEN = "(a job of another namespace)"


def find_job(mirror: Mirror, name: str) -> Job | None:
    job = mirror.state.groups.get(name)
    if job is not None:
        return job
    task = mirror.state.tasks.get(name)
    return None if task is None else task.job


def job_detail(mirror: Mirror, picture: Picture, name: str) -> JobDetail:
    """Raises InputError for an unknown job."""
    job, ended = find_job(mirror, name), mirror.journal.ended.get(name)
    row = picture.jobs.by_name.get(name if job is None else job.key)
    if row is None and ended is not None:
        row = ended[0]
    if row is None:
        raise InputError(f"{name}: there is no such job")
    record = mirror.journal.records.get(row.job) or (None if ended is None else ended[1])
    pending = picture.pending.get(row.job)
    queue_waiting = sum(entry.queue == row.queue for entry in picture.pending.values())
    tasks = [] if job is None else sorted(job.tasks, key=lambda task: task.key)
    return JobDetail(
        revision=picture.revision,
        now=picture.now,
        job=row,
        sentence=sentence(row, pending, queue_waiting),
        queue_waiting=queue_waiting,
        shapes=_shapes(mirror, tasks),
        pods=[_place(mirror, task, record) for task in tasks[:MAX_PODS]],
        pods_total=len(tasks),
        causes=[] if pending is None or job is None else _causes(mirror, picture, pending, job),
        history=list(_history(record)),
        reservations=[entry for entry in picture.reservations.rows if entry.job == row.job],
        victims=[entry for entry in mirror.journal.evictions if entry.for_job == row.job],
        evicted_by=[entry for entry in mirror.journal.evictions if entry.job == row.job],
        stopped=None if job is None else stop_history(mirror.state, mirror.policy, job, mirror.now),
        labels=dict(job_labels(mirror, job)) if job is not None else {},
        allowed=[],
    )


def sentence(row: JobSummary, pending: Pending | None, queue_waiting: int) -> str:
    """Its state and the reason."""
    pods = "1 pod" if row.pods == 1 else f"{row.pods} pods"
    if row.state == "finished":
        when = f" at {row.ended}" if row.ended else ""
        return f"It has ended{when}: {row.outcome or 'gone'}."
    if row.state == "starting":
        return f"It starts with the next cycle: its {pods} fit now."
    if row.state == "running":
        more = f" The rest waits: {row.message}." if row.message else ""
        return f"It runs: {row.placed} of {pods} on nodes{f' since {row.started}' if row.started else ''}.{more}"
    if pending is None:
        return "It is held: its pods are gated." if row.held else f"It waits with {pods}."
    place = f"as number {row.position} of {queue_waiting} in queue {row.queue}"
    starving = ", and is starving" if row.starving else ""
    return f"It waits {place}{starving}: {row.message}."


# -- pods ------------------------------------------------------------------------------------------------------


def job_labels(mirror: Mirror, job: Job) -> Mapping[str, str]:
    namespace, _, name = job.key.partition("/")
    group = mirror.objects.get(("PodGroup", namespace, name)) if job.group else None
    if isinstance(group, PodGroup) and group.metadata.labels:
        return group.metadata.labels
    return job.tasks[0].labels if job.tasks else {}


def _shapes(mirror: Mirror, tasks: Iterable[Task]) -> list[PodShape]:
    counts: dict[Shape, int] = {}
    for task in tasks:
        counts[task.shape] = counts.get(task.shape, 0) + 1
    return [
        PodShape(number, requests_of(mirror, shape.vector), devices_of(mirror, shape.vector), _selector(shape))
        for shape, number in counts.items()
    ]


def requests_of(mirror: Mirror, vector: Vector) -> dict[str, float]:
    names = mirror.state.axis.names
    return {names[row]: base(names[row], amount) for row, amount in vector if amount and is_resource(names[row])}


def devices_of(mirror: Mirror, vector: Vector) -> dict[str, float]:
    names = mirror.state.axis.names
    found = ((names[row], amount) for row, amount in vector if amount)
    return {name.removeprefix(CLASS_PREFIX): amount / 1000 for name, amount in found if name.startswith(CLASS_PREFIX)}


def _selector(shape: Shape) -> str:
    parts = [f"{key}={value}" for key, value in shape.node_selector]
    if shape.node_affinity is not None:
        parts.append("node affinity")
    if shape.has_pod_rules:
        parts.append("rules about other pods or volumes")
    if shape.ports:
        parts.append("host ports")
    return ", ".join(parts)


def _place(mirror: Mirror, task: Task, record: JobRecord | None) -> PodPlace:
    since = None if record is None else record.placed.get(task.key)
    kept = mirror.state.reservation_of(task)
    node = mirror.state.nodes.names[task.node] if task.node >= 0 else "" if kept is None else kept.node
    return PodPlace(
        pod=task.key,
        state=POD_STATES[task.state],  # type: ignore[arg-type]
        node=node,
        since=None if since is None else format_rfc3339(since),
        devices=pod_devices(mirror, task.key),
    )


def pod_devices(mirror: Mirror, key: str) -> list[DeviceShare]:
    """The stops recorded in its annotations."""
    pod = pod_of(mirror, key)
    if pod is None or not pod.metadata.annotations:
        return []
    return [DeviceShare(use.device, use.milli / 1000, use.class_name) for use in read_record(pod.metadata.annotations)]


# -- why it waits ----------------------------------------------------------------------------------------------


def _causes(mirror: Mirror, picture: Picture, pending: Pending, job: Job) -> list[NodeCause]:
    ordered = sorted(pending.nodes.items(), key=lambda pair: (-pair[1], pair[0]))
    waiting = [task for task in job.tasks if task.state in WAITING]
    shape = waiting[0].shape if waiting else None
    reserved = {entry.node for entry in picture.reservations.rows if entry.node}
    return [NodeCause(cause, nodes, _examples(mirror, cause, nodes, shape, reserved)) for cause, nodes in ordered]


def _examples(mirror: Mirror, cause: str, nodes: int, shape: Shape | None, reserved: set[str]) -> list[str]:
    """Names of nodes that lack a resource; for other causes only the number is known. A node counts under the first
    check that it fails, and resources are checked last, in order of their names. Which nodes failed an earlier check is
    not known here, so names are listed only if as many nodes remain as were counted.
    """
    resource = cause.removeprefix("insufficient ")
    state = mirror.state
    if shape is None or resource == cause or state.axis.find(resource) is None:
        return []
    snapshot = snapshot_of(state)
    left = snapshot.alive.copy()
    if reserved:
        left &= np.array([name not in reserved for name in snapshot.names[: len(left)]], dtype=np.bool_)
    for name, row, amount in sorted((state.axis.names[row], row, amount) for row, amount in shape.vector):
        short = left & (snapshot.idle[row] < amount)
        if name == resource:
            names = sorted(snapshot.names[place] for place in np.flatnonzero(short).tolist())
            return names[:EXAMPLES] if len(names) == nodes else []
        left &= ~short
    return []


def _history(record: JobRecord | None) -> Iterable[JobStateChange]:
    return () if record is None else record.changes


# -- objects ---------------------------------------------------------------------------------------------------


def job_manifest(mirror: Mirror, name: str) -> JobManifest:
    """Raises InputError for an unknown job, or if its objects no longer exist."""
    job = find_job(mirror, name)
    if job is None:
        raise InputError(f"{name}: its objects no longer exist")
    namespace, _, own = job.key.partition("/")
    things: list[Pod | PodGroup] = []
    group = mirror.objects.get(("PodGroup", namespace, own))
    if isinstance(group, PodGroup) and job.group:
        things.append(group)
    pods = (pod_of(mirror, task.key) for task in sorted(job.tasks, key=lambda task: task.key)[:MAX_PODS])
    things += [pod for pod in pods if pod is not None]
    documents = [yaml.safe_load(bytes(written(without_free_text(thing)))) for thing in things]
    text = "---\n".join(yaml.safe_dump(_pruned(one), sort_keys=False, allow_unicode=True) for one in documents)
    return JobManifest(text)


def _pruned(value: object) -> object:
    """Without empty fields."""
    if isinstance(value, dict):
        kept = {key: _pruned(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in (None, "", [], {})}
    return [_pruned(one) for one in value] if isinstance(value, list) else value


MAX_COUNTED = 1 << 40


def node_detail(mirror: Mirror, picture: Picture, name: str) -> NodeDetail:
    """Raises InputError for an unknown node."""
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
    """Considers the free capacity of schedulable nodes only, not selectors, taints or topology."""
    amounts = dict(map(_request, requests))
    state, snapshot = mirror.state, snapshot_of(mirror.state)
    nodes, size = state.nodes, snapshot.size
    usable = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    free = np.maximum(snapshot.idle[:, usable] - nodes.reserved.data[:, :size][:, usable], 0)
    fits = np.full(int(usable.sum()), MAX_COUNTED, dtype=np.int64)
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
        raise InputError(f"request={text}: expected resource=amount, such as cpu=8")
    return name, parse_amount(name, amount)


JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_JOB_SET = "jobset.x-k8s.io", "jobset"
_KINDS = {
    ("batch", "job"): ("apis/batch/v1", "jobs", "Job"),
    _JOB_SET: ("apis/jobset.x-k8s.io/v1alpha2", "jobsets", "JobSet"),
    ("batch.volcano.sh", "job"): ("apis/batch.volcano.sh/v1alpha1", "jobs", "Volcano Job"),
}


class JobOwner(NamedTuple):
    """A controller. `path` is its path at the API server; "" for an unknown kind."""

    title: str
    path: str = ""


def owner_of(mirror: Mirror, job: Job) -> JobOwner | None:
    """The controller of a job's pods or PodGroup; None if there is none, or if pods have several."""
    namespace, _, name = job.key.partition("/")
    group = mirror.objects.get(("PodGroup", namespace, name)) if job.group else None
    pods = (pod_of(mirror, task.key) for task in job.tasks)
    found = {_owner(pod.metadata) for pod in pods if pod is not None}
    if isinstance(group, PodGroup) and _controlled(group.metadata):
        found = {_owner(group.metadata)}
    return found.pop() if len(found) == 1 else None


def held_pods(pods: int) -> str:
    """The note on a hold without a PodGroup: pods that the controller creates later are not held."""
    noun = "1 pod that waits is" if pods == 1 else f"{pods} pods that wait are"
    return f"{noun} held; pods that its controller makes later are not"


def _owner(meta: ObjectMeta) -> JobOwner | None:
    above = meta.labels.get(JOB_SET_LABEL)
    if above:
        return _known(_JOB_SET, meta.namespace, above)
    for owner in _controlled(meta):
        kind = owner.api_version.rpartition("/")[0], owner.kind.lower()
        return _known(kind, meta.namespace, owner.name) if kind in _KINDS else JobOwner(f"{owner.kind} {owner.name}")
    return None


def _controlled(meta: ObjectMeta) -> list[OwnerReference]:
    return [owner for owner in meta.owner_references if owner.controller]


def _known(kind: tuple[str, str], namespace: str, name: str) -> JobOwner:
    prefix, plural, title = _KINDS[kind]
    path = f"/{prefix}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}"
    return JobOwner(f"{title} {name}", path)
