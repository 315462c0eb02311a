"""Nodes of single, independent devices as bits, so that several lines are checked together on all nodes at once.

A row has a bit for each of its slots. `free` has those of which nothing is taken; which slots a class could take is
worked out for all rows from the codes of the slots' sets of classes. Nodes with groups, counters, shared devices,
devices of several units or too many slots are not here: they are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairway.devices.track.node import ClassNames, NodeDevices
from fairway.resources.columns import BoolColumn, IntColumn

MOST_SLOTS = 62
MAX_REQUESTS = 5

Lines = tuple[tuple[str, int], ...]
"""Class and units, one entry for each class."""


class SlotBits:
    """Columns over rows. Only `DeviceColumns` writes here."""

    def __init__(self) -> None:
        self._codes: NDArray[np.int32] = np.zeros((0, 8), dtype=np.int32)
        self._sets: dict[ClassNames, int] = {frozenset(): 0}
        self._masks: dict[str, IntColumn] = {}
        self.free: IntColumn = np.zeros(0, dtype=np.int64)
        self.here: BoolColumn = np.zeros(0, dtype=np.bool_)

    def put(self, row: int, node: NodeDevices | None) -> None:
        """A row's devices, or the classes that take them, or what is taken of them, is other than it was."""
        if row >= len(self.free):
            self._grow(row + 1)
        fits = (
            node is not None
            and node.inventory.singles
            and not node.needs_matching
            and len(node.selectable_by) <= MOST_SLOTS
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
        """On every row the slots that a class could take."""
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
    """The codes of a row fill whole bytes of its mask."""
    return -(-slots // 8) * 8


def serves(bits: SlotBits, free: IntColumn, rows: IntColumn, lines: Lines) -> BoolColumn:
    """Where the free slots serve all lines together: Hall's condition, for every subset of the lines."""
    sums: list[tuple[IntColumn, int]] = []
    for name, wanted in lines:
        open_ = bits.mask(name).take(rows) & free
        sums += [(open_, wanted), *((union | open_, total + wanted) for union, total in sums)]
    passes: BoolColumn = np.bitwise_count(sums[0][0]) >= sums[0][1]
    for union, total in sums[1:]:
        passes &= np.bitwise_count(union) >= total
    return passes


def first_slots(free: int, masks: Sequence[int], units: Sequence[int]) -> list[list[int]] | None:
    """For each line its slots on one node, of all ways to serve them together the first; None if there is none."""
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
    """Hall's condition on one node, for every subset of the lines that want something still."""
    sums = [(0, 0)]
    for mask, wanted in zip(masks, units, strict=True):
        if wanted:
            sums += [(union | mask & free, total + wanted) for union, total in sums]
    return all(union.bit_count() >= total for union, total in sums)
