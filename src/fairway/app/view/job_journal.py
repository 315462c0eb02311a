"""The history of jobs, from the events applied to the state: arrivals, placements, evictions and ends.

It costs what changed, and is bounded: of jobs that ended the last are kept, and of everything else the last entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.view.models.history import EvictionEntry, FeedEntry
from fairway.app.view.models.jobs import JobStateChange, JobSummary
from fairway.clock import SECOND, Micros, format_rfc3339, from_datetime
from fairway.drive import bound_at
from fairway.scheduler.plan import Eviction
from fairway.state.cluster import ClusterState
from fairway.state.jobs import FINISHED, Job
from fairway.state.reader import job_of
from fairway.state.tables import PODS

MAX_ENDED = 10_000
MAX_ENTRIES = 10_000
"""Maximum number of entries of the feed, and of evictions."""
MAX_CHANGES = 50
"""Maximum number of entries of one job."""
MAX_RUNS = 20_000
"""Maximum number of past runs of pods."""
NAMED = 4


@dataclass(slots=True)
class JobRecord:
    """The history of one job."""

    key: str
    queue: str = ""
    kind: str = ""
    created: Micros | None = None
    """None if unknown."""
    minimum: int = 1
    priority: int = 0
    pods: int = 0
    placed: dict[str, Micros] = field(default_factory=dict)
    """Pods on nodes, with the time of their binding."""
    started: Micros | None = None
    """When it reached its minimum; set again after an eviction of the whole job."""
    first_started: Micros | None = None
    ended: Micros | None = None
    phases: dict[str, str] = field(default_factory=dict)
    """Phases of pods that have ended."""
    changes: deque[JobStateChange] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    evicted: bool = False
    fill: float = 0.0
    """Fraction of a node's dominant resource that one of its pods uses."""


class PodRun(NamedTuple):
    """A pod that has left its node."""

    node: str
    job: str
    queue: str
    start: Micros
    end: Micros
    fill: float
    """Fraction of the node's dominant resource that it used."""


class JobJournal:
    """The journal of a cluster. Events are recorded one by one, then `settle` is called once per batch."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.records: dict[str, JobRecord] = {}
        self.ended: dict[str, tuple[JobSummary, JobRecord]] = {}
        """Ended jobs, the oldest first."""
        self.feed: deque[FeedEntry] = deque(maxlen=MAX_ENTRIES)
        self.evictions: deque[EvictionEntry] = deque(maxlen=MAX_ENTRIES)
        self.runs: deque[PodRun] = deque(maxlen=MAX_RUNS)
        self.evicted_pods = 0
        self.lost_seconds = 0.0
        self.evicted_by_rule: dict[str, int] = {}
        self.evicted_by_namespace: dict[str, int] = {}
        """Seconds that the victims had run."""
        self.started_jobs: list[JobRecord] = []
        """Jobs that reached their minimum since the last sample of the history."""
        self._numbers = count(1)
        self.changed_jobs: set[str] = set()
        """Jobs with events since the last picture; each picture clears it."""
        self._touched: dict[str, dict[str, str]] = {}
        """Placed pods of the batch with their nodes, by job."""

    # -- events ------------------------------------------------------------------------------------------------

    def changed(self, before: ApiObject | None, after: ApiObject | None, at: Micros) -> None:
        """Records a changed object; None for one that does not exist. For a deleted object, `before` is its last
        version, which may say more than the known one (that it was deleted, or has succeeded).
        """
        thing = after if after is not None else before
        if isinstance(thing, Pod):
            self._pod(before if isinstance(before, Pod) else None, after if isinstance(after, Pod) else None, thing, at)
        elif isinstance(thing, PodGroup):
            self._touched.setdefault(f"{thing.metadata.namespace}/{thing.metadata.name}", {})

    def _pod(self, before: Pod | None, after: Pod | None, pod: Pod, at: Micros) -> None:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        job = job_of(pod)
        touched = self._touched.setdefault(job, {})
        record = self.records.get(job)
        if record is None:
            record = self.records[job] = JobRecord(job)
        if after is None or after.status.phase in ("Succeeded", "Failed"):
            since = record.placed.pop(name, None)
            if since is not None and before is not None:
                self.runs.append(PodRun(before.spec.node_name, job, record.queue, since, at, record.fill))
            if after is not None:
                record.phases[name] = after.status.phase
            elif before is not None:
                self._gone(record, name, before)
            return
        node = after.spec.node_name
        if node and name not in record.placed:
            record.placed[name] = _since(after, at)
            if before is not None and not before.spec.node_name:
                touched[name] = node

    @staticmethod
    def _gone(record: JobRecord, name: str, last: Pod) -> None:
        """A running pod that vanishes without a deletion has completed: simulated pods end this way."""
        if last.status.phase in ("Succeeded", "Failed"):
            record.phases[name] = last.status.phase
        elif last.status.phase == "Running" and last.metadata.deletion_timestamp is None:
            record.phases[name] = "Succeeded"

    def settle(self, at: Micros) -> None:
        """Ends the batch and records what happened to its jobs."""
        touched, self._touched = self._touched, {}
        self.changed_jobs |= touched.keys()
        for key, placed in touched.items():
            job = self._find(key)
            record = self.records.get(key)
            if job is None:
                if record is not None:
                    self._end(record, at)
                continue
            if record is None:
                record = self.records[key] = JobRecord(key)
            self._follow(record, job, placed, at)

    def _find(self, key: str) -> Job | None:
        job = self._state.groups.get(key)
        if job is not None:
            return job if job.tasks or job.group else None
        task = self._state.tasks.get(key)
        return None if task is None else task.job

    def _follow(self, record: JobRecord, job: Job, placed: dict[str, str], at: Micros) -> None:
        if not record.kind:
            created = record.created = self._created(job)
            needs = f", {job.minimum} at once" if job.minimum > 1 else ""
            text = f"{_pods(len(job.tasks))}{needs}, queue {job.queue}"
            if created is None:
                self._say(record, at, "submitted", f"{text}; first seen then, when it was created is unknown", job)
            else:
                self._say(record, created, "submitted", text, job)
            self.ended.pop(job.key, None)
        record.queue, record.kind, record.minimum = job.queue, job.kind, job.minimum
        record.priority, record.pods = job.priority, max(record.pods, len(job.tasks))
        if placed:
            record.fill = self._fill(job)
            self._say(record, at, "placed", f"{_pods(len(placed))} on {_nodes(placed.values())}", job)
        if record.started is None and len(record.placed) >= max(1, job.minimum):
            record.started = sorted(record.placed.values())[max(1, job.minimum) - 1]
            if record.first_started is None:
                record.first_started = record.started
                self.started_jobs.append(record)
        elif record.started is not None and not record.placed and job.pending:
            record.started = None
        if job.tasks and all(task.state in FINISHED for task in job.tasks):
            if record.ended is None:
                self._say_end(record, at)
        else:
            record.ended = None

    def _fill(self, job: Job) -> float:
        nodes = self._state.nodes
        task = next((task for task in job.tasks if task.node >= 0), None)
        if task is None:
            return 0.0
        whole = nodes.allocatable.data[:, task.node].tolist()
        parts = [amount / whole[row] for row, amount in task.shape.vector if row != PODS and whole[row]]
        return round(min(1.0, max(parts, default=0.0)), 4)

    def _created(self, job: Job) -> Micros | None:
        times = [task.created for task in job.tasks if task.created is not None]
        return job.created if job.created is not None else min(times, default=None)

    # -- ends --------------------------------------------------------------------------------------------------

    def _say_end(self, record: JobRecord, at: Micros) -> None:
        record.ended = at
        self._say(record, at, "finished", f"{_pods(record.pods)} {outcome_of(record)}")

    def _end(self, record: JobRecord, at: Micros) -> None:
        """Records the end of a job."""
        del self.records[record.key]
        if not record.kind:
            return
        if record.ended is None:
            record.ended = at
            outcome = outcome_of(record)
            kind = "deleted" if outcome == "deleted" else "finished"
            self._say(record, at, kind, f"{_pods(record.pods)} {outcome}")
        self.ended[record.key] = finished_row(record), record
        while len(self.ended) > MAX_ENDED:
            del self.ended[next(iter(self.ended))]

    # -- cycles ------------------------------------------------------------------------------------------------

    def evict(self, evictions: Iterable[Eviction], at: Micros, cycle: int | None) -> None:
        for eviction in evictions:
            task = self._state.tasks.get(eviction.pod) or self._state.foreign.get(eviction.pod)
            job = "" if task is None else task.job.key
            record = self.records.get(job)
            since = None if record is None else record.placed.get(eviction.pod)
            lost = None if since is None else max(0, at - since) / SECOND
            beneficiary = self._find(eviction.for_)
            entry = EvictionEntry(
                id=next(self._numbers),
                at=format_rfc3339(at),
                pod=eviction.pod,
                job=job,
                queue="" if task is None else task.job.queue,
                node=eviction.node,
                for_job=eviction.for_,
                for_queue="" if beneficiary is None else beneficiary.queue,
                rule=eviction.action,
                reason=eviction.reason,
                lost_seconds=lost,
                cycle=cycle,
            )
            self.evictions.append(entry)
            self.evicted_pods += 1
            self.evicted_by_rule[eviction.action] = self.evicted_by_rule.get(eviction.action, 0) + 1
            self.lost_seconds += lost or 0.0
            namespace = eviction.pod.partition("/")[0]
            self.evicted_by_namespace[namespace] = self.evicted_by_namespace.get(namespace, 0) + 1
            text = f"{eviction.pod} evicted from {eviction.node} for {eviction.for_} ({eviction.action})"
            if record is not None:
                record.evicted = True
                self._say(record, at, "evicted", text)
            else:
                self.note(at, "evicted", text, job)

    def note(self, at: Micros, kind: str, text: str, job: str = "", queue: str = "") -> None:
        """Adds an entry to the feed."""
        number = next(self._numbers)
        self.feed.append(FeedEntry(number, format_rfc3339(at), kind, text, job, queue))  # type: ignore[arg-type]

    def say(self, job: str, at: Micros, kind: str, text: str) -> None:
        """Adds an entry to the feed and to the history of a job."""
        record = self.records.get(job)
        if record is None:
            self.note(at, kind, text, job)
        else:
            self._say(record, at, kind, text)

    def _say(self, record: JobRecord, at: Micros, kind: str, text: str, job: Job | None = None) -> None:
        record.changes.append(JobStateChange(format_rfc3339(at), kind, text))
        self.note(at, kind, text, record.key, record.queue if job is None else job.queue)


def finished_row(record: JobRecord) -> JobSummary:
    ended = record.ended
    return JobSummary(
        job=record.key,
        namespace=record.key.split("/", 1)[0],
        queue=record.queue,
        state="finished",
        kind=record.kind,
        pods=record.pods,
        created=None if record.created is None else format_rfc3339(record.created),
        minimum=record.minimum,
        priority=record.priority,
        started=None if record.first_started is None else format_rfc3339(record.first_started),
        ended=None if ended is None else format_rfc3339(ended),
        outcome=outcome_of(record),
    )


def outcome_of(record: JobRecord) -> str:
    """Derived from the last phases of its pods: pods that vanish before their end were deleted."""
    phases = set(record.phases.values())
    if "Failed" in phases:
        return "failed"
    return "succeeded" if phases and not record.placed else "deleted"


def _since(pod: Pod, at: Micros) -> Micros:
    since = bound_at(pod)
    if since is None and pod.status.start_time is not None:
        since = from_datetime(pod.status.start_time)
    return at if since is None else since


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _nodes(names: Iterable[str]) -> str:
    found = sorted(set(names))
    return ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
