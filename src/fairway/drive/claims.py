"""What becomes of ResourceClaims when pods are bound and when they are over: the part that follows from a plan.

A pod that is bound has its claims allocated as its binding says, and reserved for it; from a template a claim is made
for it, named in the pod's status. When the pod is over, what was made for it goes, and a claim by name is free again
once its last user is gone. Objects are never changed: what is returned are new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from fairway.api.devices import (
    AllocatedDevices,
    Allocation,
    ClaimConsumer,
    DeviceClass,
    DeviceConfiguration,
    DeviceResult,
    DeviceToleration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from fairway.api.meta import OwnerReference
from fairway.api.pods import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodClaimStatus
from fairway.clock import Micros, to_datetime
from fairway.drive.device_results import share_id
from fairway.scheduler.plan import Binding, DeviceChoice
from fairway.state.device_requests import fact_key
from fairway.state.labels import NAME_FIELD

ENTRY = "resource.kubernetes.io/pod-claim-name"
"""On a claim that was made from a template: the pod's entry that it was made for."""

T_co = TypeVar("T_co", covariant=True)


class Lookup(Protocol[T_co]):
    """Objects by their names; a dict is one."""

    def get(self, key: str, /) -> T_co | None: ...


class DeviceObjects(Protocol):
    """Where claims, their templates and classes are looked up."""

    @property
    def makes_claims(self) -> bool:
        """Whether a claim that a pod has from a template is made here, where it is not there yet."""

    @property
    def claims(self) -> Lookup[ResourceClaim]: ...

    @property
    def templates(self) -> Lookup[ResourceClaimTemplate]: ...

    @property
    def device_classes(self) -> Lookup[DeviceClass]: ...


def allocate(pod: Pod, binding: Binding, known: DeviceObjects, at: Micros) -> tuple[Pod, list[ResourceClaim]] | None:
    """The pod and its claims as they are once the binding is carried out; None where a claim or template is gone, or
    a claim is still to be made by another controller.
    """
    made: list[ResourceClaim] = []
    statuses: list[PodClaimStatus] = []
    for entry in pod.spec.resource_claims:
        claim = claim_of(pod, entry.name, known.claims)
        if entry.resource_claim_template_name is not None:
            if claim is None and known.makes_claims:
                claim = _from_template(pod, entry.name, entry.resource_claim_template_name, known, at)
            if claim is not None:
                statuses.append(PodClaimStatus(entry.name, claim.metadata.name))
        if claim is None:
            return None
        if claim.status.allocation is None:
            chosen = [choice for choice in binding.devices if choice.claim in (fact_key(claim), entry.name)]
            claim = _allocated(claim, binding.node, chosen, known, at)
        made.append(reserved(claim, pod))
    if statuses:
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return pod, made


def claim_of(pod: Pod, entry: str, claims: Lookup[ResourceClaim]) -> ResourceClaim | None:
    """The claim that a pod's entry stands for: the one it names, or the one that was made for it."""
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
    """The claims that a pod used, as they are without it; what was made for it (`is_made_for`) goes altogether.

    A pod with a node uses its claims, whether or not these say so; one that waits has only what is reserved for it.
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


def _from_template(pod: Pod, entry: str, name: str, known: DeviceObjects, at: Micros) -> ResourceClaim | None:
    namespace = pod.metadata.namespace
    template = known.templates.get(f"{namespace}/{name}")
    if template is None:
        return None
    spec = template.spec
    name, number = f"{pod.metadata.name}-{entry}", 1
    while known.claims.get(f"{namespace}/{name}") is not None:
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
    claim: ResourceClaim, node: str, chosen: Sequence[DeviceChoice], known: DeviceObjects, at: Micros
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
    here = NodeSelectorRequirement(NAME_FIELD, "In", (node,))
    allocation = Allocation(
        devices=AllocatedDevices(results=results, config=tuple(_configuration(claim, chosen, known))),
        node_selector=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),)),
        allocation_timestamp=to_datetime(at),
    )
    return replace(claim, status=replace(claim.status, allocation=allocation))


def _tolerations(claim: ResourceClaim) -> dict[str, tuple[DeviceToleration, ...]]:
    """Those of each request, by the name that a result says. Kubernetes evicts by them where a taint comes later."""
    found: dict[str, tuple[DeviceToleration, ...]] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[request.name] = request.exactly.tolerations
        for alternative in request.first_available:
            found[f"{request.name}/{alternative.name}"] = alternative.tolerations
    return found


def _configuration(
    claim: ResourceClaim, chosen: Sequence[DeviceChoice], known: DeviceObjects
) -> Iterator[DeviceConfiguration]:
    """What drivers are to know: what the classes that were taken say, then what the claim says."""
    for request, class_name in sorted({(choice.request, choice.class_) for choice in chosen}):
        taken = known.device_classes.get(class_name)
        for config in taken.spec.config if taken is not None else ():
            yield replace(config, requests=(request,), source="FromClass")
    for config in claim.spec.devices.config:
        yield replace(config, source="FromClaim")
