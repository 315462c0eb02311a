"""ResourceClass: a portable name for every device that can do something (seed 003)."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairway.api.meta import ApiStruct, LabelSelector, ObjectMeta, Positive

DeviceStrategy = Literal["first-fit", "least-loss", "pack", "spread", "numa"]
ClassOperator = Literal["In", "NotIn", "Eq", "Gt", "GtEq", "Lt", "LtEq", "Exists", "DoesNotExist"]


class ClassRequirement(ApiStruct, frozen=True):
    key: str
    operator: ClassOperator
    values: tuple[str, ...] = ()


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


class ResourceClassStatus(ApiStruct, frozen=True):
    """Units that the class can select, and those of them that are in use; only Fairway writes it."""

    allocatable: int | float
    requested: int | float


class ResourceClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClassSpec = msgspec.field(default_factory=ResourceClassSpec)
    status: ResourceClassStatus | None = None
