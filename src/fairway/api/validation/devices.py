"""Devices, claims on them, and the classes that name them."""

from __future__ import annotations

from collections.abc import Sequence

from fairway.api.affinity import NodeSelector
from fairway.api.classes import ResourceClass
from fairway.api.devices import (
    Device,
    DeviceAttribute,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.labels import (
    check_dns_label,
    check_dns_subdomain,
    check_key,
    check_quantity,
    check_readable,
    check_selector,
    check_unique,
    check_value_count,
)
from fairway.api.validation.pods import check_node_selector, check_toleration_key


def check_resource_slice(slice_: ResourceSlice, findings: list[Finding]) -> None:
    spec = slice_.spec
    check_dns_subdomain(spec.driver, ("spec", "driver"), findings)
    places = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
    if sum(map(bool, places)) != 1:
        expected = "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection"
        findings.append((("spec",), f"says {sum(map(bool, places))} times where its devices are, expected {expected}"))
    _check_where(spec.node_selector, ("spec", "nodeSelector"), findings)
    check_unique((device.name for device in spec.devices), ("spec", "devices"), "name", findings)
    for index, device in enumerate(spec.devices):
        _check_device(device, ("spec", "devices", index), findings)
    for index, counters in enumerate(spec.shared_counters):
        for name, counter in counters.counters.items():
            at = ("spec", "sharedCounters", index, "counters", name, "value")
            check_quantity(counter.value, at, findings)


def check_device_taint_rule(rule: DeviceTaintRule, findings: list[Finding]) -> None:
    check_key(rule.spec.taint.key, ("spec", "taint", "key"), findings)


def check_device_class(device_class: DeviceClass, findings: list[Finding]) -> None:
    _check_selectors(device_class.spec.selectors, ("spec",), findings)


def check_resource_claim(claim: ResourceClaim, findings: list[Finding]) -> None:
    _check_claim_spec(claim.spec, ("spec",), findings)


def check_resource_claim_template(template: ResourceClaimTemplate, findings: list[Finding]) -> None:
    _check_claim_spec(template.spec.spec, ("spec", "spec"), findings)


def check_resource_class(resource_class: ResourceClass, findings: list[Finding]) -> None:
    """Whether an operand can be read as a value is decided where values are compared."""
    spec = resource_class.spec
    for index, selector in enumerate(spec.resource_selector):
        for place, requirement in enumerate(selector.match_expressions):
            at = ("spec", "resourceSelector", index, "matchExpressions", place)
            if not requirement.key:
                findings.append(((*at, "key"), "is empty, expected the name of a device's attribute"))
            check_value_count(requirement, at, findings)
    check_unique((member.class_name for member in spec.includes), ("spec", "includes"), "class", findings)
    for index, member in enumerate(spec.includes):
        check_dns_subdomain(member.class_name, ("spec", "includes", index, "class"), findings)
        if member.class_name == resource_class.metadata.name:
            findings.append((("spec", "includes", index, "class"), "is the class itself, expected another class"))
    check_selector(spec.allowed_namespaces, ("spec", "allowedNamespaces"), findings)


def _check_where(selector: NodeSelector | None, path: Path, findings: list[Finding]) -> None:
    check_node_selector(selector, path, findings)
    if selector is not None and len(selector.node_selector_terms) > 1:
        count = len(selector.node_selector_terms)
        findings.append(((*path, "nodeSelectorTerms"), f"has {count} terms, expected exactly one"))


def _check_device(device: Device, path: Path, findings: list[Finding]) -> None:
    check_dns_label(device.name, (*path, "name"), findings)
    for name, attribute in device.attributes.items():
        if (count := _values_in(attribute)) != 1:
            expected = "exactly one of int, bool, string, version and their lists"
            findings.append(((*path, "attributes", name), f"has {count} values, expected {expected}"))
    for name, capacity in device.capacity.items():
        check_quantity(capacity.value, (*path, "capacity", name, "value"), findings)
        for field, text in capacity.request_policy.texts().items() if capacity.request_policy else ():
            check_readable(text, (*path, "capacity", name, "requestPolicy", *field), findings)
    for index, consumed in enumerate(device.consumes_counters):
        for name, counter in consumed.counters.items():
            at = (*path, "consumesCounters", index, "counters", name, "value")
            check_quantity(counter.value, at, findings)
    for index, taint in enumerate(device.taints):
        check_key(taint.key, (*path, "taints", index, "key"), findings)
    _check_where(device.node_selector, (*path, "nodeSelector"), findings)


def _values_in(attribute: DeviceAttribute) -> int:
    single = (attribute.int_value, attribute.bool_value, attribute.string_value, attribute.version_value)
    lists = (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    return sum(value is not None for value in single) + sum(map(bool, lists))


def _check_claim_spec(spec: ResourceClaimSpec, path: Path, findings: list[Finding]) -> None:
    path = (*path, "devices")
    requests = spec.devices.requests
    check_unique((request.name for request in requests), (*path, "requests"), "name", findings)
    for index, request in enumerate(requests):
        _check_request(request, (*path, "requests", index), findings)
    names = {request.name for request in requests}
    names |= {f"{request.name}/{sub.name}" for request in requests for sub in request.first_available}
    for index, constraint in enumerate(spec.devices.constraints):
        _check_constraint(constraint, names, (*path, "constraints", index), findings)


def _check_request(request: DeviceRequest, path: Path, findings: list[Finding]) -> None:
    check_dns_label(request.name, (*path, "name"), findings)
    if (request.exactly is None) == (not request.first_available):
        given = "neither" if request.exactly is None else "both"
        findings.append((path, f"has {given}, expected one of exactly and firstAvailable"))
    if request.exactly:
        _check_selector(request.exactly, (*path, "exactly"), findings)
    at = (*path, "firstAvailable")
    check_unique((sub.name for sub in request.first_available), at, "name", findings)
    for index, sub in enumerate(request.first_available):
        check_dns_label(sub.name, (*at, index, "name"), findings)
        _check_selector(sub, (*at, index), findings)


def _check_selector(wish: ExactDeviceRequest | DeviceSubRequest, path: Path, findings: list[Finding]) -> None:
    check_dns_subdomain(wish.device_class_name, (*path, "deviceClassName"), findings)
    if wish.allocation_mode == "All" and wish.count is not None:
        findings.append(((*path, "count"), f"is {wish.count}, expected none with allocationMode: All"))
    _check_selectors(wish.selectors, path, findings)
    _check_device_tolerations(wish.tolerations, (*path, "tolerations"), findings)
    for name, text in (wish.capacity.requests if wish.capacity else {}).items():
        check_quantity(text, (*path, "capacity", "requests", name), findings)


def _check_selectors(selectors: Sequence[DeviceSelector], path: Path, findings: list[Finding]) -> None:
    for index, selector in enumerate(selectors):
        if selector.cel is None or not selector.cel.expression.strip():
            at = (*path, "selectors", index, "cel", "expression")
            findings.append((at, "is missing, expected a CEL expression"))


def _check_device_tolerations(tolerations: Sequence[DeviceToleration], path: Path, findings: list[Finding]) -> None:
    for index, toleration in enumerate(tolerations):
        check_toleration_key(toleration.key, toleration.operator, toleration.value, (*path, index), findings)


def _check_constraint(constraint: DeviceConstraint, names: set[str], path: Path, findings: list[Finding]) -> None:
    if (constraint.match_attribute is None) == (constraint.distinct_attribute is None):
        given = "neither" if constraint.match_attribute is None else "both"
        findings.append((path, f"has {given}, expected one of matchAttribute and distinctAttribute"))
    for index, name in enumerate(constraint.requests):
        if name not in names:
            found = f"is {describe(name)}, expected the name of one of the claim's requests"
            findings.append(((*path, "requests", index), found))
