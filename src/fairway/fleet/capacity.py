"""Requirements: does a cluster have the capacity, what is reserved there already, and what is overdrawn?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairway.fleet.ledger import Ledger
from fairway.fleet.names import FREE, FREE_UNKNOWN, INSUFFICIENT_FREE
from fairway.fleet.rules import Rules
from fairway.fleet.scores import BoolColumn, IntColumn
from fairway.fleet.table import ClusterTable
from fairway.resources import Resource, format_amount


@dataclass(frozen=True, slots=True)
class ClusterCapacity:
    """The free capacity of every cluster when a placement with requirements was decided."""

    enough: BoolColumn
    reports: BoolColumn
    available: dict[str, IntColumn]
    needed: dict[str, IntColumn]
    unreported: frozenset[str]
    """Required resources that no cluster reports: most likely the name is wrong."""

    def missing(self, slot: int) -> str:
        """Why a cluster has too little, naming the dimension."""
        if not self.reports[slot]:
            return f"{FREE_UNKNOWN}: the cluster does not report its free capacity (annotation {FREE})"
        for name, needed in self.needed.items():
            need, there = int(needed[slot]), int(self.available[name][slot])
            if there < need:
                amounts = f"{format_amount(name, there)} available, {format_amount(name, need)} required"
                hint = " (no cluster reports it)" if name in self.unreported else ""
                return f"{INSUFFICIENT_FREE}: {name}: {amounts}{hint}"
        raise AssertionError(f"slot {slot} has enough")


def find(rules: Rules, table: ClusterTable, ledger: Ledger) -> ClusterCapacity:
    """Capacity for the requirements besides what others have reserved; what the placement already uses is not needed
    again.

    A cluster in which the placement has reserved all it requires is kept, even if the capacity is gone: a placement
    whose capacity was taken gets a condition (see `overdrawn`), and is not moved.
    """
    placement = rules.name
    own = {slot: ledger.consumed(slot, placement, rules.requirements) for slot in ledger.used_by(placement)}
    reserved = ledger.reserved_by(placement)
    enough = table.reports_free.copy()
    available, needed, unreported = {}, {}, set()
    for name, amount in rules.requirements.amounts.items():
        free = table.amounts("free", name)
        if free.size and free.max() < 0:
            unreported.add(name)
        others = ledger.outstanding(name).copy()
        for entry in reserved:
            others[entry.slot] -= entry.remaining.get(name)
        available[name] = np.maximum(np.maximum(free, 0) - others, 0)
        needed[name] = np.full(table.size, amount, np.int64)
        for slot, used in own.items():
            needed[name][slot] -= used.get(name)
        enough &= available[name] >= needed[name]
    for entry in reserved:
        enough[entry.slot] |= rules.requirements.less_equal(entry.reserved)
    return ClusterCapacity(enough, table.reports_free.copy(), available, needed, frozenset(unreported))


def overdrawn(rules: Rules, table: ClusterTable, ledger: Ledger, chosen: Sequence[int]) -> list[str]:
    """Where the reserved capacity of the placement no longer exists, in words."""
    problems = []
    for slot in chosen:
        entry, facts = ledger.entry(slot, rules.name), table.facts[slot]
        if entry is None or entry.remaining.is_empty():
            continue
        if facts is None or facts.free is None:
            problems.append(f"{table.names[slot]} does not report its free capacity")
            continue
        short = ledger.shortfall(slot, facts.free)
        concerned = {name: amount for name, amount in short.amounts.items() if entry.remaining.get(name)}
        if concerned:
            amounts = ", ".join(f"{text} of {name}" for name, text in Resource(concerned).format().items())
            problems.append(f"{table.names[slot]} lacks {amounts} for what is reserved there")
    return problems


def fitting(rules: Rules, table: ClusterTable, ledger: Ledger, chosen: Sequence[int], size: Resource) -> list[int]:
    """How many replicas fit in each cluster, including those that run there; none if free capacity is unknown."""
    counts = []
    for slot in chosen:
        facts = table.facts[slot]
        free = {} if facts is None or facts.free is None else facts.free
        usage, entry = ledger.usage(slot, rules.name), ledger.entry(slot, rules.name)
        fits = []
        for name, amount in size.amounts.items():
            own = entry.remaining.get(name) if entry else 0
            others = int(ledger.outstanding(name)[slot]) - own
            if amount:
                fits.append((max(0, free.get(name, 0) - others) + usage.get(name)) // amount)
        counts.append(min(fits, default=0))
    return counts
