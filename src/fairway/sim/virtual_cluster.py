"""The virtual cluster: a world that carries changes out in virtual time. It never decides.

A pod's life: it arrives and waits; a change binds it; after a delay it runs, for as long as its job's trace says; then
it is gone. An evicted pod keeps its node through its grace period, a pod whose node fails loses it at once; both then
wait again from the start, as a controller would recreate them.

`RunObserver` gets its events: the recorder of a run's metrics, or the view of a live cluster. `NodePool` has the nodes
that exist and accept pods, with their total capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Protocol

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import Node, NodeSpec, NodeStatus
from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod
from fairway.api.scheduling import EvictionRecord, PodGroup, Reservation, reservation_name
from fairway.clock import SECOND, Micros
from fairway.drive import EVICTION_RECORD, Bind, Change, EventSink, Evict, is_made_for, released, terminating
from fairway.resources.algebra import Resource
from fairway.resources.quantity import format_amount
from fairway.sim.assertions import Evidence
from fairway.sim.loop import EventLoop, Rank
from fairway.sim.metrics import JobFacts
from fairway.sim.node_timeline import NodeTimeline
from fairway.sim.scenario.model import NodeTemplate, TimingPart
from fairway.sim.storage import StorageHost, VirtualStorage
from fairway.sim.traces import TraceNode
from fairway.sim.virtual_jobs import (
    SimJob,
    SimPod,
    cordoned,
    not_ready,
    recreated,
    running,
    succeeded,
    total,
    virtual_owner,
)
from fairway.state.device_requests import fact_key


class RunObserver(Protocol):
    """Called in order of time; `amounts` are of all the tasks that a report is about."""

    def capacity(self, at: Micros, capacity: Mapping[str, int]) -> None: ...

    def submitted(self, at: Micros, facts: JobFacts) -> None: ...

    def placed(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def released(self, at: Micros, key: str, amounts: Mapping[str, int], tasks: int = 1) -> None: ...

    def evicted(
        self, at: Micros, key: str, amounts: Mapping[str, int], ran: Micros, tasks: int = 1, *, failed: bool = False
    ) -> None: ...

    def finished(self, at: Micros, key: str, ran: Micros, hosts: Sequence[str] = ()) -> None: ...

    def reservations(self, at: Micros, starving: int, reserved: int) -> None: ...


class NodePool:
    """Nodes by name, with their total capacity."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self.capacity: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def names(self) -> set[str]:
        return set(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def add(self, node: Node) -> None:
        self.take(node.metadata.name)
        self._nodes[node.metadata.name] = node
        self._count(node, 1)

    def take(self, name: str) -> Node | None:
        """Removes a node; None if there is none of that name."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._count(node, -1)
        return node

    def draw(self, dice: Random) -> str | None:
        """A random node."""
        return dice.choice(sorted(self._nodes)) if self._nodes else None

    def _count(self, node: Node, by: int) -> None:
        for name, amount in Resource.parse(node.allocatable).amounts.items():
            self.capacity[name] = self.capacity.get(name, 0) + by * amount


def nodes_of_template(template: NodeTemplate) -> Iterator[Node]:
    """The nodes of a template; their order by name is their order by number."""
    amounts = template.allocatable.format()
    width = len(str(template.count - 1))
    for index in range(template.count):
        name = template.name if template.count == 1 else f"{template.name}-{index:0{width}d}"
        yield Node(
            metadata=ObjectMeta(name=name, labels=template.labels),
            spec=NodeSpec(taints=template.taints),
            status=NodeStatus(capacity=amounts, allocatable=amounts),
        )


def node_of_trace(node: TraceNode) -> Node:
    amounts = {name: format_amount(name, amount) for name, amount in node.allocatable.items()}
    return Node(
        metadata=ObjectMeta(name=node.name, labels=node.labels),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


Batch = list[tuple[SimPod, int]]
"""Pods with the epoch for which an event was planned."""


class VirtualCluster:
    """Nodes and pods in virtual time. `objects` is what an API server would hold."""

    def __init__(
        self,
        loop: EventLoop,
        pool: NodePool,
        recorder: RunObserver,
        timeline: NodeTimeline,
        evidence: Evidence,
        timing: TimingPart,
        dice: Random,
        *,
        tells_ends: bool = True,
    ) -> None:
        """`tells_ends`: whether the run time of an ended job matters, besides that it is gone."""
        self.loop = loop
        self.pool = pool
        self.objects: dict[ObjectKey, ApiObject] = {}
        self.jobs: dict[str, SimJob] = {}
        self.pods: dict[str, SimPod] = {}
        self._sink: EventSink | None = None
        self._recorder = recorder
        self._timeline = timeline
        self._evidence = evidence
        self._timing = timing
        self._dice = dice
        self._tells_ends = tells_ends
        self._on_node: dict[str, dict[str, SimPod]] = {}
        self._claims: dict[str, ResourceClaim] = {}
        """By `namespace/name`."""
        host = StorageHost(self.objects, self.write, self.erase, self._bind_released, self._refuse)
        self._storage = VirtualStorage(host, loop, timing, dice)

    def report_to(self, sink: EventSink) -> None:
        """From now on `sink` gets all changes; first everything that exists."""
        self._sink = sink
        for obj in list(self.objects.values()):
            sink.seen(obj)

    @property
    def size(self) -> int:
        """Pods that exist, pending or running."""
        return len(self.pods)

    @property
    def is_used(self) -> bool:
        """Whether a pod has a node."""
        return any(self._on_node.values())

    # -- objects ---------------------------------------------------------------------------------------------

    def write(self, obj: ApiObject) -> None:
        """An object is created or changed."""
        self.objects[kinds.key(obj)] = obj
        if isinstance(obj, ResourceClaim):
            self._claims[fact_key(obj)] = obj
        if self._sink is not None:
            self._sink.seen(obj)
        self._storage.written(obj)

    def erase(self, obj: ApiObject) -> None:
        """An object is deleted with everything it owns; `obj` is its last version."""
        if self.objects.pop(kinds.key(obj), None) is None:
            return
        if self._sink is not None:
            self._sink.gone(obj)
        if isinstance(obj, ResourceClaim):
            del self._claims[fact_key(obj)]
        if isinstance(obj, Pod | PodGroup):
            self._collect(obj)
        self._storage.erased(obj)

    def _collect(self, owner: Pod | PodGroup) -> None:
        """What a pod or group owns is deleted with it, as by the garbage collector of a cluster."""
        kind, namespace = "Pod" if isinstance(owner, Pod) else "PodGroup", owner.metadata.namespace
        name = reservation_name(kind, owner.metadata.name)
        found = self.objects.get(("Reservation", namespace, name))
        if isinstance(found, Reservation) and found.spec.job_ref.kind == kind:
            self.erase(found)
        record = self.objects.get((EVICTION_RECORD, namespace, name))
        if isinstance(record, EvictionRecord) and record.spec.job_ref.kind == kind:
            self.erase(record)

    def _collect_stops(self, job: SimJob, pod: Pod) -> None:
        """The controller of a job outlives its pods and ends with the job: then its EvictionRecord is deleted. `pod` is
        one of its pods.
        """
        owner = virtual_owner(pod)
        own = job.key.partition("/")[2] if owner is None else f"{owner.kind.lower()}/{owner.name}"
        record = self.objects.get((EVICTION_RECORD, job.namespace, reservation_name("Controller", own)))
        if record is not None:
            self.erase(record)

    def _put(self, pod: SimPod, obj: Pod) -> None:
        pod.pod = obj
        self.write(obj)

    # -- what the scheduler wants ----------------------------------------------------------------------------

    def carry_out(self, changes: Sequence[Change]) -> None:
        binds: list[tuple[SimPod, Bind]] = []
        for change in changes:
            if isinstance(change, Bind):
                pod = self._waiting_pod(change)
                if pod is None:
                    self._refuse(change)
                    continue
                if binds and binds[0][0].job is not pod.job:
                    self._bind_or_hold(binds)
                    binds = []
                binds.append((pod, change))
            elif isinstance(change, Evict):
                self._carry_out_eviction(change)
            else:
                self._carry_out_write(change)
        if binds:
            self._bind_or_hold(binds)

    def _bind_or_hold(self, places: list[tuple[SimPod, Bind]]) -> None:
        """Bind pods of one job, those whose volumes have to be bound first when they are: a gang as a whole."""
        if not places[0][1].awaits_volumes:
            self._bind(places)
        elif places[0][0].job.minimum > 1:
            if not self._storage.hold([change for _, change in places]):
                self._bind(places)
        else:
            for place in places:
                if not self._storage.hold([place[1]]):
                    self._bind([place])

    def _bind_released(self, binds: Sequence[Bind]) -> None:
        """Volumes are bound, and so are their pods, unless one went meanwhile."""
        places = [(pod, bind) for bind in binds if (pod := self._waiting_pod(bind)) is not None]
        if len(places) == len(binds):
            self._bind(places)
            return
        for bind in binds:
            self._refuse(bind)

    def _waiting_pod(self, bind: Bind) -> SimPod | None:
        pod = self.pods.get(bind.binding.pod)
        return None if pod is None or pod.node or pod.pod.metadata.uid != bind.uid else pod

    def _refuse(self, change: Change, why: str = "the object is gone, or is another one now") -> None:
        if self._sink is not None:
            self._sink.refused(change, why)

    def _carry_out_write(self, change: Change) -> None:
        """A claim, a reservation, a nomination: the object becomes what the change says."""
        known = self.objects.get(change.key)
        if known is not None and change.uid and known.metadata.uid != change.uid:
            self._refuse(change)
            return
        obj = change.onto(known)
        if obj is None:
            if known is not None:
                self.erase(known)
        elif isinstance(obj, Pod) and (pod := self.pods.get(_pod_name(change.key))) is not None:
            self._put(pod, obj)
        else:
            self.write(obj)

    def _carry_out_eviction(self, change: Evict) -> None:
        pod, known = self.pods.get(change.eviction.pod), self.objects.get(change.key)
        if not isinstance(known, Pod) or known.metadata.uid != change.uid:
            self._refuse(change)
        elif pod is not None:
            self.evict(pod)
        else:  # a pod that was there from the beginning, and that no job of the run owns
            span = self._grace(known)
            self.write(terminating(known, self.loop.now + span))
            self.loop.plan(self.loop.now + span, Rank.RELEASE, self.erase, known)

    # -- jobs ------------------------------------------------------------------------------------------------

    def arrive(self, job: SimJob) -> bool:
        """A job arrives; False if one of that name still exists."""
        if job.key in self.jobs or any(pod.key in self.pods for pod in job.pods):
            return False
        self.jobs[job.key] = job
        job.submit = self.loop.now
        job.identify(self.loop.now)
        if job.group is not None:
            self.write(job.group)
        for pod in job.pods:
            self.pods[pod.key] = pod
            self.write(pod.pod)
        self._recorder.submitted(self.loop.now, job.facts())
        return True

    def take_back(self, job: SimJob) -> None:
        """Withdraws a job without placed pods, as if it had never arrived; it can arrive again."""
        for pod in job.pods:
            pod.epoch += 1
            if pod.pod.spec.resource_claims:
                self._release_claims(pod)
            del self.pods[pod.key]
            self.erase(pod.pod)
            pod.pod = recreated(pod.pod, self.loop.now)
        self._collect_stops(job, job.pods[0].pod)
        if job.group is not None:
            self.erase(job.group)
            job.group = replace(job.group, metadata=replace(job.group.metadata, uid=""))
        del self.jobs[job.key]

    def _bind(self, places: list[tuple[SimPod, Bind]]) -> None:
        """Pods of one job get their nodes and the rest of their bindings; they run after the start delay."""
        now, job = self.loop.now, places[0][0].job
        delay = self._timing.start_delay.draw(self._dice)
        batch: Batch = []
        for pod, change in places:
            node = change.binding.node
            pod.node, pod.bound, pod.started = node, now, None
            obj = change.onto(pod.pod)
            assert isinstance(obj, Pod)
            pod.pod = obj
            if delay:
                self.write(obj)
            self._on_node.setdefault(node, {})[pod.key] = pod
            self._timeline.bound(now, pod.key, job.key, job.queue, node)
            batch.append((pod, pod.epoch))
        self._recorder.placed(now, job.key, total([pod.amounts for pod, _ in batch]), len(batch))
        if job.start is None and sum(bool(pod.node) for pod in job.pods) >= job.minimum:
            job.start = now
            if job.key in self._evidence.watched:
                self._evidence.started.setdefault(job.key, now)
        if delay:
            self.loop.plan(now + delay, Rank.CHANGE, self._start, batch)
        else:
            self._start(batch)

    def _start(self, batch: Batch) -> None:
        ends: dict[Micros, Batch] = {}
        for pod, epoch in batch:
            if pod.epoch != epoch or pod.terminating:
                continue
            pod.started = self.loop.now
            self._put(pod, running(pod.pod, self.loop.now))
            ends.setdefault(pod.run, []).append((pod, epoch))
        for run, ending in ends.items():
            self.loop.plan(self.loop.now + run, Rank.RELEASE, self._end, ending)

    def _end(self, batch: Batch) -> None:
        ending = [pod for pod, epoch in batch if pod.epoch == epoch and not pod.terminating]
        if not ending:
            return
        now, job = self.loop.now, ending[0].job
        job.left -= len(ending)
        for pod in ending:
            self._leave_node(pod, evicted=False)
        if job.left:
            for pod in ending:
                pod.epoch += 1
                self._put(pod, succeeded(pod.pod, now))
            self._recorder.released(now, job.key, total([pod.amounts for pod in ending]), len(ending))
        else:
            if self._tells_ends:  # of a job that is over, one pod tells how long it ran
                ending[0].pod = succeeded(ending[0].pod, now)
            self._finish(job, max(now - (pod.started or now) for pod in ending))

    def _finish(self, job: SimJob, ran: Micros) -> None:
        for pod in job.pods:
            pod.epoch += 1
            del self.pods[pod.key]
            self.erase(pod.pod)
        self._collect_stops(job, job.pods[0].pod)
        if job.group is not None:
            self.erase(job.group)
        del self.jobs[job.key]
        if job.key in self._evidence.watched:
            self._evidence.ended[job.key] = self.loop.now
        self._recorder.finished(self.loop.now, job.key, ran, sorted({pod.node for pod in job.pods}))

    def _grace(self, pod: Pod) -> Micros:
        grace = self._timing.grace
        return pod.spec.termination_grace_period_seconds * SECOND if grace is None else grace

    def evict(self, pod: SimPod) -> None:
        """A pod begins to terminate; its node is free of it after its grace period."""
        if not pod.node or pod.terminating:
            return
        now = self.loop.now
        pod.terminating = True
        span = self._grace(pod.pod)
        self._evidence.first_eviction.setdefault(pod.job.queue, (now, pod.key))
        if span:
            self._put(pod, terminating(pod.pod, now + span))
            self.loop.plan(now + span, Rank.RELEASE, self._gone, (pod, pod.epoch))
        else:
            self._gone((pod, pod.epoch))

    def _gone(self, life: tuple[SimPod, int]) -> None:
        pod, epoch = life
        if pod.epoch == epoch:
            self._lose(pod, failed=False)

    def _lose(self, pod: SimPod, *, failed: bool) -> None:
        """A pod is gone before its end: its controller recreates it, and it is pending again."""
        now, job = self.loop.now, pod.job
        ran = now - pod.started if pod.started is not None else 0
        self._leave_node(pod, evicted=not failed)
        self._recorder.evicted(now, job.key, pod.amounts, ran, failed=failed)
        self.erase(pod.pod)
        pod.node, pod.started, pod.terminating = "", None, False
        pod.epoch += 1
        if sum(bool(other.node) for other in job.pods) < job.minimum:
            job.start = None
        self._put(pod, recreated(pod.pod, now))

    def _leave_node(self, pod: SimPod, *, evicted: bool) -> None:
        del self._on_node[pod.node][pod.key]
        self._timeline.freed(self.loop.now, pod.key, evicted=evicted)
        if pod.pod.spec.resource_claims or pod.pod.status.extended_resource_claim_status:
            self._release_claims(pod)

    def _release_claims(self, pod: SimPod) -> None:
        """A pod has ended: its claims are free, unless another pod has them."""
        for claim in list(released(pod.pod, self._claims)):
            if is_made_for(claim, pod.pod):
                self.erase(claim)
            else:
                self.write(claim)

    # -- nodes -----------------------------------------------------------------------------------------------

    def join(self, node: Node) -> None:
        """A node joins, or returns."""
        self.pool.add(node)
        self.write(node)
        self._timeline.returned(self.loop.now, node.metadata.name)
        self._recorder.capacity(self.loop.now, self.pool.capacity)

    def fail(self, name: str, lasts: Micros | None) -> None:
        """A node fails: its pods are lost, and it returns after `lasts` (None: never)."""
        node = self.pool.take(name)
        if node is None:
            return
        if lasts is not None:
            self.write(not_ready(node))
        else:
            self.erase(node)
        self._timeline.went(self.loop.now, name)
        for pod in list(self._on_node.get(name, {}).values()):
            self._lose(pod, failed=True)
        if lasts is not None:
            self.loop.plan(self.loop.now + lasts, Rank.CHANGE, self.join, node)
        self._recorder.capacity(self.loop.now, self.pool.capacity)

    def drain(self, name: str) -> None:
        """A node accepts no new pods, and those on it are evicted."""
        node = self.pool.take(name)
        if node is None:
            return
        self.write(cordoned(node))
        self._timeline.went(self.loop.now, name)
        for pod in list(self._on_node.get(name, {}).values()):
            self.evict(pod)
        self._recorder.capacity(self.loop.now, self.pool.capacity)

    def apply(self, things: Iterable[ApiObject]) -> None:
        """Objects without a life of their own: queues, quotas, priority classes."""
        for obj in things:
            self.write(obj)


def _pod_name(key: ObjectKey) -> str:
    return f"{key[1]}/{key[2]}"
