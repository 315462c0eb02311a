"""How often jobs were stopped by preempt and reclaim, as EvictionRecord objects say, and since when each runs again.

A job is *stopped* when a plan evicts so many of its pods that it is below its minimum: a whole gang, a lone pod, the
last pods of a job without a gang. What a job loses above its minimum is no stop: it goes on.

The count belongs to what outlives the pods. That is the controller of the PodGroup where it has one, else the PodGroup;
the topmost controller of pods without a group; the owner of lone pods, which all pods of one ReplicaSet or StatefulSet
share. A lone pod without an owner is gone for good when it is evicted: there is nothing to count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import Pod
from fairway.api.scheduling import EvictionRecord, JobKind, reservation_name
from fairway.clock import SECOND, Micros, from_datetime
from fairway.state.jobs import Job, Task, TaskState

FORGOTTEN: Micros = 7 * 86_400 * SECOND
"""A job that was not stopped again for so long after its restart has a clean record."""

_JOBSET_NAME, _JOBSET_UID = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/jobset-uid"
"""A JobSet that restarts creates its Jobs again: their uids change, its own does not."""

_PLACED = frozenset({TaskState.BOUND, TaskState.RUNNING, TaskState.UNKNOWN})

RecordKey = tuple[str, str]
"""Namespace and name of an object."""

FindTask = Callable[[str], Task | None]
"""The task of a pod, by namespace/name."""


class JobIdentity(NamedTuple):
    """What a job's count belongs to. `shared`: several lone pods have the same."""

    namespace: str
    kind: JobKind
    name: str
    uids: frozenset[str]
    """What it is known by; the pods of one job may have several controllers."""
    owner: OwnerReference
    shared: bool = False

    @property
    def key(self) -> RecordKey:
        return self.namespace, reservation_name(self.kind, self.name)


class StopRecord(NamedTuple):
    """An EvictionRecord, read."""

    object: EvictionRecord
    stops: int
    stopped_at: Micros
    restarted_at: Micros | None
    victims: frozenset[tuple[str, str]]
    """Key and uid of each pod that the last stop evicts."""

    @property
    def uid(self) -> str:
        return self.object.spec.job_ref.uid


class JobStops(NamedTuple):
    """How often a job was stopped, and since when it runs again; None while it does not."""

    stops: int
    since: Micros | None
    restarted: Micros | None = None
    """`since` where that is final: all pods that it rests on have started."""


class EvictionRecords:
    """By namespace and name. At most one speaks for a job: the one under the job's name, with its uid."""

    def __init__(self, find: FindTask) -> None:
        self._find = find
        self._records: dict[RecordKey, StopRecord] = {}
        self._first_expiry: Micros | None = None
        """No record is to be forgotten before; None: not known."""

    def __len__(self) -> int:
        return len(self._records)

    def upsert(self, record: EvictionRecord) -> None:
        self._first_expiry = None
        status, namespace = record.status, record.metadata.namespace
        self._records[namespace, record.metadata.name] = StopRecord(
            record,
            status.stops,
            0 if status.stopped_at is None else from_datetime(status.stopped_at),
            None if status.restarted_at is None else from_datetime(status.restarted_at),
            frozenset((f"{namespace}/{victim.pod}", victim.uid) for victim in status.victims),
        )

    def delete(self, record: EvictionRecord) -> None:
        self._first_expiry = None
        self._records.pop((record.metadata.namespace, record.metadata.name), None)

    def __iter__(self) -> Iterator[tuple[RecordKey, StopRecord]]:
        yield from self._records.items()

    def of(self, identity: JobIdentity | None) -> StopRecord | None:
        if identity is None or not self._records:
            return None
        found = self._records.get(identity.key)
        if found is None or found.uid not in identity.uids:
            return None
        named = found.object.spec.job_ref
        return found if (named.kind, named.name) == (identity.kind, identity.name) else None

    def stops(self, job: Job, now: Micros) -> JobStops | None:
        """What counts for a job now; None if it was never stopped, or that is forgotten."""
        if not self._records:
            return None
        identity = identity_of(job)
        record = self.of(identity)
        if record is None or identity is None or is_forgotten(record, now, shared=identity.shared):
            return None
        count = self.happened(record)
        if not count:
            return None
        if count < record.stops:
            return JobStops(count, None)  # what is recorded last has not begun: the pods that it names still run
        if identity.shared:
            return JobStops(count, _shared_start(job.tasks[0], record))
        if record.restarted_at is not None:
            return JobStops(count, record.restarted_at, record.restarted_at)
        return JobStops(count, *_start(job, record))

    def happened(self, record: StopRecord) -> int:
        """The stops that there were. The last is recorded before its first pod is evicted: as long as all of them run,
        a scheduler may have ended in between, or a budget may have forbidden it.
        """
        if record.victims and all(self._runs(pod, uid) for pod, uid in record.victims):
            return record.stops - 1
        return record.stops

    def _runs(self, pod: str, uid: str) -> bool:
        task = self._find(pod)
        return task is not None and task.source.metadata.uid == uid and task.state in _PLACED

    def forgotten(self, now: Micros, find: Callable[[StopRecord], Job | None]) -> list[RecordKey]:
        """Records that say nothing any more: `find` is asked for the job of one that has not restarted."""
        if self._first_expiry is None:
            self._first_expiry = min(map(_earliest_expiry, self._records.values()), default=0)
        if not self._records or now < self._first_expiry:
            return []
        return sorted(
            key
            for key, record in self._records.items()
            if is_forgotten(record, now, shared=False)
            or (record.restarted_at is None and now >= record.stopped_at + FORGOTTEN and find(record) is None)
        )


def _earliest_expiry(record: StopRecord) -> Micros:
    return (record.stopped_at if record.restarted_at is None else record.restarted_at) + FORGOTTEN


def is_forgotten(record: StopRecord, now: Micros, *, shared: bool) -> bool:
    """A job that has not started again is not forgotten, however long it waits. Pods that share an owner come and go:
    for them the last stop counts.
    """
    since = record.stopped_at if shared else record.restarted_at
    return since is not None and now >= since + FORGOTTEN


def identity_of(job: Job) -> JobIdentity | None:
    """What the job's count belongs to; None if nothing does, or its objects have no uid."""
    own = job.key.removeprefix(f"{job.namespace}/")
    if job.alone:
        return _shared_identity(job)
    if job.implicit:
        return _controller_identity(job, own)
    if not job.group:
        return None
    owner = job.owner or OwnerReference(kind="PodGroup", name=own, uid=job.uid)
    return JobIdentity(job.namespace, "PodGroup", own, frozenset({owner.uid}), owner) if owner.uid else None


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    return next((owner for owner in meta.owner_references if owner.controller and owner.uid), None)


def _shared_identity(job: Job) -> JobIdentity | None:
    owner = controller_of(job.tasks[0].source.metadata) if job.tasks else None
    if owner is None:
        return None
    name = f"{owner.kind.lower()}/{owner.name}"
    return JobIdentity(job.namespace, "Controller", name, frozenset({owner.uid}), owner, shared=True)


def _controller_identity(job: Job, name: str) -> JobIdentity | None:
    owners = {owner.uid: owner for task in job.tasks if (owner := _topmost(task.source.metadata)) is not None}
    if not owners:
        return None
    return JobIdentity(job.namespace, "Controller", name, frozenset(owners), owners[min(owners)])


def _topmost(meta: ObjectMeta) -> OwnerReference | None:
    uid = meta.labels.get(_JOBSET_UID, "") if meta.labels else ""
    if uid:
        name = meta.labels.get(_JOBSET_NAME, "")
        return OwnerReference(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name=name, uid=uid)
    return controller_of(meta)


def _start(job: Job, record: StopRecord) -> tuple[Micros | None, Micros | None]:
    """When the job first had its minimum again, and the same once it is final."""
    placed = [task for task in job.tasks if task.state in _PLACED]
    fresh = [task for task in placed if (task.key, task.source.metadata.uid) not in record.victims]
    needed = max(1, job.minimum - sum(task.state is TaskState.SUCCEEDED for task in job.tasks))
    if len(placed) < needed or not fresh:
        return None, None
    whole = sorted(map(_begin, placed))[needed - 1]
    since = max(whole, min(map(_begin, fresh)))
    # A pod may run and not say since when: the time of its binding is all that will ever be known of it.
    final = all(task.started is not None or task.state is TaskState.RUNNING for task in fresh)
    return since, since if final else None


def _shared_start(task: Task, record: StopRecord) -> Micros | None:
    """Of a lone pod: its own start, where it was created after the last stop. Others of its owner ran on."""
    if task.state not in _PLACED or (task.key, task.source.metadata.uid) in record.victims:
        return None
    return _begin(task) if task.created is None or task.created >= record.stopped_at else None


def _begin(task: Task) -> Micros:
    """When a pod started; until its node says so, when it was bound."""
    if task.started is not None:
        return task.started
    bound = _bound_at(task.source)
    return bound if bound is not None else 0 if task.created is None else task.created


def _bound_at(pod: Pod) -> Micros | None:
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return from_datetime(condition.last_transition_time)
    return None
