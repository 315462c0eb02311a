"""ResourceClass: a portable name for every device that can do something (spec D11 to D15)."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import ApiStruct, LabelSelector, ObjectMeta, Positive

DeviceStrategy = Literal["first-fit", "least-loss", "pack", "spread", "numa"]
ClassOperator = Literal["In", "NotIn", "Eq", "Gt", "GtEq", "Lt", "LtEq", "Exists", "DoesNotExist"]


SIGNS: dict[ClassOperator, str] = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
MAX_SUMMARY = 100
"""Characters of a summary: it is a column of a table."""


class ClassRequirement(ApiStruct, frozen=True):
    key: str
    operator: ClassOperator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As `kubectl` writes selectors of labels."""
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" | "NotIn" if len(self.values) == 1:
                return f"{self.key}{'=' if self.operator == 'In' else '!='}{self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
        return f"{self.key}{SIGNS[self.operator]}{self.values[0] if self.values else ''}"


class ClassSelector(ApiStruct, frozen=True):
    """All expressions must match the device; one without any matches nothing."""

    match_expressions: tuple[ClassRequirement, ...] = ()


class ClassMember(ApiStruct, frozen=True):
    """A unit of the class is a group that comprises `count` devices of another class."""

    class_name: str = msgspec.field(name="class")
    count: Positive = 1


class ResourceClassSpec(ApiStruct, frozen=True):
    """One of the selectors must match. Without `allowed_namespaces` every namespace may ask.

    `strategy` is how devices are chosen for requests of this class, before what the policy says.
    """

    resource_selector: tuple[ClassSelector, ...] = ()
    includes: tuple[ClassMember, ...] = ()
    allowed_namespaces: LabelSelector | None = None
    strategy: tuple[DeviceStrategy, ...] = ()

    def summary(self) -> str:
        """Which devices it selects, in a line: `Kind=gpu,memory>=60Gi or pair`."""
        terms = [",".join(map(str, term.match_expressions)) for term in self.resource_selector]
        members = " + ".join(f"{one.count} {one.class_name}" for one in self.includes)
        text = " or ".join(filter(None, terms)) + (f" [{members}]" if members else "")
        text = "".join(one if one.isprintable() else "?" for one in text.strip())
        return text if len(text) <= MAX_SUMMARY else text[: MAX_SUMMARY - 3] + "..."


class ResourceClassStatus(ApiStruct, frozen=True):
    """Units that the class can select, and those of them that are in use; only Fairway writes it."""

    allocatable: int | float
    requested: int | float
    selector: str = ""
    """A summary of the spec, for tables."""


class ResourceClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClassSpec = msgspec.field(default_factory=ResourceClassSpec)
    status: ResourceClassStatus | None = None
