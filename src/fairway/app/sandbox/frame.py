"""What there is to see of a sandbox at one moment: for the terminal, for `fairway get`, and for any page."""

from __future__ import annotations

import msgspec

from fairway.api.nodes import Node
from fairway.app.sandbox.journal import submitted_at
from fairway.app.sandbox.records import Happening
from fairway.app.sandbox.store import Store
from fairway.clock import Micros, format_rfc3339
from fairway.drive.loop import SchedulerLoop
from fairway.resources.quantity import format_amount
from fairway.scheduler.decide import decide
from fairway.scheduler.plan import NamespaceStanding, Pending, Plan, QueueStanding, Reservation
from fairway.sim.jobs import SimJob
from fairway.sim.live import LiveCluster

RECENT = 50
"""Happenings that a frame shows."""


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
    """For how long it has run."""


class StartingJob(Shown, frozen=True):
    """A job that has come and gets its places with the next cycle."""

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
    """The part in use, by resource."""
    finished: int
    coming: int
    """Jobs that are known to come later."""
    queues: tuple[QueueStanding, ...]
    namespaces: tuple[NamespaceStanding, ...]
    running: tuple[RunningJob, ...]
    starting: tuple[StartingJob, ...]
    waiting: tuple[Pending, ...]
    reservations: tuple[Reservation, ...]
    happenings: tuple[Happening, ...]
    warnings: tuple[str, ...] = ()


class Framer:
    """Makes frames. What waits and why is what `decide` says of this very moment; it is asked again only when the
    cluster changed or its own answer may have."""

    def __init__(self, cluster: LiveCluster, scheduler: SchedulerLoop) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._plan: Plan | None = None
        self._generation = -1

    def plan(self) -> Plan:
        now, plan = self._cluster.loop.now, self._plan
        self._scheduler.catch_up()
        state = self._scheduler.state
        stale = plan is None or (plan.recheck_at is not None and plan.recheck_at <= now)
        if plan is None or stale or self._generation != state.generation:
            plan = self._plan = decide(state, self._scheduler.policy, now)
            self._generation = state.generation
        return plan

    def frame(self, coming: int, store: Store) -> Frame:
        plan = self.plan()
        used = self._used()
        capacity = {name: amount for name, amount in sorted(self._cluster.pool.capacity.items()) if name != "pods"}
        return Frame(
            now=format_rfc3339(self._cluster.loop.now),
            nodes=len(self._cluster.pool),
            capacity={name: format_amount(name, amount) for name, amount in capacity.items()},
            used={name: format_amount(name, used.get(name, 0)) for name in capacity},
            fill={name: round(used.get(name, 0) / amount, 6) for name, amount in capacity.items() if amount},
            finished=store.count_outcomes(),
            coming=coming,
            queues=tuple(plan.queues),
            namespaces=tuple(plan.namespaces),
            running=tuple(self._running()),
            starting=tuple(self._starting(plan)),
            waiting=tuple(plan.pending),
            reservations=plan.reservations,
            happenings=tuple(store.happenings(RECENT)),
            warnings=plan.warnings,
        )

    def nodes(self) -> list[NodeUse]:
        used: dict[str, dict[str, int]] = {}
        pods: dict[str, int] = {}
        for pod in self._cluster.placed():
            sums = used.setdefault(pod.node, {})
            pods[pod.node] = pods.get(pod.node, 0) + 1
            for name, amount in pod.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        return [
            NodeUse(
                name=node.metadata.name,
                allocatable=dict(node.allocatable),
                used={
                    name: format_amount(name, used.get(node.metadata.name, {}).get(name, 0))
                    for name in node.allocatable
                    if name != "pods"
                },
                pods=pods.get(node.metadata.name, 0),
                state=_state(node),
            )
            for node in sorted(self._nodes(), key=lambda node: node.metadata.name)
        ]

    def _used(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for pod in self._cluster.placed():
            for name, amount in pod.amounts.items():
                sums[name] = sums.get(name, 0) + amount
        return sums

    def _running(self) -> list[RunningJob]:
        by_job: dict[str, list[str]] = {}
        for pod in self._cluster.placed():
            by_job.setdefault(pod.job.key, []).append(pod.node)
        jobs = [self._cluster.jobs[key] for key in by_job]
        return [self._row(job, by_job[job.key]) for job in sorted(jobs, key=lambda job: (-(job.start or 0), job.key))]

    def _starting(self, plan: Plan) -> list[StartingJob]:
        started = {pod.job.key for pod in self._cluster.placed()}
        pods: dict[str, int] = {}
        for binding in plan.bindings:
            if binding.job not in started:
                pods[binding.job] = pods.get(binding.job, 0) + 1
        return [StartingJob(job, self._cluster.jobs[job].queue, count) for job, count in pods.items()]

    def _row(self, job: SimJob, nodes: list[str]) -> RunningJob:
        now = self._cluster.loop.now
        return RunningJob(
            job=job.key,
            queue=job.queue,
            pods=len(job.pods),
            placed=len(nodes),
            nodes=tuple(sorted(set(nodes))),
            created=format_rfc3339(submitted_at(job, now)),
            started=None if job.start is None else format_rfc3339(job.start),
            since=0 if job.start is None else now - job.start,
        )

    def _nodes(self) -> list[Node]:
        return [thing for thing in self._cluster.objects.values() if isinstance(thing, Node)]


def _state(node: Node) -> str:
    if any(condition.type == "Ready" and condition.status != "True" for condition in node.status.conditions):
        return "NotReady"
    return "SchedulingDisabled" if node.spec.unschedulable else "Ready"
