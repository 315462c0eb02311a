"""How many nodes may carry reservations, and which."""

from __future__ import annotations

from fairway.api.arguments import ReserveArguments
from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.reservations import Reservations
from fairway.scheduler.placement.matching import equals
from fairway.state.snapshot import WorkingCopy


def counted_nodes(snapshot: WorkingCopy) -> BoolColumn:
    """The ready, schedulable nodes: what the percent is a part of."""
    nodes, size = snapshot.state.nodes, snapshot.size
    counted: BoolColumn = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    return counted


def scoring_nodes(snapshot: WorkingCopy, arguments: ReserveArguments) -> int:
    """How many nodes score ten: the policy's percent of the nodes that count, rounded up."""
    return -(-int(counted_nodes(snapshot).sum()) * arguments.reserved_node_percent // 100)


def max_reserved(snapshot: WorkingCopy, arguments: ReserveArguments) -> int:
    """How many nodes may carry a reservation at a time."""
    part = scoring_nodes(snapshot, arguments)
    return part if arguments.max_reserved_nodes is None else min(part, arguments.max_reserved_nodes)


def reservable_nodes(snapshot: WorkingCopy, reservations: Reservations, arguments: ReserveArguments) -> BoolColumn:
    """Those that the policy does not exclude, and on which no other job is about to start: they have nominations."""
    open_ = counted_nodes(snapshot)
    if arguments.exclude_node_selector:
        labels, size = snapshot.state.nodes.labels, snapshot.size
        excluded = open_.copy()
        for key, wanted in arguments.exclude_node_selector.items():
            excluded &= labels.where(key, size, equals(wanted))
        open_ &= ~excluded
    open_[list(reservations.nominated_rows())] = False
    return open_
