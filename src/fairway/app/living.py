"""A virtual cluster that is taken up in mid-life, from objects alone, and changed from outside while it goes on.

The objects say all there is to know, in Kubernetes' own words: where a pod is (`spec.nodeName`), since when it has
its place (the condition `PodScheduled`), since when it runs (`status.startTime`), until when it may stay
(`metadata.deletionTimestamp`). That is why a restart, and a look ahead, can begin from any list of objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from fairway.api.meta import Condition
from fairway.api.pods import Pod, PodStatus
from fairway.api.reservations import reservation_name
from fairway.api.scheduling import PodGroup
from fairway.clock import Micros, from_datetime, to_datetime
from fairway.sim.claims import claim_of, reserved
from fairway.sim.cluster import VirtualCluster
from fairway.sim.jobs import SimJob, SimPod
from fairway.sim.loop import Rank
from fairway.state.events import Deleted, Upserted
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import group_of

FOREVER: Micros = 1 << 61
"""The run time of what never ends by itself."""

SCHEDULED = "PodScheduled"


def bound(pod: Pod, node: str, at: Micros) -> Pod:
    """A pod that has its node and does not run yet."""
    scheduled = Condition(type=SCHEDULED, status="True", last_transition_time=to_datetime(at))
    status = PodStatus(conditions=(scheduled,), resource_claim_statuses=pod.status.resource_claim_statuses)
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def bound_at(pod: Pod) -> Micros | None:
    times = [c.last_transition_time for c in pod.status.conditions if c.type == SCHEDULED and c.status == "True"]
    return next((from_datetime(time) for time in times if time is not None), None)


def is_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def has_controller(pod: Pod) -> bool:
    """Whether somebody makes the pod anew when it is gone before its end."""
    return any(owner.controller for owner in pod.metadata.owner_references) or bool(group_of(pod))


class LivingCluster(VirtualCluster):
    """See the module. `ended` is called with each job that has run to its end, before its objects go."""

    ended: Callable[[SimJob], None] = staticmethod(lambda job: None)

    def take_up(self, job: SimJob, pods: Iterable[Pod]) -> None:
        """A job as its objects show it: each of its pods waits, has a place, runs, leaves or has ended."""
        self.jobs[job.key] = job
        if job.group is not None:
            self.state.apply(Upserted(job.group))
        for pod, seen in zip(job.pods, pods, strict=True):
            self._take_up(pod, seen)
        self._note_start(job)
        self.changed()

    def enlarge(self, job: SimJob, pod: Pod, run: Micros) -> None:
        """A job that is there gets another pod."""
        job.add(pod, run)
        self._take_up(job.pods[-1], pod)
        self.changed()

    def withdraw(self, pod: SimPod) -> None:
        """Its owner deletes a pod: it is gone at once, and nobody makes it anew."""
        job = pod.job
        alive = not pod.node
        if pod.node:
            alive = self._on_node.get(pod.node, {}).pop(pod.key, None) is not None
            self._story.freed(self.loop.now, pod.key)
        else:
            self.waiting -= 1
        if alive and pod.pod.spec.resource_claims:
            self._release(pod)
        pod.epoch += 1
        job.left -= alive
        job.pods.remove(pod)
        del self.pods[pod.key]
        self.state.apply(Deleted(pod.pod))
        self.collect(pod.pod)
        if not job.pods:
            del self.jobs[job.key]
        elif not job.left:
            self._finish(job, 0)
        self.changed()

    def collect(self, owner: Pod | PodGroup) -> None:
        """An object is gone, and with it the reservation that it owned."""
        kind = "Pod" if isinstance(owner, Pod) else "PodGroup"
        key = (owner.metadata.namespace, reservation_name(kind, owner.metadata.name))
        found = self.state.reservations.objects().get(key)
        if found is not None and found.spec.job_ref.kind == kind:
            self.state.apply(Deleted(found))

    def regroup(self, job: SimJob, group: PodGroup) -> None:
        """The group of a job says something new."""
        job.group = group
        job.queue, job.minimum = group.spec.queue or DEFAULT_QUEUE, max(1, group.spec.min_member)
        self.state.apply(Upserted(group))
        self.changed()

    def placed(self) -> Iterator[SimPod]:
        """All pods that have a node: on their way to it, running there, or leaving it."""
        for pods in self._on_node.values():
            yield from pods.values()

    def _finish(self, job: SimJob, ran: Micros) -> None:
        self.ended(job)
        super()._finish(job, ran)

    def _take_up(self, pod: SimPod, seen: Pod) -> None:
        self.pods[pod.key] = pod
        self.state.apply(Upserted(seen))
        if is_ended(seen):
            pod.node, pod.epoch = seen.spec.node_name or "gone", 1
            pod.job.left -= 1
        elif seen.spec.node_name:
            self._take_up_placed(pod, seen)
        else:
            self.waiting += 1

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
            pod.leaving = True
            go = self._gone if has_controller(seen) else self._go_for_good
            self.loop.plan(from_datetime(seen.metadata.deletion_timestamp), Rank.RELEASE, go, life)
        elif seen.status.phase == "Pending":
            delay = self._timing.start_delay.draw(self._dice)
            self.loop.plan(pod.bound + delay, Rank.CHANGE, self._start, [life])
        else:
            if pod.started is None:
                pod.started = pod.bound
            self.loop.plan(pod.started + pod.run, Rank.RELEASE, self._end, [life])

    def _reserve(self, pod: SimPod) -> None:
        """A pod that has its place uses the claims that are allocated, whether or not they say so."""
        known = self.state.devices.claims
        for claim in (claim_of(pod.pod, entry.name, known) for entry in pod.pod.spec.resource_claims):
            if claim is not None and claim.status.allocation is not None:
                self.state.apply(Upserted(reserved(claim, pod.pod)))

    def _go_for_good(self, life: tuple[SimPod, int]) -> None:
        pod, epoch = life
        if pod.epoch == epoch:
            self.withdraw(pod)

    def _note_start(self, job: SimJob) -> None:
        placed = sorted(pod.bound for pod in job.pods if pod.node)
        if len(placed) >= job.minimum:
            job.start = placed[job.minimum - 1]
