"""A situation with supposed changes: objects are replaced by changed ones, and never changed themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import NAMESPACE_WEIGHT, Node, ResourceQuota, ResourceQuotaSpec
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.manifests import load, parse_object
from fairway.api.meta import ObjectMeta
from fairway.api.pods import Pod, PodStatus
from fairway.api.policy import Policy, parse_policy
from fairway.api.scheduling import Queue
from fairway.app.explain.situation import Situation
from fairway.app.view.models import what_if as asked
from fairway.clock import to_datetime
from fairway.errors import InputError
from fairway.resources.algebra import Resource
from fairway.scheduler.plugins.installed import default_registry
from fairway.sim.virtual_jobs import identified
from fairway.state.annotations import EXPECTED_RUNTIME, GROUP_NAME
from fairway.state.queues import DEFAULT_QUEUE
from fairway.state.reader import job_of

MOST_NEW = 20_000
"""Objects that a question may add."""


def supposed(situation: Situation, changes: Iterable[asked.SupposedChange]) -> Situation:
    """InputError says which change cannot be made, and why."""
    made = _Supposing(situation)
    for number, change in enumerate(changes):
        try:
            made.make(change)
        except InputError as error:
            raise InputError(f"changes[{number}]: {error}") from None
    return Situation(made.objects.values(), made.policy, situation.now, situation.scheduler_names, situation.past)


class _Supposing:
    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self.objects: dict[ObjectKey, ApiObject] = dict(situation.objects)
        self.policy: Policy = situation.policy

    def make(self, change: asked.SupposedChange) -> None:
        match change:
            case asked.SetQueueWeight(queue, weight):
                found = self._queue(queue)
                self._put(replace(found, spec=replace(found.spec, weight=weight)))
            case asked.SetQueueCapability(queue, capability):
                found = self._queue(queue)
                Resource.parse(capability)
                self._put(replace(found, spec=replace(found.spec, capability=capability)))
            case asked.SetQueueDeserved(queue, deserved):
                found = self._queue(queue)
                Resource.parse(deserved)
                self._put(replace(found, spec=replace(found.spec, deserved=deserved)))
            case asked.SetNamespaceWeight(namespace, weight):
                self._weigh(namespace, weight)
            case asked.AddNodes():
                self._add(list(self._nodes(change)))
            case asked.RemoveNodes(nodes):
                self._remove(nodes)
            case asked.SubmitForm():
                self._add(list(_form(change)))
            case asked.SubmitManifest(yaml):
                self._add(load(["-"], stdin=BytesIO(yaml.encode())).objects)
            case asked.CancelJob(job):
                self._cancel(job)
            case asked.UsePolicy(text):
                self.policy = parse_policy(text, "the supposed policy", default_registry().catalog)

    def _put(self, thing: ApiObject) -> None:
        self.objects[kinds.key(thing)] = thing

    def _add(self, things: list[ApiObject]) -> None:
        if len(self.objects) + len(things) > len(self._situation.objects) + MOST_NEW:
            raise InputError(f"adds {len(things)} objects, expected at most {MOST_NEW} in all")
        now = to_datetime(self._situation.now)
        for thing in things:
            if thing.metadata.creation_timestamp is None:
                thing = replace(thing, metadata=replace(thing.metadata, creation_timestamp=now))
            self._put(thing)

    def _queue(self, name: str) -> Queue:
        found = self.objects.get(("Queue", "", name))
        if isinstance(found, Queue):
            return found
        if name == DEFAULT_QUEUE:
            return Queue(metadata=ObjectMeta(name=name))
        known = sorted(key[2] for key in self.objects if key[0] == "Queue")
        raise InputError(f"there is no queue {name!r}, expected one of {', '.join(known[:9]) or 'none'}")

    def _weigh(self, namespace: str, weight: int) -> None:
        quotas = [
            thing
            for thing in self.objects.values()
            if isinstance(thing, ResourceQuota) and thing.metadata.namespace == namespace
        ]
        bare = ResourceQuota(metadata=ObjectMeta(name="fairway", namespace=namespace), spec=ResourceQuotaSpec())
        quota = next((one for one in quotas if NAMESPACE_WEIGHT in one.spec.hard), quotas[0] if quotas else bare)
        self._put(replace(quota, spec=replace(quota.spec, hard={**quota.spec.hard, NAMESPACE_WEIGHT: str(weight)})))

    def _nodes(self, change: asked.AddNodes) -> Iterator[ApiObject]:
        like = self.objects.get(("Node", "", change.like)) if change.like else None
        if change.like and not isinstance(like, Node):
            raise InputError(f"there is no node {change.like!r}")
        if like is None and not change.allocatable:
            raise InputError("expected `like`, the name of a node, or `allocatable`")
        for number in range(change.count):
            name = f"supposed-{number}"
            while ("Node", "", name) in self.objects:
                name += "-more"
            if isinstance(like, Node):
                meta = replace(like.metadata, name=name, uid="", labels={**like.metadata.labels, HOST_LABEL: name})
                yield replace(like, metadata=meta)
            else:
                amounts = {"pods": "110", **change.allocatable}
                yield parse_object(
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "metadata": {"name": name, "labels": {HOST_LABEL: name}},
                        "status": {"allocatable": amounts, "capacity": amounts},
                    },
                    name,
                )

    def _remove(self, names: Iterable[str]) -> None:
        gone = set(names)
        for name in gone:
            if self.objects.pop(("Node", "", name), None) is None:
                raise InputError(f"there is no node {name!r}")
        for key, thing in list(self.objects.items()):
            if isinstance(thing, Pod) and thing.spec.node_name in gone:
                self.objects[key] = identified(
                    replace(thing, spec=replace(thing.spec, node_name=""), status=PodStatus()), self._situation.now
                )

    def _cancel(self, job: str) -> None:
        pods = [key for key, thing in self.objects.items() if isinstance(thing, Pod) and job_of(thing) == job]
        namespace, _, name = job.partition("/")
        group = self.objects.pop(("PodGroup", namespace, name), None)
        if not pods and group is None:
            raise InputError(f"there is no job {job!r}")
        for key in pods:
            del self.objects[key]


HOST_LABEL = "kubernetes.io/hostname"


def _form(change: asked.SubmitForm) -> Iterator[ApiObject]:
    """A group and its pods, as a user would write them."""
    where = f"{change.namespace}/{change.name}"
    meta = {"name": change.name, "namespace": change.namespace}
    notes = {} if change.runtime_seconds is None else {EXPECTED_RUNTIME: f"{change.runtime_seconds:g}s"}
    spec = {
        "minMember": change.minimum or change.pods,
        "queue": change.queue,
        "priorityClassName": change.priority_class,
    }
    yield parse_object(
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}, where
    )
    container = {"name": "main", "image": "supposed", "resources": {"requests": change.requests}}
    for number in range(change.pods):
        yield parse_object(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{change.name}-{number}",
                    "namespace": change.namespace,
                    "annotations": {GROUP_NAME: change.name, **notes},
                },
                "spec": {
                    "schedulerName": "fairway",
                    "priorityClassName": change.priority_class,
                    "containers": [container],
                },
            },
            f"{where}-{number}",
        )
