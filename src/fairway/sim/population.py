"""From a list of objects to what a live cluster is made of: nodes, jobs with their pods, and all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.clock import Micros
from fairway.sim.jobs import SimJob
from fairway.sim.live import LiveCluster
from fairway.sim.objects import identified, is_ended
from fairway.state.reader import job_of, minimum_of, queue_of

RunTime = Callable[[Pod, PodGroup | None], Micros]
"""How long a pod runs, counted from its start."""


class Population(NamedTuple):
    nodes: list[Node]
    others: list[ApiObject]
    """What is just there: queues, quotas, groups without living pods, lone pods that have ended."""
    jobs: list[tuple[SimJob, list[Pod]]]
    """Jobs with at least one pod that has not ended, and their pods as they were seen."""


def populate(objects: Iterable[ApiObject], run_time: RunTime) -> Population:
    """Sort objects by what they mean to a cluster; jobs keep the order of their first pods."""
    nodes: list[Node] = []
    others: list[ApiObject] = []
    groups: dict[str, PodGroup] = {}
    pods: dict[str, list[Pod]] = {}
    for thing in objects:
        if isinstance(thing, Node):
            nodes.append(thing)
        elif isinstance(thing, Pod):
            pods.setdefault(job_of(thing), []).append(identified(thing, 0))
        elif isinstance(thing, PodGroup):
            groups[f"{thing.metadata.namespace}/{thing.metadata.name}"] = identified(thing, 0)
        else:
            others.append(thing)
    jobs = []
    for key, members in pods.items():
        if all(map(is_ended, members)):
            others.extend(members)
        else:
            jobs.append((make_job(key, groups.pop(key, None), members, run_time), members))
    return Population(nodes, [*others, *groups.values()], jobs)


def make_job(key: str, group: PodGroup | None, members: list[Pod], run_time: RunTime) -> SimJob:
    queue = group.spec.queue if group is not None and group.spec.queue else queue_of(members[0])
    minimum = minimum_of(members) if group is None else max(1, group.spec.min_member)
    job = SimJob(key, members[0].metadata.namespace, queue, minimum, group)
    for pod in members:
        job.add(pod, run_time(pod, group))
    return job


def settle(population: Population, cluster: LiveCluster) -> None:
    """Bring a population to life on an empty cluster."""
    for node in population.nodes:
        cluster.pool.add(node)
    cluster.apply(population.nodes)
    cluster.apply(population.others)
    for job, pods in population.jobs:
        cluster.take_up(job, pods)
