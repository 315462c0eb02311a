"""Groups as they come, change and go: what they say of their pods, and what is reserved for these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.api.scheduling import PodGroup
from fairway.clock import Micros, from_datetime
from fairway.state.annotations import kept
from fairway.state.jobs import Job
from fairway.state.ledger import TaskLedger
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.shaper import Shaper
from fairway.state.tasks import ACCOUNTED, NOWHERE, WAITING, Task, TaskState

if TYPE_CHECKING:
    from fairway.state.cluster import ClusterState


class GroupIntake:
    """A group that pods name before anybody has made it is there, too: its pods wait for it."""

    def __init__(self, state: ClusterState, ledger: TaskLedger, shaper: Shaper) -> None:
        self._state = state
        self._ledger = ledger
        self._shaper = shaper

    def job(self, key: str, namespace: str) -> Job:
        job = self._state.groups.get(key)
        if job is None:
            job = self._state.groups[key] = Job(key, namespace, DEFAULT_QUEUE)
        return job

    def upsert(self, group: PodGroup) -> None:
        meta, spec = group.metadata, group.spec
        job = self.job(f"{meta.namespace}/{meta.name}", meta.namespace)
        self._move_queue(job, spec.queue or DEFAULT_QUEUE)
        job.group, job.uid = True, meta.uid
        job.minimum = spec.min_member
        job.role_minimums = tuple(sorted(spec.min_task_member.items()))
        job.minimum_resources = self._shaper.vector(spec.min_resources) if spec.min_resources else None
        job.created = None if meta.creation_timestamp is None else from_datetime(meta.creation_timestamp)
        job.phase = group.status.phase
        job.annotations = kept(meta.annotations)
        self._state.faults.read(f"podgroup {job.key}", meta.annotations)
        job.last_ready = _last_ready(group)
        self.rehold(job)
        self._state.priorities.name(job.priority_class, -1)
        job.priority_class = spec.priority_class_name
        self._state.priorities.name(job.priority_class, 1)
        self._ledger.mark(job)

    def delete(self, group: PodGroup) -> None:
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        job = self._state.groups.get(key)
        if job is None:
            return
        self._move_queue(job, DEFAULT_QUEUE)
        job.group, job.created, job.uid = False, None, ""
        job.minimum, job.role_minimums, job.minimum_resources, job.phase = 1, (), None, ""
        self._state.priorities.name(job.priority_class, -1)
        job.annotations, job.priority_class, job.last_ready = None, "", None
        self._state.faults.forget(f"podgroup {key}")
        self.rehold(job)
        self._ledger.mark(job)
        if not job.tasks:
            del self._state.groups[key]

    def enter_waiting(self, task: Task) -> None:
        """A pod without a node: it may have a claim to room on one."""
        hold = self._state.hold_of(task)
        if hold is None:
            self._ledger.enter(task, TaskState.PENDING, NOWHERE)
        else:
            self._ledger.enter(task, hold.state, self._state.nodes.row(hold.node))

    def rehold(self, job: Job) -> None:
        """The job, or its reservation, came, changed or went: its waiting pods keep what it says now."""
        reservations = self._state.reservations.records(job)
        if reservations == (job.reservations or {}):
            return
        job.reservations = reservations or None
        for task in job.tasks:
            if task.state in WAITING:
                self._ledger.leave(task)
                self.enter_waiting(task)

    def _move_queue(self, job: Job, queue: str) -> None:
        if queue == job.queue:
            return
        held = [task for task in job.tasks if task.state in ACCOUNTED]
        queues = self._state.queues
        for task in held:
            queues.get(job.queue).hold(job.namespace, task.shape.vector, -1)
        job.queue = queue
        for task in held:
            queues.get(job.queue).hold(job.namespace, task.shape.vector, 1)
            self._state.nodes.touch(task.node)


def _last_ready(group: PodGroup) -> Micros | None:
    """When the group was last known to be ready: its condition `Scheduled` says so."""
    times = [c.last_transition_time for c in group.status.conditions if c.type == "Scheduled"]
    return max((from_datetime(time) for time in times if time is not None), default=None)
