"""Nodes, quotas, volumes, priority classes, disruption budgets, queues, pod groups, reservations, eviction records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fairway.api.eviction_records import MAX_VICTIMS, EvictionRecord
from fairway.api.namespaces import NAMESPACE_WEIGHT, ResourceQuota
from fairway.api.nodes import Node
from fairway.api.reservations import MAX_PLACES, JobReference, Reservation, ReservedPlace, reservation_name
from fairway.api.scheduling import PodDisruptionBudget, PodGroup, PriorityClass, Queue, QueueSpec
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.labels import (
    check_amounts,
    check_dns_subdomain,
    check_key,
    check_quantity,
    check_selector,
    check_unique,
)
from fairway.api.validation.pods import check_node_selector, check_taints
from fairway.api.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from fairway.resources.quantity import parse_amount

HIGHEST_USER_PRIORITY = 1_000_000_000
_PERCENT = re.compile(r"[0-9]{1,6}%", re.ASCII)


def check_priority_class(priority: PriorityClass, findings: list[Finding]) -> None:
    """Only classes named `system-...` may stand above everything a user can ask for."""
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
    """What a queue is guaranteed, or deserves, must be within its capability."""
    for path, amounts in (
        (("spec", "guarantee", "resource"), spec.guarantee.resource),
        (("spec", "deserved"), spec.deserved),
    ):
        for name in sorted(amounts.keys() & spec.capability.keys()):
            if parse_amount(name, amounts[name]) > parse_amount(name, spec.capability[name]):
                expected = f"at most the capability of {spec.capability[name]}"
                findings.append(((*path, name), f"is {amounts[name]}, expected {expected}"))


def queue_levels(queues: Iterable[Queue]) -> Iterator[tuple[Queue, int]]:
    """Queues with their level in the tree that they make together, from the top. Those in a circle are left out: they
    are a reason for the jobs there.
    """
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


_LONGEST_UID = 128


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
    """Whether an object refers to a job, and has the name that this gives it."""
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
    elif len(job.uid) > _LONGEST_UID:
        findings.append(((*path, "uid"), f"has {len(job.uid)} characters, expected at most {_LONGEST_UID}"))
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
