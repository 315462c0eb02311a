"""Names, label keys and label values, as Kubernetes allows them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from fairway.api.shape import Finding, Path, describe

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
    """The names of a list's entries, none twice; an empty one is found elsewhere."""
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
