"""The cluster of the reference: objects read one by one into plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairway.api.core import NAMESPACE_WEIGHT, Namespace, Node, ResourceQuota
from fairway.api.kinds import ApiObject
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod, pod_request
from fairway.api.scheduling import PodGroup, PriorityClass, Queue
from fairway.clock import Micros, from_datetime
from fairway.resources.algebra import Resource
from oracles.matching import LAST, weight_of

Amounts = dict[str, int]

GROUP_NAME = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
TASK_ROLE = "volcano.sh/task-spec"


@dataclass(eq=False)
class Task:
    """A pod; `node` is where it is, "" if nowhere yet."""

    pod: Pod
    request: Amounts
    priority: int
    node: str
    leaving: bool = False
    finished: str = ""
    gated: bool = False
    group_notes: Mapping[str, str] = field(default_factory=dict)
    """The annotations of its group."""

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def role(self) -> str:
        return self.pod.metadata.annotations.get(TASK_ROLE, "")

    @property
    def best_effort(self) -> bool:
        return all(not amount for name, amount in self.request.items() if name != "pods")

    @property
    def holds(self) -> bool:
        """Whether it counts for queue, namespace and job."""
        return bool(self.node) and not self.leaving

    @property
    def ready(self) -> bool:
        known = self.pod.status.phase != "Unknown"
        return self.finished == "Succeeded" or (self.holds and known)

    @property
    def member(self) -> bool:
        return self.finished != "Failed" and not self.leaving and not self.gated

    def alike(self, other: Task) -> bool:
        mine, theirs = self.pod, other.pod
        return (mine.spec, mine.metadata.labels, self.role) == (theirs.spec, theirs.metadata.labels, other.role)


@dataclass(eq=False)
class Job:
    key: str
    namespace: str
    alone: bool
    queue: str = ""
    group: bool = False
    implicit: bool = False
    minimum: int = 1
    roles: Mapping[str, int] = field(default_factory=dict)
    minimum_resources: Amounts | None = None
    created: Micros = LAST
    phase: str = ""
    priority: int = 0
    tasks: list[Task] = field(default_factory=list)

    def waiting(self) -> list[Task]:
        found = [task for task in self.tasks if not task.node and not task.finished and not task.gated]
        return sorted(found, key=lambda task: (-task.priority, task.key))

    def ready_tasks(self, role: str | None = None) -> int:
        return sum(task.ready for task in self.tasks if role is None or task.role == role)

    def is_ready(self) -> bool:
        return self.ready_tasks() >= self.minimum and all(
            self.ready_tasks(role) >= least for role, least in self.roles.items()
        )

    def is_broken(self) -> bool:
        """Whether pods of it run, but fewer than it needs."""
        runs = any(task.ready and not task.finished for task in self.tasks)
        return runs and not self.is_ready() and not self.alone

    def is_valid(self) -> bool:
        members = [task for task in self.tasks if task.member]
        return len(members) >= self.minimum and all(
            sum(task.role == role for task in members) >= least for role, least in self.roles.items()
        )

    def held(self) -> Amounts:
        return add_up(task.request for task in self.tasks if task.holds)


@dataclass(eq=False)
class QueueRecord:
    name: str
    made: bool = False
    weight: int = 1
    priority: int = 0
    created: Micros = LAST
    open: bool = True
    parent: str = ""
    capability: Amounts = field(default_factory=dict)
    guarantee: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)

    @property
    def exists(self) -> bool:
        return self.made or self.name == "default"


class Cluster:
    """Everything by name."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        self.nodes: dict[str, Node] = {}
        self.queues: dict[str, QueueRecord] = {"default": QueueRecord("default")}
        self.jobs: dict[tuple[str, bool], Job] = {}
        self.labels: dict[str, Mapping[str, str]] = {}
        self.namespace_queues: dict[str, str] = {}
        self.weights: dict[str, int] = {}
        self.classes: dict[str, PriorityClass] = {}
        things = list(objects)
        for thing in things:
            self._read(thing)
        for thing in things:
            if isinstance(thing, Pod):
                self._read_pod(thing)
        for job in self.jobs.values():
            self._settle(job)
            self.queues.setdefault(job.queue, QueueRecord(job.queue))
        self._prioritise({t.metadata.name + "/" + t.metadata.namespace: t for t in things if isinstance(t, PodGroup)})
        for group in [thing for thing in things if isinstance(thing, PodGroup)]:
            for task in self.jobs[f"{group.metadata.namespace}/{group.metadata.name}", False].tasks:
                task.group_notes = group.metadata.annotations

    def tasks(self) -> list[Task]:
        return [task for job in self.jobs.values() for task in job.tasks]

    def _read(self, thing: ApiObject) -> None:
        match thing:
            case Node():
                self.nodes[thing.metadata.name] = thing
            case Queue():
                self.queues[thing.metadata.name] = _queue(thing)
            case Namespace():
                self.labels[thing.metadata.name] = thing.metadata.labels
                self.namespace_queues[thing.metadata.name] = _queue_named(thing.metadata)
            case ResourceQuota():
                weight = weight_of(thing.spec.hard.get(NAMESPACE_WEIGHT, "1"))
                name = thing.metadata.namespace
                self.weights[name] = max(weight, self.weights.get(name, 1))
            case PriorityClass():
                self.classes[thing.metadata.name] = thing
            case PodGroup():
                self._read_group(thing)
            case _:
                pass

    def _read_group(self, group: PodGroup) -> None:
        meta, spec = group.metadata, group.spec
        job = Job(f"{meta.namespace}/{meta.name}", meta.namespace, alone=False, queue=spec.queue, group=True)
        job.queue = spec.queue or _queue_named(meta)
        job.minimum, job.phase = spec.min_member, group.status.phase
        if sum(spec.min_task_member.values()) <= spec.min_member:
            job.roles = spec.min_task_member
        stated = {
            name: amount
            for name, amount in spec.min_resources.items()
            if not name.startswith(("count/", "requests.", "limits."))  # a quota's names for the same pods
        }
        job.minimum_resources = dict(Resource.parse(stated).amounts) if stated else None
        job.created = LAST if meta.creation_timestamp is None else from_datetime(meta.creation_timestamp)
        self.jobs[job.key, False] = job

    def _read_pod(self, pod: Pod) -> None:
        meta, phase = pod.metadata, pod.status.phase
        leaving = meta.deletion_timestamp is not None
        finished = phase if phase in ("Succeeded", "Failed") else ""
        group = meta.annotations.get(GROUP_NAME, "")
        owner = next((f"{o.kind.lower()}/{o.name}" for o in meta.owner_references if o.controller), "")
        if finished and not group and not owner:
            return
        if not pod.spec.node_name and not finished and leaving:
            return
        priority = pod.spec.priority
        if priority is None:
            priority = self._class_value(pod.spec.priority_class_name)
        node = "" if finished else pod.spec.node_name
        request = {**pod_request(pod.spec).amounts, "pods": 1}
        task = Task(pod, request, priority, node, leaving and not finished, finished)
        task.gated = not node and not finished and bool(pod.spec.scheduling_gates)
        self._job_of(task, group, owner).tasks.append(task)

    def _job_of(self, task: Task, group: str, owner: str) -> Job:
        meta = task.pod.metadata
        if group or owner:
            key = f"{meta.namespace}/{group or owner}"
            job = self.jobs.setdefault((key, False), Job(key, meta.namespace, alone=False))
            job.implicit = not group
            return job
        job = Job(task.key, meta.namespace, alone=True)
        job.queue = _queue_named(meta)
        job.created = LAST if meta.creation_timestamp is None else from_datetime(meta.creation_timestamp)
        self.jobs[task.key, True] = job
        return job

    def _settle(self, job: Job) -> None:
        """What a job's group does not say its pods do, then its namespace."""
        said = sorted(filter(None, (_queue_named(task.pod.metadata) for task in job.tasks)))
        job.queue = job.queue or (said[0] if said else "") or self.namespace_queues.get(job.namespace) or "default"
        if job.implicit:
            texts = [task.pod.metadata.annotations.get("fairway.dev/min-available", "1") for task in job.tasks]
            job.minimum = max(map(int, texts))
            times = (task.pod.metadata.creation_timestamp for task in job.tasks)
            job.created = min((from_datetime(time) for time in times if time is not None), default=LAST)
            job.phase = "Inqueue"

    def _class_value(self, name: str) -> int:
        if name in self.classes:
            return self.classes[name].value
        return max((c.value for c in self.classes.values() if c.global_default), default=0)

    def _prioritise(self, groups: Mapping[str, PodGroup]) -> None:
        named = {f"{g.metadata.namespace}/{g.metadata.name}": g.spec.priority_class_name for g in groups.values()}
        for job in self.jobs.values():
            name = "" if job.alone else named.get(job.key, "")
            most = max((task.priority for task in job.tasks), default=None)
            stated = self.classes[name].value if name in self.classes else most
            job.priority = min(
                p for p in (most, stated, 0 if most is None and stated is None else None) if p is not None
            )


def _queue(queue: Queue) -> QueueRecord:
    spec, created = queue.spec, queue.metadata.creation_timestamp
    return QueueRecord(
        queue.metadata.name,
        True,
        spec.weight,
        spec.priority,
        LAST if created is None else from_datetime(created),
        (spec.state or queue.status.state) not in ("Closed", "Closing"),
        "" if spec.parent == "root" else spec.parent,
        dict(Resource.parse(spec.capability).amounts),
        dict(Resource.parse(spec.guarantee.resource).amounts),
        dict(Resource.parse(spec.deserved).amounts),
    )


def _queue_named(meta: ObjectMeta) -> str:
    said = {**meta.annotations, **meta.labels}
    return said.get("fairway.dev/queue") or said.get("kueue.x-k8s.io/queue-name") or said.get(QUEUE_NAME, "")


def add_up(requests: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for request in requests:
        for name, amount in request.items():
            total[name] = total.get(name, 0) + amount
    return total
