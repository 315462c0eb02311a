"""Priority classes, disruption budgets, queues and pod groups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fairway.api.scheduling import PodDisruptionBudget, PodGroup, PriorityClass, Queue, QueueSpec
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.amounts import check_amounts
from fairway.api.validation.labels import check_selector
from fairway.api.validation.names import check_dns_subdomain
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
    """What a queue is promised must be something it may hold."""
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
