"""PodGroups of Kubernetes itself and of scheduler-plugins, read into the one PodGroup that the scheduler knows.

A pod joins a group by its name in the namespace, whichever API the group comes from: so one name stands for one group.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import Amounts, ApiStruct, Condition, Count, Int32, ObjectMeta, Positive
from fairway.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, TopologyConstraint
from fairway.api.shape import Finding
from fairway.api.validation.labels import check_amounts, check_key


class GangPolicy(ApiStruct, frozen=True):
    min_count: Positive


class Nothing(ApiStruct, frozen=True):
    """A choice that has no settings of its own."""


class SchedulingPolicy(ApiStruct, frozen=True):
    """Exactly one of the two: pods one by one, or a gang."""

    basic: Nothing | None = None
    gang: GangPolicy | None = None


class SchedulingConstraints(ApiStruct, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(ApiStruct, frozen=True):
    """As v1beta1 writes it: pods one by one, or the whole group."""

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


def check_kube_pod_group(group: KubePodGroup, findings: list[Finding]) -> None:
    policy, mode = group.spec.scheduling_policy, group.spec.disruption_mode
    if policy.basic is not None and policy.gang is not None:
        findings.append((("spec", "schedulingPolicy"), "has both basic and gang, expected one of them"))
    if not isinstance(mode, str) and (mode.single is None) == (mode.all is None):
        findings.append((("spec", "disruptionMode"), "is not decided, expected exactly one of single and all"))
    for index, constraint in enumerate(group.spec.scheduling_constraints.topology):
        check_key(constraint.key, ("spec", "schedulingConstraints", "topology", index, "key"), findings)


def check_plugin_pod_group(group: PluginPodGroup, findings: list[Finding]) -> None:
    check_amounts(group.spec.min_resources, ("spec", "minResources"), findings)


def _as_known(condition: Condition) -> Condition:
    """Kubernetes says under a name of its own that a group was placed."""
    placed = condition.type in ("PodGroupScheduled", "PodGroupInitiallyScheduled") and condition.status == "True"
    return msgspec.structs.replace(condition, type="Scheduled") if placed else condition
