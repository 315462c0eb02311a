"""The nodes that are there and take pods, and what they have together."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from fairway.api.core import Node, NodeSpec, NodeStatus
from fairway.api.meta import ObjectMeta
from fairway.resources.algebra import Resource
from fairway.resources.quantity import format_amount
from fairway.sim.scenario.model import NodeTemplate
from fairway.sim.traces import TraceNode


class NodePool:
    """Nodes by name, with their sum kept."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self.capacity: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def names(self) -> set[str]:
        return set(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def add(self, node: Node) -> None:
        self.take(node.metadata.name)
        self._nodes[node.metadata.name] = node
        self._count(node, 1)

    def take(self, name: str) -> Node | None:
        """Count a node out; None where it is not there."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._count(node, -1)
        return node

    def draw(self, dice: Random) -> str | None:
        """Any node."""
        return dice.choice(sorted(self._nodes)) if self._nodes else None

    def _count(self, node: Node, by: int) -> None:
        for name, amount in Resource.parse(node.allocatable).amounts.items():
            self.capacity[name] = self.capacity.get(name, 0) + by * amount


def nodes_of_template(template: NodeTemplate) -> Iterator[Node]:
    """As many nodes as the template counts; their order by name is their order by number."""
    amounts = template.allocatable.format()
    width = len(str(template.count - 1))
    for index in range(template.count):
        name = template.name if template.count == 1 else f"{template.name}-{index:0{width}d}"
        yield Node(
            metadata=ObjectMeta(name=name, labels=template.labels),
            spec=NodeSpec(taints=template.taints),
            status=NodeStatus(capacity=amounts, allocatable=amounts),
        )


def node_of_trace(node: TraceNode) -> Node:
    amounts = {name: format_amount(name, amount) for name, amount in node.allocatable.items()}
    return Node(
        metadata=ObjectMeta(name=node.name, labels=node.labels),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )
