"""What every object has: metadata, conditions, selectors over labels, and a resource version.

The structs keep only what a scheduler reads; the decoder skips the rest of the Kubernetes schema without building it.
They are frozen trees (change one with `msgspec.structs.replace`) without reference cycles, which is why the garbage
collector need not visit them (`gc=False`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

Labels = dict[str, str]

Amounts = Annotated[dict[str, str], msgspec.Meta(extra={"scalars": "quantity"})]
"""Quantities by resource name, as text. Files may also write plain numbers: they become their text."""

Scalars = Annotated[dict[str, str], msgspec.Meta(extra={"scalars": "any"})]
"""Raw text by name: any scalar of a file becomes its text, nothing is interpreted."""

QuantityText = Annotated[str, msgspec.Meta(extra={"scalars": "quantity"})]
"""One quantity, as text; a plain number in a file becomes its text."""

_INT32 = 2**31 - 1
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=_INT32)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=_INT32)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=_INT32)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

Time = Annotated[datetime, msgspec.Meta(tz=True)]

ConditionStatus = Literal["True", "False", "Unknown"]
SelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class ApiStruct(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """The base of all structs: Python names inside, Kubernetes names in JSON, unknown fields ignored."""


class OwnerReference(ApiStruct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""


class ObjectMeta(ApiStruct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Labels = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    generate_name: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()


class Condition(ApiStruct, frozen=True):
    """One condition of a status: what holds, since when and why."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class LabelSelectorRequirement(ApiStruct, frozen=True):
    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """All labels and all expressions must match; an empty selector matches everything."""

    match_labels: Labels = msgspec.field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


_MAX_DIGITS = 20


def version_number(version: str) -> int | None:
    """None if it is not a number: versions cannot be compared then."""
    is_number = version and len(version) <= _MAX_DIGITS and version.isascii() and version.isdecimal()
    return int(version) if is_number else None


def is_older(version: str, than: str) -> bool:
    """False if the versions cannot be compared."""
    mine, theirs = version_number(version), version_number(than)
    return mine is not None and theirs is not None and mine < theirs
