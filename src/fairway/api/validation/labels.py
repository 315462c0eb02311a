"""Metadata, labels and selectors over labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol

from fairway.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from fairway.api.pods import ResourceRequirements
from fairway.api.shape import Finding, describe
from fairway.api.text import Path
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_amount, parse_quantity

MAX_ANNOTATION_BYTES = 256 * 1024


class SelectorRequirement(Protocol):
    """The common part of expressions in label and node selectors."""

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


_Texts = tuple[tuple[str, str], ...]


def check_amounts(amounts: Mapping[str, str], path: Path, findings: list[Finding]) -> None:
    """Quantities by resource name."""
    if amounts and (found := _amounts_findings(tuple(amounts.items()))):
        findings.extend(((*path, *inner), message) for inner, message in found)


def check_requirements(resources: ResourceRequirements, path: Path, findings: list[Finding]) -> None:
    """The requests and limits of a container or a whole pod, also compared with each other."""
    if found := _requirements_findings(tuple(resources.requests.items()), tuple(resources.limits.items())):
        findings.extend(((*path, *inner), message) for inner, message in found)


def check_quantity(text: str, path: Path, findings: list[Finding]) -> None:
    """A quantity that is not an amount of a named resource."""
    try:
        if parse_quantity(text).nanos >= 0:
            return
        problem = f"is {describe(text)}, expected a quantity that is not negative"
    except QuantityError as error:
        problem = str(error)
    findings.append((path, problem))


def check_readable(text: str, path: Path, findings: list[Finding]) -> None:
    """A quantity of any size, negative ones included."""
    try:
        parse_quantity(text)
    except QuantityError as error:
        findings.append((path, str(error)))


@lru_cache(maxsize=16384)
def _amounts_findings(texts: _Texts) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for name, text in texts:
        if not is_qualified_name(name):
            findings.append(((name,), f"the name is {describe(name)}, expected {KEY_EXPECTED}"))
        try:
            parse_amount(name, text)
        except QuantityError as error:
            findings.append(((name,), str(error)))
    return tuple(findings)


@lru_cache(maxsize=16384)
def _requirements_findings(requests: _Texts, limits: _Texts) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for field, texts in ("requests", requests), ("limits", limits):
        findings += [((field, *path), message) for path, message in _amounts_findings(texts)]
        findings += [
            ((field, name), "cannot be requested, expected a resource: every pod takes one slot")
            for name, _ in texts
            if name == "pods"
        ]
    unreadable = {path[1] for path, _ in findings}
    both = {name: text for name, text in requests if name not in unreadable}
    return *findings, *_against_limits(both, {name: text for name, text in limits if name in both})


def _against_limits(requests: Mapping[str, str], limits: Mapping[str, str]) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for name in requests.keys() & limits.keys():
        asked, limit = parse_amount(name, requests[name]), parse_amount(name, limits[name])
        if asked > limit:
            expected = f"at most the limit of {limits[name]}"
        elif asked < limit and not _can_overcommit(name):
            expected = f"the same as the limit of {limits[name]}: {name} cannot be overcommitted"
        else:
            continue
        findings.append((("requests", name), f"is {requests[name]}, expected {expected}"))
    return tuple(sorted(findings))


def _can_overcommit(name: str) -> bool:
    """Kubernetes allows a limit above the request only for these; devices are not shared that way."""
    return name in ("cpu", "memory", "ephemeral-storage")


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)

LABEL_EXPECTED = "at most 63 lower case letters, digits and '-', starting and ending with a letter or digit"
SUBDOMAIN_EXPECTED = (
    "at most 253 lower case letters, digits, '-' and '.', "
    "each part between dots starting and ending with a letter or digit"
)
KEY_EXPECTED = "a name of at most 63 letters, digits, '-', '_' and '.', after an optional DNS prefix and '/'"
VALUE_EXPECTED = "at most 63 letters, digits, '-', '_' and '.', starting and ending with a letter or digit, or nothing"


@lru_cache(maxsize=65536)
def is_dns_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


@lru_cache(maxsize=65536)
def is_dns_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=65536)
def is_qualified_name(text: str) -> bool:
    """A label or annotation key, a resource or taint name: `name` or `domain/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


@lru_cache(maxsize=65536)
def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and _NAME_PART.fullmatch(text) is not None)


def check_dns_label(text: str, path: Path, findings: list[Finding]) -> None:
    if not is_dns_label(text):
        findings.append((path, f"is {describe(text)}, expected {LABEL_EXPECTED}"))


def check_dns_subdomain(text: str, path: Path, findings: list[Finding]) -> None:
    if not is_dns_subdomain(text):
        findings.append((path, f"is {describe(text)}, expected {SUBDOMAIN_EXPECTED}"))


def check_key(text: str, path: Path, findings: list[Finding]) -> None:
    if not is_qualified_name(text):
        findings.append((path, f"is {describe(text)}, expected {KEY_EXPECTED}"))


def check_unique(names: Iterable[str], path: Path, field: str, findings: list[Finding]) -> None:
    """The names of a list's entries must be unique; empty ones are reported elsewhere."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            findings.append(
                (
                    (*path, index, field),
                    f"is {describe(name)} again (as in [{seen[name]}]), expected a new name",
                )
            )
        elif name:
            seen[name] = index
