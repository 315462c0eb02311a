"""ResourceClaims when pods are bound and when they end: what follows from a plan. Objects are never changed in place.

A bound pod has its claims allocated as its binding says, and reserved for it; from a template a claim is created for
it, named in the pod's status. When the pod ends, claims that were created for it are deleted, and a claim by name is
free again once its last user is gone.

**Devices for limits.** A kubelet does not read Fairway's record on the pod. What it honours for a resource in limits
(a class, or an extended resource) is the one special claim that the pod's status names (`extendedResourceClaimStatus`),
with a mapping from containers and resources to requests of the claim. So a binding that chose published devices for
limits creates such a claim (`class_claim`), allocated before the pod is bound. Its name follows from the pod: created
again after a crash it is the same claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, TypeVar
from uuid import UUID, uuid5

from msgspec.structs import replace

from fairway.api.devices import (
    AllocatedDevices,
    Allocation,
    ClaimConsumer,
    DeviceClaim,
    DeviceClass,
    DeviceConfiguration,
    DeviceRequest,
    DeviceResult,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from fairway.api.meta import ObjectMeta, OwnerReference
from fairway.api.pods import (
    Container,
    ExtendedClaimStatus,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodClaimStatus,
    RequestMapping,
)
from fairway.clock import Micros, to_datetime
from fairway.resources.quantity import parse_amount
from fairway.scheduler.plan import Binding, DeviceChoice
from fairway.state.device_requests import CLASS_PREFIX, SPECIAL_CLAIM, fact_key
from fairway.state.labels import NAME_FIELD

ENTRY = "resource.kubernetes.io/pod-claim-name"
"""On a claim from a template: the pod's entry that it was created for."""
PROTECTION = "resource.kubernetes.io/delete-protection"
MAX_DEVICES = 32
"""Devices of one claim, a limit of the API."""
_UNIT = 1000
_SHARES = UUID("6f0b2f0e-6c0a-5d0f-9a54-b0a3f3d7c1e2")
"""The namespace of share ids."""

T_co = TypeVar("T_co", covariant=True)


class Lookup(Protocol[T_co]):
    """Objects by name, as a dict has them."""

    def get(self, key: str, /) -> T_co | None: ...


class DeviceObjects(Protocol):
    """Where claims, templates and classes are looked up."""

    @property
    def makes_claims(self) -> bool:
        """Whether a missing claim from a template is created here, and not by another controller."""

    @property
    def claims(self) -> Lookup[ResourceClaim]: ...

    @property
    def templates(self) -> Lookup[ResourceClaimTemplate]: ...

    @property
    def device_classes(self) -> Lookup[DeviceClass]: ...


def allocate(pod: Pod, binding: Binding, objects: DeviceObjects, at: Micros) -> tuple[Pod, list[ResourceClaim]] | None:
    """The pod and its claims once the binding is carried out; None where a claim or template is gone, or another
    controller has still to create a claim.
    """
    claims: list[ResourceClaim] = []
    statuses: list[PodClaimStatus] = []
    for entry in pod.spec.resource_claims:
        claim = claim_of(pod, entry.name, objects.claims)
        if entry.resource_claim_template_name is not None:
            if claim is None and objects.makes_claims:
                claim = _from_template(pod, entry.name, entry.resource_claim_template_name, objects, at)
            if claim is not None:
                statuses.append(PodClaimStatus(entry.name, claim.metadata.name))
        if claim is None:
            return None
        if claim.status.allocation is None:
            chosen = [choice for choice in binding.devices if choice.claim in (fact_key(claim), entry.name)]
            claim = _allocated(claim, binding.node, chosen, objects, at)
        claims.append(reserved(claim, pod))
    if statuses:
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return pod, claims


def claim_of(pod: Pod, entry: str, claims: Lookup[ResourceClaim]) -> ResourceClaim | None:
    """The claim of a pod's entry: the one it names, or the one that was created for it."""
    named = next(own.resource_claim_name for own in pod.spec.resource_claims if own.name == entry)
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses if status.name == entry)
    name = named if named is not None else next(made, None)
    return None if name is None else claims.get(f"{pod.metadata.namespace}/{name}")


def reserved(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """The claim with a pod among its users."""
    user = _user(pod)
    if user in claim.status.reserved_for:
        return claim
    return replace(claim, status=replace(claim.status, reserved_for=(*claim.status.reserved_for, user)))


def released(pod: Pod, claims: Lookup[ResourceClaim]) -> Iterator[ResourceClaim]:
    """The claims that a pod used, without it. Those that were created for it (`is_made_for`) are to be deleted.

    A pod with a node uses its claims, whether or not they name it; a pending pod has only what is reserved for it.
    """
    user = _user(pod)
    used = [claim_of(pod, entry.name, claims) for entry in pod.spec.resource_claims]
    if (named := pod.status.extended_resource_claim_status) is not None:
        used.append(claims.get(f"{pod.metadata.namespace}/{named.resource_claim_name}"))
    for claim in used:
        if claim is None:
            continue
        users = claim.status.reserved_for
        if user in users or pod.spec.node_name or is_made_for(claim, pod):
            others = tuple(other for other in users if other != user)
            allocation = claim.status.allocation if others else None
            yield replace(claim, status=ResourceClaimStatus(allocation=allocation, reserved_for=others))


def is_made_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(replace(owner, api_version="") == _owner(pod) for owner in claim.metadata.owner_references)


def _user(pod: Pod) -> ClaimConsumer:
    return ClaimConsumer(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def _owner(pod: Pod) -> OwnerReference:
    return OwnerReference(kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)


def _from_template(pod: Pod, entry: str, name: str, objects: DeviceObjects, at: Micros) -> ResourceClaim | None:
    namespace = pod.metadata.namespace
    template = objects.templates.get(f"{namespace}/{name}")
    if template is None:
        return None
    spec = template.spec
    name, number = f"{pod.metadata.name}-{entry}", 1
    while objects.claims.get(f"{namespace}/{name}") is not None:
        number += 1
        name = f"{pod.metadata.name}-{entry}-{number}"
    meta = replace(
        spec.metadata,
        name=name,
        namespace=namespace,
        annotations={**spec.metadata.annotations, ENTRY: entry},
        owner_references=(_owner(pod),),
        creation_timestamp=to_datetime(at),
    )
    return ResourceClaim(metadata=meta, spec=spec.spec)


def _allocated(
    claim: ResourceClaim, node: str, chosen: Sequence[DeviceChoice], objects: DeviceObjects, at: Micros
) -> ResourceClaim:
    tolerations = _tolerations(claim)
    results = tuple(
        DeviceResult(
            request=choice.request,
            driver=choice.driver,
            pool=choice.pool,
            device=choice.device,
            admin_access=choice.admin_access,
            share_id=share_id(claim.metadata.uid or fact_key(claim), number) if choice.shared else None,
            consumed_capacity=choice.consumed,
            tolerations=tolerations.get(choice.request, ()),
            binding_conditions=choice.binding_conditions,
            binding_failure_conditions=choice.binding_failure_conditions,
        )
        for number, choice in enumerate(chosen)
    )
    allocation = Allocation(
        devices=AllocatedDevices(results=results, config=tuple(_configuration(claim, chosen, objects))),
        node_selector=_only(node),
        allocation_timestamp=to_datetime(at),
    )
    return replace(claim, status=replace(claim.status, allocation=allocation))


def _only(node: str) -> NodeSelector:
    here = NodeSelectorRequirement(NAME_FIELD, "In", (node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))


def _tolerations(claim: ResourceClaim) -> dict[str, tuple[DeviceToleration, ...]]:
    """By the name that a result uses for its request. Kubernetes reads them when a device is tainted later."""
    by_name: dict[str, tuple[DeviceToleration, ...]] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            by_name[request.name] = request.exactly.tolerations
        for alternative in request.first_available:
            by_name[f"{request.name}/{alternative.name}"] = alternative.tolerations
    return by_name


def _configuration(
    claim: ResourceClaim, chosen: Sequence[DeviceChoice], objects: DeviceObjects
) -> Iterator[DeviceConfiguration]:
    """Configuration for the drivers: that of the chosen classes, then that of the claim."""
    for request, class_name in sorted({(choice.request, choice.class_) for choice in chosen}):
        taken = objects.device_classes.get(class_name)
        for config in taken.spec.config if taken is not None else ():
            yield replace(config, requests=(request,), source="FromClass")
    for config in claim.spec.devices.config:
        yield replace(config, source="FromClaim")


# -- the claim for a pod's limits ---------------------------------------------------------------------------------


def class_claim(
    pod: Pod, binding: Binding, at: Micros, *, classes: bool = True
) -> tuple[ResourceClaim, ExtendedClaimStatus] | None:
    """None where the record on the pod has to do: no device by class, one that no driver publishes, or a part of one,
    which a claim cannot express. Without `classes` the claim has only the devices for extended resources, of which
    there is no record.
    """
    chosen = [choice for choice in binding.devices if not choice.claim]
    if not classes or not all(map(_fits_in_claim, chosen)) or len(chosen) > MAX_DEVICES:
        chosen = [choice for choice in chosen if choice.resource]
    by_resource: dict[str, list[DeviceChoice]] = {}
    for choice in chosen:
        by_resource.setdefault(choice.resource or CLASS_PREFIX + choice.class_, []).append(choice)
    requests: list[DeviceRequest] = []
    results: list[DeviceResult] = []
    mappings: list[RequestMapping] = []
    for container, resource, devices in _shares(pod, by_resource):
        name = f"container-{container}-request-{sum(_is_of(request, container) for request in requests)}"
        exactly = ExactDeviceRequest(devices[0].class_, allocation_mode="ExactCount", count=len(devices))
        requests.append(DeviceRequest(name, exactly))
        results += [_limit_result(pod, name, choice, len(results) + place) for place, choice in enumerate(devices)]
        mappings.append(RequestMapping(_containers(pod)[container].name, resource, name))
    if not mappings or len(results) > MAX_DEVICES:
        return None
    claim = _special_claim(pod, binding.node, requests, results, at)
    return claim, ExtendedClaimStatus(tuple(mappings), claim.metadata.name)


def _limit_result(pod: Pod, request: str, choice: DeviceChoice, number: int) -> DeviceResult:
    return DeviceResult(
        request,
        choice.driver,
        choice.pool,
        _published_name(choice),
        share_id=share_id(pod.metadata.uid, number) if choice.shared else None,
        consumed_capacity=choice.consumed,
        binding_conditions=choice.binding_conditions,
        binding_failure_conditions=choice.binding_failure_conditions,
    )


def _fits_in_claim(choice: DeviceChoice) -> bool:
    return bool(choice.driver) and choice.quantity == 1


def _special_claim(
    pod: Pod, node: str, requests: Sequence[DeviceRequest], results: Sequence[DeviceResult], at: Micros
) -> ResourceClaim:
    meta = pod.metadata
    digest = hashlib.sha256(meta.uid.encode()).hexdigest()[:8]
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
                node_selector=_only(node),
                allocation_timestamp=to_datetime(at),
            ),
            reserved_for=(ClaimConsumer(resource="pods", name=meta.name, uid=meta.uid),),
        ),
    )


def _shares(
    pod: Pod, by_resource: Mapping[str, Sequence[DeviceChoice]]
) -> Iterator[tuple[int, str, Sequence[DeviceChoice]]]:
    """Which container (by its index) gets which devices for a resource. Containers that run together get different
    devices; an init container that ends before the others start shares theirs.
    """
    for resource, devices in sorted(by_resource.items()):
        taken = 0  # by containers that run until the end
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


def _is_of(request: DeviceRequest, container: int) -> bool:
    return request.name.startswith(f"container-{container}-")


def _published_name(choice: DeviceChoice) -> str:
    """A name that is not unique on its node is recorded with its pool and a dot, which published names never have."""
    return choice.device.removeprefix(f"{choice.pool}.") if "." in choice.device else choice.device


# -- allocated devices ---------------------------------------------------------------------------------------------


def share_id(owner: str, number: int) -> str:
    """Always the same for one share of one claim, and different from any other."""
    return str(uuid5(_SHARES, f"{owner} {number}"))


def awaits_devices(claim: ResourceClaim) -> bool:
    """Whether drivers have not reported all of its devices as ready yet."""
    allocation = claim.status.allocation
    return allocation is not None and any(not is_ready(claim, result) for result in allocation.devices.results)


def is_ready(claim: ResourceClaim, result: DeviceResult) -> bool:
    """Whether all binding conditions of a device are set."""
    return set(result.binding_conditions) <= _set_conditions(claim, result)


def failed_condition(claim: ResourceClaim, result: DeviceResult) -> str:
    """The condition by which its driver reports that a device failed; "" if none is set."""
    return next((name for name in result.binding_failure_conditions if name in _set_conditions(claim, result)), "")


def _set_conditions(claim: ResourceClaim, result: DeviceResult) -> set[str]:
    return {
        condition.type
        for device in claim.status.devices
        if (device.driver, device.pool, device.device, device.share_id)
        == (result.driver, result.pool, result.device, result.share_id)
        for condition in device.conditions
        if condition.status == "True"
    }
