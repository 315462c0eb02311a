"""One run: a scenario, a policy and a seed in, a report out. The same three give the same bytes."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from fairway.api.kinds import ApiObject
from fairway.api.manifests import Manifests, load
from fairway.api.meta import ObjectMeta
from fairway.api.namespaces import NAMESPACE_WEIGHT, ResourceQuota, ResourceQuotaSpec
from fairway.api.nodes import Node
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import Queue
from fairway.clock import Micros, format_rfc3339
from fairway.drive.loop import Listener
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.quantity import INT64_MAX
from fairway.sim.assertions import Breach, Evidence
from fairway.sim.cluster import VirtualCluster
from fairway.sim.estimates import Estimates
from fairway.sim.limits import LAST_TIME, MAX_NODES, MAX_PODS
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.metrics import JobOutcome, Metrics, MetricsRecorder, QueueFacts, summarize
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.nodes import NodePool, node_of_trace, nodes_of_template
from fairway.sim.policies import with_estimate
from fairway.sim.report.charts import charts_of
from fairway.sim.report.model import RunReport, Speed
from fairway.sim.scenario import Scenario
from fairway.sim.scenario.checks import declared_queues, queue_of_template, suggestion, unknown_queues
from fairway.sim.scenario.model import ClusterChange, Failure, ScaledRunTimes
from fairway.sim.scenario.reader import templates
from fairway.sim.scenario.shape import Finding
from fairway.sim.scenario.shape import Path as Place
from fairway.sim.scheduling import IDLE_CYCLES, CycleMeter, rhythm_of, schedule
from fairway.sim.traces import TraceProblems, open_nodes
from fairway.sim.workload import Arrival, arrivals, refuse_unknown_queues, reject_without_group
from fairway.state.cluster import ClusterState

PROGRESS_STEPS = 512
"""Events between two looks at the progress."""

VAIN_FAILURES = 1_000
"""So many random failures in a row, with nothing but waiting jobs left, end the run."""

GARBAGE = 50_000
"""Objects between two collections: a cycle leaves some hundred behind, and most that lives lives long."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    now: Micros
    start: Micros
    end: Micros | None
    submitted: int
    finished: int
    events: int


@dataclass(frozen=True, slots=True)
class RunResult:
    report: RunReport
    speed: Speed
    breaches: tuple[Breach, ...]
    problems: TraceProblems


class Simulation:
    """A run that can be watched, and stopped."""

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        seed: int | None = None,
        strict: bool = False,
        skip_invalid: bool = False,
        on_finish: Callable[[JobOutcome], None] | None = None,
        recorder: Listener | None = None,
    ) -> None:
        self.scenario = scenario
        self.policy = policy = _estimating(scenario, policy)
        self.seed = scenario.file.seed if seed is None else seed
        self.problems = TraceProblems(_trace_name(scenario), strict=strict or _is_strict(scenario))
        self.loop = EventLoop(scenario.start)
        self.warnings: list[str] = []
        self._skip_invalid = skip_invalid
        self.invalid: list[str] = []
        """What is wrong with the objects of manifests that were set aside."""
        self.set_aside = 0
        world = list(self._world())
        self._refuse_unknown_queues(world)
        self.pool = self._pool(world)
        self.nodes = len(self.pool)
        self.estimates = Estimates(policy)
        self.evidence = Evidence(scenario.start, watched=frozenset(_watched(scenario)))
        self.timeline = NodeTimeline()
        self.recorder = self._recorder(world, on_finish)
        timing = scenario.file.timing
        self.cluster = VirtualCluster(
            self.loop,
            self.pool,
            self.recorder,
            self.timeline,
            self.evidence,
            timing,
            Random(f"{self.seed}/delays"),
            tells_ends=recorder is not None or self.estimates.from_history,
        )
        self.cluster.apply(world)
        self.meter = CycleMeter(self.loop, self.recorder, self.timeline, self.recorder.plans_start)
        listeners = [self.meter] if recorder is None else [self.meter, recorder]
        rhythm = rhythm_of(timing.cycles, timing.interval, reasons=recorder is not None)
        self.scheduler = schedule(self.cluster, policy, rhythm, listeners)
        self._vain_failures = 0
        self._plan_events()

    @property
    def state(self) -> ClusterState:
        """The scheduler's state, up to date."""
        self.scheduler.catch_up()
        return self.scheduler.state

    def run(self, watch: Callable[[Progress], None] | None = None) -> RunResult:
        """To the end; Ctrl-C stops it, and the report says so."""
        begin, partial = time.perf_counter(), False
        end = None if self.scenario.file.end is None else self.scenario.start + self.scenario.file.end
        thresholds = gc.get_threshold()
        gc.set_threshold(GARBAGE, *thresholds[1:])
        gc.freeze()  # the cluster and the workload stay: no collection need walk them
        try:
            self._run(end, watch)
        except KeyboardInterrupt:
            partial = True
        finally:
            gc.unfreeze()
            gc.set_threshold(*thresholds)
        return self._result(time.perf_counter() - begin, partial)

    def _run(self, end: Micros | None, watch: Callable[[Progress], None] | None) -> None:
        loop, steps = self.loop, 0
        while (when := loop.next_time) is not None and (end is None or when <= end):
            if when > LAST_TIME:
                raise InputError(f"{self.scenario.path}: the run lasts beyond the year 7999, expected an `end`")
            if self.meter.idle >= IDLE_CYCLES and loop.only_passes and not self.scheduler.store.is_dirty:
                break  # the scheduler looks again and again at jobs that can never start
            loop.step()
            steps += 1
            if watch is not None and steps % PROGRESS_STEPS == 0:
                watch(self.progress(end))
        if end is not None:
            loop.now = max(loop.now, end)

    def progress(self, end: Micros | None) -> Progress:
        outcomes = self.recorder.outcomes
        return Progress(self.loop.now, self.scenario.start, end, outcomes.submitted, outcomes.finished, self.loop.steps)

    def _world(self) -> Iterator[ApiObject]:
        """What is there before the first job comes."""
        cluster = self.scenario.file.cluster
        for template in templates(cluster.nodes):
            yield from nodes_of_template(template)
        if cluster.trace is not None:
            path = self.scenario.resolve(cluster.trace.file)
            problems = TraceProblems(str(path), strict=self.problems.strict or cluster.trace.strict)
            yield from map(node_of_trace, islice(open_nodes(path, cluster.trace.format, problems), MAX_NODES + 1))
            self.warnings += problems.summary()
        if cluster.manifests:
            manifests = self._read([str(self.scenario.resolve(name)) for name in cluster.manifests])
            self._set_aside(manifests)
            self.warnings += manifests.warnings
            waiting = [thing for thing in manifests.objects if _waits(thing)]
            if waiting:
                what = f"{len(waiting)} pod(s) without a node, such as {waiting[0].metadata.name}, are left out"
                self.warnings.append(f"cluster.manifests: {what}: jobs come by `workload`")
            yield from (thing for thing in manifests.objects if not _waits(thing))
        yield from map(queue_of_template, cluster.queues)
        for name, namespace in cluster.namespaces.items():
            hard = {NAMESPACE_WEIGHT: str(namespace.weight)}
            yield ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=name), spec=ResourceQuotaSpec(hard=hard))

    def _read(self, files: Sequence[str]) -> Manifests:
        return load(files, skip_invalid=self._skip_invalid)

    def _set_aside(self, manifests: Manifests) -> None:
        self.invalid += manifests.invalid
        self.set_aside += manifests.set_aside

    def _recorder(self, world: Sequence[ApiObject], on_finish: Callable[[JobOutcome], None] | None) -> MetricsRecorder:
        queues = [
            QueueFacts(
                thing.metadata.name, thing.spec.weight, dict(Resource.parse(thing.spec.guarantee.resource).amounts)
            )
            for thing in world
            if isinstance(thing, Queue)
        ]
        weights = {name: part.weight for name, part in self.scenario.file.cluster.namespaces.items()}
        resources = [name for name in sorted(self.pool.capacity) if name != "pods"]
        return MetricsRecorder(self.scenario.start, resources, self.pool.capacity, queues, weights, on_finish)

    def _pool(self, world: Sequence[ApiObject]) -> NodePool:
        pool = NodePool()
        for count, node in enumerate((thing for thing in world if isinstance(thing, Node)), 1):
            if count > MAX_NODES:
                raise InputError(f"{self.scenario.path}: the cluster has more than {MAX_NODES} nodes")
            pool.add(node)
        for name, amount in pool.capacity.items():
            if amount > INT64_MAX:
                raise InputError(f"{self.scenario.path}: the cluster's total of {name} does not fit an int64")
        return pool

    def _refuse_unknown_queues(self, world: Sequence[ApiObject]) -> None:
        """A queue that is not there would be made with weight 1 and no limits: another cluster than was meant."""
        self._queues = declared_queues(self.scenario.file.cluster, world)
        if findings := list(unknown_queues(self.scenario.file, self._queues)):
            raise self.scenario.refused(findings)

    def _refuse_unknown_nodes(self) -> None:
        """A failure of a node that is never there would test nothing; a node that joins must not be there yet."""
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
                text = f"node {again[0]} is there already, expected another name"
                findings.append((("changes", index, "join"), text))
            known |= joining
            gone = (gone | {change.remove or ""}) - joining
        named += [(("failures", index, "node"), failure.node) for index, failure in enumerate(file.failures)]
        for place, name in named:
            if name is not None and name not in known:
                findings.append((place, f"there is no node {name!r}{suggestion(name, known)}"))
        if findings:
            raise self.scenario.refused(findings)

    def _plan_events(self) -> None:
        self._refuse_unknown_nodes()
        files = self._jobs_of_manifests()
        for stream in arrivals(self.scenario, self.seed, self.pool.capacity, self.problems, files):
            self.loop.feed(stream, lambda arrival: arrival.at, self._arrive)
        for index, failure in enumerate(self.scenario.file.failures):
            self._plan_failure(failure, Random(f"{self.seed}/failures/{index}"))
        for change in self.scenario.file.changes:
            self.loop.plan(self.scenario.start + change.at, Rank.CHANGE, self._change, change)

    def _jobs_of_manifests(self) -> list[Manifests]:
        files = [str(self.scenario.resolve(source.file)) for source in self.scenario.file.workload.manifests]
        read = [reject_without_group(self._read([file])) for file in files]
        for file, manifests in zip(files, read, strict=True):
            self._set_aside(manifests)
            refuse_unknown_queues(file, manifests.objects, self._queues)
        return read

    def _arrive(self, arrival: Arrival) -> None:
        if self.cluster.size + arrival.tasks > MAX_PODS:
            raise InputError(
                f"{self.scenario.path}: more than {MAX_PODS} pods would be there at once, at "
                f"{format_rfc3339(self.loop.now)}: expected fewer jobs, or more time between them"
            )
        job = arrival.make()
        self._ensure_queue(job.queue)
        self.estimates.tell(job)
        if job.key in self.evidence.watched:
            self.evidence.came.add(job.key)
        if not self.cluster.arrive(job):
            self.problems.add(0, f"{job.key} comes while a job of that name is still there")

    def _ensure_queue(self, name: str) -> None:
        """A queue that only a trace names has weight 1 and no limits, which is said where others were declared."""
        if ("Queue", "", name) in self.cluster.objects:
            return
        if name not in self._queues and len(self._queues) > 1:
            self.warnings.append(f"workload.trace: queue {name!r} is not declared under cluster.queues: weight 1")
        self.cluster.apply([Queue(metadata=ObjectMeta(name=name))])

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
        """A node chosen at random fails; the next failure is planned while there is anything left to do.

        Where nothing runs, nothing arrives and nothing starts between many failures, nothing ever will.
        """
        failure, dice = given
        node = self.pool.draw(dice)
        if node is not None:
            self.cluster.fail(node, failure.lasts.draw(dice))
        assert failure.every is not None
        stuck = not self.loop.sources and not self.cluster.is_used
        self._vain_failures = self._vain_failures + 1 if stuck else 0
        if self.cluster.jobs and self._vain_failures < VAIN_FAILURES:
            self.loop.plan(self.loop.now + failure.every.draw(dice), Rank.CHANGE, self._fail_any, given)

    def _change(self, change: ClusterChange) -> None:
        for template in templates(change.join):
            for node in nodes_of_template(template):
                self.cluster.join(node)
        if change.drain is not None:
            self.cluster.drain(change.drain)
        if change.remove is not None:
            self.cluster.fail(change.remove, None)

    def _result(self, seconds: float, partial: bool) -> RunResult:
        end = self.loop.now
        self.recorder.close(end)
        self.timeline.close(end)
        metrics = summarize(self.recorder)
        breaches = self._judge(metrics, end)
        warnings = [*self.warnings, *self.problems.summary(), *self.estimates.warnings()]
        report = RunReport(
            scenario=self.scenario.name,
            policy=self.policy.source,
            seed=self.seed,
            start=format_rfc3339(self.scenario.start),
            end=format_rfc3339(end),
            partial=partial,
            metrics=metrics,
            charts=charts_of(self.recorder, self.timeline),
            nodes=self.nodes,
            warnings=warnings,
            breaches=[str(breach) for breach in breaches],
            passed=_passed(self.scenario, breaches),
        )
        return RunResult(report, self._speed(seconds), breaches, self.problems)

    def _judge(self, metrics: Metrics, end: Micros) -> tuple[Breach, ...]:
        self.evidence.end = end
        since = {}
        for queue in self.recorder.queues.values():
            since[f"queue/{queue.name}"] = queue.longest_since
            for holder in queue.namespaces.values():
                since[f"namespace/{queue.name}/{holder.name}"] = holder.longest_since
        self.evidence.below_since = since
        self.evidence.waits = self.recorder.outcomes.waits
        found = (assertion.judge(self.evidence, metrics) for assertion in self.scenario.assertions)
        return tuple(breach for breach in found if breach is not None)

    def _speed(self, seconds: float) -> Speed:
        spent = self.meter.spent
        return Speed(
            seconds=seconds,
            events=self.loop.steps,
            cycles=self.scheduler.cycles,
            decisions=self.meter.decisions,
            decide_seconds=spent.total / 1e9,
            cycle_p99=spent.percentile(99) / 1e9,
            peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


def _passed(scenario: Scenario, breaches: Iterable[Breach]) -> list[str]:
    """The assertions that hold."""
    broken = {(breach.assertion, breach.line) for breach in breaches}
    return [one.text for one in scenario.assertions if (one.text, one.line) not in broken]


def _waits(thing: ApiObject) -> bool:
    return isinstance(thing, Pod) and not thing.spec.node_name


def _estimating(scenario: Scenario, policy: Policy) -> Policy:
    estimate = scenario.file.estimate
    if estimate is None:
        return policy
    return with_estimate(policy, {"scale": estimate.scale} if isinstance(estimate, ScaledRunTimes) else estimate)


def _watched(scenario: Scenario) -> Iterator[str]:
    for assertion in scenario.assertions:
        yield from assertion.jobs


def _trace_name(scenario: Scenario) -> str:
    trace = scenario.file.workload.trace
    return str(scenario.path) if trace is None else str(scenario.resolve(trace.file))


def _is_strict(scenario: Scenario) -> bool:
    trace = scenario.file.workload.trace
    return trace is not None and trace.strict
