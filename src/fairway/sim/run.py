"""One run: a scenario, a policy and a seed in, a report out. The same three give the same bytes."""

from __future__ import annotations

import gc
import resource
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from fairway.api.manifests import Manifests
from fairway.api.policy import Policy
from fairway.clock import Micros, format_rfc3339
from fairway.drive import Listener
from fairway.errors import InputError
from fairway.sim.assertions import Breach, Evidence
from fairway.sim.cluster_run import ClusterRun, ClusterWorld, RunInputs, RunWatchers, resources_of
from fairway.sim.limits import LAST_TIME, MAX_PODS
from fairway.sim.loop import EventLoop
from fairway.sim.metrics import JobOutcome, Metrics, MetricsRecorder, summarize
from fairway.sim.metrics.distribution import Distribution
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.policies import with_estimate
from fairway.sim.report import FleetView, RunReport, Speed, charts_of
from fairway.sim.scenario import Scenario
from fairway.sim.scenario.model import ScaledRunTimes
from fairway.sim.traces import TraceProblems
from fairway.sim.virtual_jobs import SimJob
from fairway.sim.workload import Arrival, Estimates, arrivals, refuse_unknown_queues, reject_without_group
from fairway.state.cluster import ClusterState

PROGRESS_STEPS = 512
"""Events between two reports of the progress."""

GARBAGE = 50_000
"""Allocations between two collections: a cycle leaves a few hundred objects behind, and most living ones live long."""


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


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run besides its scenario and its policy."""

    seed: int | None = None
    """Overrides the scenario's."""
    strict: bool = False
    skip_invalid: bool = False
    on_finish: Callable[[JobOutcome], None] | None = None
    recorder_of: Callable[[str], Listener] | None = None
    """The log of a cluster's cycles by the cluster's name, which is "" for a single cluster."""

    def log_of(self, cluster: str) -> Listener | None:
        return None if self.recorder_of is None else self.recorder_of(cluster)


_NO_OPTIONS = RunOptions()


class ScenarioRun(ABC):
    """A run that can be observed and stopped: of one cluster, or of a fleet."""

    clusters: Sequence[ClusterRun]
    recorder: MetricsRecorder
    """The metrics of the whole run."""

    def __init__(self, scenario: Scenario, policy: Policy, options: RunOptions) -> None:
        self.scenario = scenario
        self.policy = _estimating(scenario, policy)
        self.seed = scenario.file.seed if options.seed is None else options.seed
        self.problems = TraceProblems(_trace_name(scenario), strict=options.strict or _is_strict(scenario))
        self.loop = EventLoop(scenario.start)
        self.inputs = RunInputs(self.problems.strict, options.skip_invalid)
        self.estimates = Estimates(self.policy)
        self.evidence = Evidence(scenario.start, watched=frozenset(_watched(scenario)))
        self.timeline = NodeTimeline()

    @abstractmethod
    def submit(self, job: SimJob) -> bool:
        """A job arrives; False if one of that name still exists."""

    @property
    def is_stuck(self) -> bool:
        """Whether only passes of schedulers are left, and none of them will change anything."""
        return self.loop.only_passes and all(one.is_stuck for one in self.clusters)

    def fleet_view(self) -> FleetView | None:
        """The part of a report about single clusters."""
        return None

    @property
    def size(self) -> int:
        """Pods that exist, pending or running."""
        return sum(one.cluster.size for one in self.clusters)

    def run(self, watch: Callable[[Progress], None] | None = None) -> RunResult:
        """Runs to the end; Ctrl-C stops it, and the report says so."""
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
            if self.is_stuck:
                break
            loop.step()
            steps += 1
            if watch is not None and steps % PROGRESS_STEPS == 0:
                watch(self.progress(end))
        if end is not None:
            loop.now = max(loop.now, end)

    def progress(self, end: Micros | None) -> Progress:
        outcomes = self.recorder.outcomes
        return Progress(self.loop.now, self.scenario.start, end, outcomes.submitted, outcomes.finished, self.loop.steps)

    def _plan_events(self, capacity: dict[str, int], queues: set[str]) -> None:
        """Jobs, which request parts of `capacity`, and events of nodes. `queues` exist in every cluster."""
        files = self._jobs_of_manifests(queues)
        for stream in arrivals(self.scenario, self.seed, capacity, self.problems, files):
            self.loop.feed(stream, lambda arrival: arrival.at, self._arrive)
        for one in self.clusters:
            one.plan_events()

    def _jobs_of_manifests(self, queues: set[str]) -> list[Manifests]:
        files = [str(self.scenario.resolve(source.file)) for source in self.scenario.file.workload.manifests]
        read = [reject_without_group(self.inputs.read([file])) for file in files]
        for file, manifests in zip(files, read, strict=True):
            self.inputs.note(manifests)
            refuse_unknown_queues(file, manifests.objects, queues)
        return read

    def _arrive(self, arrival: Arrival) -> None:
        if self.size + arrival.tasks > MAX_PODS:
            raise InputError(
                f"{self.scenario.path}: more than {MAX_PODS} pods would exist at once, at "
                f"{format_rfc3339(self.loop.now)}: expected fewer jobs, or more time between them"
            )
        job = arrival.make()
        self.estimates.tell(job)
        if job.key in self.evidence.watched:
            self.evidence.came.add(job.key)
        if not self.submit(job):
            self.problems.add(0, f"{job.key} is submitted while a job of that name still exists")

    def _ensure_queue(self, cluster: ClusterRun, name: str) -> None:
        warning = cluster.ensure_queue(name)
        if warning is not None and warning not in self.inputs.warnings:
            self.inputs.warnings.append(warning)

    def _result(self, seconds: float, partial: bool) -> RunResult:
        end = self.loop.now
        self.recorder.close(end)
        self.timeline.close(end)
        metrics = summarize(self.recorder)
        breaches = self._judge(metrics, end)
        warnings = [*self.inputs.warnings, *self.problems.summary(), *self.estimates.warnings()]
        report = RunReport(
            scenario=self.scenario.name,
            policy=self.policy.source,
            seed=self.seed,
            start=format_rfc3339(self.scenario.start),
            end=format_rfc3339(end),
            partial=partial,
            metrics=metrics,
            charts=charts_of(self.recorder, self.timeline),
            nodes=sum(one.world.nodes for one in self.clusters),
            warnings=warnings,
            breaches=[str(breach) for breach in breaches],
            passed=_passed(self.scenario, breaches),
            fleet=self.fleet_view() or msgspec.UNSET,
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
        spent = Distribution()
        for one in self.clusters:
            spent.merge(one.meter.spent)
        return Speed(
            seconds=seconds,
            events=self.loop.steps,
            cycles=sum(one.scheduler.cycles for one in self.clusters),
            decisions=sum(one.meter.decisions for one in self.clusters),
            decide_seconds=spent.total / 1e9,
            cycle_p99=spent.percentile(99) / 1e9,
            peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


class Simulation(ScenarioRun):
    """A run of one cluster."""

    def __init__(self, scenario: Scenario, policy: Policy, options: RunOptions = _NO_OPTIONS) -> None:
        super().__init__(scenario, policy, options)
        world = ClusterWorld(scenario, self.inputs)
        capacity = world.pool.capacity
        self.recorder = MetricsRecorder(
            scenario.start, resources_of(capacity), capacity, world.queue_facts(), world.weights(), options.on_finish
        )
        log = options.log_of("")
        watchers = RunWatchers(
            self.recorder,
            self.timeline,
            self.evidence,
            self.recorder.plans_start,
            log,
            tells_ends=log is not None or self.estimates.from_history,
        )
        self._run_of_cluster = ClusterRun(world, self.policy, self.loop, str(self.seed), watchers)
        self.clusters = [self._run_of_cluster]
        self.cluster = self._run_of_cluster.cluster
        self.scheduler = self._run_of_cluster.scheduler
        self._plan_events(capacity, world.queues)

    @property
    def state(self) -> ClusterState:
        """The scheduler's state, up to date."""
        return self._run_of_cluster.state

    def submit(self, job: SimJob) -> bool:
        self._ensure_queue(self._run_of_cluster, job.queue)
        return self.cluster.arrive(job)


def _passed(scenario: Scenario, breaches: Iterable[Breach]) -> list[str]:
    """The assertions that hold."""
    broken = {(breach.assertion, breach.line) for breach in breaches}
    return [one.text for one in scenario.assertions if (one.text, one.line) not in broken]


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
