"""What a new sandbox begins with: the demo that comes with Fairway, or the objects of a user's files."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.manifests import load
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.app.records import LaterJob, written
from fairway.app.sandbox.commands import check_names, controlled
from fairway.app.sandbox.runtimes import arrived, arrives_after, drawn, with_run
from fairway.clock import SECOND, Micros, to_datetime
from fairway.resources.algebra import Resource
from fairway.sim.scenario import Scenario, load_scenario
from fairway.sim.traces import TraceProblems
from fairway.sim.virtual_jobs import SimJob
from fairway.sim.workload import arrivals
from fairway.state.annotations import GROUP_NAME
from fairway.state.reader import job_of

DEMO = Path(__file__).parent / "demo" / "scenario.yaml"
POLICY = Path(__file__).parent / "policy.yaml"
"""What applies to a sandbox of files where none is given."""
ROUND: Micros = 3 * 3600 * SECOND
"""The demo's jobs come again after this time."""
MAX_ROUND_JOBS = 1_000_000
"""Arrivals of round `n` are numbered from `n` times this, so that no number is ever used twice."""


class InitialWorld(NamedTuple):
    start: Micros
    objects: list[ApiObject]
    arrivals: list[LaterJob]
    demo: bool


def demo_scenario() -> Scenario:
    """The scenario that comes with Fairway: a small cluster with GPUs, two teams, and their day."""
    return load_scenario(DEMO)


def demo_world() -> InitialWorld:
    scenario = demo_scenario()
    objects = load([str(scenario.resolve(name)) for name in scenario.file.cluster.manifests]).objects
    return InitialWorld(
        scenario.start, [_created(thing, scenario.start) for thing in objects], demo_round(0), demo=True
    )


def demo_round(number: int) -> list[LaterJob]:
    """The jobs of the demo, as they come in its round of this number; those of later rounds have other names.

    The last jobs of a round come when the next one has begun: their gaps are random.
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
    """When the demo's round of this number begins."""
    return demo_scenario().start + number * ROUND


def files_world(objects: Iterable[ApiObject], now: Micros) -> InitialWorld:
    """The objects of files; jobs whose pods say when they arrive come then, all others are there from the start."""
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
    """The objects of a job of the demo, with the time that its pods run written on them."""
    if job.group is not None:
        meta = job.group.metadata
        yield replace(job.group, metadata=replace(meta, name=prefix + meta.name, creation_timestamp=None))
    for pod in job.pods:
        meta = pod.pod.metadata
        notes = {name: prefix + text if name == GROUP_NAME else text for name, text in meta.annotations.items()}
        meta = replace(meta, name=prefix + meta.name, annotations=notes, creation_timestamp=None)
        yield with_run(replace(pod.pod, metadata=meta), pod.run)
