"""The virtual cluster: carries plans out in virtual time and feeds what happened back as events. It never decides.

A pod's life: it arrives and waits; a plan binds it; after a delay it runs, for as long as its job's trace says;
then it is gone. An evicted pod keeps its room through its grace period, a pod whose node fails loses it at once;
both then wait again from the start, as a controller would make them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from fairway.api.kinds import ApiObject
from fairway.api.pods import Pod
from fairway.clock import SECOND, Micros
from fairway.scheduler.plan import Binding
from fairway.sim import claims, objects
from fairway.sim.assertions import Evidence
from fairway.sim.jobs import SimJob, SimPod, total
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.nodes import NodePool
from fairway.sim.scenario.model import TimingPart
from fairway.sim.story import Story
from fairway.sim.witness import Witness
from fairway.state.cluster import ClusterState
from fairway.state.events import Assumed, Confirmed, Deleted, Upserted

Batch = list[tuple[SimPod, int]]
"""Pods with the life that something was planned for."""


class VirtualCluster:
    """Nodes and pods in virtual time. `changed` is called whenever the scheduler may have something to do."""

    def __init__(
        self,
        loop: EventLoop,
        state: ClusterState,
        pool: NodePool,
        recorder: Witness,
        story: Story,
        evidence: Evidence,
        timing: TimingPart,
        dice: Random,
        *,
        tells_ends: bool = True,
    ) -> None:
        """`tells_ends`: whether somebody wants to know how long a job ran that is over, besides that it is gone."""
        self.loop = loop
        self.state = state
        self.pool = pool
        self.jobs: dict[str, SimJob] = {}
        self.pods: dict[str, SimPod] = {}
        self.waiting = 0
        """Pods that have no place."""
        self.changed: Callable[[], None] = lambda: None
        self._recorder = recorder
        self._story = story
        self._evidence = evidence
        self._timing = timing
        self._dice = dice
        self._tells_ends = tells_ends
        self._on_node: dict[str, dict[str, SimPod]] = {}

    @property
    def size(self) -> int:
        """Pods that are there, waiting or running."""
        return len(self.pods)

    def apply(self, things: Iterable[ApiObject]) -> None:
        """Objects that are just there: queues, quotas, priority classes."""
        for thing in things:
            self.state.apply(Upserted(thing))

    def arrive(self, job: SimJob) -> bool:
        """A job comes; False where one of that name is still there."""
        if job.key in self.jobs or any(pod.key in self.pods for pod in job.pods):
            return False
        self.jobs[job.key] = job
        job.submit = self.loop.now
        job.identify(self.loop.now)
        if job.group is not None:
            self.state.apply(Upserted(job.group))
        for pod in job.pods:
            self.pods[pod.key] = pod
            self.state.apply(Upserted(pod.pod))
        self.waiting += len(job.pods)
        self._recorder.submitted(self.loop.now, job.facts())
        self.changed()
        return True

    def bind(self, places: list[tuple[SimPod, Binding]]) -> None:
        """Pods of one job get their nodes, and what else their bindings say; they run when the delay is over."""
        now, job = self.loop.now, places[0][0].job
        delay = self._timing.start_delay.draw(self._dice)
        batch: Batch = []
        for pod, binding in places:
            node, notes = binding.node, binding.annotations
            pod.node, pod.bound, pod.started = node, now, None
            if notes:
                pod.pod = objects.annotated(pod.pod, notes)
            if pod.pod.spec.resource_claims:
                self._allocate(pod, binding)
            self._on_node.setdefault(node, {})[pod.key] = pod
            self._story.bound(now, pod.key, job.key, job.queue, node)
            if delay:
                self.state.apply(Assumed(pod.key, node, tuple(sorted(notes.items()))))
                self.state.apply(Confirmed(pod.key))
            batch.append((pod, pod.epoch))
        self.waiting -= len(batch)
        self._recorder.placed(now, job.key, total([pod.amounts for pod, _ in batch]), len(batch))
        if job.start is None and sum(bool(pod.node) for pod in job.pods) >= job.minimum:
            job.start = now
            if job.key in self._evidence.watched:
                self._evidence.started.setdefault(job.key, now)
        if delay:
            self.loop.plan(now + delay, Rank.CHANGE, self._start, batch)
        else:
            self._start(batch)

    def _allocate(self, pod: SimPod, binding: Binding) -> None:
        """Its claims are the pod's, before it is bound."""
        pod.pod, made = claims.allocate(pod.pod, binding, self.state.devices, self.loop.now)
        for claim in made:
            self.state.apply(Upserted(claim))
        if pod.pod.status.resource_claim_statuses:
            self.state.apply(Upserted(pod.pod))

    def _release(self, pod: SimPod) -> None:
        """A pod is over: its claims are free, as far as nobody else has them."""
        for claim in list(claims.released(pod.pod, self.state.devices.claims)):
            self.state.apply(Deleted(claim) if claims.is_made_for(claim, pod.pod) else Upserted(claim))

    def _start(self, batch: Batch) -> None:
        ends: dict[Micros, Batch] = {}
        for pod, epoch in batch:
            if pod.epoch != epoch or pod.leaving:
                continue
            pod.started = self.loop.now
            self.state.apply(Upserted(objects.running(pod.pod, pod.node, self.loop.now)))
            ends.setdefault(pod.run, []).append((pod, epoch))
        for run, ending in ends.items():
            self.loop.plan(self.loop.now + run, Rank.RELEASE, self._end, ending)

    def _end(self, batch: Batch) -> None:
        ending = [pod for pod, epoch in batch if pod.epoch == epoch and not pod.leaving]
        if not ending:
            return
        now, job = self.loop.now, ending[0].job
        job.left -= len(ending)
        for pod in ending:
            self._leave_node(pod, evicted=False)
        last = ending[:1] if self._tells_ends else []  # of a job that is over, one tells how long it ran
        for pod in ending if job.left else last:
            began = now if pod.started is None else pod.started
            self.state.apply(Upserted(objects.succeeded(pod.pod, pod.node, began, now)))
        if job.left:
            for pod in ending:
                pod.epoch += 1
            self._recorder.released(now, job.key, total([pod.amounts for pod in ending]), len(ending))
        else:
            self._finish(job, max(now - (pod.started or now) for pod in ending))
        self.changed()

    def _finish(self, job: SimJob, ran: Micros) -> None:
        for pod in job.pods:
            pod.epoch += 1
            del self.pods[pod.key]
            self.state.apply(Deleted(pod.pod))
        if job.group is not None:
            self.state.apply(Deleted(job.group))
        del self.jobs[job.key]
        if job.key in self._evidence.watched:
            self._evidence.ended[job.key] = self.loop.now
        self._recorder.finished(self.loop.now, job.key, ran, sorted({pod.node for pod in job.pods}))

    def evict(self, pod: SimPod) -> None:
        """A pod is told to go; its room is free when its grace period is over."""
        if not pod.node or pod.leaving:
            return
        now = self.loop.now
        pod.leaving = True
        grace = self._timing.grace
        span = pod.pod.spec.termination_grace_period_seconds * SECOND if grace is None else grace
        self._evidence.first_eviction.setdefault(pod.job.queue, (now, pod.key))
        if span:
            self.state.apply(Upserted(objects.leaving(pod.pod, pod.node, now + span)))
            self.loop.plan(now + span, Rank.RELEASE, self._gone, (pod, pod.epoch))
        else:
            self._gone((pod, pod.epoch))

    def _gone(self, life: tuple[SimPod, int]) -> None:
        pod, epoch = life
        if pod.epoch == epoch:
            self._lose(pod, failed=False)
            self.changed()

    def _lose(self, pod: SimPod, *, failed: bool) -> None:
        """A pod is gone before its end: it waits again, made anew."""
        now, job = self.loop.now, pod.job
        ran = now - pod.started if pod.started is not None else 0
        self._leave_node(pod, evicted=not failed)
        self._recorder.evicted(now, job.key, pod.amounts, ran, failed=failed)
        self.state.apply(Deleted(pod.pod))
        pod.pod = objects.made_anew(pod.pod, now)
        pod.node, pod.started, pod.leaving = "", None, False
        pod.epoch += 1
        self.waiting += 1
        if sum(bool(other.node) for other in job.pods) < job.minimum:
            job.start = None
        self.state.apply(Upserted(pod.pod))

    def _leave_node(self, pod: SimPod, *, evicted: bool) -> None:
        del self._on_node[pod.node][pod.key]
        self._story.freed(self.loop.now, pod.key, evicted=evicted)
        if pod.pod.spec.resource_claims:
            self._release(pod)

    def replace(self, pod: SimPod, new: Pod) -> None:
        """A waiting pod's object says something new (a nomination, a reservation)."""
        pod.pod = new
        self.state.apply(Upserted(new))

    def join(self, node: objects.Node) -> None:
        """A node comes, or comes back."""
        self.pool.add(node)
        self.state.apply(Upserted(node))
        self._story.returned(self.loop.now, node.metadata.name)
        self._capacity_changed()

    def fail(self, name: str, lasts: Micros | None) -> None:
        """A node fails: its pods are lost, and it is back after `lasts` (None: it is gone for good)."""
        node = self.pool.take(name)
        if node is None:
            return
        self.state.apply(Upserted(objects.not_ready(node)) if lasts is not None else Deleted(node))
        self._story.went(self.loop.now, name)
        for pod in list(self._on_node.get(name, {}).values()):
            self._lose(pod, failed=True)
        if lasts is not None:
            self.loop.plan(self.loop.now + lasts, Rank.CHANGE, self.join, node)
        self._capacity_changed()

    def drain(self, name: str) -> None:
        """A node takes no new pods, and those on it are told to go."""
        node = self.pool.take(name)
        if node is None:
            return
        self.state.apply(Upserted(objects.cordoned(node)))
        self._story.went(self.loop.now, name)
        for pod in list(self._on_node.get(name, {}).values()):
            self.evict(pod)
        self._capacity_changed()

    def _capacity_changed(self) -> None:
        self._recorder.capacity(self.loop.now, self.pool.capacity)
        self.changed()
