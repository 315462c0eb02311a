"""Quantities: readable, not negative, requests within limits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from fairway.api.pods import ResourceRequirements
from fairway.api.shape import Finding, Path, describe
from fairway.api.validation.names import KEY_EXPECTED, is_qualified_name
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_amount, parse_quantity

_Texts = tuple[tuple[str, str], ...]


def check_amounts(amounts: Mapping[str, str], path: Path, findings: list[Finding]) -> None:
    """Quantities by resource name."""
    if amounts and (found := _amounts_findings(tuple(amounts.items()))):
        findings.extend(((*path, *inner), message) for inner, message in found)


def check_requirements(resources: ResourceRequirements, path: Path, findings: list[Finding]) -> None:
    """A container's (or whole pod's) requests and limits, and the two against each other."""
    if found := _requirements_findings(tuple(resources.requests.items()), tuple(resources.limits.items())):
        findings.extend(((*path, *inner), message) for inner, message in found)


def check_quantity(text: str, path: Path, findings: list[Finding]) -> None:
    """One quantity that stands for itself, not for an amount of a named resource."""
    try:
        if parse_quantity(text).nanos >= 0:
            return
        problem = f"is {describe(text)}, expected a quantity that is not negative"
    except QuantityError as error:
        problem = str(error)
    findings.append((path, problem))


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
    """Kubernetes lets a limit exceed the request only for these; a device is one's own or not."""
    return name in ("cpu", "memory", "ephemeral-storage")
