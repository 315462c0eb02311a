"""One cluster of a run: what is there, the scheduler on it, and what happens to its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from fairway.api.core import NAMESPACE_WEIGHT, Node, ResourceQuota, ResourceQuotaSpec
from fairway.api.kinds import ApiObject
from fairway.api.manifests import Manifests, load
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from fairway.api.shape import Finding
from fairway.api.text import Path as Place
from fairway.clock import Micros
from fairway.drive import Listener
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.quantity import INT64_MAX
from fairway.sim.assertions import Evidence
from fairway.sim.limits import MAX_NODES
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.metrics import MetricsRecorder, QueueFacts
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.scenario import Scenario
from fairway.sim.scenario.checks import declared_queues, queue_of_template, suggestion, unknown_queues
from fairway.sim.scenario.model import ClusterChange, Failure
from fairway.sim.scenario.reader import templates
from fairway.sim.scheduling import IDLE_CYCLES, CycleMeter, rhythm_of, schedule
from fairway.sim.traces import TraceProblems, open_nodes
from fairway.sim.virtual_cluster import NodePool, RunObserver, VirtualCluster, node_of_trace, nodes_of_template
from fairway.state.cluster import ClusterState

VAIN_FAILURES = 1_000
"""This many random failures in a row, with only pending jobs left, end the run."""


@dataclass(slots=True)
class RunInputs:
    """How files are read, and their non-fatal problems."""

    strict: bool
    skip_invalid: bool
    warnings: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    """Errors of manifest objects that were set aside."""
    set_aside: int = 0

    def read(self, files: Sequence[str]) -> Manifests:
        return load(files, skip_invalid=self.skip_invalid)

    def note(self, manifests: Manifests) -> None:
        self.invalid += manifests.invalid
        self.set_aside += manifests.set_aside


class ClusterWorld:
    """What exists before the first job arrives: objects, including nodes, and the names of the queues."""

    def __init__(self, scenario: Scenario, inputs: RunInputs) -> None:
        self.scenario = scenario
        self._inputs = inputs
        self.objects = list(self._read())
        self.queues = declared_queues(scenario.file.cluster, self.objects)
        """An undeclared queue would get weight 1 and no limits: another cluster than intended."""
        if findings := list(unknown_queues(scenario.file, self.queues)):
            raise scenario.refused(findings)
        self.pool = self._pool()
        self.nodes = len(self.pool)
        self._refuse_unknown_nodes()

    def _read(self) -> Iterator[ApiObject]:
        cluster, inputs = self.scenario.file.cluster, self._inputs
        for template in templates(cluster.nodes):
            yield from nodes_of_template(template)
        if cluster.trace is not None:
            path = self.scenario.resolve(cluster.trace.file)
            problems = TraceProblems(str(path), strict=inputs.strict or cluster.trace.strict)
            yield from map(node_of_trace, islice(open_nodes(path, cluster.trace.format, problems), MAX_NODES + 1))
            inputs.warnings += problems.summary()
        if cluster.manifests:
            manifests = inputs.read([str(self.scenario.resolve(name)) for name in cluster.manifests])
            inputs.note(manifests)
            inputs.warnings += manifests.warnings
            waiting = [obj for obj in manifests.objects if _waits(obj)]
            if waiting:
                what = f"{len(waiting)} pod(s) without a node, such as {waiting[0].metadata.name}, are left out"
                inputs.warnings.append(f"cluster.manifests: {what}; put jobs under `workload`")
            yield from (obj for obj in manifests.objects if not _waits(obj))
        yield from map(queue_of_template, cluster.queues)
        for name, namespace in cluster.namespaces.items():
            hard = {NAMESPACE_WEIGHT: str(namespace.weight)}
            yield ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=name), spec=ResourceQuotaSpec(hard=hard))

    def _pool(self) -> NodePool:
        pool = NodePool()
        for count, node in enumerate((obj for obj in self.objects if isinstance(obj, Node)), 1):
            if count > MAX_NODES:
                raise InputError(f"{self.scenario.path}: the cluster has more than {MAX_NODES} nodes")
            pool.add(node)
        for name, amount in pool.capacity.items():
            if amount > INT64_MAX:
                raise InputError(f"{self.scenario.path}: the cluster's total of {name} does not fit an int64")
        return pool

    def _refuse_unknown_nodes(self) -> None:
        """A failure of a node that never exists would test nothing; a node that joins must not exist yet."""
        file = self.scenario.file
        known = self.pool.names
        gone: set[str] = set()
        named: list[tuple[Place, str | None]] = []
        findings: list[Finding] = []
        for index, change in sorted(enumerate(file.changes), key=lambda entry: entry[1].at):
            named += [(("changes", index, "drain"), change.drain), (("changes", index, "remove"), change.remove)]
            joining = {
                node.metadata.name for template in templates(change.join) for node in nodes_of_template(template)
            }
            if again := sorted(joining & known - gone):
                text = f"node {again[0]} already exists, expected another name"
                findings.append((("changes", index, "join"), text))
            known |= joining
            gone = (gone | {change.remove or ""}) - joining
        named += [(("failures", index, "node"), failure.node) for index, failure in enumerate(file.failures)]
        for place, name in named:
            if name is not None and name not in known:
                findings.append((place, f"there is no node {name!r}{suggestion(name, known)}"))
        if findings:
            raise self.scenario.refused(findings)

    def queue_facts(self) -> list[QueueFacts]:
        """The queues for the metrics."""
        return [
            QueueFacts(obj.metadata.name, obj.spec.weight, dict(Resource.parse(obj.spec.guarantee.resource).amounts))
            for obj in self.objects
            if isinstance(obj, Queue)
        ]

    def weights(self) -> dict[str, int]:
        """The weights of namespaces."""
        return {name: part.weight for name, part in self.scenario.file.cluster.namespaces.items()}


def resources_of(capacity: dict[str, int]) -> list[str]:
    """The counted dimensions of a capacity, in the report's order."""
    return [name for name in sorted(capacity) if name != "pods"]


@dataclass(frozen=True, slots=True)
class RunWatchers:
    """The listeners of one cluster of a run."""

    observer: RunObserver
    timeline: NodeTimeline
    evidence: Evidence
    on_planned: Callable[[str, Micros, bool], None]
    recorder: Listener | None = None
    """A log of all cycles."""
    tells_ends: bool = True


class ClusterRun:
    """One cluster of a run, with its scheduler."""

    def __init__(
        self,
        world: ClusterWorld,
        policy: Policy,
        loop: EventLoop,
        dice: str,
        watchers: RunWatchers,
        has_jobs: Callable[[], bool] | None = None,
    ) -> None:
        """`dice` is the text that seeds all randomness here. `has_jobs` is whether jobs are here, or may come from
        elsewhere.
        """
        self.scenario = world.scenario
        self.world = world
        self.loop = loop
        self.pool = world.pool
        timing = self.scenario.file.timing
        self.cluster = VirtualCluster(
            loop,
            self.pool,
            watchers.observer,
            watchers.timeline,
            watchers.evidence,
            timing,
            Random(f"{dice}/delays"),
            tells_ends=watchers.tells_ends,
        )
        self.cluster.apply(world.objects)
        self.meter = CycleMeter(loop, watchers.observer, watchers.timeline, watchers.on_planned)
        logged = watchers.recorder is not None
        listeners = [self.meter] if watchers.recorder is None else [self.meter, watchers.recorder]
        rhythm = rhythm_of(timing.cycles, timing.interval, reasons=logged)
        self.scheduler = schedule(self.cluster, policy, rhythm, listeners)
        self._vain_failures = 0
        self._dice = dice
        self._has_jobs = has_jobs or (lambda: bool(self.cluster.jobs))

    @property
    def state(self) -> ClusterState:
        """The scheduler's state, up to date."""
        self.scheduler.catch_up()
        return self.scheduler.state

    @property
    def is_stuck(self) -> bool:
        """Whether the scheduler retries jobs that can never start, or does nothing."""
        idle = self.scheduler.next_cycle is None or self.meter.idle >= IDLE_CYCLES
        return idle and not self.scheduler.store.is_dirty

    def plan_events(self) -> None:
        """Failures and changes of nodes."""
        for index, failure in enumerate(self.scenario.file.failures):
            self._plan_failure(failure, Random(f"{self._dice}/failures/{index}"))
        for change in self.scenario.file.changes:
            self.loop.plan(self.scenario.start + change.at, Rank.CHANGE, self._change, change)

    def ensure_queue(self, name: str) -> str | None:
        """A queue that only a trace names has weight 1 and no limits; a warning says so if others were declared."""
        if ("Queue", "", name) in self.cluster.objects:
            return None
        self.cluster.apply([Queue(metadata=ObjectMeta(name=name))])
        if name in self.world.queues or len(self.world.queues) <= 1:
            return None
        return f"workload.trace: queue {name!r} is not declared under cluster.queues: weight 1"

    def _plan_failure(self, failure: Failure, dice: Random) -> None:
        start = self.scenario.start
        if failure.every is None:
            assert failure.at is not None
            assert failure.node is not None
            lasts = failure.lasts.draw(dice)
            self.loop.plan(start + failure.at, Rank.CHANGE, lambda node: self.cluster.fail(node, lasts), failure.node)
        else:
            self.loop.plan(start + failure.every.draw(dice), Rank.CHANGE, self._fail_any, (failure, dice))

    def _fail_any(self, given: tuple[Failure, Random]) -> None:
        """A random node fails; the next failure is planned while there is work left.

        If nothing runs, arrives or starts between many failures, nothing ever will.
        """
        failure, dice = given
        node = self.pool.draw(dice)
        if node is not None:
            self.cluster.fail(node, failure.lasts.draw(dice))
        assert failure.every is not None
        stuck = not self.loop.sources and not self.cluster.is_used
        self._vain_failures = self._vain_failures + 1 if stuck else 0
        if self._has_jobs() and self._vain_failures < VAIN_FAILURES:
            self.loop.plan(self.loop.now + failure.every.draw(dice), Rank.CHANGE, self._fail_any, given)

    def _change(self, change: ClusterChange) -> None:
        for template in templates(change.join):
            for node in nodes_of_template(template):
                self.cluster.join(node)
        if change.drain is not None:
            self.cluster.drain(change.drain)
        if change.remove is not None:
            self.cluster.fail(change.remove, None)


def metrics_of(world: ClusterWorld) -> MetricsRecorder:
    """The metrics of one cluster."""
    capacity = world.pool.capacity
    facts, weights = world.queue_facts(), world.weights()
    return MetricsRecorder(world.scenario.start, resources_of(capacity), capacity, facts, weights)


def _waits(obj: ApiObject) -> bool:
    return isinstance(obj, Pod) and not obj.spec.node_name
