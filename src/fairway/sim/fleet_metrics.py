"""What is kept of a fleet while a run goes on: each cluster's events count for the cluster, and for the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fairway.clock import SECOND, Micros
from fairway.sim.metrics import JobFacts, JobOutcome, MetricsRecorder
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.report import FleetCluster, FleetTeam, FleetView, usage_series
from fairway.sim.virtual_cluster import NodePool
from fairway.sim.virtual_jobs import SimJob


@dataclass(slots=True)
class _ClusterCounts:
    waits: Distribution = field(default_factory=Distribution)
    moved_in: int = 0
    moved_out: int = 0
    starving: int = 0
    reserved: int = 0
    nodes_by_job: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _TeamCounts:
    unplaced: Distribution = field(default_factory=Distribution)
    moves: int = 0
    clusters: dict[str, int] = field(default_factory=dict)


class FleetRunMetrics:
    """The fleet's view of events in its clusters. `recorder` has the metrics of all jobs."""

    def __init__(self, clusters: Sequence[str], on_finish: Callable[[JobOutcome], None] | None) -> None:
        self.recorder: MetricsRecorder
        self.moves = 0
        self._clusters = {name: _ClusterCounts() for name in clusters}
        self._teams: dict[str, _TeamCounts] = {}
        self._pools: dict[str, NodePool] = {}
        self._at: dict[str, str] = {}
        """The current or last cluster of a job."""
        self._came: dict[str, Micros] = {}
        """Jobs for which no cluster was ever chosen."""
        self._on_finish = on_finish

    # -- jobs ------------------------------------------------------------------------------------------------

    def submitted(self, at: Micros, job: SimJob) -> None:
        self._came[job.key] = at
        self._teams.setdefault(job.tenant, _TeamCounts())

    def entered(self, at: Micros, cluster: str, job: SimJob) -> None:
        came = self._came.pop(job.key, None)
        if came is not None:
            self._teams[job.tenant].unplaced.add(at - came)
        elif self._at[job.key] != cluster:
            self.moves += 1
            self._teams[job.tenant].moves += 1
            self._clusters[cluster].moved_in += 1
            self._clusters[self._at[job.key]].moved_out += 1
        self._at[job.key] = cluster

    def finished(self, outcome: JobOutcome) -> None:
        cluster = self._at.pop(outcome.key)
        self._clusters[cluster].waits.add(outcome.wait)
        jobs = self._teams[outcome.namespace].clusters
        jobs[cluster] = jobs.get(cluster, 0) + 1
        if self._on_finish is not None:
            self._on_finish(outcome)

    # -- sums over clusters ----------------------------------------------------------------------------------

    def watch(self, cluster: str, pool: NodePool) -> None:
        self._pools[cluster] = pool

    def resized(self, at: Micros) -> None:
        found: dict[str, int] = {}
        for pool in self._pools.values():
            for name, amount in pool.capacity.items():
                found[name] = found.get(name, 0) + amount
        self.recorder.capacity(at, found)

    def reservations(self, at: Micros, cluster: str, starving: int, reserved: int) -> None:
        counts = self._clusters[cluster]
        counts.starving, counts.reserved = starving, reserved
        every = self._clusters.values()
        self.recorder.reservations(at, sum(one.starving for one in every), sum(one.reserved for one in every))

    def reserved_nodes(self, cluster: str, nodes_by_job: dict[str, int]) -> dict[str, int]:
        """Of all clusters: a job is in one of them."""
        self._clusters[cluster].nodes_by_job = nodes_by_job
        return {job: nodes for one in self._clusters.values() for job, nodes in one.nodes_by_job.items()}

    # -- the report ------------------------------------------------------------------------------------------

    def view(
        self, members: Mapping[str, tuple[int, MetricsRecorder]], end: Micros, unplaced: int, decisions: int
    ) -> FleetView:
        """`members` are nodes and metrics by cluster; the metrics are closed here."""
        return FleetView(
            clusters=[self._cluster(name, nodes, own, end) for name, (nodes, own) in members.items()],
            teams=[_team(name, team) for name, team in sorted(self._teams.items())],
            moves=self.moves,
            unplaced=unplaced,
            decisions=decisions,
        )

    def _cluster(self, name: str, nodes: int, own: MetricsRecorder, end: Micros) -> FleetCluster:
        own.close(end)
        counts, outcomes = self._clusters[name], own.outcomes
        areas = zip(own.resources, own.used_area, own.capacity_area, strict=True)
        use = {resource: round(used / total, 6) if total else 0.0 for resource, used, total in areas}
        times, series = usage_series(own)
        most = max(sorted(use), key=lambda resource: use[resource], default="")
        return FleetCluster(
            name=name,
            nodes=nodes,
            finished=outcomes.finished,
            running=outcomes.running,
            waiting=outcomes.waiting,
            mean_wait=round(counts.waits.mean() / SECOND, 6),
            longest_wait=counts.waits.largest / SECOND,
            moved_in=counts.moved_in,
            moved_out=counts.moved_out,
            evictions=outcomes.evictions,
            utilisation=use,
            times=times,
            used=series.get(most, []),
        )


def _team(name: str, team: _TeamCounts) -> FleetTeam:
    waited = round(team.unplaced.mean() / SECOND, 6)
    return FleetTeam(name, waited, team.unplaced.largest / SECOND, team.moves, dict(sorted(team.clusters.items())))


class JobWatcher(Protocol):
    """Notified when a job has its first node, and when it is done."""

    def started(self, key: str) -> None: ...

    def finished(self, key: str) -> None: ...


class MemberObserver:
    """Passes events of one cluster to its own metrics, to those of the fleet, and to the hub."""

    def __init__(self, name: str, own: MetricsRecorder, fleet: FleetRunMetrics, jobs: JobWatcher) -> None:
        self._name = name
        self._own = own
        self._fleet = fleet
        self._jobs = jobs

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None:
        self._own.capacity(at, capacity)
        self._fleet.resized(at)

    def submitted(self, at: Micros, facts: JobFacts) -> None:
        self._own.submitted(at, facts)

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        self._own.placed(at, key, amounts, tasks)
        self._fleet.recorder.placed(at, key, amounts, tasks)
        self._jobs.started(key)

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None:
        self._own.released(at, key, amounts, tasks)
        self._fleet.recorder.released(at, key, amounts, tasks)

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None:
        self._own.evicted(at, key, amounts, ran, tasks, failed=failed)
        self._fleet.recorder.evicted(at, key, amounts, ran, tasks, failed=failed)

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None:
        self._own.finished(at, key, ran, hosts)
        self._fleet.recorder.finished(at, key, ran, [f"{self._name}/{host}" for host in hosts])
        self._jobs.finished(key)

    def reservations(self, at: Micros, starving: int, reserved: int) -> None:
        self._own.reservations(at, starving, reserved)
        self._fleet.reservations(at, self._name, starving, reserved)


class MemberTimeline(NodeTimeline):
    """The nodes of one cluster, drawn among those of all."""

    def __init__(self, name: str, all_nodes: NodeTimeline, fleet: FleetRunMetrics) -> None:
        super().__init__()
        self._name = name
        self._all = all_nodes
        self._fleet = fleet

    def bound(self, at: Micros, pod: str, job: str, queue: str, node: str) -> None:
        self._all.bound(at, pod, job, queue, f"{self._name}/{node}")

    def freed(self, at: Micros, pod: str, *, evicted: bool = False) -> None:
        self._all.freed(at, pod, evicted=evicted)

    def reserved(self, at: Micros, nodes_by_job: dict[str, int]) -> None:
        self._all.reserved(at, self._fleet.reserved_nodes(self._name, nodes_by_job))

    def went(self, at: Micros, node: str) -> None:
        self._all.went(at, f"{self._name}/{node}")

    def returned(self, at: Micros, node: str) -> None:
        self._all.returned(at, f"{self._name}/{node}")
