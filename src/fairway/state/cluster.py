"""`ClusterState`: events go in, and the tables and indexes stay consistent. Nothing here decides anything.

Every change of a task goes through the ledger, which subtracts it where it was and adds it where it is. That is why no
sum ever needs to be rebuilt, and what `invariants.check` compares with a recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fairway.api import kinds
from fairway.api.core import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    StorageClass,
)
from fairway.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClass,
    ResourceSlice,
)
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import (
    EvictionRecord,
    HyperNode,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    Reservation,
)
from fairway.state.compaction import Compaction
from fairway.state.device_requests import DeviceFact, fact_key
from fairway.state.events import Deleted, Event, Upserted
from fairway.state.intake.groups import GroupIntake
from fairway.state.intake.pods import PodIntake
from fairway.state.jobs import Job, is_broken, is_valid
from fairway.state.ledger import TaskLedger
from fairway.state.namespaces import NamespaceBudgets
from fairway.state.queues import ROOT_QUEUE
from fairway.state.reader import ResourceNames
from fairway.state.shaper import Shaper
from fairway.state.shapes import Shape
from fairway.state.tables import ClusterTables
from fairway.state.volumes import VolumeFact

__all__ = ["COLUMN_BYTES", "ClusterState", "Deleted", "Event", "Upserted"]

COLUMN_BYTES = 256 << 20
"""80 KB for each shape at 10,000 nodes; the least recently used go."""
MIN_LOGGED_JOBS = 1024
"""Changes of jobs that are kept at least, so that on a small cluster no reader that looks in every cycle misses one."""


class ClusterState(ClusterTables):
    """The tables, and the events that change them."""

    def __init__(
        self,
        scheduler_names: Iterable[str] | None = None,
        *,
        column_bytes: int = COLUMN_BYTES,
        budget: int | None = None,
    ) -> None:
        """Columns that the scheduler keeps from cycle to cycle take at most `column_bytes` of memory. That decides how
        much is computed again, and no plan. `budget` is what namespaces that have much to do may cost in one cycle.
        """
        super().__init__(scheduler_names)
        self.namespace_budgets = NamespaceBudgets(budget)
        self.column_bytes = column_bytes
        self.generation = 0
        """Rises with each event."""
        self.cycles = 0
        """Rises as each cycle begins."""
        self.compaction = Compaction(self, self.refresh, self.shapes, self.forget_intake)
        self._names = ResourceNames(self.axis, self.compaction.run)
        self._shaper = Shaper(self._names, self.terms, self.volumes, self.devices, self.compaction.shape_gone)
        self._ledger = TaskLedger(self.nodes, self.queues, self.terms, self.volume_use)
        self._groups = GroupIntake(self, self._ledger, self._shaper, self.compaction)
        self._pods = PodIntake(self, self._ledger, self._shaper, self._groups)
        self._handlers: dict[type, tuple[Callable[[Any], object], Callable[[Any], object]]] = {
            Pod: (self._pods.upsert, self._pods.delete),
            Node: (self.nodes.upsert, self._delete_node),
            PodGroup: (self._upsert_group, self._delete_group),
            HyperNode: (self._upsert_hyper_node, self._delete_hyper_node),
            Queue: (self._upsert_queue, self._delete_queue),
            Reservation: (self._upsert_reservation, self._delete_reservation),
            EvictionRecord: (self.eviction_records.upsert, self.eviction_records.delete),
            ResourceQuota: (self.namespaces.upsert_quota, self._delete_quota),
            Namespace: (self._upsert_namespace, self._delete_namespace),
            PriorityClass: (self._upsert_priority, self._delete_priority),
            PodDisruptionBudget: (self._upsert_budget, self._delete_budget),
            **dict.fromkeys(
                (PersistentVolume, PersistentVolumeClaim, StorageClass, CSIStorageCapacity, CSIDriver),
                (self._upsert_volume, self._delete_volume),
            ),
            CSINode: (self._upsert_csi_node, self._delete_csi_node),
            **dict.fromkeys(
                (ResourceSlice, DeviceTaintRule, ResourceClass, DeviceClass, ResourceClaim, ResourceClaimTemplate),
                (self._upsert_device_fact, self._delete_device_fact),
            ),
        }

    def _upsert_group(self, group: PodGroup) -> None:
        with self._holding(group):
            self._groups.upsert(group)

    def _delete_group(self, group: PodGroup) -> None:
        with self._holding(group):
            self._groups.delete(group)

    @contextmanager
    def _holding(self, group: PodGroup) -> Iterator[None]:
        """Pods are read again where their group holds them, or no longer does."""
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        job = self.groups.get(key)
        before = job is not None and job.held
        yield
        job = self.groups.get(key)
        if job is not None and job.held != before:
            self._pods.hold_changed(job)

    def _upsert_hyper_node(self, thing: HyperNode) -> None:
        self.hyper_nodes.upsert(thing)

    def _delete_hyper_node(self, thing: HyperNode) -> None:
        self.hyper_nodes.delete(thing)

    def apply(self, event: Event) -> None:
        """Take one event in. Objects of kinds that do not concern scheduling are passed over.

        An object that cannot be taken in is set aside: no object raises anything here.
        """
        self.generation += 1
        thing = event.object
        handlers = self._handlers.get(type(thing))
        if handlers is None:
            return
        if isinstance(event, Upserted):
            self.aside.take(thing, *handlers)
            return
        self.compaction.suspect(small=True)
        handlers[1](thing)
        self.aside.forget(lambda: kinds.key(thing))

    def begin_cycle(self) -> None:
        """Called as each cycle begins. Cycles share what is derived from the state: one that began before can tell by
        `cycles` that it no longer has what it saw.
        """
        self.cycles += 1
        self.derived.begin()

    def upsert(self, objects: Iterable[ApiObject]) -> None:
        for thing in objects:
            self.apply(Upserted(thing))

    def refresh(self) -> None:
        """Bring the waiting index up to date with the jobs that changed."""
        self.nodes.rank_new_names()
        if not self._ledger.has_marked:
            return
        for job in self._ledger.take_marked():
            job.priority = self._priority_of(job)
            if not job.alone and (job.broken or job.ready < job.minimum or job.role_minimums):
                self._note_broken(job)
            if job.implicit:
                job.created = min([task.created for task in job.tasks if task.created is not None], default=None)
            if job.pending:
                self.waiting.refresh(job, job.queue, valid=is_valid(job), fresh=not job.has_started())
            else:
                self.waiting.retire(job)
            if job.minimum_resources is not None or job in self.waiting.unallocated:
                self.waiting.note_claim(job)
            self.changed_jobs.add(job)
        # A reader that has missed more changes than there are jobs reads all jobs again at no higher cost. So nothing
        # older is kept: an entry keeps its job in memory with all its pods, long after they were deleted.
        self.changed_jobs.keep_last(max(MIN_LOGGED_JOBS, len(self.groups) + len(self.tasks)))

    def _note_broken(self, job: Job) -> None:
        job.broken = is_broken(job)
        if job.broken:
            self.broken_gangs[job] = None
        else:
            self.broken_gangs.pop(job, None)

    def _priority_of(self, job: Job) -> int:
        """The priority that a group states counts up to that of its most important pod, so that quotas on priority
        classes, which are about pods, hold. Controllers that create pods only when their group is admitted are ordered
        by what the group states until then.
        """
        stated = job.own_priority
        if stated is None and job.priority_class and self.priorities.known(job.priority_class):
            stated = self.priorities.value(job.priority_class)
        tasks = job.tasks
        if not tasks:
            return stated or 0
        most = tasks[0].priority if len(tasks) == 1 else max([task.priority for task in tasks])
        return most if stated is None or stated > most else stated

    def forget_intake(self) -> None:
        """Forget what reading objects leaves behind for the next that are alike."""
        self._shaper.forget()
        self._names.forget()
        self._pods.forget_traits()

    def shapes(self) -> Iterable[Shape]:
        """Every shape that a task has."""
        return self._shaper.shapes()

    # -- objects that are neither pods nor groups --------------------------------------------------------------

    def _upsert_queue(self, queue: Queue) -> None:
        if queue.metadata.name == ROOT_QUEUE:
            return  # Volcano's object for the whole tree: it takes no part in what its children divide
        self.queues.upsert(queue, self.axis)
        self.annotation_problems.read(f"queue {queue.metadata.name}", queue.metadata)

    def _delete_queue(self, queue: Queue) -> None:
        if queue.metadata.name == ROOT_QUEUE:
            return
        self.queues.delete(queue.metadata.name)
        self.compaction.suspect()
        self.annotation_problems.forget(f"queue {queue.metadata.name}")

    def _upsert_reservation(self, reservation: Reservation) -> None:
        before = self.reservations.upsert(reservation)
        self._reread_reservations(before)
        self._reread_reservations(reservation)

    def _delete_reservation(self, reservation: Reservation) -> None:
        self._reread_reservations(self.reservations.delete(reservation))

    def _reread_reservations(self, reservation: Reservation | None) -> None:
        """The job that a reservation names, or named before, reads again what is kept for it."""
        if reservation is None:
            return
        named = reservation.spec.job_ref
        job = self.job_of(named.kind, f"{reservation.metadata.namespace}/{named.name}")
        if job is not None:
            self._groups.read_reservations(job)

    def _delete_node(self, node: Node) -> None:
        row = self.nodes.rows.get(node.metadata.name)
        before = () if row is None else self.nodes.allocatable.at(row)
        self.nodes.delete(node.metadata.name)
        self.compaction.node_gone(before)

    def _delete_quota(self, quota: ResourceQuota) -> None:
        self.namespaces.delete_quota(quota.metadata.namespace, quota.metadata.name)

    def _upsert_namespace(self, namespace: Namespace) -> None:
        self.namespaces.upsert(namespace)
        self._namespace_changed(namespace.metadata.name)

    def _delete_namespace(self, namespace: Namespace) -> None:
        self.namespaces.delete(namespace.metadata.name)
        self._namespace_changed(namespace.metadata.name)

    def _namespace_changed(self, name: str) -> None:
        """Labels of a namespace decide what some terms match, and where jobs go that name no queue themselves."""
        self._pods.rematch(name)
        for job in list(self.jobs()):
            if job.namespace == name:
                self._groups.choose_queue(job)

    def _upsert_priority(self, priority_class: PriorityClass) -> None:
        self.priorities.upsert(priority_class)
        self._pods.reprioritise()

    def _delete_priority(self, priority_class: PriorityClass) -> None:
        self.priorities.delete(priority_class.metadata.name)
        self._pods.reprioritise()

    def _upsert_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets[f"{budget.metadata.namespace}/{budget.metadata.name}"] = budget

    def _delete_budget(self, budget: PodDisruptionBudget) -> None:
        self.budgets.pop(f"{budget.metadata.namespace}/{budget.metadata.name}", None)

    def _upsert_volume(self, fact: VolumeFact) -> None:
        before = self.volumes.users_of(fact)
        self.volumes.upsert(fact)
        after = self.volumes.users_of(fact)
        self._pods.volumes_changed(None if before is None or after is None else before | after)

    def _delete_volume(self, fact: VolumeFact) -> None:
        users = self.volumes.users_of(fact)
        self.volumes.delete(fact)
        self._pods.volumes_changed(users)

    def _upsert_csi_node(self, thing: CSINode) -> None:
        self.volume_use.upsert(thing)
        self._volume_limits_changed(thing.metadata.name)

    def _delete_csi_node(self, thing: CSINode) -> None:
        self.volume_use.delete(thing)
        self._volume_limits_changed(thing.metadata.name)

    def _volume_limits_changed(self, node: str) -> None:
        row = self.nodes.rows.get(node)
        if row is not None:
            self.nodes.touch(row)

    def _upsert_device_fact(self, thing: DeviceFact) -> None:
        if self.devices.upsert(thing) and isinstance(thing, ResourceClaim | ResourceClaimTemplate):
            self._pods.claim_changed(fact_key(thing))

    def _delete_device_fact(self, thing: DeviceFact) -> None:
        if self.devices.delete(thing) and isinstance(thing, ResourceClaim | ResourceClaimTemplate):
            self._pods.claim_changed(fact_key(thing))
