"""Priorities, disruption budgets, and the two kinds of batch scheduling: queues and pod groups."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import Amounts, ApiStruct, Condition, Count, Int32, LabelSelector, ObjectMeta, Positive
from fairway.api.pods import PreemptionPolicy

QueueState = Literal["", "Open", "Closed", "Closing", "Unknown"]
PodGroupPhase = Literal["", "Pending", "Running", "Unknown", "Inqueue", "Completed"]

MAX_QUEUE_DEPTH = 64
"""Levels of a tree of queues. What a pod is charged with is charged on every level: deeper trees are refused."""


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
    """The namespaces whose jobs may use the queue, by their labels; without it all may."""


class QueueStatus(ApiStruct, frozen=True):
    state: QueueState = ""


class Queue(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class NetworkTopology(ApiStruct, frozen=True):
    """Volcano's: how near to each other the pods must (hard) or should (soft) be."""

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Positive | None = None
    highest_tier_name: str = ""
    """The same by the name that the HyperNodes of that tier give it."""


class TopologyConstraint(ApiStruct, frozen=True):
    """Kubernetes' own: all pods on nodes with one value of this label."""

    key: str


class SubGroupPolicy(ApiStruct, frozen=True):
    """Volcano's: parts of a group that are placed together. Read only to tell whether the group's own minimum and
    topology imply them.
    """

    name: str = ""
    network_topology: NetworkTopology | None = None


class PodGroupSpec(ApiStruct, frozen=True):
    """What follows `sub_group_policy` is said by PodGroups of other APIs, which are read into this one."""

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
