"""A cluster at one moment, as the terminal screen, `fairway get` and `fairway queue` list it.

`Frame` has everything at once; jobs, nodes and pending jobs are rows made from it. A `GivenCluster` is one that was
read once, from manifests or from an API server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from fairway.api.core import Node
from fairway.api.pods import Pod
from fairway.app.explain.look_ahead import estimated_starts
from fairway.app.explain.situation import Situation
from fairway.app.records import FinishedJob, SandboxEvent, written
from fairway.clock import Micros, format_rfc3339, from_datetime
from fairway.devices.model.pools import KIND_PREFIX
from fairway.drive import ObjectStore, bound_at
from fairway.errors import InputError
from fairway.resources.columns import BoolColumn
from fairway.resources.quantity import format_amount
from fairway.scheduler.plan import ExplainedPlan, NamespaceStanding, Pending, QueueStanding, Reservation
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.jobs import NOWHERE, ON_NODE, Job, Task, TaskState
from fairway.state.tables import PODS


class Shown(msgspec.Struct, rename="camel", frozen=True):
    """The base of all parts of a frame."""


class RunningJob(Shown, frozen=True):
    job: str
    queue: str
    pods: int
    placed: int
    nodes: tuple[str, ...]
    created: str
    started: str | None
    since: Micros = 0
    """How long it has been running."""
    starting: bool = False
    """Its pods are bound and none of them runs yet."""


class StartingJob(Shown, frozen=True):
    """A new job that the next cycle places."""

    job: str
    queue: str
    pods: int


class NodeUse(Shown, frozen=True):
    name: str
    allocatable: dict[str, str]
    used: dict[str, str]
    pods: int
    state: str
    """Ready, NotReady or SchedulingDisabled."""


class Frame(Shown, frozen=True):
    now: str
    nodes: int
    capacity: dict[str, str]
    used: dict[str, str]
    fill: dict[str, float]
    """Utilisation by resource."""
    finished: int
    coming: int
    """Number of jobs that arrive later."""
    queues: tuple[QueueStanding, ...]
    namespaces: tuple[NamespaceStanding, ...]
    running: tuple[RunningJob, ...]
    starting: tuple[StartingJob, ...]
    waiting: tuple[Pending, ...]
    reservations: tuple[Reservation, ...]
    happenings: tuple[SandboxEvent, ...]
    warnings: tuple[str, ...] = ()
    created: dict[str, str] = {}
    """Creation times of pending and starting jobs."""


class ClusterView:
    """A view of a cluster from its objects, its state and its last plan."""

    def __init__(self, store: ObjectStore, state: ClusterState, plan: ExplainedPlan, now: Micros) -> None:
        self._store = store
        self._state = state
        self._plan = plan
        self._now = now

    def frame(self, *, finished: int = 0, coming: int = 0, happenings: Sequence[SandboxEvent] = ()) -> Frame:
        plan = self._plan
        capacity, used = self._capacity(), self._used()
        placed = dict(self._placed_jobs())
        return Frame(
            now=format_rfc3339(self._now),
            nodes=int(self._usable().sum()),
            capacity={name: format_amount(name, amount) for name, amount in capacity.items()},
            used={name: format_amount(name, used[name]) for name in capacity},
            fill={name: round(used[name] / amount, 6) for name, amount in capacity.items() if amount},
            finished=finished,
            coming=coming,
            queues=tuple(plan.queues),
            namespaces=tuple(plan.namespaces),
            running=tuple(self._running(placed)),
            starting=tuple(self._starting(placed)),
            waiting=tuple(plan.pending),
            reservations=plan.reservations,
            happenings=tuple(happenings),
            warnings=plan.warnings,
            created=self._created_of({*(row.job for row in plan.pending), *(row.job for row in plan.bindings)}),
        )

    def nodes(self) -> list[NodeUse]:
        """Utilisation of each node."""
        things = [thing for _, thing in self._store.of_kind("Node") if isinstance(thing, Node)]
        return [self._node(node) for node in sorted(things, key=lambda node: node.metadata.name)]

    def _node(self, node: Node) -> NodeUse:
        table, axis = self._state.nodes.used, self._state.axis
        row = self._state.nodes.find(node.metadata.name)
        amounts = [0] * len(axis) if row is None else table.data[:, row].tolist()
        used = {name: amounts[place] if (place := axis.find(name)) is not None else 0 for name in node.allocatable}
        return NodeUse(
            name=node.metadata.name,
            allocatable=dict(node.allocatable),
            used={name: format_amount(name, amount) for name, amount in used.items() if name != "pods"},
            pods=amounts[PODS],
            state=_state(node),
        )

    # -- amounts ---------------------------------------------------------------------------------------------

    def _usable(self) -> BoolColumn:
        nodes = self._state.nodes
        size = len(nodes)
        return nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]

    def _capacity(self) -> dict[str, int]:
        """Capacity of schedulable nodes by resource."""
        usable = self._usable()
        sums = self._state.nodes.allocatable.data[:, : len(usable)][:, usable].sum(axis=1).tolist()
        named = zip(self._state.axis.names, sums, strict=False)
        return {name: amount for name, amount in sorted(named) if amount and name != "pods" and not _is_counted(name)}

    def _used(self) -> dict[str, int]:
        size = len(self._state.nodes)
        sums = self._state.nodes.used.data[:, :size].sum(axis=1).tolist()
        return dict(zip(self._state.axis.names, sums, strict=False))

    # -- jobs ------------------------------------------------------------------------------------------------

    def _placed_jobs(self) -> Iterator[tuple[str, tuple[Job, list[Task]]]]:
        """Jobs with pods on nodes: bound, running or terminating."""
        for job in self._state.jobs():
            placed = [task for task in job.tasks if task.state in ON_NODE and task.node != NOWHERE]
            if placed:
                yield job.key, (job, placed)

    def _running(self, placed: Mapping[str, tuple[Job, list[Task]]]) -> list[RunningJob]:
        rows = [(self._since(job, tasks), job, tasks) for job, tasks in placed.values()]
        return [
            self._row(job, tasks, since)
            for since, job, tasks in sorted(rows, key=lambda row: (-(row[0] or 0), row[1].key))
        ]

    def _since(self, job: Job, placed: Sequence[Task]) -> Micros | None:
        """When the job reached its minimum; None if it has not, or if unknown."""
        times = sorted(since for task in placed if (since := self._bound_at(task)) is not None)
        return times[job.minimum - 1] if len(times) >= job.minimum else None

    def _bound_at(self, task: Task) -> Micros | None:
        namespace, _, name = task.key.partition("/")
        pod = self._store.get(("Pod", namespace, name))
        if not isinstance(pod, Pod):
            return None
        since = bound_at(pod)
        if since is None and pod.status.start_time is not None:
            return from_datetime(pod.status.start_time)
        return since

    def _row(self, job: Job, placed: Sequence[Task], since: Micros | None) -> RunningJob:
        names = self._state.nodes.names
        return RunningJob(
            job=job.key,
            queue=job.queue,
            pods=len(job.tasks),
            placed=len(placed),
            nodes=tuple(sorted({names[task.node] for task in placed})),
            created=self._created(job),
            started=None if since is None else format_rfc3339(since),
            since=0 if since is None else self._now - since,
            starting=all(task.state is TaskState.BOUND for task in placed),
        )

    def _created_of(self, jobs: set[str]) -> dict[str, str]:
        return {job.key: self._created(job) for job in self._state.jobs() if job.key in jobs}

    def _created(self, job: Job) -> str:
        """Time of creation; "" if unknown."""
        times = [job.created, *(task.created for task in job.tasks)] if job.created is None else [job.created]
        known = min((time for time in times if time is not None), default=None)
        return "" if known is None else format_rfc3339(known)

    def _starting(self, placed: Mapping[str, tuple[Job, list[Task]]]) -> list[StartingJob]:
        pods: dict[str, int] = {}
        for binding in self._plan.bindings:
            if binding.job not in placed:
                pods[binding.job] = pods.get(binding.job, 0) + 1
        queues = {job.key: job.queue for job in self._state.jobs() if job.key in pods}
        return [StartingJob(job, queues.get(job, ""), count) for job, count in pods.items()]


def _is_counted(name: str) -> bool:
    """Whether a row of the state counts devices by class or kind rather than a resource of nodes."""
    return name.startswith((CLASS_PREFIX, KIND_PREFIX))


def _state(node: Node) -> str:
    if any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions):
        return "NotReady"
    return "SchedulingDisabled" if node.spec.unschedulable else "Ready"


class JobRow(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    job: str
    queue: str
    phase: str
    """waiting, starting, running or finished; a job with only some of its pods on nodes is running."""
    pods: int
    placed: int = 0
    position: int = 0
    reason: str = ""
    message: str = ""
    starving: bool = False
    nodes: tuple[str, ...] = ()
    created: str = ""
    started: str | None = None
    ended: str | None = None


def job_rows(frame: Frame, outcomes: Sequence[FinishedJob]) -> list[JobRow]:
    """Pending jobs in queue order, then starting, running, and finished ones, the latest first."""
    waiting = {pending.job: pending for pending in frame.waiting}
    running = {job.job: job for job in frame.running}
    starting = {job.job for job in frame.starting}
    rows = [
        JobRow(
            job=job.job,
            queue=job.queue,
            phase="waiting",
            pods=job.waiting,
            position=job.position,
            reason=job.reason,
            message=job.message,
            starving=job.starving,
            created=frame.created.get(job.job, ""),
        )
        for job in frame.waiting
        if job.job not in running and job.job not in starting
    ]
    rows += [
        JobRow(job=job.job, queue=job.queue, phase="starting", pods=job.pods, created=frame.created.get(job.job, ""))
        for job in frame.starting
    ]
    for job in frame.running:
        more = waiting.get(job.job)
        rows.append(
            JobRow(
                job=job.job,
                queue=job.queue,
                phase="starting" if job.starting else "running",
                pods=job.pods,
                placed=job.placed,
                nodes=job.nodes,
                created=job.created,
                started=job.started,
                reason=more.reason if more else "",
                message=more.message if more else "",
            )
        )
    return rows + [_finished(done) for done in reversed(outcomes)]


def _finished(done: FinishedJob) -> JobRow:
    return JobRow(
        job=done.job,
        queue=done.queue,
        phase="finished",
        pods=done.pods,
        created=format_rfc3339(done.submitted),
        started=format_rfc3339(done.started),
        ended=format_rfc3339(done.ended),
    )


class WaitingJob(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    queue: str
    position: int
    job: str
    namespace: str
    priority: int
    pods: int
    """Pending pods."""
    minimum: int
    reason: str
    message: str
    since: str | None = None
    """Time of creation."""
    waiting_for: Micros | None = None
    starving: bool = False
    estimated_start: str | None = None
    """Estimated start if nothing else arrives; None if unknown or too far ahead."""
    starts_in: Micros | None = None
    planned_start: str | None = None
    """A start that backfill protects."""
    hard: bool = False


def waiting_jobs(situation: Situation, queue: str | None = None) -> list[WaitingJob]:
    """The jobs that remain pending after the next cycle, of one queue or of all."""
    plan = situation.decide()
    pending = [entry for entry in plan.pending if queue is None or entry.queue == queue]
    starts = estimated_starts(situation, {entry.job for entry in pending})
    planned = {
        entry.job: (entry.planned_start, not (entry.soft or entry.estimated))
        for entry in plan.reservations
        if entry.planned_start is not None
    }
    created = {job.key: job.created for job in situation.state.jobs()}
    rows = []
    for entry in pending:
        since, start = created.get(entry.job), starts.get(entry.job)
        planned_start, hard = planned.get(entry.job, (None, False))
        rows.append(
            WaitingJob(
                queue=entry.queue,
                position=entry.position,
                job=entry.job,
                namespace=entry.namespace,
                priority=entry.priority,
                pods=entry.waiting,
                minimum=entry.minimum,
                reason=entry.reason,
                message=entry.message,
                since=None if since is None else format_rfc3339(since),
                waiting_for=None if since is None else max(0, situation.now - since),
                starving=entry.starving,
                estimated_start=None if start is None else format_rfc3339(start),
                starts_in=None if start is None else start - situation.now,
                planned_start=planned_start,
                hard=hard,
            )
        )
    return rows


class GivenObjects:
    """Same interface as the sandbox's client; pending jobs and reasons are those of the next cycle."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    @cached_property
    def _view(self) -> ClusterView:
        situation, store = self._situation, ObjectStore()
        for thing in situation.objects.values():
            store.seen(thing)
        return ClusterView(store, situation.state, situation.decide(), situation.now)

    def frame(self) -> Frame:
        return self._view.frame()

    def jobs(self) -> list[JobRow]:
        return job_rows(self._view.frame(), ())

    def nodes(self) -> list[NodeUse]:
        return self._view.nodes()

    def events(self) -> list[SandboxEvent]:
        raise InputError("events are kept by the sandbox; `kubectl get events` lists those of a cluster")

    def objects(self, kind: str) -> list[dict[str, Any]]:
        found = [thing for key, thing in sorted(self._situation.objects.items()) if key[0] == kind]
        return [msgspec.json.decode(written(thing), type=dict[str, Any]) for thing in found]
