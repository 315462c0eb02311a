"""Where the jobs of a scenario come from: templates, traces and manifests, each as a stream in order of time; and the
run times that a policy may know of them (`Estimates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.arguments import BackfillArguments, ScaledEstimate
from fairway.api.kinds import ApiObject
from fairway.api.manifests import Manifests
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup
from fairway.clock import SECOND, Micros
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.resources.quantity import check_amount
from fairway.scheduler.backfill.run_ends import NO_RUN_TIMES
from fairway.sim.limits import MAX_TASKS
from fairway.sim.scenario import Scenario
from fairway.sim.scenario.checks import suggestion
from fairway.sim.scenario.model import JobTemplate, ManifestJobs, TraceSource
from fairway.sim.spans import parse_drawn, parse_span
from fairway.sim.traces import TraceJob, TraceProblems, open_trace
from fairway.sim.virtual_jobs import SimJob, job_of_trace
from fairway.state.annotations import EXPECTED_RUNTIME, GROUP_NAME, TRUE_RUNTIME, USER, parse_runtime
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import group_of, job_of, key_of, minimum_of, queue_of

ARRIVE = "sim.fairway.dev/arrive"
RUN = "sim.fairway.dev/run"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that arrives at `at`; its objects are created then, so that future jobs take no memory."""

    at: Micros
    tasks: int
    make: Callable[[], SimJob]


def arrivals(
    scenario: Scenario,
    seed: int,
    capacity: Mapping[str, int],
    problems: TraceProblems,
    manifests: Sequence[Manifests] = (),
) -> list[Iterator[Arrival]]:
    """The streams of a scenario. Each has its own dice, so that one more job does not change the others.

    `manifests` are the contents of its `workload.manifests`.
    """
    workload, start = scenario.file.workload, scenario.start
    streams = [
        _template(job, start, Random(f"{seed}/jobs/{index}"), capacity) for index, job in enumerate(workload.jobs)
    ]
    for index, (source, read) in enumerate(zip(workload.manifests, manifests, strict=True)):
        streams.append(_manifest(scenario, source, read.objects, Random(f"{seed}/manifests/{index}")))
    if workload.trace is not None:
        streams.append(_trace(scenario, workload.trace, problems))
    return streams


def _template(job: JobTemplate, start: Micros, dice: Random, capacity: Mapping[str, int]) -> Iterator[Arrival]:
    gap = _mean_gap(job, capacity) if job.load is not None else 0
    at = start + job.arrive
    for index in range(job.count):
        name = job.name if job.count == 1 else f"{job.name}-{index}"
        made = TraceJob(
            name=name,
            submit=at,
            run=job.run.draw(dice),
            request=dict(job.request.amounts),
            namespace=job.namespace,
            queue=job.queue,
            tasks=job.tasks,
            minimum=job.minimum,
            limit=None if job.limit is None else int(job.limit),
            priority=job.priority,
            node_selector=job.node_selector,
        )
        yield _arrival(made, at, job.namespace)
        if gap:
            at += round(dice.expovariate(1.0) * gap)
        elif job.every is not None:
            at += job.every.draw(dice)


def _arrival(job: TraceJob, at: Micros, tenant: str) -> Arrival:
    return Arrival(at, job.tasks, lambda: job_of_trace(job, at, tenant))


def _mean_gap(job: JobTemplate, capacity: Mapping[str, int]) -> Micros:
    """The mean time between arrivals at which the jobs request `load` of the cluster."""
    _, share = job.request.scale(job.tasks).dominant_share(Resource.of(dict(capacity)))
    if not share:
        raise InputError(f"job {job.name}: a load needs a request of something that the cluster has")
    return max(1, round(float(share) * job.run.mean / (job.load or 1.0)))


def _trace(scenario: Scenario, source: TraceSource, problems: TraceProblems) -> Iterator[Arrival]:
    """The first job taken arrives when the run starts; the others keep their distance from it."""
    path = scenario.resolve(source.file)
    jobs = open_trace(path, source.format, problems, source.columns)
    origin: Micros | None = None
    for job in islice(_later(jobs, source.after), source.first):
        if source.until is not None and origin is not None and job.submit - origin > source.until:
            return
        try:
            adapted = _adapted(job, source)
        except InputError as error:
            problems.add(0, str(error), f"job {job.key}")
            continue
        origin = job.submit if origin is None else origin
        yield _arrival(adapted, scenario.start + job.submit - origin, job.namespace)
    if origin is None and problems.count:
        raise problems.nothing_left(source.format)


def _later(jobs: Iterator[TraceJob], after: Micros) -> Iterator[TraceJob]:
    """The jobs from `after` the first one on."""
    first: Micros | None = None
    for job in jobs:
        first = job.submit if first is None else first
        if job.submit - first >= after:
            yield job


def _adapted(job: TraceJob, source: TraceSource) -> TraceJob:
    """The job with the scenario's changes; InputError if it is too large."""
    if source.queue is not None:
        job = replace(job, queue=source.queue)
    if source.namespace is not None:
        job = replace(job, namespace=source.namespace)
    if not source.limits and job.limit is not None:
        job = replace(job, run=job.duration, limit=None)
    amounts = {name: check_amount(name, amount * job.tasks) for name, amount in job.request.items()}
    if source.one_pod and job.tasks > 1:
        job = replace(job, tasks=1, minimum=None, request=amounts)
    if job.tasks > MAX_TASKS:
        raise InputError(f"{job.tasks} tasks, expected at most {MAX_TASKS}; `onePod: true` makes a job one pod")
    return job


def reject_without_group(manifests: Manifests) -> Manifests:
    """The manifests without pods whose group is not among them: they would never start."""
    groups = {kinds.key(obj)[1:] for obj in manifests.objects if isinstance(obj, PodGroup)}
    alone = [
        pod
        for pod in manifests.objects
        if isinstance(pod, Pod) and (group := group_of(pod)) and tuple(group.split("/", 1)) not in groups
    ]
    place = ("metadata", "annotations", GROUP_NAME)
    return manifests.reject(
        {
            kinds.key(pod): [
                manifests.problem(pod, place, f"is {group_of(pod)!r}, expected a PodGroup of the same file")
            ]
            for pod in alone
        }
    )


def refuse_unknown_queues(where: str, objects: Sequence[ApiObject], queues: set[str]) -> None:
    """A job of a file in a missing queue would wait for ever, and the run would have no meaning."""
    for obj in objects:
        if isinstance(obj, PodGroup):
            queue = obj.spec.queue or DEFAULT_QUEUE
        elif isinstance(obj, Pod) and not group_of(obj):
            queue = queue_of(obj)
        else:
            continue
        if queue not in queues:
            name = f"{obj.metadata.namespace}/{obj.metadata.name}"
            raise InputError(f"{where}: job {name}: there is no queue {queue!r}{suggestion(queue, queues)}")


def _manifest(
    scenario: Scenario, source: ManifestJobs, objects: Sequence[ApiObject], dice: Random
) -> Iterator[Arrival]:
    """Pods and groups from files, which are small enough to be read at once."""
    groups = {f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects if isinstance(o, PodGroup)}
    jobs: dict[str, tuple[SimJob, list[Micros]]] = {}
    for pod in objects:
        if not isinstance(pod, Pod):
            continue
        key = job_of(pod)
        if key not in jobs:
            jobs[key] = (_manifest_job(key, pod, groups.get(key)), [])
        job, times = jobs[key]
        if pod.spec.active_deadline_seconds is not None:
            job.limit = max(job.limit or 0, pod.spec.active_deadline_seconds * SECOND)
        job.add(pod, _run(scenario, source, pod, dice))
        times.append(_arrive(source, pod))
    ordered = sorted(jobs.values(), key=lambda entry: min(entry[1]))
    return (_fixed(job, scenario.start + min(times)) for job, times in ordered)


def _fixed(job: SimJob, at: Micros) -> Arrival:
    return Arrival(at, len(job.pods), lambda: job.created(at))


def _manifest_job(key: str, pod: Pod, group: PodGroup | None) -> SimJob:
    queue = group.spec.queue if group is not None and group.spec.queue else queue_of(pod)
    minimum = minimum_of([pod]) if group is None else max(1, group.spec.min_member)
    return SimJob(key, pod.metadata.namespace, queue, minimum, group)


def _arrive(source: ManifestJobs, pod: Pod) -> Micros:
    text = pod.metadata.annotations.get(ARRIVE)
    try:
        return source.arrive if text is None else parse_span(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {ARRIVE}: {error}") from None


def _run(scenario: Scenario, source: ManifestJobs, pod: Pod, dice: Random) -> Micros:
    text = pod.metadata.annotations.get(RUN)
    try:
        drawn = source.run if text is None else parse_drawn(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {RUN}: {error}") from None
    if drawn is None:
        where = scenario.resolve(source.file)
        raise InputError(f"{where}: pod {key_of(pod)} has no run time; give `run`, or the annotation {RUN}")
    return drawn.draw(dice)


class Estimates:
    """Gives the scheduler the user of a job and, if the policy is clairvoyant, its run time."""

    def __init__(self, policy: Policy) -> None:
        action = policy.action("backfill")
        given = None if action is None else action.arguments
        arguments = given if isinstance(given, BackfillArguments) else BackfillArguments()
        self.from_history = arguments.estimate == "user-history"
        self._needed = arguments.needs_run_times
        self._mode = arguments.mode
        self._clairvoyant = arguments.estimate == "clairvoyant" or isinstance(arguments.estimate, ScaledEstimate)
        self._jobs = 0
        self._known = self.from_history or self._clairvoyant

    def tell(self, job: SimJob) -> None:
        """A job arrives."""
        self._jobs += 1
        notes: dict[str, str] = {}
        if self.from_history and job.tenant != job.namespace:
            notes[USER] = job.tenant
        if self._clairvoyant:
            notes[TRUE_RUNTIME] = _text(max(pod.run for pod in job.pods))
        if notes:
            job.annotate(notes)
        if self._needed and not self._known:
            self._known = _states_run_time(job)

    def warnings(self) -> Iterator[str]:
        if self._needed and self._jobs and not self._known:
            yield NO_RUN_TIMES.format(mode=self._mode, what="no job of the workload")


def _states_run_time(job: SimJob) -> bool:
    if job.group is not None and parse_runtime(job.group.metadata.annotations.get(EXPECTED_RUNTIME, "")):
        return True
    return any(
        pod.pod.spec.active_deadline_seconds or parse_runtime(pod.pod.metadata.annotations.get(EXPECTED_RUNTIME, ""))
        for pod in job.pods
    )


def _text(span: Micros) -> str:
    return f"{span // SECOND}.{span % SECOND:06d}"
