"""What is remembered of one placement between plans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
from msgspec.structs import replace

from fairway.api.fleet import (
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
    PlacementDecision,
)
from fairway.clock import Micros, parse_rfc3339
from fairway.errors import InputError, InvariantError
from fairway.fleet.facts import read_resources
from fairway.fleet.footing import Footing
from fairway.fleet.ledger import MAX_RESERVED, Ledger
from fairway.fleet.names import LEDGER, MOVED_AT, PLACEMENT_LABEL
from fairway.fleet.rules import Key, Rules
from fairway.fleet.scores import IntColumn
from fairway.resources import Resource

FleetObject = (
    ManagedCluster | ManagedClusterSet | ManagedClusterSetBinding | Placement | PlacementDecision | AddOnPlacementScore
)
FLEET_KINDS = get_args(FleetObject)
NO_SLOTS: IntColumn = np.zeros(0, np.int64)
_NUMBERED = re.compile(r"(.+)-decision-\d+")


@dataclass(slots=True)
class Record:
    """`rules` is None where only decisions are known. `chosen` are slots, `reserved` the ledger's entries by
    slot.

    `decided_at` is the number of the change after which it was last decided; -1 for never. `footing` is what that
    decision stands on; None where that is not known.
    """

    key: Key
    rules: Rules | None = None
    chosen: IntColumn = field(default_factory=lambda: NO_SLOTS)
    reserved: dict[int, Resource] = field(default_factory=dict)
    moved_at: Micros | None = None
    decided_at: int = -1
    pool_era: int = 0
    """Of the clusters among which it chose then."""
    footing: Footing | None = None
    slices: dict[str, PlacementDecision] = field(default_factory=dict)
    """The PlacementDecisions by name: as seen, or as the last plan applied has them."""

    @property
    def active(self) -> bool:
        """Whether there is anything to decide."""
        return self.rules is not None and self.rules.placement.metadata.deletion_timestamp is None


def owner(decision: PlacementDecision) -> Key:
    """The placement a PlacementDecision belongs to: by its label, or by its name where it has none."""
    named = _NUMBERED.fullmatch(decision.metadata.name)
    fallback = named[1] if named else decision.metadata.name
    return decision.metadata.namespace, decision.metadata.labels.get(PLACEMENT_LABEL, fallback)


def _sane(amounts: Resource) -> bool:
    return all(amount <= MAX_RESERVED for amount in amounts.amounts.values())


def recorded(slices: Mapping[str, PlacementDecision]) -> tuple[list[str], dict[str, Resource], Micros | None]:
    """Which clusters are chosen, what is reserved in each, and when that last changed; unreadable records count as
    none.
    """
    clusters: dict[str, None] = {}
    reserved: dict[str, Resource] = {}
    moved: list[Micros] = []
    for _, decision in sorted(slices.items()):
        names = [item.cluster_name for item in decision.status.decisions]
        clusters.update(dict.fromkeys(names))
        annotations = decision.metadata.annotations
        entries = read_resources(LEDGER, annotations.get(LEDGER, "{}"), [])
        reserved.update({name: amounts for name, amounts in entries.items() if name in names and _sane(amounts)})
        try:
            moved.append(parse_rfc3339(annotations[MOVED_AT]))
        except (KeyError, InputError):
            continue
    return list(clusters), reserved, max(moved, default=None)


def looks_the_same(cluster: ManagedCluster, before: ManagedCluster | None) -> bool:
    """To expressions; the number of its version is nothing that they look at."""
    if before is None:
        return False
    version = cluster.metadata.resource_version
    return cluster == replace(before, metadata=replace(before.metadata, resource_version=version))


def requests_the_same(before: Placement, after: Placement) -> bool:
    def asked(placement: Placement) -> tuple[Any, ...]:
        metadata = placement.metadata
        deleted = metadata.deletion_timestamp is not None
        return placement.spec, metadata.annotations, deleted, placement.api_version, metadata.uid

    return asked(before) == asked(after)


def check(known: Iterable[Record], ledger: Ledger, counts: IntColumn) -> None:
    """InvariantError unless counts, ledger and decisions agree."""
    ledger.check()
    expected, number = np.zeros(counts.size, np.int64), 0
    for record in known:
        expected[record.chosen] += 1
        number += len(record.reserved)
        for slot, amounts in record.reserved.items():
            entry = ledger.entry(slot, "/".join(record.key))
            if entry is None or entry.reserved != amounts:
                raise InvariantError(f"{record.key} holds {amounts} in slot {slot}, the ledger has {entry}")
    if not np.array_equal(expected, counts):
        raise InvariantError(f"counts are {counts.tolist()}, decisions give {expected.tolist()}")
    entries = sum(1 for slot in ledger.slots() for _ in ledger.entries(slot))
    if entries != number:
        raise InvariantError(f"the ledger has {entries} entries, not those of the decisions")
