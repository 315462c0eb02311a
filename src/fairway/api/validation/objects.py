"""The rules of every kind but pods: nodes, volumes, queues, groups, reservations, devices and their classes, clusters.

Of placements only names, labels and quantities are checked here: a policy that makes no sense is a condition on its
placement, which keeps its decisions, and not an error in the file. The fleet package decides that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from fairway.api.core import (
    NAMESPACE_WEIGHT,
    CSIStorageCapacity,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    StorageClass,
)
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
    ResourceClass,
    ResourceSlice,
)
from fairway.api.fleet import ClusterSelector, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement
from fairway.api.pods import NodeSelector
from fairway.api.scheduling import (
    MAX_PLACES,
    MAX_VICTIMS,
    EvictionRecord,
    HyperNode,
    JobReference,
    KubePodGroup,
    PluginPodGroup,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    QueueSpec,
    Reservation,
    ReservedPlace,
    reservation_name,
)
from fairway.api.shape import Finding, describe
from fairway.api.text import Path
from fairway.api.validation.labels import (
    check_amounts,
    check_dns_label,
    check_dns_subdomain,
    check_key,
    check_quantity,
    check_readable,
    check_selector,
    check_unique,
    check_value_count,
)
from fairway.api.validation.pods import check_node_selector, check_taints, check_toleration_key
from fairway.resources.quantity import parse_amount

HIGHEST_USER_PRIORITY = 1_000_000_000
_PERCENT = re.compile(r"[0-9]{1,6}%", re.ASCII)


def check_priority_class(priority: PriorityClass, findings: list[Finding]) -> None:
    """Only classes named `system-...` may have a priority above the range of users."""
    if priority.value > HIGHEST_USER_PRIORITY and not priority.metadata.name.startswith("system-"):
        expected = f"at most {HIGHEST_USER_PRIORITY} outside the classes named system-*"
        findings.append((("value",), f"is {priority.value}, expected {expected}"))


def check_pod_disruption_budget(budget: PodDisruptionBudget, findings: list[Finding]) -> None:
    spec = budget.spec
    check_selector(spec.selector, ("spec", "selector"), findings)
    if spec.min_available is not None and spec.max_unavailable is not None:
        findings.append((("spec",), "has both minAvailable and maxUnavailable, expected one of them"))
    _check_bound(spec.min_available, ("spec", "minAvailable"), findings)
    _check_bound(spec.max_unavailable, ("spec", "maxUnavailable"), findings)


def check_queue(queue: Queue, findings: list[Finding]) -> None:
    spec, found = queue.spec, len(findings)
    check_amounts(spec.capability, ("spec", "capability"), findings)
    check_amounts(spec.deserved, ("spec", "deserved"), findings)
    check_amounts(spec.guarantee.resource, ("spec", "guarantee", "resource"), findings)
    if len(findings) == found:
        _check_within_capability(spec, findings)
    check_selector(spec.allowed_namespaces, ("spec", "allowedNamespaces"), findings)
    if spec.parent:
        check_dns_subdomain(spec.parent, ("spec", "parent"), findings)
        if spec.parent == queue.metadata.name:
            findings.append((("spec", "parent"), "is the queue itself, expected another queue"))


def check_pod_group(group: PodGroup, findings: list[Finding]) -> None:
    check_amounts(group.spec.min_resources, ("spec", "minResources"), findings)
    if group.spec.queue:
        check_dns_subdomain(group.spec.queue, ("spec", "queue"), findings)


def _check_bound(bound: int | str | None, path: Path, findings: list[Finding]) -> None:
    if isinstance(bound, str) and not _PERCENT.fullmatch(bound):
        findings.append((path, f"is {describe(bound)}, expected a number of pods or a percentage such as 50%"))


def _check_within_capability(spec: QueueSpec, findings: list[Finding]) -> None:
    """A queue's guarantee and deserved amounts must be within its capability."""
    for path, amounts in (
        (("spec", "guarantee", "resource"), spec.guarantee.resource),
        (("spec", "deserved"), spec.deserved),
    ):
        for name in sorted(amounts.keys() & spec.capability.keys()):
            if parse_amount(name, amounts[name]) > parse_amount(name, spec.capability[name]):
                expected = f"at most the capability of {spec.capability[name]}"
                findings.append(((*path, name), f"is {amounts[name]}, expected {expected}"))


def queue_levels(queues: Iterable[Queue]) -> Iterator[tuple[Queue, int]]:
    """Queues with their level in the tree, from the top. Queues in a circle are left out: their jobs get a reason."""
    known = {queue.metadata.name: queue for queue in queues}
    children: dict[str, list[Queue]] = {}
    for queue in known.values():
        parent = queue.spec.parent
        children.setdefault(parent if parent in known and parent != "root" else "", []).append(queue)
    number, level = 1, children.get("", [])
    while level:
        yield from ((queue, number) for queue in level)
        level = [child for queue in level for child in children.get(queue.metadata.name, ())]
        number += 1


_MAX_UID = 128


def check_reservation(reservation: Reservation, findings: list[Finding]) -> None:
    _check_job(reservation.metadata.name, reservation.spec.job_ref, findings)
    _check_places(reservation.spec.places, ("spec", "places"), findings)
    _check_places(reservation.status.places, ("status", "places"), findings)


def check_eviction_record(record: EvictionRecord, findings: list[Finding]) -> None:
    _check_job(record.metadata.name, record.spec.job_ref, findings)
    victims, path = record.status.victims, ("status", "victims")
    if len(victims) > MAX_VICTIMS:
        findings.append((path, f"has {len(victims)} pods, expected at most {MAX_VICTIMS}"))
        return
    for index, victim in enumerate(victims):
        check_dns_subdomain(victim.pod, (*path, index, "pod"), findings)


def _check_job(name: str, job: JobReference, findings: list[Finding]) -> None:
    """The object must refer to a job, and be named after it."""
    path: Path = ("spec", "jobRef")
    found = len(findings)
    if job.kind == "Controller":
        kind, slash, own = job.name.partition("/")
        if not slash or not kind:
            said = f"is {describe(job.name)}, expected kind and name of the controller, as in 'job/train'"
            findings.append(((*path, "name"), said))
        else:
            check_dns_subdomain(own, (*path, "name"), findings)
    else:
        check_dns_subdomain(job.name, (*path, "name"), findings)
    if not job.uid:
        findings.append(((*path, "uid"), "is empty, expected the uid of the job"))
    elif len(job.uid) > _MAX_UID:
        findings.append(((*path, "uid"), f"has {len(job.uid)} characters, expected at most {_MAX_UID}"))
    expected = reservation_name(job.kind, job.name)
    if len(findings) == found and name != expected:
        findings.append((("metadata", "name"), f"is {describe(name)}, expected {describe(expected)}, after its job"))


def _check_places(places: tuple[ReservedPlace, ...], path: Path, findings: list[Finding]) -> None:
    if len(places) > MAX_PLACES:
        findings.append((path, f"has {len(places)} places, expected at most {MAX_PLACES}"))
        return
    for index, place in enumerate(places):
        check_dns_subdomain(place.pod, (*path, index, "pod"), findings)
        check_dns_subdomain(place.node, (*path, index, "node"), findings)
    check_unique((place.pod for place in places), path, "pod", findings)


def check_node(node: Node, findings: list[Finding]) -> None:
    check_taints(node.spec.taints, ("spec", "taints"), findings)
    check_amounts(node.status.capacity, ("status", "capacity"), findings)
    if node.status.allocatable:
        check_amounts(node.status.allocatable, ("status", "allocatable"), findings)


def check_resource_quota(quota: ResourceQuota, findings: list[Finding]) -> None:
    """The namespace weight is not checked here; its reader handles any text."""
    for name, text in quota.spec.hard.items():
        if name != NAMESPACE_WEIGHT:
            check_quantity(text, ("spec", "hard", name), findings)


def check_persistent_volume(volume: PersistentVolume, findings: list[Finding]) -> None:
    check_amounts(volume.spec.capacity, ("spec", "capacity"), findings)
    if volume.spec.node_affinity:
        at = ("spec", "nodeAffinity", "required")
        check_node_selector(volume.spec.node_affinity.required, at, findings)


def check_persistent_volume_claim(claim: PersistentVolumeClaim, findings: list[Finding]) -> None:
    check_amounts(claim.spec.resources.requests, ("spec", "resources", "requests"), findings)
    if claim.spec.selector is not None:
        check_selector(claim.spec.selector, ("spec", "selector"), findings)
    for field, name in (
        ("volumeName", claim.spec.volume_name),
        ("storageClassName", claim.spec.storage_class_name),
    ):
        if name:
            check_dns_subdomain(name, ("spec", field), findings)


def check_storage_capacity(capacity: CSIStorageCapacity, findings: list[Finding]) -> None:
    for field, amount in ("capacity", capacity.capacity), ("maximumVolumeSize", capacity.maximum_volume_size):
        if amount is not None:
            check_quantity(amount, (field,), findings)
    if capacity.node_topology is not None:
        check_selector(capacity.node_topology, ("nodeTopology",), findings)


def check_storage_class(storage: StorageClass, findings: list[Finding]) -> None:
    for index, term in enumerate(storage.allowed_topologies):
        for place, expression in enumerate(term.match_label_expressions):
            at = ("allowedTopologies", index, "matchLabelExpressions", place)
            check_key(expression.key, (*at, "key"), findings)
            if not expression.values:
                findings.append(((*at, "values"), "is empty, expected at least one value"))


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


_MAX_PATTERN = 256


def check_hyper_node(hyper_node: HyperNode, findings: list[Finding]) -> None:
    for index, member in enumerate(hyper_node.spec.members):
        path, selector = ("spec", "members", index, "selector"), member.selector
        given = [s for s in (selector.exact_match, selector.regex_match, selector.label_match) if s is not None]
        if len(given) != 1:
            findings.append((path, f"has {len(given)} of exactMatch, regexMatch and labelMatch, expected exactly one"))
        if selector.regex_match is not None and not _is_pattern(selector.regex_match.pattern):
            expected = (
                f"a regular expression of at most {_MAX_PATTERN} characters without repeated repetitions "
                "and back references"
            )
            findings.append(((*path, "regexMatch", "pattern"), f"cannot be used, expected {expected}"))
        if selector.label_match is not None:
            check_selector(selector.label_match, (*path, "labelMatch"), findings)
            if member.type == "HyperNode":
                findings.append((path, "has labelMatch, expected exactMatch or regexMatch for HyperNodes"))


def _is_pattern(pattern: str) -> bool:
    if len(pattern) > _MAX_PATTERN or _NESTED.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


_NESTED = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]|\\[1-9]")
"""Nested repetitions and back references, which can take exponential time to match."""


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


def check_managed_cluster(cluster: ManagedCluster, findings: list[Finding]) -> None:
    for index, taint in enumerate(cluster.spec.taints):
        check_key(taint.key, ("spec", "taints", index, "key"), findings)
    check_amounts(cluster.status.capacity, ("status", "capacity"), findings)
    check_amounts(cluster.status.allocatable, ("status", "allocatable"), findings)


def check_managed_cluster_set(cluster_set: ManagedClusterSet, findings: list[Finding]) -> None:
    selector = cluster_set.spec.cluster_selector.label_selector
    check_selector(selector, ("spec", "clusterSelector", "labelSelector"), findings)


def check_managed_cluster_set_binding(binding: ManagedClusterSetBinding, findings: list[Finding]) -> None:
    check_dns_subdomain(binding.spec.cluster_set, ("spec", "clusterSet"), findings)


def check_placement(placement: Placement, findings: list[Finding]) -> None:
    spec = placement.spec
    for index, predicate in enumerate(spec.predicates):
        at = ("spec", "predicates", index, "requiredClusterSelector")
        _check_cluster_selector(predicate.required_cluster_selector, at, findings)
    for index, group in enumerate(spec.decision_strategy.group_strategy.decision_groups):
        place = ("spec", "decisionStrategy", "groupStrategy", "decisionGroups", index)
        _check_cluster_selector(group.group_cluster_selector, (*place, "groupClusterSelector"), findings)
    check_amounts(spec.requirements, ("spec", "requirements"), findings)


def _check_cluster_selector(selector: ClusterSelector, path: Path, findings: list[Finding]) -> None:
    check_selector(selector.label_selector, (*path, "labelSelector"), findings)
    for index, requirement in enumerate(selector.claim_selector.match_expressions):
        at = (*path, "claimSelector", "matchExpressions", index)
        if not requirement.key:
            findings.append(((*at, "key"), "is empty, expected the name of a cluster claim"))
        check_value_count(requirement, at, findings)
