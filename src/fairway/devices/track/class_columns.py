"""Devices as amounts of the node table and as sums over the cluster: what the rest of the scheduler sees of them.

A class that is requested is a dimension: a node *has* what the class could take there, and whatever is in use of that
beyond what pods requested by its name is *drawn*. One device counts for every class that could take it, so one pod may
lower several of them. Kinds are dimensions too, for shares are counted by kind; a kind that the node lists as an
extended resource is counted under that name.

Sums are kept by *set* of classes, of which there are few: devices that the same classes select are counted together,
and a class adds up the sets it is in on demand.

Nodes whose devices are single and independent are also kept as bits (`SlotBits`), so that several requests are checked
together on all nodes at once. A row has a bit for each of its slots. `free` has the untouched ones; the slots that a
class could take are computed for all rows from the codes of the slots' sets of classes. Nodes with groups, counters,
shared devices, devices of several units or too many slots have no bits and are checked one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairway.devices.match.free_slots import Portion
from fairway.devices.model.device import WHOLE
from fairway.devices.model.pools import KIND_PREFIX
from fairway.devices.track.node import ClassNames, ClassUse, NodeDevices, Tally, in_use, portion_milli
from fairway.resources.columns import Axis, BoolColumn, IntColumn
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX

MAX_SLOTS = 62
MAX_REQUESTS = 5

Lines = tuple[tuple[str, int], ...]
"""Class and units, one entry for each class."""


class SlotBits:
    """Columns over rows; only `DeviceColumns` writes them."""

    def __init__(self) -> None:
        self._codes: NDArray[np.int32] = np.zeros((0, 8), dtype=np.int32)
        self._sets: dict[ClassNames, int] = {frozenset(): 0}
        self._masks: dict[str, IntColumn] = {}
        self.free: IntColumn = np.zeros(0, dtype=np.int64)
        self.here: BoolColumn = np.zeros(0, dtype=np.bool_)

    def put(self, row: int, node: NodeDevices | None) -> None:
        """A row's devices, the classes that select them, or their use has changed."""
        if row >= len(self.free):
            self._grow(row + 1)
        fits = (
            node is not None
            and node.inventory.singles
            and not node.needs_matching
            and len(node.selectable_by) <= MAX_SLOTS
        )
        self.here[row] = fits
        if not fits or node is None:
            return
        self.free[row] = node.free.free_slots()
        codes = [self._code(names) for names in node.selectable_by]
        if len(codes) > self._codes.shape[1]:
            self._codes = np.pad(self._codes, ((0, 0), (0, _in_eights(len(codes)) - self._codes.shape[1])))
            self._masks.clear()
        if list(self._codes[row, : len(codes)]) != codes or self._codes[row, len(codes) :].any():
            self._codes[row] = 0
            self._codes[row, : len(codes)] = codes
            self._masks.clear()

    def mask(self, name: str) -> IntColumn:
        """The slots that a class could take, on every row."""
        found = self._masks.get(name)
        if found is None:
            takes = np.array([name in names for names in self._sets], dtype=np.bool_)
            packed = np.packbits(takes.take(self._codes), bitorder="little").reshape(len(self._codes), -1)
            eights = np.zeros((len(packed), 8), dtype=np.uint8)
            eights[:, : packed.shape[1]] = packed
            found = self._masks[name] = eights.view("<i8")[:, 0]
        return found

    def _code(self, names: ClassNames) -> int:
        code = self._sets.get(names)
        if code is None:
            code = self._sets[names] = len(self._sets)
            self._masks.clear()
        return code

    def _grow(self, rows: int) -> None:
        rows = max(rows, 2 * len(self.free))
        more = rows - len(self.free)
        self._codes = np.pad(self._codes, ((0, more), (0, 0)))
        self.free = np.pad(self.free, (0, more))
        self.here = np.pad(self.here, (0, more))
        self._masks.clear()


def _in_eights(slots: int) -> int:
    """The codes of a row, padded to whole bytes of its mask."""
    return -(-slots // 8) * 8


def serves(bits: SlotBits, free: IntColumn, rows: IntColumn, lines: Lines) -> BoolColumn:
    """Where the free slots serve all requests together: Hall's condition, for every subset of the requests."""
    sums: list[tuple[IntColumn, int]] = []
    for name, wanted in lines:
        open_ = bits.mask(name).take(rows) & free
        sums += [(open_, wanted), *((union | open_, total + wanted) for union, total in sums)]
    passes: BoolColumn = np.bitwise_count(sums[0][0]) >= sums[0][1]
    for union, total in sums[1:]:
        passes &= np.bitwise_count(union) >= total
    return passes


def first_slots(free: int, masks: Sequence[int], units: Sequence[int]) -> list[list[int]] | None:
    """The slots of each request on one node, by the first of all assignments; None if there is none."""
    left = list(units)
    if not _hold(free, masks, left):
        return None
    found: list[list[int]] = []
    for line, mask in enumerate(masks):
        taken: list[int] = []
        open_ = mask & free
        while left[line]:
            slot = open_ & -open_
            open_ ^= slot
            left[line] -= 1
            if _hold(free ^ slot, masks, left):
                free ^= slot
                taken.append(slot.bit_length() - 1)
            else:
                left[line] += 1
        found.append(taken)
    return found


def _hold(free: int, masks: Sequence[int], units: Sequence[int]) -> bool:
    """Hall's condition on one node, for every subset of the requests that are still unserved."""
    sums = [(0, 0)]
    for mask, wanted in zip(masks, units, strict=True):
        if wanted:
            sums += [(union | mask & free, total + wanted) for union, total in sums]
    return all(union.bit_count() >= total for union, total in sums)


_K = TypeVar("_K")
Owner = tuple[str, str, str]
"""Queue, namespace and job."""


class _Row(NamedTuple):
    """The counts that were last written for a row."""

    tally: Tally
    lost: Mapping[str, int]
    contested: frozenset[int]
    accounts: Mapping[Owner, Mapping[int, int]]
    kinds: frozenset[tuple[ClassNames, int]]


_NOTHING = _Row({}, {}, frozenset(), {}, frozenset())


def dimension_of(name: str) -> str:
    """The dimension of a class; an extended resource, which has a slash in its name, is its own dimension."""
    return name if "/" in name else CLASS_PREFIX + name


class ClassDimensions:
    """The dimensions of a set of classes, computed once per set; only requested ones."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._size = -1
        self._known: dict[ClassNames, NDArray[np.int64]] = {}
        self._tuples: dict[ClassNames, tuple[int, ...]] = {}

    def of(self, names: ClassNames) -> tuple[int, ...]:
        self._refresh()
        found = self._tuples.get(names)
        if found is None:
            places = (self._axis.find(dimension_of(name)) for name in sorted(names))
            found = self._tuples[names] = tuple(place for place in places if place is not None)
        return found

    def index(self, names: ClassNames) -> NDArray[np.int64]:
        self._refresh()
        found = self._known.get(names)
        if found is None:
            found = self._known[names] = np.array(self.of(names), dtype=np.int64)
        return found

    def _refresh(self) -> None:
        if self._size != len(self._axis):
            self._known.clear()
            self._tuples.clear()
            self._size = len(self._axis)


class DeviceColumns:
    """Writes devices to the columns of the state. `accounts` is what owners have, by kind."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.places = ClassDimensions(state.axis)
        self.accounts: dict[Owner, Counter[int]] = {}
        self._tally: dict[ClassNames, ClassUse] = {}
        self._lost: Counter[str] = Counter()
        self._contests: Counter[int] = Counter()
        self._kinds: Counter[tuple[ClassNames, int]] = Counter()
        self._rows: dict[int, _Row] = {}
        self.bits = SlotBits()
        self._written: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._known_names = 0

    # -- sums -------------------------------------------------------------------------------------------------

    @property
    def contested(self) -> frozenset[int]:
        """Dimensions of plain resources whose units may also be given to requests by class."""
        return frozenset(self._contests)

    def copy_of_sums(self) -> Tally:
        """The sums from which `add_up` computes the statuses of classes."""
        lost = {frozenset({name}): ClassUse(0, amount) for name, amount in self._lost.items()}
        return {names: moved(self._tally.get(names, NONE), lost.get(names, NONE)) for names in {*self._tally, *lost}}

    def standing(self, name: str) -> ClassUse:
        mine = [standing for names, standing in self._tally.items() if name in names]
        return ClassUse(sum(s.allocatable for s in mine), sum(s.requested for s in mine) + self._lost[name])

    def kind_of(self, name: str) -> int | None:
        """The dimension that counts the kind of a class's devices, if they are all of one kind."""
        kinds = {place for names, place in self._kinds if name in names}
        return kinds.pop() if len(kinds) == 1 else None

    def has_new_classes(self) -> bool:
        """Whether a class is requested, or counted, that was not when rows were last written."""
        return any(name.startswith(CLASS_PREFIX) for name in self._state.axis.names[self._known_names :])

    # -- counting rows ----------------------------------------------------------------------------------------

    def publish(self, rows: set[int], nodes: Mapping[int, NodeDevices], reselected: set[int] | None = None) -> None:
        """Counts and writes these rows, or all rows if the axis has gained a class.

        Rows that were only `reselected` by classes that are not requested have the same amounts as before.
        """
        axis = self._state.axis
        if self.has_new_classes():
            rows = rows | set(nodes)
        for row in rows:
            for slot in nodes[row].kinds if row in nodes else ():
                kind_place(axis, nodes[row], slot)
        self._known_names = len(axis)
        written = [place for place, name in enumerate(axis.names) if name.startswith((CLASS_PREFIX, KIND_PREFIX))]
        self._written = np.array(written, dtype=np.int64)
        self._state.nodes.reach()
        for row in sorted(rows):
            self._publish(row, nodes.get(row))
        for row in sorted((reselected or set()) - rows):
            self._publish(row, nodes[row], write=False)

    def _publish(self, row: int, node: NodeDevices | None, *, write: bool = True) -> None:
        self.bits.put(row, node)
        old = self._rows.pop(row, None)
        if node is None:
            if old is not None:
                self._count(old, -1)
            self._write(row, self._written_on(row, None), None, None)
            return
        new = self._rows[row] = self._counted(node)
        if old is None or old != new:
            self._count(old or _NOTHING, -1)
            self._count(new, 1)
        if write:
            written = self._written_on(row, node)
            self._write(row, written, *self._amounts(row, node, written))

    def _counted(self, node: NodeDevices) -> _Row:
        axis = self._state.axis
        lost: Counter[str] = Counter()
        for _, entry in node.lost:
            lost[entry.class_name] += entry.milli
        return _Row(
            node.tally(node.free),
            lost,
            self._contested(node),
            node.accounts,
            frozenset((names, kind_place(axis, node, slot)) for slot, names in enumerate(node.selectable_by)),
        )

    def _count(self, row: _Row, sign: int) -> None:
        for names, standing in row.tally.items():
            before = self._tally.get(names, NONE)
            self._tally[names] = moved(before, standing, sign)
            if self._tally[names] == NONE:
                del self._tally[names]
        _add(self._lost, row.lost, sign)
        _add(self._contests, dict.fromkeys(row.contested, 1), sign)
        _add(self._kinds, dict.fromkeys(row.kinds, 1), sign)
        for owner, amounts in row.accounts.items():
            account = self.accounts.setdefault(owner, Counter())
            _add(account, amounts, sign)
            if not account:
                del self.accounts[owner]

    def _contested(self, node: NodeDevices) -> frozenset[int]:
        axis = self._state.axis
        extended = frozenset(
            axis.row(name) for name in node.extended if any(name in names for names in node.selectable_by)
        )
        if not node.plain:
            return extended
        return extended | frozenset(
            axis.row(facts.device.unit_of)
            for slot, facts in enumerate(node.inventory.slots)
            if node.is_plain(slot) and (node.selectable_by[slot] or facts.device.name != facts.device.unit_of)
        )

    # -- the node table ---------------------------------------------------------------------------------------

    def _written_on(self, row: int, node: NodeDevices | None) -> NDArray[np.int64]:
        """The dimensions that are written for a row: classes, kinds, and extended resources that devices serve or
        served there.
        """
        nodes, axis = self._state.nodes, self._state.axis
        before = nodes.served.get(row, ())
        now = tuple(axis.row(name) for name in sorted(node.extended)) if node is not None and nodes.alive[row] else ()
        if now:
            nodes.served[row] = now
        elif before:
            del nodes.served[row]
        more = {*before, *now}
        return np.concatenate([self._written, np.array(sorted(more), dtype=np.int64)]) if more else self._written

    def _amounts(
        self, row: int, node: NodeDevices, written: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What the row has, by dimension, and what is drawn of it."""
        axis, slots = self._state.axis, node.free
        has, free, drawn = (np.zeros(len(axis), dtype=np.int64) for _ in range(3))
        by_set: dict[ClassNames, list[int]] = {}
        for slot, facts in enumerate(node.inventory.slots):
            there, left = facts.quantity * WHOLE, slots.left(slot)
            sums = by_set.setdefault(node.selectable_by[slot], [0, 0])
            sums[0] += there
            sums[1] += left
            if not node.is_plain(slot) and slot not in node.counted_elsewhere:
                place = kind_place(axis, node, slot)
                used = in_use(slots, slot)
                has[place] += there if facts.usable else 0
                free[place] += (there if facts.usable else 0) - used
        for names, (there, left) in by_set.items():
            places = self.places.index(names)
            has[places] += there
            free[places] += left
        drawn[written] = (has - free)[written] - self._state.nodes.used.data[written, row]
        for allocation in node.allocations:
            facts = node.inventory.slots[allocation.slot]
            if node.is_plain(allocation.slot) and not allocation.plain:
                drawn[axis.row(facts.device.unit_of)] += portion_milli(facts, allocation.portion)
        return has, drawn

    def _write(
        self,
        row: int,
        written: NDArray[np.int64],
        has: NDArray[np.int64] | None,
        drawn: NDArray[np.int64] | None,
    ) -> None:
        nodes = self._state.nodes
        allocatable = nodes.allocatable.data
        if nodes.alive[row]:
            wanted = 0 if has is None else has[written]
            if (allocatable[written, row] != wanted).any():
                allocatable[written, row] = wanted
                nodes.size_generation += 1
                nodes.reshaped.add(row)
                nodes.changed.add(row)
        size = len(self._state.axis)
        if (nodes.drawn.data[:size, row] != (0 if drawn is None else drawn)).any():
            nodes.drawn.data[:size, row] = 0 if drawn is None else drawn
            nodes.changed.add(row)


NONE = ClassUse(0, 0)


def add_up(*tallies: Tally) -> dict[str, ClassUse]:
    """The status of every class that is in a set."""
    found: dict[str, list[int]] = {}
    for tally in tallies:
        for names, standing in tally.items():
            for name in names:
                sums = found.setdefault(name, [0, 0])
                sums[0] += standing.allocatable
                sums[1] += standing.requested
    return {name: ClassUse(*sums) for name, sums in found.items()}


def moved(standing: ClassUse, by: ClassUse, sign: int = 1) -> ClassUse:
    return ClassUse(standing.allocatable + sign * by.allocatable, standing.requested + sign * by.requested)


def _add(counter: Counter[_K], amounts: Mapping[_K, int], sign: int) -> None:
    for key, amount in amounts.items():
        counter[key] += sign * amount
        if not counter[key]:
            del counter[key]


def kind_place(axis: Axis, node: NodeDevices, slot: int) -> int:
    """The dimension in which a slot counts for shares."""
    device = node.inventory.slots[slot].device
    return axis.row(device.unit_of if node.is_plain(slot) else KIND_PREFIX + device.kind)


def kind_held(axis: Axis, node: NodeDevices, slot: int, portion: Portion) -> tuple[int, int]:
    """What an allocation counts for in shares. A group counts as one of its own kind, as requests for it do."""
    return kind_place(axis, node, slot), portion_milli(node.inventory.slots[slot], portion)
