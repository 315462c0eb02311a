"""Pods as a scheduler sees them, and where they may run: affinity, taints and tolerations, spreading.

`satisfies` decides whether labels satisfy a selector. Pods, namespaces and clusters all use it, so that one expression
means the same everywhere. `pod_request` is the one sum of what a pod requests, with init containers and sidecars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from fairway.api.meta import (
    Amounts,
    ApiStruct,
    Condition,
    Count,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    Positive,
    Time,
)
from fairway.resources.algebra import Resource
from fairway.resources.quantity import parse_amount

NodeSelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
TolerationOperator = Literal["", "Equal", "Exists"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
PreferenceWeight = Annotated[int, msgspec.Meta(ge=1, le=100)]
NodeInclusionPolicy = Literal["Honor", "Ignore"]


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """On a node's labels or, in `match_fields`, its name. Gt and Lt compare one integer."""

    key: str
    operator: NodeSelectorOperator
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiStruct, frozen=True):
    """All requirements must hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiStruct, frozen=True):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    weight: PreferenceWeight
    preference: NodeSelectorTerm


class NodeAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(ApiStruct, frozen=True):
    """Pods that match, in the domains that nodes form by their value of `topology_key`."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    weight: PreferenceWeight
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(ApiStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiStruct, frozen=True):
    """An empty key with Exists tolerates every taint, an empty effect every effect; no operator is Equal."""

    key: str = ""
    operator: TolerationOperator = ""
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: Int64 | None = None


class Taint(ApiStruct, frozen=True):
    key: str
    effect: TaintEffect
    value: str = ""
    time_added: Time | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    max_skew: Positive
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Positive | None = None
    node_affinity_policy: NodeInclusionPolicy = "Honor"
    node_taints_policy: NodeInclusionPolicy = "Ignore"
    match_label_keys: tuple[str, ...] = ()


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """An empty selector matches everything; no selector matches nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and satisfies(
        selector.match_expressions, labels
    )


def satisfies(requirements: Iterable[LabelSelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether every requirement holds. NotIn and DoesNotExist hold where the key is absent."""
    return all(_holds(requirement, labels.get(requirement.key)) for requirement in requirements)


def _holds(requirement: LabelSelectorRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None


_Texts = tuple[tuple[str, str], ...]
_Requested = tuple[_Texts, _Texts]
"""Requests and limits."""

_NOTHING: _Requested = ((), ())


def pod_request(spec: PodSpec) -> Resource:
    """The amounts that the pod needs on its node, without the pod slot (`pods`)."""
    resources = spec.resources
    return _pod_request(
        tuple([_requested(container.resources) for container in spec.containers]),
        tuple([(container.is_sidecar, _requested(container.resources)) for container in spec.init_containers]),
        _NOTHING if resources is None else _requested(resources),
        tuple(spec.overhead.items()),
    )


def occupied(pod: Pod) -> PodSpec:
    """The spec with the larger of requested and allocated resources of each container.

    A pod that is being resized in place occupies its old size until it has shrunk, and its new size from the start.
    """
    status = pod.status
    if not pod.spec.node_name or not (status.container_statuses or status.init_container_statuses):
        return pod.spec
    containers = _grown(pod.spec.containers, status.container_statuses)
    init_containers = _grown(pod.spec.init_containers, status.init_container_statuses)
    if containers is pod.spec.containers and init_containers is pod.spec.init_containers:
        return pod.spec
    return replace(pod.spec, containers=containers, init_containers=init_containers)


def _grown(containers: tuple[Container, ...], statuses: Sequence[ContainerStatus]) -> tuple[Container, ...]:
    given = {status.name: status for status in statuses}
    grown = tuple([_larger(container, given.get(container.name)) for container in containers])
    return containers if all(new is old for new, old in zip(grown, containers, strict=True)) else grown


def _larger(container: Container, status: ContainerStatus | None) -> Container:
    if status is None:
        return container
    requested = {**container.resources.limits, **container.resources.requests}
    more: dict[str, str] = {}
    actual = {} if status.resources is None else status.resources.requests
    for amounts in (status.allocated_resources, actual):
        for name, text in amounts.items():
            known = more.get(name, requested.get(name))
            if known != text and (known is None or parse_amount(name, text) > parse_amount(name, known)):
                more[name] = text
    if not more:
        return container
    resources = replace(container.resources, requests={**container.resources.requests, **more})
    return replace(container, resources=resources)


def container_request(container: Container) -> Resource:
    """What one container requests; a limit without a request counts as one."""
    return _container_request(_requested(container.resources))


def _requested(resources: ResourceRequirements) -> _Requested:
    return tuple(resources.requests.items()), tuple(resources.limits.items())


@lru_cache(maxsize=16384)
def _container_request(requested: _Requested) -> Resource:
    requests, limits = requested
    return Resource.parse({**dict(limits), **dict(requests)})


@lru_cache(maxsize=16384)
def _pod_request(
    containers: tuple[_Requested, ...],
    init_containers: tuple[tuple[bool, _Requested], ...],
    whole: _Requested,
    overhead: _Texts,
) -> Resource:
    running = Resource.sum(_container_request(requested) for requested in containers)
    sidecars = Resource.EMPTY
    starting = Resource.EMPTY
    for is_sidecar, requested in init_containers:
        request = _container_request(requested)
        starting = starting.maximum(sidecars + request)
        if is_sidecar:
            sidecars = sidecars + request
    total = starting.maximum(running + sidecars)
    total = _replaced(total, whole) + Resource.parse(dict(overhead))
    return Resource.of({name: amount for name, amount in total.amounts.items() if name != "pods"})


def _replaced(total: Resource, whole: _Requested) -> Resource:
    """Pod-level requests win; a pod-level limit is a request only for resources that no container requests."""
    requests, limits = (_pod_level(texts) for texts in whole)
    return Resource.of({**limits, **total.amounts, **requests})


def _pod_level(texts: _Texts) -> Mapping[str, int]:
    """Only cpu, memory and huge pages can be requested for a pod as a whole."""
    given = {name: text for name, text in texts if name in ("cpu", "memory") or name.startswith("hugepages-")}
    return Resource.parse(given).amounts


DEFAULT_SCHEDULER = "fairway"
"""The scheduler name by which pods select Fairway, unless the operator sets another."""

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
        """For init containers: one that always restarts runs beside all that follow."""
        return self.restart_policy == "Always"


class ClaimVolume(ApiStruct, frozen=True):
    claim_name: str


FILESYSTEM = "Filesystem"


class VolumeResources(ApiStruct, frozen=True):
    requests: Amounts = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """No class name means the default class; an empty one means no class at all."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] = ()
    volume_mode: str = FILESYSTEM
    volume_attributes_class_name: str = ""
    resources: VolumeResources = msgspec.field(default_factory=VolumeResources)
    selector: LabelSelector | None = None


class ClaimTemplate(ApiStruct, frozen=True):
    """The template from which a controller creates the claim of a pod."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolume(ApiStruct, frozen=True):
    """A volume whose claim is named `<pod>-<volume>` and lives as long as the pod."""

    volume_claim_template: ClaimTemplate = msgspec.field(default_factory=ClaimTemplate)


class GoogleDisk(ApiStruct, frozen=True):
    pd_name: str
    read_only: bool = False


class AmazonDisk(ApiStruct, frozen=True):
    volume_id: str = msgspec.field(name="volumeID")


class IscsiDisk(ApiStruct, frozen=True):
    iqn: str
    read_only: bool = False


class RbdImage(ApiStruct, frozen=True):
    monitors: tuple[str, ...]
    image: str
    pool: str = "rbd"
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """Volumes of other sources (config maps and the like) keep only their name."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GoogleDisk | None = None
    aws_elastic_block_store: AmazonDisk | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdImage | None = None

    @property
    def has_source(self) -> bool:
        """Whether its source can affect where the pod runs."""
        return bool(
            self.persistent_volume_claim
            or self.ephemeral
            or self.gce_persistent_disk
            or self.aws_elastic_block_store
            or self.iscsi
            or self.rbd
        )


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
    """The claim that was created from a template for the pod's entry of this name."""

    name: str
    resource_claim_name: str | None = None


class RequestMapping(ApiStruct, frozen=True):
    """Which request of the pod's special claim has the devices for a resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedClaimStatus(ApiStruct, frozen=True):
    """The claim that was created for the limits of the pod."""

    request_mappings: tuple[RequestMapping, ...] = ()
    resource_claim_name: str = ""


class ContainerStatus(ApiStruct, frozen=True):
    """What a container was allocated and what it has: during a resize, either may differ from its spec."""

    name: str = ""
    allocated_resources: Amounts = msgspec.field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodStatus(ApiStruct, frozen=True):
    phase: PodPhase = "Pending"
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(ApiStruct, frozen=True):
    spec: PodSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_waiting(self) -> bool:
        """Whether it has no node yet and still needs one."""
        return (
            not self.spec.node_name
            and self.status.phase not in ("Succeeded", "Failed")
            and self.metadata.deletion_timestamp is None
        )
