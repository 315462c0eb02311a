"""Namespaces and their quotas, which carry the namespace's weight in fair sharing."""

from __future__ import annotations

import msgspec

from fairway.api.meta import ApiStruct, ObjectMeta, Scalars

NAMESPACE_WEIGHT = "volcano.sh/namespace.weight"
"""The key in a quota's `spec.hard` that holds the weight, as raw text: its reader decides what counts."""


class NamespaceStatus(ApiStruct, frozen=True):
    phase: str = "Active"


class Namespace(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class ResourceQuotaSpec(ApiStruct, frozen=True):
    hard: Scalars = msgspec.field(default_factory=dict)


class ResourceQuota(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
