"""Metadata, labels and selectors over labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairway.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.names import (
    KEY_EXPECTED,
    VALUE_EXPECTED,
    check_dns_label,
    check_dns_subdomain,
    check_key,
    is_dns_label,
    is_dns_subdomain,
    is_label_value,
    is_qualified_name,
)

MAX_ANNOTATION_BYTES = 256 * 1024


class SelectorRequirement(Protocol):
    """What label and node selectors' expressions have in common."""

    @property
    def key(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


def check_metadata(meta: ObjectMeta, findings: list[Finding], *, namespaced: bool, name_is_label: bool) -> None:
    path = ("metadata",)
    if not (is_dns_label(meta.name) if name_is_label else is_dns_subdomain(meta.name)):
        _explain_name(meta, name_is_label, findings)
    if namespaced:
        if not is_dns_label(meta.namespace):
            check_dns_label(meta.namespace, (*path, "namespace"), findings)
    elif meta.namespace:
        findings.append(
            ((*path, "namespace"), f"is {describe(meta.namespace)}, expected none: this kind is cluster-wide")
        )
    if meta.labels:
        check_labels(meta.labels, (*path, "labels"), findings)
    if meta.annotations:
        _check_annotations(meta.annotations, (*path, "annotations"), findings)


def check_labels(labels: Mapping[str, str], path: Path, findings: list[Finding]) -> None:
    for key, value in labels.items():
        if not is_qualified_name(key):
            findings.append(((*path, key), f"the key is {describe(key)}, expected {KEY_EXPECTED}"))
        if not is_label_value(value):
            findings.append(((*path, key), f"is {describe(value)}, expected {VALUE_EXPECTED}"))


def check_selector(selector: LabelSelector | None, path: Path, findings: list[Finding]) -> None:
    if selector is None:
        return
    check_labels(selector.match_labels, (*path, "matchLabels"), findings)
    for index, requirement in enumerate(selector.match_expressions):
        check_label_requirement(requirement, (*path, "matchExpressions", index), findings)


def check_label_requirement(requirement: LabelSelectorRequirement, path: Path, findings: list[Finding]) -> None:
    check_key(requirement.key, (*path, "key"), findings)
    check_value_count(requirement, path, findings)
    for index, value in enumerate(requirement.values):
        if not is_label_value(value):
            findings.append(((*path, "values", index), f"is {describe(value)}, expected {VALUE_EXPECTED}"))


def check_value_count(requirement: SelectorRequirement, path: Path, findings: list[Finding]) -> None:
    """In and NotIn take values, Exists and DoesNotExist none, every other operator exactly one."""
    operator, count = requirement.operator, len(requirement.values)
    if operator in ("In", "NotIn"):
        wrong, wanted = count == 0, "at least one"
    elif operator in ("Exists", "DoesNotExist"):
        wrong, wanted = count != 0, "none"
    else:
        wrong, wanted = count != 1, "exactly one"
    if wrong:
        findings.append(((*path, "values"), f"has {count} values, expected {wanted} for operator {operator}"))


def _explain_name(meta: ObjectMeta, name_is_label: bool, findings: list[Finding]) -> None:
    path = ("metadata", "name")
    if meta.name:
        (check_dns_label if name_is_label else check_dns_subdomain)(meta.name, path, findings)
    elif meta.generate_name:
        findings.append((path, "is missing, expected a name: only an API server makes one from generateName"))
    else:
        findings.append((path, "is missing, expected a name"))


def _check_annotations(annotations: Mapping[str, str], path: Path, findings: list[Finding]) -> None:
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if not is_qualified_name(key) and not is_qualified_name(key.lower()):
            findings.append(((*path, key), f"the key is {describe(key)}, expected {KEY_EXPECTED}"))
    if size > MAX_ANNOTATION_BYTES:
        findings.append((path, f"is {size} bytes together, expected at most {MAX_ANNOTATION_BYTES}"))
