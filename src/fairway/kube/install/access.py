"""Exactly the access that the scheduler needs: a test runs it with these roles and fails on a 403 or an unused rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fairway.api.kinds import Kind
from fairway.kube.kinds import FLEET_KINDS, SCHEDULER_KINDS

Manifest = dict[str, Any]

READ = ("list", "watch")


def plural(kind: str) -> str:
    """The resource name of a kind that is read."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies".lower()
    return f"{kind}es".lower() if kind.endswith("s") else f"{kind}s".lower()


def cluster_rules() -> list[Manifest]:
    """Rules for reading the whole cluster, then for writing, in the order of writes."""
    return [*_reading(SCHEDULER_KINDS), *_writing()]


def fleet_rules() -> list[Manifest]:
    """Rules for the placer on a hub."""
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
    """For clusters with Volcano's own definitions, in which PodGroups have no status subresource."""
    return [rule("scheduling.volcano.sh", ["podgroups"], ["patch"])]


def page_rules() -> list[Manifest]:
    """Rules for the page's account: it reviews tokens and what their users may see. Actions use the user's token."""
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
    granted: Manifest = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return {**granted, "resourceNames": list(names)} if names else granted
