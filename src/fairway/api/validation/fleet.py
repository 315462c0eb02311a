"""Clusters and placements: names, labels and quantities only.

A policy that makes no sense is a condition of its placement, not an error of the file: the fleet package
says so.
"""

from __future__ import annotations

from fairway.api.fleet import (
    ClusterSelector,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
)
from fairway.api.shape import Finding, Path
from fairway.api.validation.labels import (
    check_amounts,
    check_dns_subdomain,
    check_key,
    check_selector,
    check_value_count,
)


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
