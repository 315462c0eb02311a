"""Pods, as a scheduler sees them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from fairway.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from fairway.api.meta import Amounts, ApiStruct, Condition, Count, Int32, ObjectMeta, Positive, Time

DEFAULT_SCHEDULER = "fairway"
"""The scheduler name by which pods choose Fairway, unless its operator says otherwise."""

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
PreemptionPolicy = Literal["PreemptLowerPriority", "Never"]


class ContainerClaim(ApiStruct, frozen=True):
    """A container's use of one of the pod's resource claims, or of one request in it."""

    name: str
    request: str = ""


class ResourceRequirements(ApiStruct, frozen=True):
    requests: Amounts = msgspec.field(default_factory=dict)
    limits: Amounts = msgspec.field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(ApiStruct, frozen=True):
    container_port: Port
    host_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"


class Container(ApiStruct, frozen=True):
    name: str
    resources: ResourceRequirements = msgspec.field(default_factory=ResourceRequirements)
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """Meaningful for init containers: one that restarts always runs beside all that follow."""
        return self.restart_policy == "Always"


class ClaimVolume(ApiStruct, frozen=True):
    claim_name: str


class ClaimTemplateSpec(ApiStruct, frozen=True):
    storage_class_name: str | None = None


class ClaimTemplate(ApiStruct, frozen=True):
    spec: ClaimTemplateSpec = msgspec.field(default_factory=ClaimTemplateSpec)


class EphemeralVolume(ApiStruct, frozen=True):
    """A volume whose claim is named `<pod>-<volume>` and lives as long as the pod."""

    volume_claim_template: ClaimTemplate = msgspec.field(default_factory=ClaimTemplate)


class Volume(ApiStruct, frozen=True):
    """Volumes of other sources (config maps and the like) keep their name only."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None


class SchedulingGate(ApiStruct, frozen=True):
    name: str


class SchedulingGroup(ApiStruct, frozen=True):
    """The PodGroup of `scheduling.k8s.io` that a pod belongs to."""

    pod_group_name: str | None = None


class PodResourceClaim(ApiStruct, frozen=True):
    """Exactly one of the two names says where the claim comes from."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ApiStruct, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    overhead: Amounts = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: PreemptionPolicy | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    active_deadline_seconds: Positive | None = None
    host_network: bool = False
    termination_grace_period_seconds: Count = 30
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Always"

    @property
    def host_ports(self) -> tuple[tuple[str, str, int], ...]:
        """(address, protocol, port) taken on the node; on the host's network every port of a container is."""
        staying = self.containers
        if self.init_containers:
            staying += tuple(container for container in self.init_containers if container.is_sidecar)
        return tuple(
            [
                (port.host_ip, port.protocol, port.host_port or port.container_port)
                for container in staying
                for port in container.ports
                if port.host_port or self.host_network
            ]
        )


class PodClaimStatus(ApiStruct, frozen=True):
    """The claim that was made from a template for the pod's entry of this name."""

    name: str
    resource_claim_name: str | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """What a container has been given and what it has: while it is resized, either may differ from its spec."""

    name: str = ""
    allocated_resources: Amounts = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodStatus(ApiStruct, frozen=True):
    phase: PodPhase = "Pending"
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(ApiStruct, frozen=True):
    spec: PodSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no node yet and still wants one."""
        return (
            not self.spec.node_name
            and self.status.phase not in ("Succeeded", "Failed")
            and self.metadata.deletion_timestamp is None
        )
