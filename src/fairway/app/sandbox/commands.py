"""Requests of users to a sandbox: create, change and delete objects. A request is carried out whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from fairway.api import kinds
from fairway.api.core import Node
from fairway.api.devices import ResourceClaim, ResourceClass, ResourceClassSpec
from fairway.api.kinds import ApiObject, ObjectKey
from fairway.api.pods import Pod, pod_request
from fairway.api.scheduling import EvictionRecord, PodGroup, Queue, Reservation
from fairway.app.sandbox.journal import Journal
from fairway.app.sandbox.world import DRAWN, check_names, controlled, drawn, run_time
from fairway.clock import Micros, to_datetime
from fairway.drive import title
from fairway.errors import InputError
from fairway.sim.live import LiveCluster, make_job
from fairway.sim.virtual_jobs import identified, is_ended
from fairway.state.annotations import NOMINATED_SINCE
from fairway.state.device_requests import RECORD_PREFIX
from fairway.state.reader import group_of, job_of, key_of

T = TypeVar("T", Pod, PodGroup)

MAX_OBJECTS = 50_000
"""Maximum number of objects in a sandbox."""
NAMED = 5
"""Objects that a message names."""
FLEET_GROUP = "cluster.open-cluster-management.io"
JOB = "Job"
"""Not a kind of object, but a group with its pods, or a lone pod."""
_MANAGED = (NOMINATED_SINCE, DRAWN)
"""Annotations that the scheduler and the sandbox write."""
SHORT_NAMES = {
    "po": "pod",
    "no": "node",
    "ns": "namespace",
    "pg": "podgroup",
    "q": "queue",
    "pc": "priorityclass",
    "pdb": "poddisruptionbudget",
    "quota": "resourcequota",
    "pv": "persistentvolume",
    "pvc": "persistentvolumeclaim",
    "sc": "storageclass",
    "hn": "hypernode",
    "rsv": "reservation",
    "resclass": "resourceclass",
    "ev": "event",
}
"""As in kubectl and Volcano, where they have one."""


class Applied(NamedTuple):
    object: str
    """Kind and name, as in `Pod team-a/train-0`."""
    result: str
    """created, configured or unchanged."""


class Commands:
    """Carries out requests on a live cluster."""

    def __init__(self, cluster: LiveCluster, journal: Journal) -> None:
        self._cluster = cluster
        self._journal = journal

    @property
    def _now(self) -> Micros:
        return self._cluster.loop.now

    # -- apply -----------------------------------------------------------------------------------------------

    def apply(self, objects: Sequence[ApiObject]) -> list[Applied]:
        things = [self._stamped(thing) for thing in objects]
        self._check(things)
        results = {kinds.key(thing): self._result(thing) for thing in things}
        fresh = [thing for thing in things if results[kinds.key(thing)] != "unchanged"]
        for thing in fresh:
            if isinstance(thing, Node):
                self._cluster.join(thing)
            elif isinstance(thing, PodGroup):
                self._apply_group(thing)
            elif not isinstance(thing, Pod):
                self._cluster.write(thing)
        self._apply_pods([thing for thing in fresh if isinstance(thing, Pod)])
        for thing in fresh:
            if not isinstance(thing, Pod | PodGroup):
                self._journal.note(self._now, "changed", f"{title(kinds.key(thing))} {results[kinds.key(thing)]}")
        return [Applied(title(key), result) for key, result in results.items()]

    def _stamped(self, thing: ApiObject) -> ApiObject:
        """As the API server does: a new object gets a creation time and a uid, and an existing one keeps them. Users
        cannot set the status of a claim or of a class."""
        known = self._cluster.objects.get(kinds.key(thing))
        created = thing.metadata.creation_timestamp or to_datetime(self._now)
        if known is not None and known.metadata.creation_timestamp is not None:
            created = known.metadata.creation_timestamp
        uid = "" if known is None else known.metadata.uid
        stamped: ApiObject = replace(thing, metadata=replace(thing.metadata, creation_timestamp=created, uid=uid))
        if isinstance(stamped, Pod | PodGroup):
            stamped = identified(stamped, self._now)
        if isinstance(stamped, ResourceClaim) and isinstance(known, ResourceClaim):
            stamped = replace(stamped, status=known.status)
        if isinstance(stamped, ResourceClass):
            stamped = replace(stamped, status=None)
        return drawn(controlled(stamped), self._now) if isinstance(stamped, Pod) else stamped

    def _check(self, things: Sequence[ApiObject]) -> None:
        """Reject the whole request at the first change that is not allowed."""
        for thing in things:
            key = kinds.key(thing)
            if any(version.startswith(FLEET_GROUP) for version in kinds.versions_read(key[0])):
                raise InputError(f"{title(key)}: a sandbox is one cluster, not a fleet; see fairway place")
            if isinstance(thing, Reservation):
                raise InputError(f"{title(key)}: only the scheduler writes reservations; delete one to cancel it")
            if isinstance(thing, EvictionRecord):
                raise InputError(f"{title(key)}: only the scheduler writes eviction records")
            if isinstance(thing, Pod):
                self._check_pod(thing)
        self._check_classes([thing for thing in things if isinstance(thing, ResourceClass)])
        if any(isinstance(thing, Pod | PodGroup) for thing in things):
            check_names([*things, *self._cluster.objects.values()])
        new = sum(kinds.key(thing) not in self._cluster.objects for thing in things)
        if len(self._cluster.objects) + new > MAX_OBJECTS:
            raise InputError(f"the sandbox would have more than {MAX_OBJECTS} objects, its limit")

    def _check_classes(self, classes: Iterable[ResourceClass]) -> None:
        """A class is immutable: pods have devices that were selected by its spec."""
        specs = dict[str, ResourceClassSpec]()
        for thing in classes:
            name = thing.metadata.name
            known = self._cluster.objects.get(kinds.key(thing))
            old = specs.setdefault(name, known.spec if isinstance(known, ResourceClass) else thing.spec)
            if thing.spec != old:
                raise InputError(
                    f"ResourceClass {name}: its spec is immutable and differs from the existing one; delete the class "
                    f"first (fairway delete resourceclass {name}), then create it again"
                )

    def _check_pod(self, pod: Pod) -> None:
        key, job = key_of(pod), job_of(pod)
        known = self._cluster.pods.get(key)
        if known is None:
            return
        if job != job_of(known.pod):
            raise InputError(f"Pod {key}: already belongs to another job; delete it first")
        if known.node and not self._is_same(pod):
            raise InputError(f"Pod {key}: already bound to node {known.node}; delete it first")

    def _result(self, thing: ApiObject) -> str:
        known = self._cluster.objects.get(kinds.key(thing))
        if known is None:
            return "created"
        same = self._is_same(thing) if isinstance(thing, Pod | PodGroup) else known == thing
        return "unchanged" if same else "configured"

    def _is_same(self, thing: Pod | PodGroup) -> bool:
        """Whether an object equals the existing one, apart from what the scheduler wrote on it."""
        known = self._cluster.objects.get(kinds.key(thing))
        if isinstance(thing, Pod) and isinstance(known, Pod):
            there = replace(known.spec, node_name=thing.spec.node_name)
            return thing.spec == there and _own(thing) == _own(known)
        if isinstance(thing, PodGroup) and isinstance(known, PodGroup):
            return thing.spec == known.spec and _own(thing) == _own(known)
        return False

    def _apply_group(self, group: PodGroup) -> None:
        known = self._cluster.objects.get(kinds.key(group))
        if isinstance(known, PodGroup):
            group = _with_managed(group, known)
        job = self._cluster.jobs.get(f"{group.metadata.namespace}/{group.metadata.name}")
        if job is None:
            self._cluster.write(group)
        else:
            self._cluster.regroup(job, group)

    def _apply_pods(self, pods: Iterable[Pod]) -> None:
        new: dict[str, list[Pod]] = {}
        for pod in pods:
            known = self._cluster.pods.get(key_of(pod))
            group = self._group(group_of(pod))
            if known is not None:
                known.amounts, known.run = pod_request(pod.spec).amounts, run_time(pod, group)
                self._cluster.replace(known, _with_managed(pod, known.pod))
            elif (job := self._cluster.jobs.get(job_of(pod))) is not None:
                self._cluster.enlarge(job, pod, run_time(pod, group))
            elif is_ended(pod):
                self._cluster.write(pod)
            else:
                new.setdefault(job_of(pod), []).append(pod)
        for key, members in new.items():
            made = make_job(key, self._group(key), members, run_time)
            self._cluster.take_up(made, members)
            self._journal.submitted(self._now, made.facts())

    def _group(self, key: str) -> PodGroup | None:
        namespace, _, name = key.partition("/")
        found = self._cluster.objects.get(("PodGroup", namespace, name))
        return found if isinstance(found, PodGroup) else None

    # -- delete ----------------------------------------------------------------------------------------------

    def delete(self, keys: Sequence[ObjectKey]) -> list[str]:
        found = dict.fromkeys(key for given in keys for key in self._meant(given))
        self._check_queues(set(found))
        for key in found:
            self._delete(self._cluster.objects[key])
        return [title(key) for key in found]

    def _check_queues(self, going: set[ObjectKey]) -> None:
        """A queue can be deleted only with or after its jobs and child queues."""
        stay = [thing for key, thing in self._cluster.objects.items() if key not in going]
        for name in (name for kind, _, name in going if kind == "Queue"):
            within = sorted(title(kinds.key(thing)) for thing in stay if self._is_in(thing, name))
            if within:
                more = f" and {len(within) - NAMED} more" if len(within) > NAMED else ""
                raise InputError(f"Queue {name} is in use by {', '.join(within[:NAMED])}{more}; delete these first")

    def _is_in(self, thing: ApiObject, queue: str) -> bool:
        if isinstance(thing, Queue):
            return thing.spec.parent == queue
        if isinstance(thing, PodGroup):
            return thing.spec.queue == queue
        if not isinstance(thing, Pod) or is_ended(thing):
            return False
        job = self._cluster.jobs.get(job_of(thing))
        return job is not None and job.group is None and job.queue == queue

    def _meant(self, key: ObjectKey) -> list[ObjectKey]:
        """The objects that a name stands for; InputError if there are none."""
        kind, namespace, name = key
        if kind == JOB:
            meant = [
                kinds.key(thing)
                for thing in self._cluster.objects.values()
                if (isinstance(thing, Pod) and job_of(thing) == f"{namespace}/{name}")
                or (isinstance(thing, PodGroup) and kinds.key(thing) == ("PodGroup", namespace, name))
            ]
        else:
            meant = [key] if key in self._cluster.objects else []
        if not meant:
            raise InputError(f"there is no {title(key)}")
        return meant

    def _delete(self, thing: ApiObject) -> None:
        if isinstance(thing, Pod) and key_of(thing) in self._cluster.pods:
            self._cluster.withdraw(self._cluster.pods[key_of(thing)])
        elif isinstance(thing, Node) and thing.metadata.name in self._cluster.pool:
            self._cluster.fail(thing.metadata.name, None)
        else:
            if isinstance(thing, PodGroup):
                job = self._cluster.jobs.get(f"{thing.metadata.namespace}/{thing.metadata.name}")
                if job is not None:
                    job.group, job.minimum = None, 1
            self._cluster.erase(thing)
        pods = {key_of(thing): thing.spec.node_name} if isinstance(thing, Pod) else {}
        self._journal.note(self._now, "deleted", title(kinds.key(thing)), pods=pods)


def _own(thing: Pod | PodGroup) -> tuple[dict[str, str], dict[str, str]]:
    """The user's own labels and annotations."""
    notes = thing.metadata.annotations.items()
    own = {name: text for name, text in notes if name not in _MANAGED and not name.startswith(RECORD_PREFIX)}
    return dict(thing.metadata.labels), own


def _with_managed(thing: T, known: T) -> T:
    """The new object, with the annotations that the scheduler wrote on the old one."""
    notes = {name: text for name, text in known.metadata.annotations.items() if name in _MANAGED}
    return replace(thing, metadata=replace(thing.metadata, annotations={**thing.metadata.annotations, **notes}))


class UnknownKindError(InputError):
    """A word that is not the name of a kind."""


def kind_named(name: str) -> kinds.Kind:
    """The kind of a name as kubectl accepts it: `Pod`, `pods`, `po`, `queue`."""
    word = SHORT_NAMES.get(name.lower(), name.lower())
    for kind in kinds.KINDS:
        lower = kind.name.lower()
        plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}es" if lower.endswith("s") else f"{lower}s"
        if word in (lower, plural):
            return kind
    names = ", ".join(kind.name for kind in kinds.KINDS)
    raise UnknownKindError(f"{name}: unknown kind, expected Job, Event or one of {names}")
