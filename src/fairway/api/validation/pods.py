"""Pods."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fairway.api.pods import (
    Affinity,
    Container,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    occupied,
    pod_request,
)
from fairway.api.shape import Finding, describe
from fairway.api.text import Path
from fairway.api.validation.labels import (
    VALUE_EXPECTED,
    check_amounts,
    check_dns_label,
    check_dns_subdomain,
    check_key,
    check_labels,
    check_requirements,
    check_selector,
    check_unique,
    check_value_count,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
)
from fairway.errors import QuantityError

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Affinity, path: Path, findings: list[Finding]) -> None:
    if node := affinity.node_affinity:
        at = (*path, "nodeAffinity")
        check_node_selector(node.required_during_scheduling_ignored_during_execution, (*at, _REQUIRED), findings)
        for index, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            _check_term(preferred.preference, (*at, _PREFERRED, index, "preference"), findings)
    _check_pod_affinity(affinity.pod_affinity, (*path, "podAffinity"), findings)
    _check_pod_affinity(affinity.pod_anti_affinity, (*path, "podAntiAffinity"), findings)


def check_node_selector(selector: NodeSelector | None, path: Path, findings: list[Finding]) -> None:
    if selector is None:
        return
    if not selector.node_selector_terms:
        findings.append(((*path, "nodeSelectorTerms"), "is empty, expected at least one term"))
    for index, term in enumerate(selector.node_selector_terms):
        _check_term(term, (*path, "nodeSelectorTerms", index), findings)


def check_tolerations(tolerations: Sequence[Toleration], path: Path, findings: list[Finding]) -> None:
    for index, toleration in enumerate(tolerations):
        at = (*path, index)
        check_toleration_key(toleration.key, toleration.operator, toleration.value, at, findings)
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            findings.append(((*at, "effect"), _only_no_execute(toleration.effect)))


def check_toleration_key(key: str, operator: str, value: str, path: Path, findings: list[Finding]) -> None:
    """The rules that tolerations of node and of device taints share."""
    if key:
        check_key(key, (*path, "key"), findings)
    elif operator != "Exists":
        findings.append(((*path, "operator"), "is not Exists, expected Exists where the key is empty"))
    if operator == "Exists":
        if value:
            findings.append(((*path, "value"), f"is {describe(value)}, expected none with operator Exists"))
    elif not is_label_value(value):
        findings.append(((*path, "value"), f"is {describe(value)}, expected {VALUE_EXPECTED}"))


def check_taints(taints: Sequence[Taint], path: Path, findings: list[Finding]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        check_key(taint.key, (*path, index, "key"), findings)
        if not is_label_value(taint.value):
            findings.append(((*path, index, "value"), f"is {describe(taint.value)}, expected {VALUE_EXPECTED}"))
        if (taint.key, taint.effect) in seen:
            findings.append(
                (
                    (*path, index),
                    f"repeats {taint.key}:{taint.effect}, expected one taint of a key and effect",
                )
            )
        seen.add((taint.key, taint.effect))


def check_spreading(constraints: Sequence[TopologySpreadConstraint], path: Path, findings: list[Finding]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = (*path, index)
        check_key(constraint.topology_key, (*at, "topologyKey"), findings)
        check_selector(constraint.label_selector, (*at, "labelSelector"), findings)
        if constraint.min_domains is not None and constraint.when_unsatisfiable != "DoNotSchedule":
            findings.append(((*at, "minDomains"), "is set, expected only with whenUnsatisfiable: DoNotSchedule"))
        kind = (constraint.topology_key, constraint.when_unsatisfiable)
        if kind in seen:
            findings.append((at, f"repeats {kind[0]} with {kind[1]}, expected one constraint of the two"))
        seen.add(kind)


def _check_term(term: NodeSelectorTerm, path: Path, findings: list[Finding]) -> None:
    for index, requirement in enumerate(term.match_expressions):
        at = (*path, "matchExpressions", index)
        check_key(requirement.key, (*at, "key"), findings)
        check_value_count(requirement, at, findings)
        if requirement.operator in ("Gt", "Lt"):
            _check_integers(requirement, at, findings)
    for index, requirement in enumerate(term.match_fields):
        _check_field(requirement, (*path, "matchFields", index), findings)


def _check_integers(requirement: NodeSelectorRequirement, path: Path, findings: list[Finding]) -> None:
    for index, value in enumerate(requirement.values):
        if not _INTEGER.fullmatch(value):
            expected = f"a whole number for operator {requirement.operator}"
            findings.append(((*path, "values", index), f"is {describe(value)}, expected {expected}"))


def _check_field(requirement: NodeSelectorRequirement, path: Path, findings: list[Finding]) -> None:
    if requirement.key != "metadata.name":
        findings.append(((*path, "key"), f"is {describe(requirement.key)}, expected metadata.name"))
    if requirement.operator not in ("In", "NotIn"):
        findings.append(((*path, "operator"), f"is {requirement.operator}, expected In or NotIn for a field"))
    elif len(requirement.values) != 1:
        found = f"has {len(requirement.values)} values, expected exactly one for a field"
        findings.append(((*path, "values"), found))


def _check_pod_affinity(affinity: PodAffinity | None, path: Path, findings: list[Finding]) -> None:
    if affinity is None:
        return
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        _check_pod_term(term, (*path, _REQUIRED, index), findings)
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        _check_pod_term(weighted.pod_affinity_term, (*path, _PREFERRED, index, "podAffinityTerm"), findings)


def _check_pod_term(term: PodAffinityTerm, path: Path, findings: list[Finding]) -> None:
    check_key(term.topology_key, (*path, "topologyKey"), findings)
    check_selector(term.label_selector, (*path, "labelSelector"), findings)
    check_selector(term.namespace_selector, (*path, "namespaceSelector"), findings)
    for index, namespace in enumerate(term.namespaces):
        check_dns_label(namespace, (*path, "namespaces", index), findings)


def _only_no_execute(effect: str) -> str:
    return f"is {describe(effect)}, expected NoExecute where tolerationSeconds is set"


_POD_LEVEL = ("cpu", "memory")


def check_pod(pod: Pod, findings: list[Finding]) -> None:
    spec = pod.spec
    path = ("spec",)
    if not spec.containers:
        findings.append((("spec", "containers"), "is empty, expected at least one container"))
    _check_containers(spec, findings)
    if spec.node_name and not is_dns_subdomain(spec.node_name):
        check_dns_subdomain(spec.node_name, (*path, "nodeName"), findings)
    if spec.node_selector:
        check_labels(spec.node_selector, (*path, "nodeSelector"), findings)
    if spec.affinity:
        check_affinity(spec.affinity, (*path, "affinity"), findings)
    if spec.tolerations:
        check_tolerations(spec.tolerations, (*path, "tolerations"), findings)
    if spec.topology_spread_constraints:
        check_spreading(spec.topology_spread_constraints, (*path, "topologySpreadConstraints"), findings)
    if spec.overhead:
        check_amounts(spec.overhead, (*path, "overhead"), findings)
    if spec.resources:
        _check_pod_level(spec, findings)
    if spec.scheduling_gates:
        _check_gates(spec, findings)
    if spec.volumes:
        _check_volumes(spec, findings)
    if spec.resource_claims:
        _check_claims(spec, findings)
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        at = (*path, "schedulingGroup", "podGroupName")
        check_dns_subdomain(spec.scheduling_group.pod_group_name, at, findings)
    if pod.status.container_statuses or pod.status.init_container_statuses:
        _check_statuses(pod, findings)
    if not findings:
        _check_sum(occupied(pod), findings)


def _check_statuses(pod: Pod, findings: list[Finding]) -> None:
    for field, statuses in (
        ("containerStatuses", pod.status.container_statuses),
        ("initContainerStatuses", pod.status.init_container_statuses),
    ):
        for index, status in enumerate(statuses):
            at: Path = ("status", field, index)
            check_amounts(status.allocated_resources, (*at, "allocatedResources"), findings)
            if status.resources is not None:
                check_amounts(status.resources.requests, (*at, "resources", "requests"), findings)


def _check_sum(spec: PodSpec, findings: list[Finding]) -> None:
    try:
        pod_request(spec)
    except QuantityError as error:
        expected = f"amounts that can be added up: {error.reason}"
        findings.append((("spec", "containers"), f"request too much together, expected {expected}"))


def _check_containers(spec: PodSpec, findings: list[Finding]) -> None:
    names = set()
    for field, containers in ("containers", spec.containers), ("initContainers", spec.init_containers):
        for index, container in enumerate(containers):
            names.add(container.name)
            if not is_dns_label(container.name):
                check_dns_label(container.name, ("spec", field, index, "name"), findings)
            check_requirements(container.resources, ("spec", field, index, "resources"), findings)
            if container.resources.claims:
                _check_container_claims(spec, container, ("spec", field, index), findings)
    if len(names) != len(spec.containers) + len(spec.init_containers):
        _explain_names(spec, findings)
    if ports := spec.host_ports:
        _check_host_ports(ports, findings)


def _explain_names(spec: PodSpec, findings: list[Finding]) -> None:
    seen: dict[str, str] = {}
    for field, containers in ("containers", spec.containers), ("initContainers", spec.init_containers):
        for index, container in enumerate(containers):
            if container.name in seen:
                found = f"is {describe(container.name)} again (as in {seen[container.name]})"
                findings.append((("spec", field, index, "name"), f"{found}, expected a new name"))
            seen.setdefault(container.name, f"{field}[{index}]")


def _check_host_ports(ports: Sequence[tuple[str, str, int]], findings: list[Finding]) -> None:
    if len(set(ports)) == len(ports):
        return
    repeated = next(port for port in ports if ports.count(port) > 1)
    findings.append(
        (("spec", "containers"), f"take host port {repeated[2]}/{repeated[1]} twice, expected once in a pod")
    )


def _check_pod_level(spec: PodSpec, findings: list[Finding]) -> None:
    assert spec.resources is not None
    path: Path = ("spec", "resources")
    check_requirements(spec.resources, path, findings)
    for field, amounts in ("requests", spec.resources.requests), ("limits", spec.resources.limits):
        findings += [
            ((*path, field, name), "is for the whole pod, expected only cpu, memory and hugepages-* there")
            for name in amounts
            if name not in _POD_LEVEL and not name.startswith("hugepages-")
        ]


def _check_gates(spec: PodSpec, findings: list[Finding]) -> None:
    path = ("spec", "schedulingGates")
    check_unique((gate.name for gate in spec.scheduling_gates), path, "name", findings)
    for index, gate in enumerate(spec.scheduling_gates):
        check_key(gate.name, (*path, index, "name"), findings)


def _check_volumes(spec: PodSpec, findings: list[Finding]) -> None:
    names = [volume.name for volume in spec.volumes]
    if len(set(names)) != len(names):
        check_unique(names, ("spec", "volumes"), "name", findings)
    for index, volume in enumerate(spec.volumes):
        if not is_dns_label(volume.name):
            check_dns_label(volume.name, ("spec", "volumes", index, "name"), findings)
        claim = volume.persistent_volume_claim
        if claim is not None and not is_dns_subdomain(claim.claim_name):
            at = ("spec", "volumes", index, "persistentVolumeClaim", "claimName")
            check_dns_subdomain(claim.claim_name, at, findings)


def _check_claims(spec: PodSpec, findings: list[Finding]) -> None:
    path = ("spec", "resourceClaims")
    check_unique((claim.name for claim in spec.resource_claims), path, "name", findings)
    for index, claim in enumerate(spec.resource_claims):
        check_dns_label(claim.name, (*path, index, "name"), findings)
        if (claim.resource_claim_name is None) == (claim.resource_claim_template_name is None):
            expected = "exactly one of resourceClaimName and resourceClaimTemplateName"
            given = "neither" if claim.resource_claim_name is None else "both"
            findings.append(((*path, index), f"has {given}, expected {expected}"))


def _check_container_claims(spec: PodSpec, container: Container, path: Path, findings: list[Finding]) -> None:
    known = {claim.name for claim in spec.resource_claims}
    for index, claim in enumerate(container.resources.claims):
        if claim.name not in known:
            expected = "the name of one of spec.resourceClaims"
            at = (*path, "resources", "claims", index, "name")
            findings.append((at, f"is {describe(claim.name)}, expected {expected}"))
