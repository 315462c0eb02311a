"""A copy of a cluster on which changes are tried and undone.

After each trial the copy is as before: every change is undone by the opposite event. The cluster that the objects were
taken from is never touched.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from fairway.api import kinds
from fairway.api.core import Node, ResourceQuota
from fairway.api.devices import ResourceClaim
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod
from fairway.api.policy import Policy
from fairway.api.scheduling import PodGroup, Queue
from fairway.app.explain.model import Effect
from fairway.clock import Micros
from fairway.drive import AllocateClaim, Bind, ObjectStore, changes_of, released
from fairway.errors import InputError
from fairway.scheduler.decide import decide, decide_and_explain
from fairway.scheduler.plan import ExplainedPlan, Plan
from fairway.sim.virtual_jobs import is_ended, running
from fairway.state.cluster import ClusterState, Deleted, Upserted
from fairway.state.device_requests import fact_key
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import arrival_order, job_of

SYSTEM = "kube-system"
"""Pods in this namespace run as long as the cluster does: no job waits for their end."""


class PastRun(NamedTuple):
    namespace: str
    job: str
    """The name of the job, without its namespace."""
    began: Micros
    ended: Micros


class Situation:
    """The objects of a cluster, a policy and a time, with a state to try changes on."""

    def __init__(
        self,
        objects: Iterable[ApiObject],
        policy: Policy,
        now: Micros,
        scheduler_names: Iterable[str] | None = None,
        past: Iterable[PastRun] = (),
    ) -> None:
        """`past` are finished runs whose objects are gone; run times may be estimated from them."""
        self.policy = policy
        self.now = now
        self.scheduler_names = None if scheduler_names is None else tuple(scheduler_names)
        self.objects: dict[ObjectKey, ApiObject] = {kinds.key(thing): thing for thing in objects}
        self.past = tuple(past)

    @cached_property
    def state(self) -> ClusterState:
        """Made on first use: a situation that is sent to another process never needs it."""
        state = ClusterState(self.scheduler_names)
        state.upsert(arrival_order(self.objects.values()))
        for run in self.past:
            state.history.add(*run)
        return state

    def decide(self) -> ExplainedPlan:
        """What the next cycle would do, with reasons."""
        return decide_and_explain(self.state, self.policy, self.now)

    def after(self, plan: Plan) -> Situation:
        """The situation in which the pods that a plan binds are running."""
        if not plan.bindings:
            return self
        objects, store = dict(self.objects), ObjectStore()
        for thing in objects.values():
            store.seen(thing)
        for change in changes_of(plan, store, self.now):
            if isinstance(change, Bind | AllocateClaim):
                made = change.onto(objects.get(change.key))
                assert made is not None
                objects[change.key] = running(made, self.now) if isinstance(made, Pod) else made
        return Situation(objects.values(), self.policy, self.now, self.scheduler_names, self.past)

    def alone(self, job: str) -> Situation:
        """The situation without the pods of all other jobs, and without what these have."""
        others = [pod for pod in self._pods() if job_of(pod) != job]
        objects = self.objects | {kinds.key(claim): claim for claim in self.released(others)}
        for pod in others:
            del objects[kinds.key(pod)]
        return Situation(objects.values(), self.policy, self.now, self.scheduler_names, self.past)

    def released(self, pods: Iterable[Pod]) -> list[ResourceClaim]:
        """The claims of pods as they are when all of these are over."""
        claims = ChainMap[str, ResourceClaim]({}, self.state.devices.claims)
        for pod in pods:
            if pod.spec.resource_claims:
                claims.update((fact_key(claim), claim) for claim in list(released(pod, claims)))
        return list(claims.maps[0].values())

    def effect(self, job: str, changed: Sequence[ApiObject]) -> Effect | None:
        """What `decide` would do for a job with these objects changed; None if it would still be pending."""
        for thing in changed:
            self.state.apply(Upserted(thing))
        found = effect_on(decide(self.state, self.policy, self.now), job)
        for thing in reversed(changed):
            before = self.objects.get(kinds.key(thing))
            self.state.apply(Deleted(thing) if before is None else Upserted(before))
        return found

    def find_job(self, name: str) -> str:
        """The key of the job called `namespace/name`, or of the only job or pod of that name."""
        jobs = {job.key for job in self.state.jobs()}
        if name in jobs:
            return name
        if name in self.state.tasks:
            return self.state.tasks[name].job.key
        matches = sorted(key for key in jobs if key.split("/", 1)[1] == name) or sorted(
            {task.job.key for key, task in self.state.tasks.items() if key.split("/", 1)[1] == name}
        )
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise InputError(f"{name}: several jobs have this name, expected one of {', '.join(matches[:9])}")
        raise InputError(f"{name}: there is no such job{_job_names(sorted(jobs))}")

    def waiting_pods(self, job: str) -> list[Pod]:
        """The pods of a job that have no node."""
        return [pod for pod in self.pods_of(job) if not pod.spec.node_name and not is_ended(pod)]

    def pods_of(self, job: str) -> list[Pod]:
        return [pod for pod in self._pods() if job_of(pod) == job]

    def placed_pods(self, *, without: str) -> list[Pod]:
        """All pods that have a node and have not ended, except those of one job."""
        return [pod for pod in self._pods() if pod.spec.node_name and not is_ended(pod) and job_of(pod) != without]

    def group_of(self, job: str) -> PodGroup | None:
        namespace, name = job.split("/", 1)
        found = self.objects.get(("PodGroup", namespace, name))
        return found if isinstance(found, PodGroup) else None

    def queue(self, name: str) -> Queue | None:
        found = self.objects.get(("Queue", "", name))
        if isinstance(found, Queue):
            return found
        return Queue(metadata=ObjectMeta(name=name)) if name == DEFAULT_QUEUE else None  # it always exists

    def queue_chain(self, name: str) -> list[Queue]:
        """A queue and its ancestors, as far as they exist."""
        chain: list[Queue] = []
        queue = self.queue(name)
        while queue is not None and queue not in chain:
            chain.append(queue)
            queue = self.queue(queue.spec.parent) if queue.spec.parent else None
        return chain

    def nodes(self) -> list[Node]:
        return [thing for thing in self.objects.values() if isinstance(thing, Node)]

    def quotas(self, namespace: str) -> list[ResourceQuota]:
        things = self.objects.values()
        return [thing for thing in things if isinstance(thing, ResourceQuota) and thing.metadata.namespace == namespace]

    def _pods(self) -> Iterable[Pod]:
        return (thing for thing in self.objects.values() if isinstance(thing, Pod))


def effect_on(plan: Plan, job: str) -> Effect | None:
    if any(binding.job == job for binding in plan.bindings):
        return Effect.STARTS
    return Effect.EVICTS if any(eviction.for_ == job for eviction in plan.evictions) else None


def _job_names(names: list[str]) -> str:
    if not names:
        return "; there are no jobs"
    more = f" and {len(names) - 9} more" if len(names) > 9 else ""
    return f", expected one of {', '.join(names[:9])}{more}"
