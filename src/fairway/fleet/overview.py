"""The clusters of a fleet as people look at them: what is free, what fits, which taints, how old the report is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from fairway.api.fleet import ManagedCluster, PlacementDecision
from fairway.clock import SECOND, Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.fleet import facts, records, reports
from fairway.fleet.names import REPORTED_AT, SHAPES
from fairway.resources import format_amount

_MAX_SHAPES = 100


class FittingSize(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """How many more pods of one size fit, on nodes with the labels of their node selector."""

    request: dict[str, str]
    fits: Annotated[int, msgspec.Meta(ge=0)]
    node_selector: dict[str, str] = {}


class ClusterOverview(msgspec.Struct, rename="camel", frozen=True):
    name: str
    available: bool
    taints: tuple[str, ...]
    free: dict[str, str] | None
    """None if it is not reported, or the report has expired."""
    shapes: tuple[FittingSize, ...]
    placements: int
    """The number of placements that have chosen it."""
    report_age: int | None
    """In seconds; None if it does not report."""
    report_ended: bool
    problems: tuple[str, ...]


def overview(objects: Iterable[object], now: Micros) -> list[ClusterOverview]:
    """In order of name."""
    clusters, users = [], dict[str, set[tuple[str, str]]]()
    for one in objects:
        if isinstance(one, ManagedCluster):
            clusters.append(one)
        elif isinstance(one, PlacementDecision):
            for item in one.status.decisions:
                users.setdefault(item.cluster_name, set()).add(records.owner(one))
    clusters.sort(key=lambda one: one.metadata.name)
    return [_of(one, len(users.get(one.metadata.name, ())), now) for one in clusters]


def _of(cluster: ManagedCluster, users: int, now: Micros) -> ClusterOverview:
    trusted = reports.trusted(cluster, now)
    found = facts.read(trusted)
    free = found.free
    problems = [*found.warnings, *(f"cluster {found.name}: {text}" for text in reports.problems(cluster))]
    ended = trusted is not cluster
    return ClusterOverview(
        name=found.name,
        available=found.available and not found.deleting,
        taints=tuple(f"{one.key}:{one.effect}" for one in found.taints),
        free=None if free is None else {name: format_amount(name, amount) for name, amount in sorted(free.items())},
        shapes=() if ended else _shapes(cluster, problems),
        placements=users,
        report_age=_age(cluster, now),
        report_ended=ended,
        problems=tuple(problems),
    )


def _shapes(cluster: ManagedCluster, problems: list[str]) -> tuple[FittingSize, ...]:
    text = cluster.metadata.annotations.get(SHAPES)
    if text is None:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[FittingSize, ...])[:_MAX_SHAPES]
    except (msgspec.DecodeError, RecursionError) as error:
        problems.append(f"cluster {cluster.metadata.name}: annotation {SHAPES}: {error}")
        return ()


def _age(cluster: ManagedCluster, now: Micros) -> int | None:
    try:
        return max(0, (now - parse_rfc3339(cluster.metadata.annotations[REPORTED_AT])) // SECOND)
    except (KeyError, InputError):
        return None
