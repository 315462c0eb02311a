"""The claim that tells a kubelet which devices a pod was given for its limits: classes, and extended resources.

A kubelet does not read our record on the pod. What it honours for a resource in limits is the one special claim that
the pod's status names (`extendedResourceClaimStatus`), with a mapping from containers and resources to requests of the
claim. So a binding that chose published devices for limits makes such a claim, allocated before the pod is bound. Its
name follows from the pod: made again after a crash it is the same claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from fairway.api.devices import (
    AllocatedDevices,
    Allocation,
    ClaimConsumer,
    DeviceClaim,
    DeviceRequest,
    DeviceResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import (
    Container,
    ExtendedClaimStatus,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    RequestMapping,
)
from fairway.clock import Micros, to_datetime
from fairway.drive.device_results import share_id
from fairway.resources.quantity import parse_amount
from fairway.scheduler.plan import Binding, DeviceChoice
from fairway.state.device_requests import CLASS_PREFIX, SPECIAL_CLAIM
from fairway.state.labels import NAME_FIELD

PROTECTION = "resource.kubernetes.io/delete-protection"
MOST = 32
"""Devices of one claim, a limit of the API."""
_UNIT = 1000


def class_claim(
    pod: Pod, binding: Binding, at: Micros, *, classes: bool = True
) -> tuple[ResourceClaim, ExtendedClaimStatus] | None:
    """None where the record on the pod is all there can be: no device by class, one that no driver publishes, or a
    part of one, which a claim cannot say. Without `classes` only what was given for extended resources is told: of
    that there is no record.
    """
    chosen = [choice for choice in binding.devices if not choice.claim]
    if not classes or not all(map(_can_be_told, chosen)) or len(chosen) > MOST:
        chosen = [choice for choice in chosen if choice.resource]
    by_resource: dict[str, list[DeviceChoice]] = {}
    for choice in chosen:
        by_resource.setdefault(choice.resource or CLASS_PREFIX + choice.class_, []).append(choice)
    requests: list[DeviceRequest] = []
    results: list[DeviceResult] = []
    mappings: list[RequestMapping] = []
    for container, resource, devices in _shares(pod, by_resource):
        name = f"container-{container}-request-{sum(_of(request, container) for request in requests)}"
        exactly = ExactDeviceRequest(devices[0].class_, allocation_mode="ExactCount", count=len(devices))
        requests.append(DeviceRequest(name, exactly))
        results += [_result(pod, name, one, len(results) + place) for place, one in enumerate(devices)]
        mappings.append(RequestMapping(_containers(pod)[container].name, resource, name))
    if not mappings or len(results) > MOST:
        return None
    claim = _claim(pod, binding.node, requests, results, at)
    return claim, ExtendedClaimStatus(tuple(mappings), claim.metadata.name)


def _result(pod: Pod, request: str, choice: DeviceChoice, number: int) -> DeviceResult:
    return DeviceResult(
        request,
        choice.driver,
        choice.pool,
        _plain(choice),
        share_id=share_id(pod.metadata.uid, number) if choice.shared else None,
        consumed_capacity=choice.consumed,
        binding_conditions=choice.binding_conditions,
        binding_failure_conditions=choice.binding_failure_conditions,
    )


def _can_be_told(choice: DeviceChoice) -> bool:
    return bool(choice.driver) and choice.quantity == 1


def _claim(
    pod: Pod, node: str, requests: Sequence[DeviceRequest], results: Sequence[DeviceResult], at: Micros
) -> ResourceClaim:
    meta = pod.metadata
    digest = hashlib.sha256(meta.uid.encode()).hexdigest()[:8]
    here = NodeSelectorRequirement(NAME_FIELD, "In", (node,))
    return ResourceClaim(
        ObjectMeta(
            name=f"{meta.name[:220].rstrip('.-')}-extended-resources-{digest}",
            namespace=meta.namespace,
            annotations={SPECIAL_CLAIM: "true"},
            owner_references=(
                OwnerReference(kind="Pod", name=meta.name, uid=meta.uid, controller=True, api_version="v1"),
            ),
            finalizers=(PROTECTION,),
        ),
        ResourceClaimSpec(DeviceClaim(requests=tuple(requests))),
        ResourceClaimStatus(
            allocation=Allocation(
                devices=AllocatedDevices(results=tuple(results)),
                node_selector=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),)),
                allocation_timestamp=to_datetime(at),
            ),
            reserved_for=(ClaimConsumer(resource="pods", name=meta.name, uid=meta.uid),),
        ),
    )


def _shares(
    pod: Pod, by_resource: Mapping[str, Sequence[DeviceChoice]]
) -> Iterator[tuple[int, str, Sequence[DeviceChoice]]]:
    """Which container (by its place) gets which devices for a resource. Containers that run together have different
    ones; an init container that ends before the others start uses what they get later.
    """
    for resource, devices in sorted(by_resource.items()):
        taken = 0  # by what runs until the end
        for place, container in enumerate(_containers(pod)):
            count = _count(container, resource)
            if own := devices[taken : taken + count]:
                yield place, resource, own
            if container.is_sidecar or place >= len(pod.spec.init_containers):
                taken += count


def _containers(pod: Pod) -> tuple[Container, ...]:
    """In the order in which Kubernetes numbers them."""
    return (*pod.spec.init_containers, *pod.spec.containers)


def _count(container: Container, resource: str) -> int:
    resources = container.resources
    text = resources.requests.get(resource, resources.limits.get(resource))
    return 0 if text is None else parse_amount(resource, text) // _UNIT


def _of(request: DeviceRequest, container: int) -> bool:
    return request.name.startswith(f"container-{container}-")


def _plain(choice: DeviceChoice) -> str:
    """The published name: one that is not unique on its node is recorded with its pool. Published names have no dot."""
    return choice.device.removeprefix(f"{choice.pool}.") if "." in choice.device else choice.device
