"""Exactly the access that the scheduler uses: a test runs it under these roles and fails on a 403 or an unused rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.api.kinds import Kind
from fairway.kube.reading.served import FLEET_KINDS, SCHEDULER_KINDS

Manifest = dict[str, Any]

READ = ("list", "watch")


def plural(kind: str) -> str:
    """The resource of a kind, as the kinds that are read have them."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies".lower()
    return f"{kind}es".lower() if kind.endswith("s") else f"{kind}s".lower()


def cluster_rules() -> list[Manifest]:
    """What is read of the whole cluster, then what is written, in the order of writes."""
    return [*_reading(SCHEDULER_KINDS), *_writing()]


def fleet_rules() -> list[Manifest]:
    """Of the placer on a hub."""
    group = "cluster.open-cluster-management.io"
    return [
        *_reading(FLEET_KINDS),
        rule(group, ["placementdecisions"], ["create", "patch", "delete"]),
        rule(group, ["placementdecisions/status"], ["update"]),
        rule(group, ["placements/status"], ["update", "patch"]),
        rule(group, ["managedclusters/status"], ["patch"]),
        rule("", ["events"], ["create", "patch"]),
    ]


def volcano_rules() -> list[Manifest]:
    """Where Volcano's own definitions are there: in them the status of a PodGroup is not a resource of its own."""
    return [rule("scheduling.volcano.sh", ["podgroups"], ["patch"])]


def page_rules() -> list[Manifest]:
    """Of the page's own account: whose token it is, and what its user may see. Actions use the user's token."""
    return [
        rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]


def _reading(kinds: Iterable[Kind]) -> list[Manifest]:
    """By API group; a kind in several versions is one resource."""
    resources: dict[str, set[str]] = {}
    for kind in kinds:
        for version in kind.api_versions:
            group = version.rpartition("/")[0]
            resources.setdefault(group, set()).add(plural(kind.name))
    return [rule(group, sorted(names), READ) for group, names in resources.items()]


def _writing() -> list[Manifest]:
    return [
        rule("", ["pods/binding", "pods/eviction"], ["create"]),
        rule("", ["pods"], ["get"]),
        rule("", ["pods/status"], ["patch"]),
        rule("", ["persistentvolumes", "persistentvolumeclaims"], ["get", "patch"]),
        rule("fairway.dev", ["reservations", "evictionrecords"], ["get", "create", "patch", "delete"]),
        rule("fairway.dev", ["resourceclasses/status"], ["patch"]),
        rule("resource.k8s.io", ["resourceclaims"], ["get", "create", "patch", "delete"]),
        rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], ["patch"]),
        rule("scheduling.volcano.sh", ["podgroups/status", "queues/status"], ["patch"]),
        rule("scheduling.k8s.io", ["podgroups/status"], ["patch"]),
        rule("", ["events"], ["create", "patch"]),
    ]


def namespace_rules(lease: str, policy_config_map: str = "") -> list[Manifest]:
    """In the scheduler's own namespace: the lease, and the policy."""
    rules = [
        rule("coordination.k8s.io", ["leases"], ["create"]),
        rule("coordination.k8s.io", ["leases"], ["get", "patch"], [lease]),
    ]
    if policy_config_map:
        rules.append(rule("", ["configmaps"], ["get"], [policy_config_map]))
    return rules


def rule(group: str, resources: Iterable[str], verbs: Iterable[str], names: Iterable[str] = ()) -> Manifest:
    found: Manifest = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**found, "resourceNames": list(names)} if names else found
