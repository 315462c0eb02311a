"""How many nodes may carry reservations, and which."""

from __future__ import annotations

from fairway.api.arguments import ReserveArguments
from fairway.resources.columns import BoolColumn
from fairway.scheduler.framework.session import Session
from fairway.scheduler.placement.matching import equals


def counted_nodes(session: Session) -> BoolColumn:
    """The ready, schedulable nodes: what the percent is a part of."""
    nodes, size = session.state.nodes, session.snapshot.size
    counted: BoolColumn = nodes.alive[:size] & nodes.ready[:size] & nodes.schedulable[:size]
    return counted


def scoring_nodes(session: Session, arguments: ReserveArguments) -> int:
    """How many nodes score ten: the policy's percent of the nodes that count, rounded up."""
    return -(-int(counted_nodes(session).sum()) * arguments.reserved_node_percent // 100)


def max_reserved(session: Session, arguments: ReserveArguments) -> int:
    """How many nodes may carry a reservation at a time."""
    part = scoring_nodes(session, arguments)
    return part if arguments.max_reserved_nodes is None else min(part, arguments.max_reserved_nodes)


def reservable_nodes(session: Session, arguments: ReserveArguments) -> BoolColumn:
    """Those that the policy does not exclude, and on which nobody else is about to start: they hold nominations."""
    open_ = counted_nodes(session)
    if arguments.exclude_node_selector:
        labels, size = session.state.nodes.labels, session.snapshot.size
        excluded = open_.copy()
        for key, wanted in arguments.exclude_node_selector.items():
            excluded &= labels.where(key, size, equals(wanted))
        open_ &= ~excluded
    open_[list(session.reservations.nominated_rows())] = False
    return open_
