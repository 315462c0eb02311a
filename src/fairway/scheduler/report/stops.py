"""What a plan changes in the EvictionRecords of jobs: stops, restarts, and records that say nothing any more."""

from __future__ import annotations

from collections.abc import Iterator

from fairway.api.eviction_records import MAX_VICTIMS, StoppedPod
from fairway.clock import Micros, format_rfc3339
from fairway.scheduler.framework.session import Session
from fairway.scheduler.plan import StopEntry
from fairway.state.eviction_records import JobIdentity, RecordKey, StopRecord, identity_of, is_forgotten
from fairway.state.jobs import READY, Job, Task

COUNTED = frozenset({"preempt", "reclaim"})
"""A run that outlives its stated time, or a gang that was never complete, is not stopped for want of protection."""


def stop_entries(session: Session) -> list[StopEntry]:
    """By job. A stop that is recorded already, by an earlier cycle or another leader, is no change."""
    entries = {entry.job: entry for entry in _restarts(session)}
    entries.update((entry.job, entry) for entry in _stops(session))
    return [entries[job] for job in sorted(entries)]


def _stops(session: Session) -> Iterator[StopEntry]:
    if not session.decisions.evictions:
        return
    found: dict[RecordKey, tuple[JobIdentity, list[Task]]] = {}
    for job, tasks in _stopped(session).items():
        identity = identity_of(job)
        if identity is not None:
            found.setdefault(identity.key, (identity, []))[1].extend(tasks)
    for identity, tasks in found.values():
        entry = _stop(session, identity, tasks)
        if entry is not None:
            yield entry


def _stopped(session: Session) -> dict[Job, list[Task]]:
    """Jobs that preempt or reclaim take below their minimum, with the pods that they lose."""
    decisions = session.decisions
    counted = {eviction.pod for eviction in decisions.evictions if eviction.action in COUNTED}
    lost: dict[Job, list[Task]] = {}
    for task in sorted(decisions.evicted, key=lambda task: task.key):
        if task.key in counted:
            lost.setdefault(task.job, []).append(task)
    bound: dict[Job, list[Task]] = {}
    for run, tasks, _ in decisions.bindings if lost else ():
        bound.setdefault(run.job, []).extend(tasks)
    return {job: tasks for job, tasks in lost.items() if _is_stopped(session, job, bound.get(job, []))}


def _is_stopped(session: Session, job: Job, bound: list[Task]) -> bool:
    """Whether it has less than its minimum left, counting what the same cycle binds."""
    left = [task for task in job.tasks if task.state in READY and task not in session.decisions.evicted]
    left += bound
    if len(left) < max(1, job.minimum):
        return True
    roles = [task.traits.role for task in left] if job.role_minimums else []
    return any(roles.count(role) < least for role, least in job.role_minimums)


def _stop(session: Session, identity: JobIdentity, tasks: list[Task]) -> StopEntry | None:
    records = session.state.eviction_records
    known = records.of(identity)
    victims = {(task.key, task.source.metadata.uid) for task in tasks}
    if known is not None and known.victims & victims:
        if victims <= known.victims:
            return None
        return _entry(identity, known.stops, known.stopped_at, None, known.victims | victims)
    forgotten = known is None or is_forgotten(known, session.now, shared=identity.shared)
    count = 0 if known is None or forgotten else records.happened(known)
    return _entry(identity, count + 1, session.now, None, victims)


def _entry(
    identity: JobIdentity,
    stops: int,
    stopped_at: Micros,
    restarted_at: Micros | None,
    victims: set[tuple[str, str]] | frozenset[tuple[str, str]],
) -> StopEntry:
    # Pods without a uid, as in files, cannot be told from those that replace them.
    named = [StoppedPod(key.partition("/")[2], uid) for key, uid in sorted(victims) if uid]
    return StopEntry(
        job=f"{identity.namespace}/{identity.name}",
        job_kind=identity.kind,
        job_uid=identity.owner.uid,
        stops=stops,
        stopped_at=format_rfc3339(stopped_at),
        restarted_at=None if restarted_at is None else format_rfc3339(restarted_at),
        victims=tuple(named[:MAX_VICTIMS]),
        owner=identity.owner,
    )


def _restarts(session: Session) -> Iterator[StopEntry]:
    """Jobs that run again since they were stopped, and records to delete."""
    state, now = session.state, session.now
    records = state.eviction_records
    if not len(records):
        return
    for _, record in records:
        job = None if record.restarted_at is not None else _job(session, record)
        stops = None if job is None or not job.ready else records.stops(job, now)
        identity = None if job is None or stops is None else identity_of(job)
        if identity is None or stops is None or stops.restarted is None or identity.shared:
            continue
        yield _entry(identity, record.stops, record.stopped_at, stops.restarted, record.victims)
    for key in records.forgotten(now, lambda record: _job(session, record)):
        record = dict(records)[key]
        named = record.object.spec.job_ref
        yield StopEntry(job=f"{key[0]}/{named.name}", job_kind=named.kind, job_uid=named.uid, stops=0)


def _job(session: Session, record: StopRecord) -> Job | None:
    named, namespace = record.object.spec.job_ref, record.object.metadata.namespace
    job = session.state.groups.get(f"{namespace}/{named.name}")
    known = None if job is None else session.state.eviction_records.of(identity_of(job))
    return job if known is record else None
