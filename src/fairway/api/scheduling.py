"""The objects of batch scheduling: priorities, disruption budgets, queues, pod groups, network topology, and the two
kinds that Fairway writes itself, Reservation and EvictionRecord.

There are PodGroups of three APIs: Volcano's, Kubernetes' own and that of scheduler-plugins. The last two are converted
to Volcano's when they are read, so the scheduler has one kind. A pod joins a group by its name in the namespace,
whichever API the group comes from: one name stands for one group.

A Reservation (spec S6.8) names the nodes that are kept for one job, and when the job is planned to start. An
EvictionRecord (spec S7.6) counts how often a job was stopped by preempt and reclaim. It is written before the pods are
evicted, and it belongs to what outlives the pods: the controller of a PodGroup (a Volcano job keeps its uid when it
restarts, its PodGroup does not), the PodGroup itself, or the controller of the pods. Both count only for the job whose
uid they name: a job that was deleted and created again under the same name starts without them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

import msgspec

from fairway.api.meta import Amounts, ApiStruct, Condition, Count, Int32, LabelSelector, ObjectMeta, Positive, Time
from fairway.api.pods import PreemptionPolicy

QueueState = Literal["", "Open", "Closed", "Closing", "Unknown"]
PodGroupPhase = Literal["", "Pending", "Running", "Unknown", "Inqueue", "Completed"]

MAX_QUEUE_DEPTH = 64
"""Maximum levels of a tree of queues. A pod is charged on every level, so deeper trees are refused."""


class PriorityClass(ApiStruct, frozen=True):
    value: Int32
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    global_default: bool = False
    preemption_policy: PreemptionPolicy = "PreemptLowerPriority"


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """At most one of the two bounds; each a number of pods or a percentage such as `50%`."""

    selector: LabelSelector | None = None
    min_available: Count | str | None = None
    max_unavailable: Count | str | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    disruptions_allowed: Count | None = None
    current_healthy: Count = 0
    desired_healthy: Count = 0
    expected_pods: Count = 0


class PodDisruptionBudget(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class QueueGuarantee(ApiStruct, frozen=True):
    resource: Amounts = msgspec.field(default_factory=dict)


class QueueSpec(ApiStruct, frozen=True):
    weight: Positive = 1
    capability: Amounts = msgspec.field(default_factory=dict)
    guarantee: QueueGuarantee = msgspec.field(default_factory=QueueGuarantee)
    deserved: Amounts = msgspec.field(default_factory=dict)
    priority: Int32 = 0
    reclaimable: bool | None = None
    parent: str = ""
    state: QueueState = ""
    allowed_namespaces: LabelSelector | None = None
    """The namespaces whose jobs may use the queue, by their labels; without it, all may."""


class QueueStatus(ApiStruct, frozen=True):
    state: QueueState = ""


class Queue(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class NetworkTopology(ApiStruct, frozen=True):
    """Volcano's: how close to each other the pods must (hard) or should (soft) be."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Positive | None = None
    highest_tier_name: str = ""
    """The same limit by the name of the tier."""


class TopologyConstraint(ApiStruct, frozen=True):
    """Kubernetes' own: all pods on nodes with the same value of this label."""

    key: str


class SubGroupPolicy(ApiStruct, frozen=True):
    """Volcano's: parts of a group that are placed together. Read only to decide whether the group's own minimum and
    topology imply them.
    """

    name: str = ""
    network_topology: NetworkTopology | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    """The fields after `sub_group_policy` come from PodGroups of other APIs, which are converted to this one."""

    min_member: Count = 1
    min_task_member: dict[str, Count] = msgspec.field(default_factory=dict)
    min_resources: Amounts = msgspec.field(default_factory=dict)
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()
    priority: Int32 | None = None
    topology: tuple[TopologyConstraint, ...] = ()
    evict_whole: bool = False


class PodGroupStatus(ApiStruct, frozen=True):
    phase: PodGroupPhase = ""
    conditions: tuple[Condition, ...] = ()
    running: Count = 0
    succeeded: Count = 0
    failed: Count = 0


class PodGroup(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class GangPolicy(ApiStruct, frozen=True):
    min_count: Positive


class Nothing(ApiStruct, frozen=True):
    """A choice without settings."""


class SchedulingPolicy(ApiStruct, frozen=True):
    """Exactly one of the two: single pods, or a gang."""

    basic: Nothing | None = None
    gang: GangPolicy | None = None


class SchedulingConstraints(ApiStruct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(ApiStruct, frozen=True):
    """The form of v1beta1: single pods, or the whole group."""

    single: Nothing | None = None
    all: Nothing | None = None


class KubePodGroupSpec(ApiStruct, frozen=True):
    scheduling_policy: SchedulingPolicy = msgspec.field(default_factory=SchedulingPolicy)
    scheduling_constraints: SchedulingConstraints = msgspec.field(default_factory=SchedulingConstraints)
    priority_class_name: str = ""
    priority: Int32 | None = None
    disruption_mode: Literal["", "Pod", "PodGroup"] | DisruptionMode = ""


class KubePodGroupStatus(ApiStruct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class KubePodGroup(ApiStruct, frozen=True):
    """`scheduling.k8s.io`, in the forms of v1alpha2 and v1beta1."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: KubePodGroupSpec = msgspec.field(default_factory=KubePodGroupSpec)
    status: KubePodGroupStatus = msgspec.field(default_factory=KubePodGroupStatus)

    def converted(self) -> PodGroup:
        spec, gang = self.spec, self.spec.scheduling_policy.gang
        mode = spec.disruption_mode
        return PodGroup(
            metadata=self.metadata,
            spec=PodGroupSpec(
                min_member=1 if gang is None else gang.min_count,
                priority_class_name=spec.priority_class_name,
                priority=spec.priority,
                topology=spec.scheduling_constraints.topology,
                evict_whole=mode == "PodGroup" if isinstance(mode, str) else mode.all is not None,
            ),
            status=PodGroupStatus(conditions=tuple(map(_as_known, self.status.conditions))),
        )


class PluginPodGroupSpec(ApiStruct, frozen=True):
    min_member: Count = 1
    min_resources: Amounts = msgspec.field(default_factory=dict)


class PluginPodGroup(ApiStruct, frozen=True):
    """`scheduling.x-k8s.io/v1alpha1`, of scheduler-plugins. Its status is written by another controller."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PluginPodGroupSpec = msgspec.field(default_factory=PluginPodGroupSpec)

    def converted(self) -> PodGroup:
        spec = PodGroupSpec(min_member=self.spec.min_member, min_resources=self.spec.min_resources)
        return PodGroup(metadata=self.metadata, spec=spec)


def _as_known(condition: Condition) -> Condition:
    """Kubernetes has another condition type for a group that was placed."""
    placed = condition.type in ("PodGroupScheduled", "PodGroupInitiallyScheduled") and condition.status == "True"
    return msgspec.structs.replace(condition, type="Scheduled") if placed else condition


class ExactMatch(ApiStruct, frozen=True):
    name: str


class RegexMatch(ApiStruct, frozen=True):
    pattern: str


class MemberSelector(ApiStruct, frozen=True):
    """Exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(ApiStruct, frozen=True):
    type: Literal["Node", "HyperNode"] = "Node"
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(ApiStruct, frozen=True):
    tier: Positive = 1
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)


JobKind = Literal["PodGroup", "Pod", "Controller"]
"""A `Controller` is the implicit job of a controller: its name is kind and name, as in `job/train`."""

PlaceState = Literal["reserved", "allocated"]

MAX_PLACES = 10_000
"""Maximum places of one reservation."""

_MAX_NAME = 253
_LONE = "pod-"
_GROUP = "podgroup-"
_CONTROLLER = "controller-"


class JobReference(ApiStruct, frozen=True):
    """The PodGroup or single pod; in the reservation's own namespace unless `namespace` is set."""

    kind: JobKind
    name: str
    uid: str = ""
    namespace: str = ""


class ReservedPlace(ApiStruct, frozen=True):
    """A node for one pod of the job: an `allocated` place has free capacity, a `reserved` one waits for it."""

    pod: str
    node: str
    state: PlaceState
    since: Time | None = None


class ReservationSpec(ApiStruct, frozen=True):
    """`planned_start` is when all places will have free capacity, if known; a `hard` one is never missed."""

    job_ref: JobReference
    places: tuple[ReservedPlace, ...] = ()
    planned_start: Time | None = None
    hard: bool = False


class ReservationStatus(ApiStruct, frozen=True):
    """What backfill carries from cycle to cycle for a job that reserves no node."""

    planned_start: Time | None = None
    hard: bool = False
    places: tuple[ReservedPlace, ...] = ()
    runs: int | None = None
    """Set on one reservation only: how many pods were on nodes when planned starts were last computed."""
    overran: bool = False
    """The job was evicted because it exceeded its expected run time. This counts whatever its uid: a pod that is
    recreated in place of the evicted one is the same job.
    """
    after: JobReference | None = None
    """The job for which it was evicted, until that job starts."""


class Reservation(ApiStruct, frozen=True):
    spec: ReservationSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)


def reservation_name(kind: str, name: str) -> str:
    """The name of a job's reservation: the group's name, `pod-` and the pod's name, or `controller-` and the kind and
    name of the controller.

    No two jobs of a namespace share a name: a group whose own name begins with one of these prefixes gets `podgroup-`
    before it, and a name that would be too long ends in a digest of the whole.
    """
    if kind == "Pod":
        whole = _LONE + name
    elif kind == "Controller":
        whole = _CONTROLLER + name.replace("/", "-")
    else:
        whole = _GROUP + name if name.startswith((_LONE, _GROUP, _CONTROLLER)) else name
    if len(whole) <= _MAX_NAME:
        return whole
    digest = blake2b(whole.encode(), digest_size=8).hexdigest()
    return f"{whole[: _MAX_NAME - 1 - len(digest)].rstrip('-.')}-{digest}"


MAX_VICTIMS = 10_000
"""Maximum pods recorded for one stop."""


class StoppedPod(ApiStruct, frozen=True):
    """A pod that is evicted by the last stop."""

    pod: str
    uid: str


class EvictionRecordSpec(ApiStruct, frozen=True):
    job_ref: JobReference


class EvictionRecordStatus(ApiStruct, frozen=True):
    """`victims` make the record idempotent: while all of them still run, the last stop has not happened, and another
    eviction of any of them belongs to the same stop, whichever leader sends it.
    """

    stops: Count = 0
    stopped_at: Time | None = None
    restarted_at: Time | None = None
    """When the job first had its minimum again after the last stop."""
    victims: tuple[StoppedPod, ...] = ()


class EvictionRecord(ApiStruct, frozen=True):
    """Named after its job, as the job's Reservation is."""

    spec: EvictionRecordSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: EvictionRecordStatus = msgspec.field(default_factory=EvictionRecordStatus)
