"""Jobs of the virtual cluster: the objects that the scheduler sees, how long their pods really run, and what happens to
pods and nodes, as new objects (old ones are never changed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from fairway.api.core import Node
from fairway.api.meta import Condition, ObjectMeta, OwnerReference
from fairway.api.pods import (
    DEFAULT_SCHEDULER,
    Affinity,
    Container,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    pod_request,
)
from fairway.api.scheduling import PodGroup, PodGroupSpec
from fairway.clock import SECOND, Micros, to_datetime
from fairway.drive import unrecorded
from fairway.resources.quantity import format_amount
from fairway.sim.metrics import JobFacts
from fairway.sim.traces import GPU_MODEL_LABEL, TraceJob
from fairway.state.annotations import GROUP_NAME, NOMINATED_SINCE, QUEUE_NAME

T = TypeVar("T", bound=Pod | PodGroup)


def uid_at(namespace: str, name: str, at: Micros) -> str:
    """The uid of an object that a virtual cluster creates at this time."""
    return f"{namespace}/{name}@{at}"


def identified(obj: T, at: Micros) -> T:
    """The object with a uid, by default that of an object created at this time."""
    meta = obj.metadata
    if meta.uid:
        return obj
    return replace(obj, metadata=replace(meta, uid=uid_at(meta.namespace, meta.name, at)))


VIRTUAL_OWNER = "VirtualJob"
"""The kind of the controller that recreates a single pod on a virtual cluster."""


def owned(pod: Pod) -> Pod:
    """The pod with its own owner, which stays the same when the pod is recreated."""
    meta = pod.metadata
    uid = f"{VIRTUAL_OWNER}/{meta.namespace}/{meta.name}"
    owner = OwnerReference(kind=VIRTUAL_OWNER, name=meta.name, uid=uid, controller=True)
    return replace(pod, metadata=replace(meta, owner_references=(*meta.owner_references, owner)))


def virtual_owner(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.kind == VIRTUAL_OWNER), None)


def running(pod: Pod, at: Micros) -> Pod:
    """The pod as its containers start."""
    return replace(pod, status=replace(pod.status, phase="Running", start_time=to_datetime(at)))


def succeeded(pod: Pod, ended: Micros) -> Pod:
    over = Condition(type="Ready", status="False", reason="PodCompleted", last_transition_time=to_datetime(ended))
    return replace(pod, status=replace(pod.status, phase="Succeeded", conditions=(*pod.status.conditions, over)))


def recreated(pod: Pod, at: Micros) -> Pod:
    """The pod that a controller creates in place of one that is gone: it has neither node nor devices yet."""
    notes = unrecorded(pod)
    notes.pop(NOMINATED_SINCE, None)
    meta = replace(
        pod.metadata,
        uid=uid_at(pod.metadata.namespace, pod.metadata.name, at),
        creation_timestamp=to_datetime(at),
        deletion_timestamp=None,
        annotations=notes,
    )
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=PodStatus())


def is_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def not_ready(node: Node) -> Node:
    conditions = (Condition(type="Ready", status="False", reason="Failed"),)
    return replace(node, status=replace(node.status, conditions=conditions))


def cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))


Amounts = Mapping[str, int]


class SimPod:
    """One pod: its current object, what it requests, and its place in its life."""

    __slots__ = ("amounts", "bound", "epoch", "job", "key", "node", "pod", "run", "started", "terminating")

    def __init__(self, key: str, pod: Pod, amounts: Amounts, run: Micros, job: SimJob) -> None:
        self.key = key
        self.pod = pod
        self.amounts = amounts
        self.run = run
        self.job = job
        self.node = ""
        self.bound: Micros = 0
        self.started: Micros | None = None
        self.terminating = False
        self.epoch = 0
        """Counts its lives: events planned for an earlier one are ignored."""


class SimJob:
    """A gang, or a single pod."""

    __slots__ = ("group", "key", "left", "limit", "minimum", "namespace", "pods", "queue", "start", "submit", "tenant")

    def __init__(self, key: str, namespace: str, queue: str, minimum: int, group: PodGroup | None) -> None:
        self.key = key
        self.namespace = namespace
        self.queue = queue
        self.minimum = minimum
        self.group = group
        self.tenant = namespace
        """The user in the metrics."""
        self.pods: list[SimPod] = []
        self.left = 0
        """Pods that have not finished."""
        self.submit: Micros = 0
        self.start: Micros | None = None
        self.limit: Micros | None = None
        """The run time that its user requested."""

    def add(self, pod: Pod, run: Micros) -> None:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        self.pods.append(SimPod(key, pod, pod_request(pod.spec).amounts, run, self))
        self.left += 1

    def identify(self, at: Micros) -> None:
        """Gives a uid to the object that reservations refer to."""
        if self.group is not None:
            self.group = identified(self.group, at)
        else:
            pod = identified(self.pods[0].pod, at)
            has_owner = any(owner.controller for owner in pod.metadata.owner_references)
            self.pods[0].pod = pod if has_owner else owned(pod)

    def created(self, at: Micros) -> SimJob:
        """The same job with all its objects created at `at`."""
        created = to_datetime(at)
        for pod in self.pods:
            pod.pod = replace(pod.pod, metadata=replace(pod.pod.metadata, creation_timestamp=created))
        if self.group is not None:
            self.group = replace(self.group, metadata=replace(self.group.metadata, creation_timestamp=created))
        return self

    def annotate(self, notes: Mapping[str, str]) -> None:
        """Adds annotations to the object that stands for the job."""
        if self.group is not None:
            meta = self.group.metadata
            self.group = replace(self.group, metadata=replace(meta, annotations={**meta.annotations, **notes}))
            return
        for pod in self.pods:
            meta = pod.pod.metadata
            pod.pod = replace(pod.pod, metadata=replace(meta, annotations={**meta.annotations, **notes}))

    def facts(self) -> JobFacts:
        """What the metrics need: the minimum counts as the first pods."""
        amounts = [pod.amounts for pod in self.pods]
        return JobFacts(
            key=self.key,
            queue=self.queue,
            namespace=self.tenant,
            tasks=len(self.pods),
            minimum=self.minimum,
            demand=total(amounts),
            first_step=total(amounts[: self.minimum]),
            next_step=amounts[-1],
            limit=self.limit,
        )


def total(amounts: Sequence[Amounts]) -> dict[str, int]:
    """The sum; equal amounts, which is the usual case, are multiplied at once."""
    first = amounts[0]
    if all(other is first for other in amounts):
        return {name: amount * len(amounts) for name, amount in first.items()}
    found: dict[str, int] = {}
    for entry in amounts:
        for name, amount in entry.items():
            found[name] = found.get(name, 0) + amount
    return found


def job_of_trace(job: TraceJob, at: Micros, tenant: str) -> SimJob:
    """The objects of a job that arrives at `at`: a single pod, or a group with a pod for each task."""
    made = _made(job, at)
    made.tenant = tenant
    made.limit = job.limit
    return made


def _made(job: TraceJob, at: Micros) -> SimJob:
    created = to_datetime(at)
    spec = _pod_spec(
        tuple(sorted(job.request.items())),
        -(-job.limit // SECOND) or 1 if job.limit is not None else None,
        job.priority,
        job.gpu_models,
        tuple(sorted(job.node_selector.items())),
    )
    if job.tasks == 1:
        made = SimJob(job.key, job.namespace, job.queue, 1, None)
        notes = {QUEUE_NAME: job.queue} if job.queue != "default" else {}
        meta = ObjectMeta(name=job.name, namespace=job.namespace, annotations=notes, creation_timestamp=created)
        made.add(Pod(spec=spec, metadata=meta), job.duration)
        return made
    minimum = job.tasks if job.minimum is None else job.minimum
    group = PodGroup(
        metadata=ObjectMeta(name=job.name, namespace=job.namespace, creation_timestamp=created),
        spec=PodGroupSpec(min_member=minimum, queue=job.queue),
    )
    made = SimJob(job.key, job.namespace, job.queue, minimum, group)
    notes = {GROUP_NAME: job.name}
    width = len(str(job.tasks - 1))
    for index in range(job.tasks):
        name = f"{job.name}-{index:0{width}d}"
        meta = ObjectMeta(name=name, namespace=job.namespace, annotations=notes, creation_timestamp=created)
        made.add(Pod(spec=spec, metadata=meta), job.duration)
    return made


@lru_cache(maxsize=4096)
def _pod_spec(
    request: tuple[tuple[str, int], ...],
    deadline: int | None,
    priority: int,
    models: tuple[str, ...],
    selector: tuple[tuple[str, str], ...],
) -> PodSpec:
    """Equal jobs share one, so that the scheduler reads it once."""
    texts = {name: format_amount(name, amount) for name, amount in request}
    affinity = None
    if models:
        term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(GPU_MODEL_LABEL, "In", models),))
        required = NodeSelector(node_selector_terms=(term,))
        affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    return PodSpec(
        containers=(Container(name="main", resources=ResourceRequirements(requests=texts)),),
        scheduler_name=DEFAULT_SCHEDULER,
        active_deadline_seconds=deadline,
        priority=priority or None,
        affinity=affinity,
        node_selector=dict(selector),
    )
