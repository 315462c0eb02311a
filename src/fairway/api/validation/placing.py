"""Where a pod may go: node selectors, pod affinity, taints and tolerations, spreading."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fairway.api.affinity import (
    Affinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.labels import check_selector, check_value_count
from fairway.api.validation.names import VALUE_EXPECTED, check_dns_label, check_key, is_label_value

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
