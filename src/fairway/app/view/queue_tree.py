"""Queues as a tree: what each has allocated, deserves, may have at most, borrows and lends.

Borrowing is measured against a queue's entitlement: its fair share if every queue requested all that it may have. The
deserved amount of a cycle is no measure, because it grows with whatever the other queues leave unrequested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from fairway.app.view.amounts import base, base_of_text, is_resource, rank
from fairway.app.view.mirror import Mirror
from fairway.app.view.models.cluster import LentAmount, NamespaceUse, QueueAmount, QueueNode, QueuesPage
from fairway.app.view.models.jobs import JobSummary
from fairway.clock import format_rfc3339
from fairway.scheduler.plan import ExplainedPlan, NamespaceStanding, QueueStanding
from fairway.state.queues import QueueInfo, QueueTree
from fairway.state.snapshot import snapshot_of

ROUNDS = 64
"""Maximum number of rounds: in each, at least one queue reaches its capability."""


def entitled_amounts(queues: QueueTree, row: int, total: int) -> dict[str, float]:
    """Amounts of one resource by queue."""
    found: dict[str, float] = {}
    ahead: list[tuple[Iterable[str], float]] = [(queues.top, float(total))]
    while ahead:
        names, whole = ahead.pop()
        siblings = [queues[name] for name in sorted(names) if name in queues and _counts(queues[name])]
        for queue, amount in _divided(siblings, row, whole):
            if queue.name not in found:
                found[queue.name] = amount
                ahead.append((queue.children, amount))
    return found


def _counts(queue: QueueInfo) -> bool:
    """The queue `default` exists without an object; unused, it lends nothing."""
    return queue.declared or bool(queue.accounts)


def _divided(queues: list[QueueInfo], row: int, whole: float) -> list[tuple[QueueInfo, float]]:
    """Divides by weight, between guarantee and capability; explicit deserved amounts are kept."""
    fixed: dict[str, float] = {queue.name: float(queue.deserved[row]) for queue in queues if row in queue.deserved}
    for _ in range(ROUNDS):
        free = [queue for queue in queues if queue.name not in fixed]
        left = max(0.0, whole - sum(fixed.values()))
        weights = sum(queue.weight for queue in free)
        bounded = {}
        for queue in free:
            share = left * queue.weight / weights if weights else 0.0
            least, most = queue.guarantee.get(row, 0), queue.capability.get(row)
            if most is not None and share > most:
                bounded[queue.name] = float(most)
            elif share < least:
                bounded[queue.name] = float(least)
        if not bounded:
            fixed |= {queue.name: left * queue.weight / weights if weights else 0.0 for queue in free}
            break
        fixed |= bounded
    return [(queue, fixed.get(queue.name, 0.0)) for queue in queues]


Counts = dict[tuple[str, str, str], int]
"""Jobs by queue, namespace and state."""
Entitled = Mapping[str, Mapping[str, float]]


def queues_page(mirror: Mirror, plan: ExplainedPlan, rows: Sequence[JobSummary]) -> QueuesPage:
    standings = {queue.name: queue for queue in plan.queues}
    namespaces: dict[str, list[NamespaceStanding]] = {}
    for standing in plan.namespaces:
        namespaces.setdefault(standing.queue, []).append(standing)
    counts: Counts = {}
    for row in rows:
        key = row.queue, row.namespace, "running" if row.state == "running" else "waiting"
        if row.state != "finished":
            counts[key] = counts.get(key, 0) + 1
    entitled = _entitled(mirror)
    nodes = [
        _node(mirror, standings[name], depth, namespaces.get(name, []), counts, entitled)
        for name, depth in _in_order(standings)
    ]
    found = loans(nodes)
    lent: dict[tuple[str, str], float] = {}
    for loan in found:
        lent[loan.lender, loan.resource] = lent.get((loan.lender, loan.resource), 0.0) + loan.amount
    nodes = [
        replace(node, amounts=[replace(one, lent=lent.get((node.name, one.resource), 0.0)) for one in node.amounts])
        for node in nodes
    ]
    return QueuesPage(mirror.revision, format_rfc3339(mirror.now), nodes, found)


def _entitled(mirror: Mirror) -> Entitled:
    """By resource and queue, in internal amounts."""
    state = mirror.state
    total = snapshot_of(state).total_without(mirror.policy.excluded_taints)
    return {
        name: entitled_amounts(state.queues, row, total[row])
        for row, name in enumerate(state.axis.names)
        if row < len(total) and total[row] and is_resource(name)
    }


def _in_order(standings: Mapping[str, QueueStanding]) -> list[tuple[str, int]]:
    """Parents before their children, siblings by name. A queue with a missing parent, or that is its own ancestor, is
    at the top.
    """
    children: dict[str, list[str]] = {}
    for name, standing in sorted(standings.items()):
        parent = standing.parent if standing.parent in standings and standing.parent != name else ""
        children.setdefault(parent, []).append(name)
    found: list[tuple[str, int]] = []
    seen: set[str] = set()

    def visit(name: str, depth: int) -> None:
        if name in seen:
            return
        seen.add(name)
        found.append((name, depth))
        for child in children.get(name, ()):
            visit(child, depth + 1)

    for top in children.get("", ()):
        visit(top, 0)
    for name in sorted(standings.keys() - seen):
        visit(name, 0)
    return found


def _node(
    mirror: Mirror,
    standing: QueueStanding,
    depth: int,
    namespaces: Sequence[NamespaceStanding],
    counts: Counts,
    entitled: Entitled,
) -> QueueNode:
    queues = mirror.state.queues
    info = None
    if standing.name in queues:
        info = queues[standing.name]
    below = {standing.name, *_below(mirror, standing.name)}
    return QueueNode(
        name=standing.name,
        parent=standing.parent,
        depth=depth,
        state=standing.state,
        weight=standing.weight,
        share=standing.share,
        dominant_share=standing.dominant_share,
        reclaimable=info is None or info.reclaimable,
        waiting_jobs=_sum(counts, below, "waiting"),
        running_jobs=_sum(counts, below, "running"),
        amounts=_amounts(mirror, standing, info, entitled),
        namespaces=[_namespace(one, counts) for one in sorted(namespaces, key=lambda one: one.weighted_share)],
    )


def _sum(counts: Counts, queues: set[str], wanted: str) -> int:
    return sum(number for (queue, _, state), number in counts.items() if queue in queues and state == wanted)


def _below(mirror: Mirror, name: str) -> set[str]:
    found: set[str] = set()
    queues = mirror.state.queues
    ahead = [name]
    while ahead:
        here = ahead.pop()
        for child in queues[here].children if here in queues else ():
            if child not in found and child != name:
                found.add(child)
                ahead.append(child)
    return found


def _amounts(mirror: Mirror, standing: QueueStanding, info: QueueInfo | None, entitled: Entitled) -> list[QueueAmount]:
    texts = standing.allocated, standing.reserved, standing.deserved, standing.requested
    allocated, reserved, deserved, requested = map(base_of_text, texts)
    axis = mirror.state.axis
    limits = {} if info is None else {axis.names[row]: amount for row, amount in info.capability.items()}
    floors = {} if info is None else {axis.names[row]: amount for row, amount in info.guarantee.items()}
    names = {*allocated, *reserved, *deserved, *requested, *limits, *floors}
    fair = {name: base(name, 1) * by_queue.get(standing.name, 0.0) for name, by_queue in entitled.items()}
    return [
        QueueAmount(
            resource=name,
            allocated=allocated.get(name, 0),
            reserved=reserved.get(name, 0),
            deserved=deserved.get(name, 0),
            requested=max(0, requested.get(name, 0) - allocated.get(name, 0)),
            guarantee=base(name, floors.get(name, 0)),
            capability=base(name, limits[name]) if name in limits else None,
            entitled=fair.get(name, 0.0),
            borrowed=max(0.0, allocated.get(name, 0) - fair.get(name, 0.0)),
            lent=0,
        )
        for name in sorted(filter(is_resource, names), key=rank)
    ]


def _namespace(standing: NamespaceStanding, counts: Counts) -> NamespaceUse:
    key = standing.queue, standing.namespace
    return NamespaceUse(
        namespace=standing.namespace,
        weight=standing.weight,
        share=standing.share,
        weighted_share=standing.weighted_share,
        allocated=base_of_text(standing.allocated),
        waiting_jobs=counts.get((*key, "waiting"), 0),
        running_jobs=counts.get((*key, "running"), 0),
    )


def loans(nodes: Sequence[QueueNode]) -> list[LentAmount]:
    """Loans between queues, resource by resource: borrowed amounts are split over the queues with unused entitlements,
    in proportion. Only queues with jobs borrow and lend; their parents have the sums.
    """
    leaves = [node for node in nodes if not any(other.parent == node.name for other in nodes)]
    found: list[LentAmount] = []
    for resource in sorted({amount.resource for node in leaves for amount in node.amounts}, key=rank):
        amounts = [(node.name, amount) for node in leaves for amount in node.amounts if amount.resource == resource]
        spare = {name: max(0.0, amount.entitled - amount.allocated) for name, amount in amounts}
        whole = sum(spare.values())
        for borrower, amount in amounts:
            if amount.borrowed > 0 and whole > 0:
                part = min(1.0, amount.borrowed / whole)
                found += [
                    LentAmount(resource, lender, borrower, free * part) for lender, free in spare.items() if free > 0
                ]
    return found
