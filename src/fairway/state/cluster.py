"""`ClusterState`: events in, columns and indexes kept true. Nothing here decides anything.

Every change of a task goes through the ledger, which counts it out of where it was and into where it is: that is why
no sum ever needs to be rebuilt, and what `invariants.check` compares with a recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairway.api.classes import ResourceClass
from fairway.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from fairway.api.kinds import ApiObject
from fairway.api.namespaces import Namespace, ResourceQuota
from fairway.api.nodes import Node
from fairway.api.pods import Pod
from fairway.api.scheduling import PodDisruptionBudget, PodGroup, PriorityClass, Queue
from fairway.api.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairway.clock import Micros, from_datetime
from fairway.resources.columns import Axis
from fairway.state import reader
from fairway.state.annotations import kept
from fairway.state.asks import device_record
from fairway.state.events import Assumed, Confirmed, Deleted, Event, Forgotten, Upserted
from fairway.state.facts import DeviceFact, DeviceFacts, fact_key
from fairway.state.faults import AnnotationFaults
from fairway.state.history import RunHistory
from fairway.state.holds import HoldRecord, read_nomination, read_reservations
from fairway.state.jobs import Job, is_valid
from fairway.state.ledger import TaskLedger
from fairway.state.log import Log
from fairway.state.namespaces import NamespaceBook
from fairway.state.nodes import NodeTable
from fairway.state.podterms import PodTerms
from fairway.state.queues import DEFAULT_QUEUE, QueueTree
from fairway.state.shaper import Shaper
from fairway.state.shapes import Shape
from fairway.state.tasks import ACCOUNTED, FINISHED, NOWHERE, ON_NODE, WAITING, Task, TaskState
from fairway.state.volumes import VolumeBook
from fairway.state.waiting import WaitingIndex

CPU, MEMORY, PODS = 0, 1, 2
"""The rows that every axis begins with."""


_NO_LABELS: dict[str, str] = {}
"""One for all pods without labels."""


class ClusterState:
    """The cluster as known from events. `scheduler_names` None means that every pod is ours."""

    def __init__(self, scheduler_names: Iterable[str] | None = None) -> None:
        self.scheduler_names = None if scheduler_names is None else frozenset(scheduler_names)
        self.axis = Axis(("cpu", "memory", "pods"))
        self.nodes = NodeTable(self.axis)
        self.queues = QueueTree()
        self.namespaces = NamespaceBook()
        self.volumes = VolumeBook()
        self.devices = DeviceFacts()
        self.priorities = reader.Priorities()
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.tasks: dict[str, Task] = {}
        self.groups: dict[str, Job] = {}
        self.foreign: dict[str, Task] = {}
        self.nominations: dict[str, HoldRecord] = {}
        self.history = RunHistory()
        self._annotation_faults = AnnotationFaults()
        self.terms = PodTerms(self.namespaces.labels, self._known_tasks)
        self.waiting = WaitingIndex(self.queues)
        self.generation = 0
        self.cache: dict[str, Any] = {}
        self._shaper = Shaper(self.axis, self.terms, self.volumes, self.devices)
        self._traits = reader.TraitReader()
        self._classes_named: dict[str, int] = {}
        self._ledger = TaskLedger(self.nodes, self.queues, self.terms)
        self.changed_jobs: Log[Job] = Log()
        """Jobs that changed, for whoever keeps an index of them."""
        self._confirmed: set[str] = set()
        """Pods whose binding was accepted, but whose own object does not say so yet."""
        self._pods_with_volumes: dict[str, Pod] = {}
        self._pods_with_claims: dict[str, Pod] = {}
        self._handlers: dict[type, tuple[Callable[[Any], None], Callable[[Any], None]]] = {
            Pod: (self._upsert_pod, self._delete_pod),
            Node: (self._upsert_node, self._delete_node),
            PodGroup: (self._upsert_group, self._delete_group),
            Queue: (self._upsert_queue, self._delete_queue),
            ResourceQuota: (self.namespaces.upsert_quota, self._delete_quota),
            Namespace: (self._upsert_namespace, self._delete_namespace),
            PriorityClass: (self._upsert_priority, self._delete_priority),
            PodDisruptionBudget: (self._upsert_budget, self._delete_budget),
            PersistentVolume: (self._upsert_volume, self._delete_volume),
            PersistentVolumeClaim: (self._upsert_volume, self._delete_volume),
            StorageClass: (self._upsert_volume, self._delete_volume),
            **dict.fromkeys(
                (ResourceSlice, ResourceClass, DeviceClass, ResourceClaim, ResourceClaimTemplate),
                (self._upsert_device_fact, self._delete_device_fact),
            ),
        }

    def apply(self, event: Event) -> None:
        """Take one event in. Objects of kinds that do not concern scheduling are passed over."""
        self.generation += 1
        match event:
            case Upserted(thing):
                handlers = self._handlers.get(type(thing))
                if handlers:
                    handlers[0](thing)
            case Deleted(thing):
                handlers = self._handlers.get(type(thing))
                if handlers:
                    handlers[1](thing)
            case Assumed(pod, node, record):
                self.tasks[pod].record = record
                self._relocate(self.tasks[pod], TaskState.BINDING, node)
            case Confirmed(pod):
                if (task := self._binding(pod)) is not None:
                    self._relocate(task, TaskState.BOUND, self.nodes.names[task.node])
                    self._confirmed.add(pod)
            case Forgotten(pod):
                if (task := self._binding(pod)) is not None:
                    task.record = ()
                    self._relocate(task, TaskState.PENDING, "")
                    self._ledger.leave(task)
                    self._enter_waiting(task)

    def upsert(self, objects: Iterable[ApiObject]) -> None:
        for thing in objects:
            self.apply(Upserted(thing))

    def refresh(self) -> None:
        """Bring the waiting index up to date with the jobs that changed."""
        self.nodes.rank_new_names()
        for job in self._ledger.take_marked():
            job.priority = self._priority_of(job)
            self.waiting.refresh(job, job.queue, valid=is_valid(job), fresh=not job.has_started())
            self.changed_jobs.add(job)

    def _priority_of(self, job: Job) -> int:
        """A group's own class counts; without one, its most important pod."""
        if job.priority_class and self.priorities.known(job.priority_class):
            return self.priorities.value(job.priority_class)
        return max([task.priority for task in job.tasks], default=0)

    def shapes(self) -> Iterable[Shape]:
        """Every shape that a task has."""
        return self._shaper.shapes()

    def jobs(self) -> Iterator[Job]:
        """Every job: the groups, then the pods that are alone."""
        yield from self.groups.values()
        yield from (task.job for task in self.tasks.values() if task.job.alone)

    def warnings(self) -> list[str]:
        unknown = sorted(name for name in self._classes_named if not self.priorities.known(name))
        return [
            *self.namespaces.warnings(),
            *self.devices.warnings(),
            *self._annotation_faults.warnings(),
            *(f"priorityclass {name} not found: counted as if none were named" for name in unknown),
        ]

    # -- pods ---------------------------------------------------------------------------------------------

    def _upsert_pod(self, pod: Pod) -> None:
        key = reader.key_of(pod)
        state = reader.observed_state(pod)
        old = self.tasks.get(key)
        assumed_on, record = "", device_record(pod.metadata.annotations)
        bound = TaskState.BINDING
        if old is not None and state is TaskState.PENDING and self._has_binding(old):
            assumed_on, record, bound = self.nodes.names[old.node], old.record, old.state
        self._forget_pod(key)
        if self._is_foreign(pod):
            if pod.spec.node_name and state not in FINISHED:
                self._enter_foreign(key, pod)
            return
        if state is TaskState.SUCCEEDED:
            self.history.note(pod, (reader.group_of(pod) or key).split("/", 1)[1])
        if state is None or (state in FINISHED and not reader.group_of(pod)):
            return
        task = self._read(key, pod)
        task.job.tasks.append(task)
        task.record = record
        if assumed_on:
            self._ledger.enter(task, bound, self.nodes.row(assumed_on))
            if bound is TaskState.BOUND:
                self._confirmed.add(key)
        elif pod.spec.node_name and state not in FINISHED:
            self._ledger.enter(task, state, self.nodes.row(pod.spec.node_name))
        elif state is TaskState.PENDING:
            self._enter_waiting(task)
        else:
            self._ledger.enter(task, state, NOWHERE)
        if pod.spec.volumes and state is TaskState.PENDING:
            self._pods_with_volumes[key] = pod
        if pod.spec.resource_claims and state is TaskState.PENDING:
            self._pods_with_claims[key] = pod

    def _has_binding(self, task: Task) -> bool:
        """Whether its binding is under way, or made but not yet to be seen in its object."""
        return task.state is TaskState.BINDING or task.key in self._confirmed

    def _delete_pod(self, pod: Pod) -> None:
        self._forget_pod(reader.key_of(pod))

    def _is_foreign(self, pod: Pod) -> bool:
        return self.scheduler_names is not None and pod.spec.scheduler_name not in self.scheduler_names

    def _read(self, key: str, pod: Pod) -> Task:
        traits = self._traits.of(pod)
        stamp = pod.metadata.creation_timestamp
        created = None if stamp is None else from_datetime(stamp)
        task = Task(
            key,
            self._job_of(key, pod, created),
            self._shaper.blank,
            priority=pod.spec.priority
            if pod.spec.priority is not None
            else self.priorities.value(traits.priority_class),
            created=created,
            traits=traits,
            labels=pod.metadata.labels or _NO_LABELS,
        )
        started = pod.status.start_time
        task.started = None if started is None else from_datetime(started)
        self.tasks[key] = task
        self._annotation_faults.read(f"pod {key}", pod.metadata.annotations)
        self._name_class(traits.priority_class, 1)
        nomination = read_nomination(pod)
        if nomination is not None:
            self.nominations[key] = nomination
        self._give_shape(task, pod)
        return task

    def _enter_waiting(self, task: Task) -> None:
        """A pod without a node: it may have a claim to room on one."""
        hold = self.hold_of(task)
        if hold is None:
            self._ledger.enter(task, TaskState.PENDING, NOWHERE)
        else:
            self._ledger.enter(task, hold.state, self.nodes.row(hold.node))

    def hold_of(self, task: Task) -> HoldRecord | None:
        """The claim that a waiting task's objects carry."""
        reserved = (task.job.reservations or {}).get(task.key)
        return self.nominations.get(task.key) if reserved is None else reserved

    def _give_shape(self, task: Task, pod: Pod) -> None:
        self.terms.enter(task)
        task.shape, told = self._shaper.shape(pod)
        task.matched = task.shape.matched
        self._tell((term, other) for term, other in told if other is not task)

    def _job_of(self, key: str, pod: Pod, created: Micros | None) -> Job:
        group = reader.group_of(pod)
        if group:
            return self._group(group, pod.metadata.namespace)
        job = Job(key, pod.metadata.namespace, reader.queue_of(pod), alone=True)
        job.created = created
        job.annotations = kept(pod.metadata.annotations)
        job.reservations = read_reservations(pod.metadata.annotations, pod.metadata.namespace) or None
        return job

    def _forget_pod(self, key: str) -> None:
        stranger = self.foreign.pop(key, None)
        if stranger is not None:
            self._place_foreign(stranger, -1)
        task = self.tasks.get(key)
        if task is None:
            return
        self._ledger.leave(task)
        del self.tasks[key]
        self._name_class(task.traits.priority_class, -1)
        task.job.tasks.remove(task)
        self.terms.leave(task)
        self._shaper.release(task.shape)
        self._confirmed.discard(key)
        self._pods_with_volumes.pop(key, None)
        self._pods_with_claims.pop(key, None)
        self.nominations.pop(key, None)
        self._annotation_faults.forget(f"pod {key}")
        self._ledger.mark(task.job)
        if not task.job.tasks and not task.job.group and not task.job.alone:
            del self.groups[task.job.key]

    # -- moves -----------------------------------------------------------------------------------------------

    def _binding(self, pod: str) -> Task | None:
        """The task, if its binding is still under way: a pod that runs or is gone needs no answer any more."""
        task = self.tasks.get(pod)
        return task if task is not None and task.state is TaskState.BINDING else None

    def _relocate(self, task: Task, state: TaskState, node: str) -> None:
        task.check_move(state)
        self._ledger.leave(task)
        if task.matched != task.shape.matched:  # terms that came while it was on its node
            task.shape = self._shaper.rematched(task.shape, task.matched)
        self._ledger.enter(task, state, self.nodes.row(node) if node else NOWHERE)

    def _known_tasks(self) -> Iterator[Task]:
        yield from self.tasks.values()
        yield from self.foreign.values()

    def _tell(self, tasks: Iterable[tuple[int, Task]]) -> None:
        """A new term matches these tasks: count them where they are, and give those that wait a new shape."""
        for term, task in tasks:
            if task.state in ON_NODE and task.node != NOWHERE:
                self.terms.count(term, task.node, 1)
            task.matched = (*task.matched, term)
            if task.state in WAITING and task.key in self.tasks:
                task.shape = self._shaper.rematched(task.shape, task.matched)
                self._ledger.mark(task.job)

    # -- pods of other schedulers: they use room and belong to no queue ------------------------------------

    def _enter_foreign(self, key: str, pod: Pod) -> None:
        job = Job(key, pod.metadata.namespace, "", alone=True)
        task = Task(
            key,
            job,
            self._shaper.blank,
            priority=0,
            created=None,
            traits=self._traits.of(pod),
            labels=pod.metadata.labels,
        )
        self.foreign[key] = task
        task.record = device_record(pod.metadata.annotations)
        self._give_shape(task, pod)
        state = reader.observed_state(pod)
        task.state = TaskState.RUNNING if state is None else state
        task.node = self.nodes.row(pod.spec.node_name)
        self._place_foreign(task, 1)

    def _place_foreign(self, task: Task, by: int) -> None:
        self.nodes.reach()
        self.nodes.foreign.add(task.node, task.shape.vector, by)
        self.nodes.size_generation += 1
        self._ledger.settle(task, by)
        if by < 0:
            self.terms.leave(task)
            self._shaper.release(task.shape)

    # -- groups, queues, nodes -------------------------------------------------------------------------------

    def _group(self, key: str, namespace: str) -> Job:
        job = self.groups.get(key)
        if job is None:
            job = self.groups[key] = Job(key, namespace, DEFAULT_QUEUE)
        return job

    def _upsert_group(self, group: PodGroup) -> None:
        meta, spec = group.metadata, group.spec
        job = self._group(f"{meta.namespace}/{meta.name}", meta.namespace)
        self._move_queue(job, spec.queue or DEFAULT_QUEUE)
        job.group = True
        job.minimum = spec.min_member
        job.role_minimums = tuple(sorted(spec.min_task_member.items()))
        job.minimum_resources = self._shaper.vector(spec.min_resources) if spec.min_resources else None
        job.created = None if meta.creation_timestamp is None else from_datetime(meta.creation_timestamp)
        job.phase = group.status.phase
        job.annotations = kept(meta.annotations)
        self._annotation_faults.read(f"podgroup {job.key}", meta.annotations)
        job.last_ready = _last_ready(group)
        self._rehold(job, read_reservations(meta.annotations, meta.namespace))
        self._name_class(job.priority_class, -1)
        job.priority_class = spec.priority_class_name
        self._name_class(job.priority_class, 1)
        self._ledger.mark(job)

    def _delete_group(self, group: PodGroup) -> None:
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        job = self.groups.get(key)
        if job is None:
            return
        self._move_queue(job, DEFAULT_QUEUE)
        job.group, job.created = False, None
        job.minimum, job.role_minimums, job.minimum_resources, job.phase = 1, (), None, ""
        self._name_class(job.priority_class, -1)
        job.annotations, job.priority_class, job.last_ready = None, "", None
        self._annotation_faults.forget(f"podgroup {key}")
        self._rehold(job, {})
        self._ledger.mark(job)
        if not job.tasks:
            del self.groups[key]

    def _rehold(self, job: Job, reservations: dict[str, HoldRecord]) -> None:
        """The group carries other reservations now."""
        if reservations == (job.reservations or {}):
            return
        job.reservations = reservations or None
        for task in job.tasks:
            if task.state in WAITING:
                self._ledger.leave(task)
                self._enter_waiting(task)

    def _move_queue(self, job: Job, queue: str) -> None:
        if queue == job.queue:
            return
        held = [task for task in job.tasks if task.state in ACCOUNTED]
        for task in held:
            self.queues.get(job.queue).hold(job.namespace, task.shape.vector, -1)
        job.queue = queue
        for task in held:
            self.queues.get(job.queue).hold(job.namespace, task.shape.vector, 1)
            self.nodes.touch(task.node)

    def _upsert_queue(self, queue: Queue) -> None:
        self.queues.upsert(queue, self.axis)
        self._annotation_faults.read(f"queue {queue.metadata.name}", queue.metadata.annotations)

    def _delete_queue(self, queue: Queue) -> None:
        self.queues.delete(queue.metadata.name)
        self._annotation_faults.forget(f"queue {queue.metadata.name}")

    def _upsert_node(self, node: Node) -> None:
        self.nodes.upsert(node)

    def _delete_node(self, node: Node) -> None:
        self.nodes.delete(node.metadata.name)

    # -- the rest ----------------------------------------------------------------------------------------------

    def _delete_quota(self, quota: ResourceQuota) -> None:
        self.namespaces.delete_quota(quota.metadata.namespace, quota.metadata.name)

    def _upsert_namespace(self, namespace: Namespace) -> None:
        self.namespaces.upsert(namespace)
        self._rematch(namespace.metadata.name)

    def _delete_namespace(self, namespace: Namespace) -> None:
        self.namespaces.delete(namespace.metadata.name)
        self._rematch(namespace.metadata.name)

    def _rematch(self, namespace: str) -> None:
        """A namespace's labels changed: terms that select namespaces may mean other pods now."""
        if not len(self.terms):
            return
        for task in list(self._known_tasks()):
            if task.job.namespace != namespace:
                continue
            matched = self.terms.matching(namespace, task.labels)
            if matched == task.matched:
                continue
            placed = task.state in ON_NODE and task.node != NOWHERE
            if placed:
                self.terms.place(task, -1)
            task.matched = matched
            if placed:
                self.terms.place(task, 1)
                self.nodes.touch(task.node)
            if task.state in WAITING:
                task.shape = self._shaper.rematched(task.shape, matched)
                self._ledger.mark(task.job)

    def _upsert_priority(self, priority_class: PriorityClass) -> None:
        self.priorities.upsert(priority_class)
        self._reprioritise()

    def _delete_priority(self, priority_class: PriorityClass) -> None:
        self.priorities.delete(priority_class.metadata.name)
        self._reprioritise()

    def _name_class(self, name: str, by: int) -> None:
        """A pod or group that names a priority class came (by 1) or went (by -1)."""
        if name:
            self._classes_named[name] = self._classes_named.get(name, 0) + by
            if not self._classes_named[name]:
                del self._classes_named[name]

    def _reprioritise(self) -> None:
        for task in self.tasks.values():
            if not task.traits.explicit_priority:
                task.priority = self.priorities.value(task.traits.priority_class)
            self._ledger.mark(task.job)
        for job in self.groups.values():
            self._ledger.mark(job)

    def _upsert_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets[f"{budget.metadata.namespace}/{budget.metadata.name}"] = budget

    def _delete_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets.pop(f"{budget.metadata.namespace}/{budget.metadata.name}", None)

    def _upsert_volume(self, thing: PersistentVolume | PersistentVolumeClaim | StorageClass) -> None:
        self.volumes.upsert(thing)
        self._reshape_volumes()

    def _delete_volume(self, thing: PersistentVolume | PersistentVolumeClaim | StorageClass) -> None:
        self.volumes.delete(thing)
        self._reshape_volumes()

    def _upsert_device_fact(self, thing: DeviceFact) -> None:
        if self.devices.upsert(thing) and isinstance(thing, ResourceClaim):
            self._reshape_claims(fact_key(thing))

    def _delete_device_fact(self, thing: DeviceFact) -> None:
        if self.devices.delete(thing) and isinstance(thing, ResourceClaim):
            self._reshape_claims(fact_key(thing))

    def _reshape_claims(self, claim: str) -> None:
        """A pod asks by the claim that was made for it once that is allocated, and by its template before."""
        for pod in list(self._pods_with_claims.values()):
            made = (status.resource_claim_name for status in pod.status.resource_claim_statuses)
            if any(f"{pod.metadata.namespace}/{name}" == claim for name in made):
                self._upsert_pod(pod)

    def _reshape_volumes(self) -> None:
        """Pods that wait with claims may go elsewhere now."""
        for pod in list(self._pods_with_volumes.values()):
            self._upsert_pod(pod)


def _last_ready(group: PodGroup) -> Micros | None:
    """When the group was last known to be ready: its condition `Scheduled` says so."""
    times = [c.last_transition_time for c in group.status.conditions if c.type == "Scheduled"]
    return max((from_datetime(time) for time in times if time is not None), default=None)
