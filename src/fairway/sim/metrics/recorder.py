"""Listens to a run and keeps its metrics, sum by sum, as events happen; there is no log to compute them from.

A driver reports events in order of time. Several reports at one instant count as one change: what holds between two
instants is the state after the last report of the first. Finished jobs are forgotten; `on_finish` is called with each.

The timeline for plots takes memory that does not grow with the length of the run. Snapshots are taken at a regular step
of virtual time. When there are twice as many as wanted, every second one is dropped and the step doubles. A snapshot
holds sums over time, not values: the mean between any two that are left is exact, whatever was dropped between them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairway.clock import SECOND, Micros
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.metrics.outcomes import JobOutcome, JobOutcomes, PlannedStartResult, PlannedStarts, size_class
from fairway.sim.metrics.tenants import ONE, QueueTenant, Tenant, Vector, dominant, entitle

GPU = "nvidia.com/gpu"


class JobFacts(msgspec.Struct, frozen=True):
    """What the metrics need of a job when it arrives."""

    key: str
    """namespace/name."""
    queue: str
    namespace: str
    tasks: int
    minimum: int
    """Tasks that must be placed for the job to count as started."""
    demand: Mapping[str, int]
    """What all its tasks request together."""
    first_step: Mapping[str, int]
    """What its minimum requests."""
    next_step: Mapping[str, int]
    """What one more task requests."""
    limit: Micros | None = None
    """The run time that its user requested."""

    @property
    def processors(self) -> int:
        """Requested CPUs, in thousandths; GPUs for a job without CPUs; else one for each task."""
        return self.demand.get("cpu") or self.demand.get(GPU) or self.tasks * 1000


class QueueFacts(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1
    guarantee: Mapping[str, int] = {}


class AliveJob:
    """A job that has not finished."""

    __slots__ = (
        "allocated",
        "demand",
        "facts",
        "left",
        "namespace",
        "placed",
        "planned",
        "queue",
        "size",
        "start",
        "step",
        "stops",
        "submit",
    )

    def __init__(self, facts: JobFacts, submit: Micros, queue: QueueTenant, namespace: Tenant, size: str) -> None:
        self.facts = facts
        self.submit = submit
        self.queue = queue
        self.namespace = namespace
        self.size = size
        self.start: Micros | None = None
        self.left = facts.tasks
        """Tasks that have not ended by themselves."""
        self.placed = 0
        self.stops = 0
        """How often evictions took it below its minimum."""
        self.planned: PlannedStartResult | None = None
        """The result of its planned start, the last time that it started."""
        self.allocated = [0] * len(queue.allocated)
        self.demand = [0] * len(queue.allocated)
        self.step: Vector | None = None

    @property
    def ready(self) -> int:
        """Tasks that count towards its minimum: placed and ended ones."""
        return self.placed + self.facts.tasks - self.left


WANTED = 300


class UsageSnapshot(msgspec.Struct, frozen=True):
    """Sums over time since the start, and current values, in the order of the caller's columns.

    Columns are only ever added: values beyond the end of an older snapshot were zero.
    """

    at: Micros
    sums: array[float]
    stands: array[float]


class UsageTimeline:
    """Snapshots of a run at a step that grows with it."""

    def __init__(self, start: Micros, take: Callable[[Micros], UsageSnapshot], wanted: int = WANTED) -> None:
        self._take = take
        self._wanted = wanted
        self.step = SECOND
        self.next = start + self.step
        self.snapshots = [take(start)]

    def reach(self, at: Micros) -> None:
        """Takes the snapshots that are due up to `at`, before anything changes at `at`."""
        if self.next > at:
            return
        while self.next <= at:
            if (at - self.next) // self.step >= 2 * self._wanted:
                self._thin()
                continue
            self.snapshots.append(self._take(self.next))
            self.next += self.step
            if len(self.snapshots) > 2 * self._wanted:
                self._thin()

    def close(self, at: Micros) -> None:
        """The last snapshot, at the end of the run."""
        self.reach(at)
        if self.snapshots[-1].at < at:
            self.snapshots.append(self._take(at))

    def _thin(self) -> None:
        self.snapshots = self.snapshots[::2]
        self.step *= 2
        self.next = self.snapshots[-1].at + self.step


BILLION = 1_000_000_000


class MetricsRecorder:
    """The metrics of one run. `resources` are the counted dimensions, in the report's order."""

    def __init__(
        self,
        start: Micros,
        resources: Sequence[str],
        capacity: Mapping[str, int],
        queues: Sequence[QueueFacts] = (),
        namespace_weights: Mapping[str, int] | None = None,
        on_finish: Callable[[JobOutcome], None] | None = None,
    ) -> None:
        self.start = start
        self.now = start
        self.resources = tuple(resources)
        self.outcomes = JobOutcomes(self.resources)
        self.deviation = Distribution()
        """The largest deviation of a backlogged namespace from its entitlement, in billionths, over time."""
        self.queues: dict[str, QueueTenant] = {}
        self.used_area = [0] * len(self.resources)
        self.capacity_area = [0] * len(self.resources)
        self.at_last_end = (start, tuple(self.used_area), tuple(self.capacity_area))
        self.at_last_submit = self.at_last_end
        self.at_last_start = self.at_last_end
        self.planned = PlannedStarts()
        self.first_submit: Micros | None = None
        self.backlogged: Micros = 0
        """Time with pending jobs, and (in billionths) the idle fraction of the most used resource in it."""
        self.idle_area = 0
        self.backlogged_at_end: set[str] = set()
        """Namespaces with a pending job at the end of the run."""
        self._starving = 0
        self._reserved = 0
        self._facts = {queue.name: queue for queue in queues}
        self._weights = dict(namespace_weights or {})
        self._capacity = self._vector(capacity)
        self._used = [0] * len(self.resources)
        self._alive: dict[str, AliveJob] = {}
        self._on_finish = on_finish
        self._stale = False
        self._backlog = False
        self._worst = 0
        self._holders: list[Tenant] = []
        used, total = ([f"{what}/{name}" for name in self.resources] for what in ("used", "capacity"))
        self.sum_columns = [*used, *total, "evictions", "idle", "backlogged"]
        """The columns of a snapshot's sums; a queue or namespace adds its own with its first job."""
        self.stand_columns = ["waiting", "starving", "reserved"]
        self.timeline = UsageTimeline(start, self._snapshot)

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None:
        """The capacity of the cluster has changed."""
        self._reach(at)
        self._stale = True
        self._capacity = self._vector(capacity)
        for holder in self._holders:
            holder.resized(at, self._capacity)

    def submitted(self, at: Micros, facts: JobFacts) -> None:
        """A job arrived."""
        self._reach(at)
        queue, namespace = self._tenant(facts.queue, facts.namespace)
        demand = self._vector(facts.demand)
        job = AliveJob(facts, at, queue, namespace, size_class(dominant(demand, self._capacity) / ONE))
        self._alive[facts.key] = job
        queue.gains(namespace)
        self._want(job, demand, +1)
        self._next_step(job, self._vector(facts.first_step))
        self.first_submit = at if self.first_submit is None else self.first_submit
        self.at_last_submit = self._areas()
        self.outcomes.submitted += 1

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        """`tasks` of a job got a node, and have `amounts` in all."""
        self._reach(at)
        job, vector = self._alive[key], self._vector(amounts)
        job.placed += tasks
        self._charge(job, vector, +1)
        if job.start is None and job.ready >= job.facts.minimum:
            job.start = at
            job.planned = self.planned.started(key, at)
            self.at_last_start = self._areas()
        self._step_now(job)

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        """`tasks` of a job ended by themselves and released `amounts`."""
        self._reach(at)
        job = self._alive[key]
        job.left -= tasks
        job.placed -= tasks
        vector = self._vector(amounts)
        self._charge(job, vector, -1)
        self._want(job, vector, -1)
        self._step_now(job)

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None:
        """`tasks` of a job were stopped after `ran`, or `failed` with their node. They are pending again, and their
        work is lost.
        """
        self._reach(at)
        job, vector = self._alive[key], self._vector(amounts)
        job.placed -= tasks
        self._charge(job, vector, -1)
        stops = job.start is not None and job.ready < job.facts.minimum
        job.stops += stops and not failed
        if stops:
            job.start = None
        self._step_now(job)
        work = [ran * amount for amount in vector]
        if failed:
            self.outcomes.failed(tasks, work)
        else:
            share = ran * dominant(vector, self._capacity)
            self.outcomes.lost(key, job.facts.queue, tasks, work, share, job.stops if stops else 0)

    def plans_start(self, key: str, at: Micros, hard: bool) -> None:
        """A plan states that a pending job starts at `at`."""
        if key in self._alive and self._alive[key].start is None:
            self.planned.given(key, at, hard=hard)

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None:
        """A job finished after a run of `ran` on `hosts`."""
        self._reach(at)
        job = self._drop(key)
        self.at_last_end = self._areas()
        assert job.start is not None, f"{key} finished without having started"
        facts = job.facts
        outcome = JobOutcome(
            key=key,
            queue=facts.queue,
            namespace=facts.namespace,
            tasks=facts.tasks,
            size=job.size,
            submit=job.submit,
            start=job.start,
            end=at,
            run=ran,
            evictions=job.stops,
            processors=facts.processors,
            limit=facts.limit,
            hosts=tuple(hosts),
            planned=job.planned,
        )
        self.outcomes.finish(outcome)
        if self._on_finish is not None:
            self._on_finish(outcome)

    def withdrawn(self, at: Micros, key: str) -> None:
        """A job was withdrawn before it finished."""
        self._reach(at)
        self._drop(key)
        self.planned.forget(key)
        self.outcomes.withdrawn += 1

    def reservations(self, at: Micros, starving: int, reserved: int) -> None:
        """The number of starving jobs and of nodes with a reservation, from now on."""
        self._reach(at)
        self._starving = starving
        self._reserved = reserved

    def close(self, at: Micros) -> None:
        """The run ended, or was cut short, at `at`."""
        self._reach(at)
        self._refresh()
        for holder in self._holders:
            holder.settle(at)
            holder.watch(at, holder.below_since is not None)
        self.timeline.close(at)
        waiting = [job for job in self._alive.values() if job.start is None]
        so_far = [
            (job.facts.queue, job.facts.namespace, (at if job.start is None else job.start) - job.submit)
            for job in self._alive.values()
        ]
        self.planned.close(at, (job.facts.key for job in waiting))
        self.backlogged_at_end = {job.facts.namespace for job in waiting}
        waits = [(at - job.submit, job.facts.key) for job in waiting]
        self.outcomes.close(len(self._alive) - len(waiting), waits, so_far)

    def _reach(self, at: Micros) -> None:
        """Adds the values that held until `at` to the sums."""
        if at == self.now:
            return
        assert at > self.now, f"time went back from {self.now} to {at}"
        self._refresh()
        self.timeline.reach(at)
        span = at - self.now
        for index, (used, total) in enumerate(zip(self._used, self._capacity, strict=True)):
            self.used_area[index] += used * span
            self.capacity_area[index] += total * span
        self.deviation.add(self._worst, span)
        if self._backlog:
            self.backlogged += span
            self.idle_area += self._idle() * span
        self.now = at

    def _refresh(self) -> None:
        """Entitlements and the tenants below them, once for each instant at which something changed."""
        if not self._stale:
            return
        self._stale = False
        queues = list(self.queues.values())
        self._backlog = any(queue.steps for queue in queues)
        if not self._backlog:
            self._no_job_waits()
            return
        entitle(queues, self._capacity)
        now, worst = self.now, 0
        for queue in queues:
            queue.watch(now, queue.below_guarantee())
            for holder in queue.active.values():
                below = holder.share < holder.entitled and holder.below(self._capacity)
                if below or holder.below_since is not None:
                    holder.watch(now, below)
                if holder.steps:
                    off = abs(holder.share - holder.entitled) // holder.weight
                    if off > worst:
                        worst = off
        self._worst = worst * BILLION // ONE

    def _no_job_waits(self) -> None:
        """All have what they request, which is what they are entitled to."""
        self._worst = 0
        for queue in self.queues.values():
            for holder in (queue, *queue.active.values()):
                holder.entitled = holder.share
                holder.watch(self.now, False)

    def _idle(self) -> int:
        """The idle fraction of the most used resource, in billionths."""
        return BILLION - min(BILLION, dominant(self._used, self._capacity) * BILLION // ONE)

    def _areas(self) -> tuple[Micros, Vector, Vector]:
        return self.now, tuple(self.used_area), tuple(self.capacity_area)

    def _charge(self, job: AliveJob, amounts: Vector, sign: int) -> None:
        self._stale = True
        job.allocated = [have + sign * amount for have, amount in zip(job.allocated, amounts, strict=True)]
        self._used = [have + sign * amount for have, amount in zip(self._used, amounts, strict=True)]
        job.queue.charge(self.now, amounts, sign, self._capacity)
        job.namespace.charge(self.now, amounts, sign, self._capacity)

    def _want(self, job: AliveJob, amounts: Vector, sign: int) -> None:
        self._stale = True
        job.demand = [have + sign * amount for have, amount in zip(job.demand, amounts, strict=True)]
        job.queue.want(amounts, sign)
        job.namespace.want(amounts, sign)

    def _step_now(self, job: AliveJob) -> None:
        facts = job.facts
        if job.placed >= job.left:
            self._next_step(job, None)
        else:
            self._next_step(job, self._vector(facts.first_step if job.start is None else facts.next_step))

    def _next_step(self, job: AliveJob, step: Vector | None) -> None:
        if step == job.step:
            return
        for holder in (job.queue, job.namespace):
            if job.step is not None:
                holder.step(job.step, -1)
            if step is not None:
                holder.step(step, +1)
        job.step = step

    def _drop(self, key: str) -> AliveJob:
        job = self._alive.pop(key)
        self._next_step(job, None)
        self._charge(job, tuple(job.allocated), -1)
        self._want(job, tuple(job.demand), -1)
        job.queue.loses(self.now, job.namespace)
        return job

    def _tenant(self, queue_name: str, namespace: str) -> tuple[QueueTenant, Tenant]:
        queue = self.queues.get(queue_name)
        if queue is None:
            facts = self._facts.get(queue_name) or QueueFacts(queue_name)
            queue = QueueTenant(queue_name, facts.weight, self._vector(facts.guarantee), self.now)
            self.queues[queue_name] = queue
            self._add_column(queue, f"queue/{queue_name}")
        holder = queue.namespaces.get(namespace)
        if holder is None:
            holder = Tenant(namespace, self._weights.get(namespace, 1), len(self.resources), self.now)
            queue.namespaces[namespace] = holder
            self._add_column(holder, f"namespace/{queue_name}/{namespace}")
        return queue, holder

    def _add_column(self, holder: Tenant, label: str) -> None:
        self._holders.append(holder)
        self.sum_columns.append(label)
        self.stand_columns.append(label)

    def _vector(self, amounts: Mapping[str, int]) -> Vector:
        return tuple([amounts.get(name, 0) for name in self.resources])

    def _snapshot(self, at: Micros) -> UsageSnapshot:
        """Sums by `sum_columns`, current values by `stand_columns`."""
        span = at - self.now
        sums = array("d", [area + used * span for area, used in zip(self.used_area, self._used, strict=True)])
        sums.extend(area + total * span for area, total in zip(self.capacity_area, self._capacity, strict=True))
        sums.append(self.outcomes.evictions)
        sums.append(self.idle_area + (self._idle() * span if self._backlog else 0))
        sums.append(self.backlogged + (span if self._backlog else 0))
        waiting = sum(sum(queue.steps.values()) for queue in self.queues.values())
        stands = array("d", [waiting, self._starving, self._reserved])
        for holder in self._holders:
            holder.settle(at)
            sums.append(holder.service)
            stands.append(holder.entitled)
        return UsageSnapshot(at, sums, stands)
