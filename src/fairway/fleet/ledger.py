"""The capacity that placements reserve in clusters: the ledger behind "at least this much space".

    reserved = consumed + remaining

An entry reserves the placement's requirements in one chosen cluster. What the placement's workloads use there,
as the cluster reports it, consumes the entry; only the remaining part counts against others. Nothing is ever
negative: what a cluster cannot cover is `shortfall`, a statement about the cluster, not an amount in the
books. Clusters are slots of the table. A cluster's report is kept while nothing is reserved there too, since what
a placement uses already counts toward what it may reserve next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fairway.errors import InvariantError
from fairway.fleet.scores import IntColumn
from fairway.resources import Resource

MAX_RESERVED = 2**53
"""Maximum of an entry in each dimension, so that all entries of a cluster together fit an int64."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What one placement has reserved in one cluster."""

    placement: str
    slot: int
    reserved: Resource
    consumed: Resource

    @property
    def remaining(self) -> Resource:
        return self.reserved - self.consumed


class Ledger:
    def __init__(self, size: int) -> None:
        self._size = size
        self._reserved: dict[int, dict[str, Resource]] = {}
        self._usage: dict[int, Mapping[str, Resource]] = {}
        self._used_by: dict[str, set[int]] = {}
        self._reserved_by: dict[str, set[int]] = {}
        self._outstanding: dict[str, IntColumn] = {}

    def copy(self) -> Ledger:
        made = Ledger(self._size)
        made._reserved = {slot: dict(reserved) for slot, reserved in self._reserved.items()}
        made._usage = dict(self._usage)
        made._used_by = {placement: set(slots) for placement, slots in self._used_by.items()}
        made._reserved_by = {placement: set(slots) for placement, slots in self._reserved_by.items()}
        made._outstanding = {name: column.copy() for name, column in self._outstanding.items()}
        return made

    def resize(self, size: int) -> None:
        """The table has grown."""
        for name, column in self._outstanding.items():
            self._outstanding[name] = np.zeros(size, np.int64)
            self._outstanding[name][: self._size] = column
        self._size = size

    def reserve(self, slot: int, placement: str, amounts: Resource) -> None:
        """Reserves exactly `amounts`, replacing the previous entry."""
        self._count(slot, placement, -1)
        self._reserved.setdefault(slot, {})[placement] = amounts
        self._reserved_by.setdefault(placement, set()).add(slot)
        self._count(slot, placement, 1)

    def release(self, slot: int, placement: str) -> None:
        """The decision ended: the remaining part is free for others again."""
        self._count(slot, placement, -1)
        reserved = self._reserved.get(slot, {})
        reserved.pop(placement, None)
        if not reserved:
            self._reserved.pop(slot, None)
        slots = self._reserved_by.get(placement, set())
        slots.discard(slot)
        if not slots:
            self._reserved_by.pop(placement, None)

    def report(self, slot: int, usage: Mapping[str, Resource]) -> None:
        """The reported usage of each placement's workloads in the cluster; empty once it is gone."""
        for placement in self._reserved.get(slot, {}):
            self._count(slot, placement, -1)
        for placement in self._usage.pop(slot, {}):
            self._used_by[placement].discard(slot)
            if not self._used_by[placement]:
                del self._used_by[placement]
        if usage:
            self._usage[slot] = usage
        for placement in usage:
            self._used_by.setdefault(placement, set()).add(slot)
        for placement in self._reserved.get(slot, {}):
            self._count(slot, placement, 1)

    def entry(self, slot: int, placement: str) -> LedgerEntry | None:
        reserved = self._reserved.get(slot, {}).get(placement)
        if reserved is None:
            return None
        return LedgerEntry(placement, slot, reserved, self.consumed(slot, placement, reserved))

    def entries(self, slot: int) -> Iterator[LedgerEntry]:
        """The entries of a cluster, in order of placement."""
        for placement, reserved in sorted(self._reserved.get(slot, {}).items()):
            yield LedgerEntry(placement, slot, reserved, self.consumed(slot, placement, reserved))

    def slots(self) -> list[int]:
        """The clusters with entries."""
        return sorted(self._reserved)

    def reserved_by(self, placement: str) -> list[LedgerEntry]:
        """The entries of a placement, in order of slot."""
        found = (self.entry(slot, placement) for slot in sorted(self._reserved_by.get(placement, ())))
        return [entry for entry in found if entry is not None]

    def used_by(self, placement: str) -> frozenset[int]:
        """The clusters that report usage of the placement's workloads."""
        return frozenset(self._used_by.get(placement, ()))

    def usage(self, slot: int, placement: str) -> Resource:
        return self._usage.get(slot, {}).get(placement, Resource.EMPTY)

    def consumed(self, slot: int, placement: str, amounts: Resource) -> Resource:
        """How much of `amounts` the placement's workloads already use."""
        usage = self.usage(slot, placement)
        return Resource({name: min(amount, usage.get(name)) for name, amount in amounts.amounts.items()})

    def outstanding(self, resource: str) -> IntColumn:
        """The remaining part of all entries, by cluster. Do not modify."""
        column = self._outstanding.get(resource)
        return np.zeros(self._size, np.int64) if column is None else column

    def shortfall(self, slot: int, free: Mapping[str, int]) -> Resource:
        """By how much the entries of a cluster exceed its free capacity."""
        short = {}
        for name, column in self._outstanding.items():
            missing = int(column[slot]) - free.get(name, 0)
            if missing > 0:
                short[name] = missing
        return Resource(short)

    def check(self) -> None:
        """InvariantError unless the ledger balances."""
        for name, column in self._outstanding.items():
            expected = np.zeros(self._size, np.int64)
            for slot in self._reserved:
                expected[slot] = sum(entry.remaining.get(name) for entry in self.entries(slot))
            if not np.array_equal(expected, column):
                raise InvariantError(f"outstanding {name}: kept {column.tolist()}, sums {expected.tolist()}")
        for slot in self._reserved:
            for entry in self.entries(slot):
                if entry.consumed + entry.remaining != entry.reserved:
                    raise InvariantError(f"entry of {entry.placement} in slot {slot} does not balance")

    def _count(self, slot: int, placement: str, sign: int) -> None:
        entry = self.entry(slot, placement)
        if entry is None:
            return
        for name, amount in entry.remaining.amounts.items():
            column = self._outstanding.get(name)
            if column is None:
                column = self._outstanding[name] = np.zeros(self._size, np.int64)
            column[slot] += sign * amount
