"""HyperNodes: Volcano's domains of a network, in tiers. The lower the tier, the nearer the nodes are to each other."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from fairway.api.meta import ApiStruct, LabelSelector, ObjectMeta, Positive
from fairway.api.shape import Finding
from fairway.api.validation.labels import check_selector

_LONGEST_PATTERN = 256


class ExactMatch(ApiStruct, frozen=True):
    name: str


class RegexMatch(ApiStruct, frozen=True):
    pattern: str


class MemberSelector(ApiStruct, frozen=True):
    """Exactly one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(ApiStruct, frozen=True):
    type: Literal["Node", "HyperNode"] = "Node"
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(ApiStruct, frozen=True):
    tier: Positive = 1
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)


def check_hyper_node(hyper_node: HyperNode, findings: list[Finding]) -> None:
    for index, member in enumerate(hyper_node.spec.members):
        path, selector = ("spec", "members", index, "selector"), member.selector
        given = [s for s in (selector.exact_match, selector.regex_match, selector.label_match) if s is not None]
        if len(given) != 1:
            findings.append((path, f"has {len(given)} of exactMatch, regexMatch and labelMatch, expected exactly one"))
        if selector.regex_match is not None and not _is_pattern(selector.regex_match.pattern):
            expected = (
                f"a regular expression of at most {_LONGEST_PATTERN} characters without repeated repetitions "
                "and back references"
            )
            findings.append(((*path, "regexMatch", "pattern"), f"cannot be used, expected {expected}"))
        if selector.label_match is not None:
            check_selector(selector.label_match, (*path, "labelMatch"), findings)
            if member.type == "HyperNode":
                findings.append((path, "has labelMatch, expected exactMatch or regexMatch for HyperNodes"))


def _is_pattern(pattern: str) -> bool:
    if len(pattern) > _LONGEST_PATTERN or _NESTED.search(pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


_NESTED = re.compile(r"[*+}]\)?[*+{]|\([^)]*[*+][^)]*\)[*+{]|\\[1-9]")
"""Repeated repetitions and back references: what can take exponential time to match."""
