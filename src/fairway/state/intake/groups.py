"""Groups as they come, change and go: what they say of their pods, and what is reserved for these."""

from __future__ import annotations

from sys import intern

from fairway.api.scheduling import PodGroup, PodGroupSpec
from fairway.clock import Micros, from_datetime
from fairway.state.annotations import STARVING_AFTER, is_held, kept, parse_span
from fairway.state.compaction import Compaction
from fairway.state.eviction_records import controller_of
from fairway.state.jobs import ACCOUNTED, NOWHERE, WAITING, Job, Task, TaskState
from fairway.state.ledger import TaskLedger
from fairway.state.membership import PodHints, queue_named
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.shaper import Shaper
from fairway.state.tables import ClusterTables
from fairway.state.topology import of_group, of_object, strictest

LET_IN = "Inqueue"
"""The phase of an implicit job: no object's status could say that it was let in, so it is in from the start."""

_QUOTA_NAMES = ("count/", "requests.", "limits.")
"""Volcano's job controller writes `minResources` as a ResourceQuota counts a pod. These names repeat what the others
say, in terms that no node has.
"""


class GroupIntake:
    """A group that pods name before its object exists is there, too: its pods wait for it."""

    def __init__(self, state: ClusterTables, ledger: TaskLedger, shaper: Shaper, compaction: Compaction) -> None:
        self._state = state
        self._ledger = ledger
        self._shaper = shaper
        self._compaction = compaction

    def job(self, key: str, namespace: str, *, implicit: bool = False) -> Job:
        job = self._state.groups.get(key)
        if job is None:
            queue = self._state.namespaces.queue(namespace) or DEFAULT_QUEUE
            job = self._state.groups[key] = Job(key, namespace, queue, implicit=implicit)
            if implicit:
                job.phase = LET_IN
        return job

    def count_hints(self, job: Job, hints: PodHints, by: int) -> None:
        """A pod came (by 1) or went (by -1) with hints for its job."""
        before = job.hints.get(hints, 0)
        if before + by:
            job.hints[hints] = before + by
            if before:
                return  # others say the same: nothing new is said
        else:
            del job.hints[hints]
        self.choose_queue(job)
        self._choose_topology(job)
        if job.implicit:
            job.minimum = max((given.minimum for given in job.hints), default=1)
            spans = [(parse_span(given.starving_after) or 0, given.starving_after) for given in job.hints]
            longest = max(spans, default=(0, ""))[1]
            job.annotations = {STARVING_AFTER: longest} if longest else None
            uid = min((given.controller for given in job.hints if given.controller), default="")
            if uid != job.uid:
                job.uid = uid
                self.read_reservations(job)

    def _choose_topology(self, job: Job) -> None:
        said = strictest(hints.topology for hints in job.hints)
        job.topology = said if said is not None and said.not_honoured else job.own_topology or said

    def suspect_queue(self, job: Job) -> None:
        """A job lets go of its queue: if no object has made that, it may be of no use any more."""
        if job.queue not in self._state.queues or not self._state.queues[job.queue].exists:
            self._compaction.suspect()

    def choose_queue(self, job: Job) -> None:
        """The queue of the group, else of its pods (of several the first by name), else of the namespace."""
        named = job.named_queue or min((hints.queue for hints in job.hints if hints.queue), default="")
        self._move_queue(job, named or self._state.namespaces.queue(job.namespace) or DEFAULT_QUEUE)

    def upsert(self, group: PodGroup) -> None:
        """All of the group is read before anything is changed."""
        meta, spec = group.metadata, group.spec
        amounts = {name: amount for name, amount in spec.min_resources.items() if not name.startswith(_QUOTA_NAMES)}
        minimum_resources = self._shaper.vector(meta.namespace, amounts) if amounts else None
        job = self.job(f"{meta.namespace}/{meta.name}", meta.namespace)
        job.named_queue = spec.queue or queue_named(meta)
        self.choose_queue(job)
        job.group, job.uid, job.held = True, meta.uid, is_held(meta)
        job.owner = controller_of(meta) if meta.owner_references else None
        job.minimum = spec.min_member
        job.own_topology = of_group(spec) or of_object(meta)
        self._choose_topology(job)
        job.own_priority, job.evict_whole = spec.priority, spec.evict_whole
        job.role_minimums = _role_minimums(spec)
        job.minimum_resources = minimum_resources
        job.created = None if meta.creation_timestamp is None else from_datetime(meta.creation_timestamp)
        job.phase = group.status.phase
        job.annotations = kept(meta)
        self._state.annotation_problems.read(f"podgroup {job.key}", meta)
        job.last_ready, job.broken_at = _last_ready(group), _broken_at(group)
        self.read_reservations(job)
        self._state.priorities.name(job.priority_class, -1)
        job.priority_class = spec.priority_class_name
        self._state.priorities.name(job.priority_class, 1)
        self._ledger.mark(job)

    def delete(self, group: PodGroup) -> None:
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        job = self._state.groups.get(key)
        if job is None:
            return
        self.suspect_queue(job)
        if job.minimum_resources:
            self._compaction.suspect(small=True)
        job.named_queue = ""
        self.choose_queue(job)
        job.group, job.created, job.uid, job.held, job.owner = False, None, "", False, None
        job.minimum, job.role_minimums, job.minimum_resources, job.phase = 1, (), None, ""
        job.own_topology, job.own_priority, job.evict_whole = None, None, False
        self._choose_topology(job)
        self._state.priorities.name(job.priority_class, -1)
        job.annotations, job.priority_class, job.last_ready, job.broken_at = None, "", None, None
        self._state.annotation_problems.forget(f"podgroup {key}")
        self.read_reservations(job)
        self._ledger.mark(job)
        if not job.tasks:
            del self._state.groups[key]

    def enter_waiting(self, task: Task) -> None:
        """A pod without a node: it may have a reservation on one."""
        reservation = self._state.reservation_of(task)
        if reservation is None:
            self._ledger.enter(task, TaskState.PENDING, NOWHERE)
        else:
            self._ledger.enter(task, reservation.state, self._state.nodes.row(reservation.node))

    def read_reservations(self, job: Job) -> None:
        """The job, or its reservation, came, changed or went: its waiting pods keep what it says now."""
        known = self._state.reservations
        overrun = job.overrun
        job.planned, job.overrun = known.planned(job), known.overrun(job)
        if job.overrun != overrun:
            self._ledger.mark(job)
        reservations = known.records(job)
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
        allocated = [task for task in job.tasks if task.state in ACCOUNTED]
        queues = self._state.queues
        for task in allocated:
            queues.get(job.queue).charge(job.namespace, task.shape.vector, -1)
        job.queue = intern(queue)
        for task in allocated:
            queues.get(job.queue).charge(job.namespace, task.shape.vector, 1)
            self._state.nodes.touch(task.node)
        self._ledger.mark(job)


def _role_minimums(spec: PodGroupSpec) -> tuple[tuple[str, int], ...]:
    """Where the roles add up to more than the minimum, Volcano's controller has written their replicas: no minimums."""
    roles = spec.min_task_member
    return tuple(sorted(roles.items())) if sum(roles.values()) <= spec.min_member else ()


def _last_ready(group: PodGroup) -> Micros | None:
    """When the group was last known to be ready: its condition `Scheduled` says so."""
    times = [c.last_transition_time for c in group.status.conditions if c.type == "Scheduled"]
    return max((from_datetime(time) for time in times if time is not None), default=None)


def _broken_at(group: PodGroup) -> Micros | None:
    """When a group that was ready stopped being so: its condition `Scheduled` says False since then."""
    times = [c.last_transition_time for c in group.status.conditions if c.type == "Scheduled" and c.status == "False"]
    return max((from_datetime(time) for time in times if time is not None), default=None)
