"""The clusters as columns: one slot per cluster name, int64 amounts laid out (resource, cluster).

A name keeps its slot while the cluster exists or a decision names it. Columns are made on first use and kept up to date
slot by slot afterwards. Code that derives values from them compares stamps: `selection` counts changes that can alter
which clusters may be chosen, `amounts_changes` those of any amounts, `amounts_stamp` those of one column.
`amounts_log` is a `SlotLog`, the slots in which amounts changed, in order, so that derived columns are repaired and not
computed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from fairway.fleet.facts import ClusterFacts
from fairway.fleet.scores import MISSING, BoolColumn, IntColumn

KEPT: Final = 512
"""Changes kept in the log: a reader that needs older ones computes everything again."""


class SlotLog:
    def __init__(self) -> None:
        self._slots: list[int] = []
        self._forgotten = 0

    @property
    def end(self) -> int:
        """The position of the next change."""
        return self._forgotten + len(self._slots)

    def append(self, slot: int) -> None:
        if len(self._slots) >= 2 * KEPT:
            del self._slots[:KEPT]
            self._forgotten += KEPT
        self._slots.append(slot)

    def forget(self) -> None:
        """Positions before this one are no longer valid."""
        self._forgotten = self.end + 1
        self._slots.clear()

    def since(self, place: int) -> frozenset[int] | None:
        """The slots that changed at `place` or after it; None if the log no longer reaches back to it."""
        if place < self._forgotten:
            return None
        return frozenset(self._slots[place - self._forgotten :])


Kind = Literal["allocatable", "capacity", "free"]
Source = Literal["label", "claim"]
CodeColumn = npt.NDArray[np.int32]

ABSENT = -1
_KINDS: tuple[Kind, ...] = ("allocatable", "capacity", "free")


@dataclass(slots=True)
class ClusterUpdate:
    """The changes of one cluster by an event, as far as they can affect placements."""

    standing: bool = False
    """It was added or removed, or its taints, availability or deletion changed: affects all placements that see it."""
    labels: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    resources: set[str] = field(default_factory=set)
    usage: bool = False

    def __bool__(self) -> bool:
        return bool(self.standing or self.labels or self.claims or self.resources or self.usage)


@dataclass(slots=True)
class Codes:
    """One label or claim over all clusters: a number per value, ABSENT for clusters without it."""

    column: CodeColumn
    values: dict[str, int] = field(default_factory=dict)


class ClusterTable:
    def __init__(self) -> None:
        self.size = 64
        self.slots: dict[str, int] = {}
        self.names: list[str] = [""] * self.size
        self.facts: list[ClusterFacts | None] = [None] * self.size
        self.exists: BoolColumn = np.zeros(self.size, np.bool_)
        self.choosable: BoolColumn = np.zeros(self.size, np.bool_)
        """Exists and is not being deleted."""
        self.available: BoolColumn = np.zeros(self.size, np.bool_)
        self.reports_free: BoolColumn = np.zeros(self.size, np.bool_)
        self.tainted: set[int] = set()
        self._odd: set[int] = set()
        """Slots of clusters whose reports have warnings."""
        self.selection = 0
        self.amounts_changes = 0
        self.amounts_log = SlotLog()
        self._empty = list(range(self.size - 1, -1, -1))
        self._amounts: dict[tuple[Kind, str], IntColumn] = {}
        self._stamps: dict[tuple[Kind, str], int] = {}
        self._codes: dict[tuple[Source, str], Codes] = {}
        self._rank: IntColumn | None = None

    def slot(self, name: str) -> int:
        """The slot of a name, assigned on first use."""
        known = self.slots.get(name)
        if known is not None:
            return known
        if not self._empty:
            self._grow()
        slot = self.slots[name] = self._empty.pop()
        self.names[slot] = name
        self._rank = None
        return slot

    def forget(self, slot: int) -> None:
        """Releases a slot; its cluster must be gone and in no decision."""
        assert not self.exists[slot]
        del self.slots[self.names[slot]]
        self.names[slot] = ""
        self._empty.append(slot)
        self._rank = None

    def put(self, facts: ClusterFacts) -> ClusterUpdate:
        slot = self.slot(facts.name)
        before, self.facts[slot] = self.facts[slot], facts
        change = _difference(before, facts)
        self._write(slot, facts, change)
        return change

    def remove(self, name: str) -> ClusterUpdate:
        slot = self.slots[name]
        before, self.facts[slot] = self.facts[slot], None
        change = _difference(before, None)
        self._write(slot, None, change)
        return change

    def warnings(self) -> list[str]:
        """About clusters with invalid reports, in no order."""
        odd = (self.facts[slot] for slot in self._odd)
        return [text for facts in odd if facts is not None for text in facts.warnings]

    @property
    def rank(self) -> IntColumn:
        """The rank of each slot in order of name, which breaks ties."""
        if self._rank is None:
            self._rank = np.full(self.size, self.size, np.int64)
            ordered = [self.slots[name] for name in sorted(self.slots)]
            self._rank[ordered] = np.arange(len(ordered))
        return self._rank

    def watch(self, watched: Iterable[tuple[str, str]]) -> None:
        """Creates the columns of these labels, claims and resources before a plan needs them."""
        for what, name in watched:
            if what == "resource":
                for kind in _KINDS:
                    self.amounts(kind, name)
            elif what == "label":
                self.codes("label", name)
            elif what == "claim":
                self.codes("claim", name)

    def forget_codes(self) -> None:
        """Drops columns of labels and claims, which are computed again on demand."""
        self._codes.clear()

    def amounts(self, kind: Kind, resource: str) -> IntColumn:
        """MISSING where a cluster does not report it."""
        column = self._amounts.get((kind, resource))
        if column is None:
            values = [MISSING if f is None else f.amounts(kind).get(resource, MISSING) for f in self.facts]
            column = self._amounts[kind, resource] = np.array(values, np.int64)
            self._stamps[kind, resource] = 0
        return column

    def amounts_stamp(self, kind: Kind, resource: str) -> int:
        return self._stamps.get((kind, resource), 0)

    def codes(self, source: Source, key: str) -> Codes:
        """The values of one label or claim, as numbers that can be compared by column."""
        codes = self._codes.get((source, key))
        if codes is None:
            codes = self._codes[source, key] = Codes(np.full(self.size, ABSENT, np.int32))
            for slot, facts in enumerate(self.facts):
                _encode(codes, slot, source, key, facts)
        return codes

    def _write(self, slot: int, facts: ClusterFacts | None, change: ClusterUpdate) -> None:
        if change.standing or change.labels or change.claims:
            self.selection += 1
        self.exists[slot] = facts is not None
        self.choosable[slot] = facts is not None and not facts.deleting
        self.available[slot] = facts is not None and facts.available
        self.reports_free[slot] = facts is not None and facts.free is not None
        _keep(self.tainted, slot, facts is not None and bool(facts.taints))
        _keep(self._odd, slot, facts is not None and bool(facts.warnings))
        for key in change.labels:
            if ("label", key) in self._codes:
                _encode(self._codes["label", key], slot, "label", key, facts)
        for key in change.claims:
            if ("claim", key) in self._codes:
                _encode(self._codes["claim", key], slot, "claim", key, facts)
        logged = False
        for kind in _KINDS:
            for resource in change.resources:
                if (kind, resource) in self._amounts:
                    amount = MISSING if facts is None else facts.amounts(kind).get(resource, MISSING)
                    self._amounts[kind, resource][slot] = amount
                    self._stamps[kind, resource] += 1
                    self.amounts_changes += 1
                    logged = True
        if logged:
            self.amounts_log.append(slot)

    def _grow(self) -> None:
        """Doubles the number of slots. Columns are computed again on demand."""
        old, self.size = self.size, 2 * self.size
        self.names += [""] * old
        self.facts += [None] * old
        for name in ("exists", "choosable", "available", "reports_free"):
            column = np.zeros(self.size, np.bool_)
            column[:old] = getattr(self, name)[:old]
            setattr(self, name, column)
        self._empty = list(range(self.size - 1, old - 1, -1))
        self._amounts.clear()
        self._stamps.clear()
        self.amounts_changes += 1
        self.amounts_log.forget()
        self._codes.clear()
        self._rank = None
        self.selection += 1


def _keep(slots: set[int], slot: int, there: bool) -> None:
    if there:
        slots.add(slot)
    else:
        slots.discard(slot)


def _encode(codes: Codes, slot: int, source: Source, key: str, facts: ClusterFacts | None) -> None:
    reserved = {} if facts is None else facts.labels if source == "label" else facts.claims
    value = reserved.get(key)
    codes.column[slot] = ABSENT if value is None else codes.values.setdefault(value, len(codes.values))


def _difference(before: ClusterFacts | None, after: ClusterFacts | None) -> ClusterUpdate:
    if before is None or after is None:
        there = before or after
        assert there is not None
        resources = {*there.allocatable, *there.capacity, *(there.free or {})}
        return ClusterUpdate(True, set(there.labels), set(there.claims), resources, bool(there.usage))
    change = ClusterUpdate(
        standing=before.taints != after.taints
        or before.available != after.available
        or before.deleting != after.deleting,
        labels=_keys(before.labels, after.labels),
        claims=_keys(before.claims, after.claims),
        usage=before.usage != after.usage,
    )
    for kind in _KINDS:
        change.resources |= _keys(before.amounts(kind), after.amounts(kind))
    if (before.free is None) != (after.free is None):
        change.usage = True
    return change


def _keys(before: object, after: object) -> set[str]:
    """The keys whose values differ."""
    if before == after:
        return set()
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
