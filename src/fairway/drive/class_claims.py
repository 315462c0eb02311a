"""The claim that tells a kubelet which devices a pod was given for the classes in its limits.

A kubelet does not read our record on the pod. What it honours for a resource in limits is the one special claim that
the pod's status names (`extendedResourceClaimStatus`), with a mapping from containers and resources to requests of the
claim. So a binding that chose published devices by class makes such a claim, allocated before the pod is bound. Its
name follows from the pod: made again after a crash it is the same claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from fairway.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
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
from fairway.api.meta import ApiStruct, ObjectMeta, OwnerReference
from fairway.api.pods import Container, Pod
from fairway.clock import Micros, to_datetime
from fairway.resources.quantity import parse_amount
from fairway.scheduler.plan import Binding, DeviceChoice
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.labels import NAME_FIELD

SPECIAL = "resource.kubernetes.io/extended-resource-claim"
"""The annotation by which Kubernetes knows such claims."""
PROTECTION = "resource.kubernetes.io/delete-protection"
MOST = 32
"""Devices of one claim, a limit of the API."""
_UNIT = 1000


class RequestMapping(ApiStruct, frozen=True):
    """Which request of the claim has the devices for a resource of a container."""

    container_name: str
    resource_name: str
    request_name: str


def class_claim(pod: Pod, binding: Binding, at: Micros) -> tuple[ResourceClaim, tuple[RequestMapping, ...]] | None:
    """None where the record on the pod is all there can be: no device by class, one that no driver publishes, or a
    part of one, which a claim cannot say.
    """
    chosen = [choice for choice in binding.devices if not choice.claim and not choice.admin_access]
    if not chosen or not pod.metadata.uid or len(chosen) > MOST:
        return None
    if any(not choice.driver or choice.quantity != 1 for choice in chosen):
        return None
    by_class: dict[str, list[DeviceChoice]] = {}
    for choice in chosen:
        by_class.setdefault(choice.class_, []).append(choice)
    requests: list[DeviceRequest] = []
    results: list[DeviceResult] = []
    mappings: list[RequestMapping] = []
    for container, class_name, devices in _shares(pod, by_class):
        name = f"container-{container}-request-{sum(_of(request, container) for request in requests)}"
        exactly = ExactDeviceRequest(class_name, allocation_mode="ExactCount", count=len(devices))
        requests.append(DeviceRequest(name, exactly))
        results += [DeviceResult(name, one.driver, one.pool, _plain(one)) for one in devices]
        resource = CLASS_PREFIX + class_name
        mappings.append(RequestMapping(_containers(pod)[container].name, resource, name))
    if not mappings or len(results) > MOST:
        return None
    return _claim(pod, binding.node, requests, results, at), tuple(mappings)


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
            annotations={SPECIAL: "true"},
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
    pod: Pod, by_class: Mapping[str, Sequence[DeviceChoice]]
) -> Iterator[tuple[int, str, Sequence[DeviceChoice]]]:
    """Which container (by its place) gets which devices of a class. Containers that run together have different ones;
    an init container that ends before the others start uses what they get later.
    """
    for class_name, devices in sorted(by_class.items()):
        taken = 0  # by what runs until the end
        for place, container in enumerate(_containers(pod)):
            count = _count(container, CLASS_PREFIX + class_name)
            if count:
                yield place, class_name, devices[taken : taken + count]
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
