"""From a list of objects to what a living cluster is made of: nodes, jobs with their pods, and all the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from fairway.api.kinds import ApiObject
from fairway.api.nodes import Node
from fairway.api.pods import Pod, PodStatus
from fairway.api.scheduling import PodGroup
from fairway.app.living import LivingCluster, is_ended
from fairway.clock import Micros
from fairway.sim.cycles import Cycles
from fairway.sim.jobs import SimJob
from fairway.sim.objects import identified
from fairway.state.reader import job_of, key_of, minimum_of, queue_of

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
        job.add(_unplaced(pod), run_time(pod, group))
    return job


def settle(population: Population, cluster: LivingCluster, cycles: Cycles, passes: list[Micros] | None = None) -> None:
    """Bring a population to life on an empty cluster. `passes`: when the scheduler was to decide; else it does now."""
    for node in population.nodes:
        cluster.pool.add(node)
    cluster.apply(population.nodes)
    cluster.apply(population.others)
    nominated: dict[str, str] = {}
    for job, pods in population.jobs:
        nominated |= {key_of(pod): pod.status.nominated_node_name for pod in pods if pod.status.nominated_node_name}
        cluster.take_up(job, pods)
    cycles.take_over(nominated, passes)


def _unplaced(pod: Pod) -> Pod:
    """The pod as it was when it was bound: with the devices that it was given, without its place."""
    if not pod.spec.node_name and not is_ended(pod):
        return pod
    return replace(
        pod,
        metadata=replace(pod.metadata, deletion_timestamp=None),
        spec=replace(pod.spec, node_name=""),
        status=PodStatus(resource_claim_statuses=pod.status.resource_claim_statuses),
    )
