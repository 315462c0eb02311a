"""How long a cluster's report of what is free there counts.

A cluster that has gone silent may have filled up meanwhile: after the instant that it named itself, what it reported as
free is unknown. What its workloads use stays as it was, so that nothing is reserved twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from fairway.api.fleet import ManagedCluster
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError
from fairway.fleet.names import FREE, REPORTED_AT, REPORTED_UNTIL

UNREADABLE: Micros = -1
"""The end of a report whose end cannot be parsed: long ago."""
_WANTED = "expected a time such as 2026-01-31T12:00:00Z; the reported free capacity is ignored"


def ends_at(cluster: ManagedCluster) -> Micros | None:
    """When the report ends; None for never, or without a report. A report whose end cannot be parsed has ended."""
    text = cluster.metadata.annotations.get(REPORTED_UNTIL)
    if text is None or FREE not in cluster.metadata.annotations:
        return None
    try:
        return parse_rfc3339(text)
    except InputError:
        return UNREADABLE


def made_at(cluster: ManagedCluster) -> Micros | None:
    """By the clock of the cluster; None if it is not stated."""
    text = cluster.metadata.annotations.get(REPORTED_AT)
    try:
        return None if text is None else parse_rfc3339(text)
    except InputError:
        return None


def problems(cluster: ManagedCluster) -> list[str]:
    """What is wrong with the stated end of the report."""
    return [] if ends_at(cluster) != UNREADABLE else [f"annotation {REPORTED_UNTIL}: {_WANTED}"]


def as_trusted(objects: Iterable[object], now: Micros) -> list[object]:
    """All objects; clusters keep only the valid part of their reports."""
    return [trusted(one, now) if isinstance(one, ManagedCluster) else one for one in objects]


def trusted(cluster: ManagedCluster, now: Micros) -> ManagedCluster:
    """The cluster with the valid part of its report."""
    until = ends_at(cluster)
    return cluster if until is None or now < until else untrusted(cluster)


def untrusted(cluster: ManagedCluster) -> ManagedCluster:
    """The cluster without its reported free capacity."""
    kept = {name: text for name, text in cluster.metadata.annotations.items() if name != FREE}
    return replace(cluster, metadata=replace(cluster.metadata, annotations=kept))
