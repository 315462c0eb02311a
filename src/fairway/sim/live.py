"""A virtual cluster that starts in mid-life, from objects alone, and can be changed from outside while it runs.

The objects hold all of its state, in Kubernetes' own fields: where a pod is (`spec.nodeName`), since when it has its
node (the condition `PodScheduled`), since when it runs (`status.startTime`), until when it may stay
(`metadata.deletionTimestamp`). That is why a restart, and a look ahead, can begin from any list of objects.
`populate` sorts such a list into nodes, jobs with their pods, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from fairway.api.core import Node
from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.api.scheduling import PodGroup
from fairway.clock import Micros, from_datetime
from fairway.drive import bound_at, claim_of, reserved, terminating
from fairway.sim.loop import Rank
from fairway.sim.virtual_cluster import VirtualCluster
from fairway.sim.virtual_jobs import SimJob, SimPod, identified, is_ended, running
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import group_of, job_of, minimum_of, queue_of

FOREVER: Micros = 1 << 61
"""The run time of pods that never end by themselves."""


def has_controller(pod: Pod) -> bool:
    """Whether a controller recreates the pod if it is gone before its end."""
    return any(owner.controller for owner in pod.metadata.owner_references) or bool(group_of(pod))


class LiveCluster(VirtualCluster):
    """A virtual cluster that starts from objects. `ended` is called with each job that has finished, before its objects
    are deleted.
    """

    ended: Callable[[SimJob], None] = staticmethod(lambda job: None)

    def take_up(self, job: SimJob, pods: Iterable[Pod]) -> None:
        """Adds a job in the state of its objects: each pod is pending, bound, running, terminating or ended."""
        self.jobs[job.key] = job
        if job.group is not None:
            self.write(job.group)
        for pod, seen in zip(job.pods, pods, strict=True):
            self._take_up(pod, seen)
        self._note_start(job)

    def replace(self, pod: SimPod, obj: Pod) -> None:
        """The object of an existing pod has changed."""
        self._put(pod, obj)

    def enlarge(self, job: SimJob, pod: Pod, run: Micros) -> None:
        """An existing job gets another pod."""
        job.add(pod, run)
        self._take_up(job.pods[-1], pod)

    def withdraw(self, pod: SimPod) -> None:
        """The owner deletes a pod: it is gone at once, and is not recreated."""
        job = pod.job
        alive = not pod.node
        if pod.node:
            alive = self._on_node.get(pod.node, {}).pop(pod.key, None) is not None
            self._timeline.freed(self.loop.now, pod.key)
        if alive and pod.pod.spec.resource_claims:
            self._release_claims(pod)
        pod.epoch += 1
        job.left -= alive
        job.pods.remove(pod)
        del self.pods[pod.key]
        # Its last version says that it was deleted: a pod that only goes has done its work.
        self.erase(pod.pod if is_ended(pod.pod) else terminating(pod.pod, self.loop.now))
        if not job.pods:
            self._collect_stops(job, pod.pod)
            del self.jobs[job.key]
        elif not job.left:
            self._finish(job, 0)

    def regroup(self, job: SimJob, group: PodGroup) -> None:
        """The group of a job has changed."""
        job.group = group
        job.queue, job.minimum = group.spec.queue or DEFAULT_QUEUE, max(1, group.spec.min_member)
        self.write(group)

    def placed(self) -> Iterator[SimPod]:
        """All pods with a node: bound, running, or terminating."""
        for pods in self._on_node.values():
            yield from pods.values()

    def _finish(self, job: SimJob, ran: Micros) -> None:
        self.ended(job)
        super()._finish(job, ran)

    def _take_up(self, pod: SimPod, seen: Pod) -> None:
        self.pods[pod.key] = pod
        self._put(pod, seen)
        if is_ended(seen):
            pod.node, pod.epoch = seen.spec.node_name or "gone", 1
            pod.job.left -= 1
        elif seen.spec.node_name:
            self._take_up_placed(pod, seen)

    def _take_up_placed(self, pod: SimPod, seen: Pod) -> None:
        now, started = self.loop.now, seen.status.start_time
        since = bound_at(seen)
        pod.node = seen.spec.node_name
        pod.started = None if started is None else from_datetime(started)
        pod.bound = since if since is not None else pod.started if pod.started is not None else now
        self._on_node.setdefault(pod.node, {})[pod.key] = pod
        if pod.pod.spec.resource_claims:
            self._reserve(pod)
        life = (pod, pod.epoch)
        if seen.metadata.deletion_timestamp is not None:
            pod.terminating = True
            go = self._gone if has_controller(seen) else self._go_for_good
            self.loop.plan(from_datetime(seen.metadata.deletion_timestamp), Rank.RELEASE, go, life)
        elif seen.status.phase == "Pending":
            delay = self._timing.start_delay.draw(self._dice)
            self.loop.plan(pod.bound + delay, Rank.CHANGE, self._start, [life])
        else:
            if pod.started is None:  # it does not say since when it runs: from now on it does
                pod.started = pod.bound
                self._put(pod, running(pod.pod, pod.started))
            self.loop.plan(pod.started + pod.run, Rank.RELEASE, self._end, [life])

    def _reserve(self, pod: SimPod) -> None:
        """A pod with a node uses its allocated claims, whether or not their status says so."""
        for claim in (claim_of(pod.pod, entry.name, self._claims) for entry in pod.pod.spec.resource_claims):
            if claim is not None and claim.status.allocation is not None:
                self.write(reserved(claim, pod.pod))

    def _go_for_good(self, life: tuple[SimPod, int]) -> None:
        pod, epoch = life
        if pod.epoch == epoch:
            self.withdraw(pod)

    def _note_start(self, job: SimJob) -> None:
        placed = sorted(pod.bound for pod in job.pods if pod.node)
        if len(placed) >= job.minimum:
            job.start = placed[job.minimum - 1]


RunTime = Callable[[Pod, PodGroup | None], Micros]
"""How long a pod runs from its start."""


class Population(NamedTuple):
    nodes: list[Node]
    others: list[ApiObject]
    """Objects without a life of their own: queues, quotas, groups without living pods, ended single pods."""
    jobs: list[tuple[SimJob, list[Pod]]]
    """Jobs with at least one pod that has not ended, and their pods as observed."""


def populate(objects: Iterable[ApiObject], run_time: RunTime) -> Population:
    """Sorts objects by their role in a cluster; jobs keep the order of their first pods."""
    nodes: list[Node] = []
    others: list[ApiObject] = []
    groups: dict[str, PodGroup] = {}
    pods: dict[str, list[Pod]] = {}
    for obj in objects:
        if isinstance(obj, Node):
            nodes.append(obj)
        elif isinstance(obj, Pod):
            pods.setdefault(job_of(obj), []).append(identified(obj, 0))
        elif isinstance(obj, PodGroup):
            groups[f"{obj.metadata.namespace}/{obj.metadata.name}"] = identified(obj, 0)
        else:
            others.append(obj)
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
    """Adds a population to an empty cluster."""
    for node in population.nodes:
        cluster.pool.add(node)
    cluster.apply(population.nodes)
    cluster.apply(population.others)
    for job, pods in population.jobs:
        cluster.take_up(job, pods)
