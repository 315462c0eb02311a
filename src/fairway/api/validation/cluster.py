"""Nodes, namespaces, quotas and volumes."""

from __future__ import annotations

from fairway.api.namespaces import NAMESPACE_WEIGHT, ResourceQuota
from fairway.api.nodes import Node
from fairway.api.shape import Finding
from fairway.api.validation.amounts import check_amounts, check_quantity
from fairway.api.validation.names import check_dns_subdomain, check_key
from fairway.api.validation.placing import check_node_selector, check_taints
from fairway.api.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass


def check_node(node: Node, findings: list[Finding]) -> None:
    check_taints(node.spec.taints, ("spec", "taints"), findings)
    check_amounts(node.status.capacity, ("status", "capacity"), findings)
    if node.status.allocatable:
        check_amounts(node.status.allocatable, ("status", "allocatable"), findings)


def check_resource_quota(quota: ResourceQuota, findings: list[Finding]) -> None:
    """The namespace weight is left alone: whatever it says, its reader settles."""
    for name, text in quota.spec.hard.items():
        if name != NAMESPACE_WEIGHT:
            check_quantity(text, ("spec", "hard", name), findings)


def check_persistent_volume(volume: PersistentVolume, findings: list[Finding]) -> None:
    if volume.spec.node_affinity:
        at = ("spec", "nodeAffinity", "required")
        check_node_selector(volume.spec.node_affinity.required, at, findings)


def check_persistent_volume_claim(claim: PersistentVolumeClaim, findings: list[Finding]) -> None:
    for field, name in (
        ("volumeName", claim.spec.volume_name),
        ("storageClassName", claim.spec.storage_class_name),
    ):
        if name:
            check_dns_subdomain(name, ("spec", field), findings)


def check_storage_class(storage: StorageClass, findings: list[Finding]) -> None:
    for index, term in enumerate(storage.allowed_topologies):
        for place, expression in enumerate(term.match_label_expressions):
            at = ("allowedTopologies", index, "matchLabelExpressions", place)
            check_key(expression.key, (*at, "key"), findings)
            if not expression.values:
                findings.append(((*at, "values"), "is empty, expected at least one value"))
