"""What a new sandbox starts with: the built-in demo, or the objects of a user's files.

The scheduler is not told how long pods of a sandbox really run. A pod runs for the time of its annotation
`sim.fairway.dev/run` (`90s`, or random: `uniform 1m 5m`), else for its expected run time, and never beyond its
deadline; without any of these it runs until it is deleted. `sim.fairway.dev/arrive` delays the jobs of a file.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.manifests import load
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.records import LaterJob, written
from fairway.clock import SECOND, Micros, to_datetime
from fairway.drive import annotated
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.sim.live import FOREVER, has_controller
from fairway.sim.scenario import Scenario, load_scenario
from fairway.sim.spans import parse_drawn, parse_span
from fairway.sim.traces import TraceProblems
from fairway.sim.virtual_jobs import SimJob, is_ended, owned
from fairway.sim.workload import ARRIVE, RUN, arrivals
from fairway.state.annotations import EXPECTED_RUNTIME, GROUP_NAME, parse_runtime
from fairway.state.reader import group_of, job_of, key_of

DEMO = Path(__file__).parent / "demo" / "scenario.yaml"
DEFAULT_POLICY = Path(__file__).parent / "policy.yaml"
"""The default policy of a sandbox that starts from files."""
ROUND: Micros = 3 * 3600 * SECOND
"""The jobs of the demo are submitted again after this time."""
MAX_ROUND_JOBS = 1_000_000
"""Arrivals of round `n` are numbered from `n` times this, so that no number is ever used twice."""
DRAWN = "sim.fairway.dev/drawn-run"
"""Annotation of a pod with a random run time: the run time that was drawn."""


class InitialWorld(NamedTuple):
    start: Micros
    objects: list[ApiObject]
    arrivals: list[LaterJob]
    demo: bool


def demo_scenario() -> Scenario:
    """The built-in scenario: a small cluster with GPUs, two teams, and their day."""
    return load_scenario(DEMO)


def demo_world() -> InitialWorld:
    scenario = demo_scenario()
    objects = load([str(scenario.resolve(name)) for name in scenario.file.cluster.manifests]).objects
    return InitialWorld(
        scenario.start, [_created(thing, scenario.start) for thing in objects], demo_round(0), demo=True
    )


def demo_round(number: int) -> list[LaterJob]:
    """The jobs of one round of the demo; in later rounds they have other names.

    The gaps between jobs are random, so the last jobs of a round may arrive after the start of the next one.
    """
    scenario = demo_scenario()
    nodes = load([str(scenario.resolve(name)) for name in scenario.file.cluster.manifests]).objects
    capacity = Resource.sum(Resource.parse(node.allocatable) for node in nodes if hasattr(node, "allocatable"))
    streams = arrivals(scenario, scenario.file.seed + number, dict(capacity.amounts), TraceProblems("demo"))
    prefix = f"r{number + 1}-" if number else ""
    return [
        LaterJob(arrival.at + number * ROUND, [written(thing) for thing in _objects(arrival.make(), prefix)], place)
        for place, arrival in enumerate(heapq.merge(*streams, key=lambda arrival: arrival.at), number * MAX_ROUND_JOBS)
    ]


def round_begin(number: int) -> Micros:
    """When a round of the demo starts."""
    return demo_scenario().start + number * ROUND


def files_world(objects: Iterable[ApiObject], now: Micros) -> InitialWorld:
    """The objects of files; jobs whose pods have an arrival time are submitted then, all others at the start."""
    things = [drawn(controlled(thing), now) if isinstance(thing, Pod) else thing for thing in objects]
    check_names(things)
    times: dict[str, Micros] = {}
    for pod in things:
        if isinstance(pod, Pod):
            key = job_of(pod)
            times[key] = min(times.get(key, arrives_after(pod)), arrives_after(pod))
    there: list[ApiObject] = []
    coming: dict[str, list[ApiObject]] = {}
    for thing in things:
        key = _job_key(thing)
        if times.get(key, 0):
            coming.setdefault(key, []).append(arrived(thing) if isinstance(thing, Pod) else thing)
        else:
            there.append(_created(thing, now))
    ordered = sorted(coming, key=lambda key: times[key])
    return InitialWorld(
        now,
        there,
        [
            LaterJob(now + times[key], [written(thing) for thing in coming[key]], place)
            for place, key in enumerate(ordered)
        ],
        demo=False,
    )


def _created(thing: ApiObject, at: Micros) -> ApiObject:
    if thing.metadata.creation_timestamp is not None:
        return thing
    made: ApiObject = replace(thing, metadata=replace(thing.metadata, creation_timestamp=to_datetime(at)))
    return made


def _job_key(thing: ApiObject) -> str:
    if isinstance(thing, Pod):
        return job_of(thing)
    return f"{thing.metadata.namespace}/{thing.metadata.name}" if isinstance(thing, PodGroup) else ""


def _objects(job: SimJob, prefix: str) -> Iterator[ApiObject]:
    """The objects of a job of the demo, with the run time of its pods as an annotation."""
    if job.group is not None:
        meta = job.group.metadata
        yield replace(job.group, metadata=replace(meta, name=prefix + meta.name, creation_timestamp=None))
    for pod in job.pods:
        meta = pod.pod.metadata
        notes = {name: prefix + text if name == GROUP_NAME else text for name, text in meta.annotations.items()}
        meta = replace(meta, name=prefix + meta.name, annotations=notes, creation_timestamp=None)
        yield with_run(replace(pod.pod, metadata=meta), pod.run)


# -- pods ----------------------------------------------------------------------------------------------------


def run_time(pod: Pod, group: PodGroup | None) -> Micros:
    """How long the pod runs, from its start."""
    notes = pod.metadata.annotations
    text = notes.get(DRAWN) or notes.get(RUN)
    run = _expected(pod, group) if text is None else parse_span(text)
    deadline = pod.spec.active_deadline_seconds
    return run if deadline is None else min(run, deadline * SECOND)


def _expected(pod: Pod, group: PodGroup | None) -> Micros:
    notes = [pod.metadata.annotations] + ([] if group is None else [group.metadata.annotations])
    for texts in notes:
        if EXPECTED_RUNTIME in texts:
            span = parse_runtime(texts[EXPECTED_RUNTIME])
            if span is not None:
                return span
    return FOREVER


def with_run(pod: Pod, run: Micros) -> Pod:
    return annotated(pod, {RUN: f"{run}us"})


def drawn(pod: Pod, at: Micros) -> Pod:
    """The pod with its random run time drawn once; InputError if the annotation is invalid."""
    text = pod.metadata.annotations.get(RUN)
    if text is None:
        return pod
    try:
        span = parse_drawn(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {RUN}: {error}") from None
    run = span.draw(Random(f"{key_of(pod)}/{at}"))
    return pod if not span.is_random else annotated(pod, {DRAWN: f"{run}us"})


def arrives_after(pod: Pod) -> Micros:
    """How long after the start of the sandbox a pod of a file is submitted."""
    text = pod.metadata.annotations.get(ARRIVE)
    try:
        return 0 if text is None else parse_span(text)
    except InputError as error:
        raise InputError(f"pod {key_of(pod)}: annotation {ARRIVE}: {error}") from None


def arrived(pod: Pod) -> Pod:
    """The pod without its arrival time, which has passed."""
    notes = {name: text for name, text in pod.metadata.annotations.items() if name != ARRIVE}
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def controlled(pod: Pod) -> Pod:
    """The pod, owned by the sandbox if it has no other owner: the sandbox recreates evicted pods."""
    if has_controller(pod):
        return pod
    return owned(pod)


def check_names(things: Iterable[ApiObject]) -> None:
    """Reject a lone pod and a PodGroup of the same name: a sandbox identifies jobs by name."""
    lone: set[str] = set()
    groups: set[str] = set()
    for thing in things:
        if isinstance(thing, PodGroup):
            groups.add(f"{thing.metadata.namespace}/{thing.metadata.name}")
        elif isinstance(thing, Pod) and not is_ended(thing):
            group = group_of(thing)
            if group:
                groups.add(group)
            elif job_of(thing) == key_of(thing):
                lone.add(key_of(thing))
    both = sorted(lone & groups)
    if both:
        raise InputError(
            f"Pod {both[0]}: a group has the same name, expected another name: a sandbox identifies jobs by name"
        )
