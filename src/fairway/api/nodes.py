"""Nodes: what they have, and which pods may use it."""

from __future__ import annotations

import msgspec

from fairway.api.affinity import Taint
from fairway.api.meta import Amounts, ApiStruct, Condition, ObjectMeta


class NodeSpec(ApiStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(ApiStruct, frozen=True):
    capacity: Amounts = msgspec.field(default_factory=dict)
    allocatable: Amounts | None = None
    conditions: tuple[Condition, ...] = ()


class Node(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    @property
    def allocatable(self) -> dict[str, str]:
        """What pods may use: where the node does not say, all it has, as the API server defaults it."""
        given = self.status.allocatable
        return self.status.capacity if given is None else given
