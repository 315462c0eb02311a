"""A run of a fleet: several clusters, each with its scheduler, and a hub in front that chooses one for each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fairway.api.fleet import ClusterClaim, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus
from fairway.api.meta import ObjectMeta
from fairway.api.policy import Policy
from fairway.clock import Micros
from fairway.drive import Change, Cycle, PlacementPods, amounts_report
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.quantity import INT64_MAX
from fairway.sim.cluster_run import ClusterRun, ClusterWorld, RunWatchers, metrics_of, resources_of
from fairway.sim.fleet_metrics import FleetRunMetrics, MemberObserver, MemberTimeline
from fairway.sim.hub import Hub
from fairway.sim.limits import MAX_NODES
from fairway.sim.loop import Rank
from fairway.sim.metrics import MetricsRecorder, QueueFacts
from fairway.sim.report import FleetView
from fairway.sim.run import RunOptions, ScenarioRun, Simulation
from fairway.sim.scenario import Scenario
from fairway.sim.scenario.model import MemberCluster
from fairway.sim.virtual_jobs import SimJob
from fairway.state.events import Event


class FleetMember:
    """A cluster of the fleet: reports its free capacity to the hub, at a limited rate and only when it may have
    changed.
    """

    def __init__(self, part: MemberCluster, run: ClusterRun, metrics: MetricsRecorder, hub: Hub, interval: Micros):
        self.part = part
        self.run = run
        self.metrics = metrics
        """Of this cluster alone: waits count from the arrival of a job there."""
        self._hub = hub
        self._interval = interval
        self._pods = PlacementPods()
        self._due: bool = False
        self._last: Micros | None = None
        self._said: ManagedCluster | None = None
        run.scheduler.listeners += [self._pods, self]

    def applied(self, events: Sequence[Event]) -> None:
        self._note()

    def decided(self, cycle: Cycle) -> None:
        if cycle.changes:
            self._note()

    def refused(self, change: Change, why: str) -> None: ...

    def report(self) -> None:
        """Report to the hub."""
        self._due = False
        self._last = self.run.loop.now
        state = self.run.state
        self._due = False  # catching up with what is reported now is no reason to report it again
        part, free = self.part, amounts_report(state, self._pods)
        total = Resource.of({n: a for n, a in self.run.pool.capacity.items() if a}).format()
        known = ManagedCluster(
            metadata=ObjectMeta(name=part.name, labels=part.labels, annotations=dict(free)),
            spec=ManagedClusterSpec(hub_accepts_client=True, taints=part.taints),
            status=ManagedClusterStatus(
                capacity=self._capacity(total),
                allocatable=total,
                cluster_claims=tuple(ClusterClaim(name, value) for name, value in part.claims.items()),
            ),
        )
        if known != self._said:
            self._said = known
            self._hub.report(known)

    def _capacity(self, now: Mapping[str, str]) -> dict[str, str]:
        """The maximum so far: failed nodes belong to the capacity."""
        before = {} if self._said is None else self._said.status.capacity
        parsed = [Resource.parse(dict(amounts)) for amounts in (now, before)]
        return Resource.of({name: max(one.get(name) for one in parsed) for name in {*now, *before}}).format()

    def _note(self) -> None:
        if self._due:
            return
        self._due = True
        now = self.run.loop.now
        when = now if self._last is None else max(now, self._last + self._interval)
        self.run.loop.plan(when, Rank.CHANGE, lambda _: self.report(), None)


class FleetSimulation(ScenarioRun):
    """A run of a fleet."""

    def __init__(self, scenario: Scenario, policy: Policy, options: RunOptions) -> None:
        super().__init__(scenario, policy, options)
        fleet = scenario.file.fleet
        assert fleet is not None
        worlds = [ClusterWorld(one, self.inputs) for one in scenario.clusters()]
        capacity = _total([world.pool.capacity for world in worlds])
        self._check_size(worlds, capacity)
        self.metrics = FleetRunMetrics([part.name for part in fleet.clusters], options.on_finish)
        resources = resources_of(capacity)
        self.recorder = self.metrics.recorder = MetricsRecorder(
            scenario.start, resources, capacity, _queues(worlds), _weights(worlds), self.metrics.finished
        )
        self.hub = Hub(self.loop, self, fleet.placements)
        self.members: dict[str, FleetMember] = {}
        for part, world in zip(fleet.clusters, worlds, strict=True):
            log = options.log_of(part.name)
            own = metrics_of(world)
            self.metrics.watch(part.name, world.pool)
            watchers = RunWatchers(
                MemberObserver(part.name, own, self.metrics, self.hub),
                MemberTimeline(part.name, self.timeline, self.metrics),
                self.evidence,
                self.recorder.plans_start,
                log,
                tells_ends=log is not None or self.estimates.from_history,
            )
            dice = f"{self.seed}/clusters/{part.name}"
            run = ClusterRun(world, self.policy, self.loop, dice, watchers, lambda: bool(self.hub.jobs))
            self.members[part.name] = FleetMember(part, run, own, self.hub, fleet.report)
        self.clusters = [member.run for member in self.members.values()]
        for member in self.members.values():
            member.report()
        self._plan_events(capacity, set.intersection(*(world.queues for world in worlds)))

    def _check_size(self, worlds: Sequence[ClusterWorld], capacity: Mapping[str, int]) -> None:
        count = sum(world.nodes for world in worlds)
        if count > MAX_NODES:
            raise InputError(f"{self.scenario.path}: the fleet has {count} nodes, expected at most {MAX_NODES}")
        for name, amount in capacity.items():
            if amount > INT64_MAX:
                raise InputError(f"{self.scenario.path}: the fleet's total of {name} does not fit an int64")

    # -- jobs ------------------------------------------------------------------------------------------------

    def submit(self, job: SimJob) -> bool:
        if job.key in self.hub.jobs or any(pod.key in self.hub.pods for pod in job.pods):
            return False
        self.recorder.submitted(self.loop.now, job.facts())
        self.metrics.submitted(self.loop.now, job)
        self.hub.submit(job)
        return True

    def enter(self, cluster: str, job: SimJob) -> None:
        """A cluster was chosen for a job: its objects are created there."""
        member = self.members[cluster]
        self._ensure_queue(member.run, job.queue)
        self.metrics.entered(self.loop.now, cluster, job)
        taken = member.run.cluster.arrive(job.created(self.loop.now))
        assert taken, f"{job.key} is in {cluster} already"

    def leave(self, cluster: str, job: SimJob) -> None:
        member = self.members[cluster]
        member.run.cluster.take_back(job)
        member.metrics.withdrawn(self.loop.now, job.key)

    @property
    def is_stuck(self) -> bool:
        return super().is_stuck and not self.hub.will_decide

    @property
    def size(self) -> int:
        return len(self.hub.pods)

    # -- the report ------------------------------------------------------------------------------------------

    def fleet_view(self) -> FleetView:
        members = {name: (member.run.world.nodes, member.metrics) for name, member in self.members.items()}
        return self.metrics.view(members, self.loop.now, self.hub.unplaced, self.hub.decided)


def _total(capacities: Sequence[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for capacity in capacities:
        for name, amount in capacity.items():
            found[name] = found.get(name, 0) + amount
    return found


def _queues(worlds: Sequence[ClusterWorld]) -> list[QueueFacts]:
    """Queues of the same name are one, with the guarantees of all clusters."""
    found: dict[str, QueueFacts] = {}
    for world in worlds:
        for facts in world.queue_facts():
            known = found.get(facts.name)
            guarantee = facts.guarantee if known is None else _total([known.guarantee, facts.guarantee])
            found[facts.name] = replace(known or facts, guarantee=guarantee)
    return list(found.values())


def _weights(worlds: Sequence[ClusterWorld]) -> dict[str, int]:
    return {name: weight for world in reversed(worlds) for name, weight in world.weights().items()}


def simulation_of(scenario: Scenario, policy: Policy, options: RunOptions) -> ScenarioRun:
    kind = Simulation if scenario.file.fleet is None else FleetSimulation
    return kind(scenario, policy, options)
