"""Devices in a session: who is given which, written and taken back together with the room.

For most shapes a class is a resource like any other, and the room columns say all there is to say: a node has so much of
the class left. Three things are decided here: whether several lines can be served *together*, whether devices that hang
together (groups, shared counters, parts of devices) serve at all, and which devices a task is given.

`Room`s are what is physically there now. Promises (nominations, pods that are being evicted) are the columns' business.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from fairway.devices.book import DeviceBook, is_plain
from fairway.devices.columns import class_places, kinds_of
from fairway.devices.node import Holding, NodeDevices, Standing, portion_milli
from fairway.devices.record import Entry
from fairway.devices.requests import DeviceNeeds
from fairway.devices.room import Portion, Room
from fairway.devices.solving import solve
from fairway.devices.strategies import DEFAULT_CHAIN, Chain, Loss
from fairway.devices.wishes import ByClaim, ByClass
from fairway.resources.columns import BoolColumn, IntColumn, Vector
from fairway.scheduler.view import NodeView
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot
from fairway.state.tasks import Task


class Given(NamedTuple):
    """What a task holds on a row, and what that took of the columns beyond what it asked for by name."""

    row: int
    holdings: tuple[Holding, ...]
    moved: tuple[tuple[int, int], ...]
    claims: tuple[str, ...] = ()


class Asked(NamedTuple):
    """What a shape needs, and whether the columns alone can tell where it finds that."""

    number: int
    needs: DeviceNeeds
    places: tuple[tuple[int, int], ...]
    """For each line by class (place, amount)."""
    simple: bool
    local: bool
    """Whether the answer depends on more of a node than who takes what: then it is remembered by node."""


class Allotments:
    """See the module."""

    def __init__(self, book: DeviceBook, snapshot: Snapshot, chain: Chain = DEFAULT_CHAIN) -> None:
        self.book = book
        self.chain = chain
        self._snapshot = snapshot
        self._axis = snapshot.state.axis
        self._rooms: dict[int, Room] = {}
        self._given: dict[Task, Given] = {}
        self._let_go: dict[Task, Given] = {}
        """Tasks of the state whose devices count as free for the moment."""
        self._claimed: dict[str, int] = {}
        """Claims that were allocated in this session, and on which row."""
        self._asked: dict[Shape, Asked] = {}
        self._numbers: dict[DeviceNeeds, int] = {}
        self._marks: dict[int, Hashable] = {}
        self._layouts: dict[Hashable, int] = {}
        self._fits: dict[tuple[int, Hashable], bool] = {}
        self._limits: dict[tuple[int, Hashable], int] = {}
        self._awkward = self._awkward_rows()
        self._demand: dict[str, int] | None = None

    def _awkward_rows(self) -> BoolColumn:
        rows = np.zeros(self._snapshot.size, dtype=np.bool_)
        for row, node in self.book.nodes.items():
            rows[row] = node.awkward
        return rows

    # -- questions --------------------------------------------------------------------------------------------

    def minds(self, shape: Shape) -> bool:
        """Whether placing the shape has anything to do with devices."""
        if not self.book.awake:
            return False
        contested = self.book.columns.contested
        return shape.devices is not None or any(place in contested for place, _ in shape.vector)

    def asked(self, shape: Shape) -> Asked:
        found = self._asked.get(shape)
        if found is None:
            found = self._asked[shape] = self._read(shape)
        return found

    def _read(self, shape: Shape) -> Asked:
        contested = self.book.columns.contested
        plain = tuple(
            (name, units) for name, units in self.book.plain(shape) if self._axis.find(name) in contested
        )
        needs = self.book.resolve(shape.devices, plain)
        number = self._numbers.setdefault(needs, len(self._numbers))
        wishes = [option.wish for need in needs.needs for option in need.options]
        whole = all(not option.milli for need in needs.needs for option in need.options)
        simple = len(needs.needs) <= 1 and whole and not any(isinstance(wish, ByClaim) for wish in wishes)
        local = bool(needs.rules) or any(isinstance(wish, ByClaim) for wish in wishes)
        return Asked(number, needs, shape.vector, simple, local)

    def serves(self, shape: Shape, view: NodeView) -> BoolColumn:
        """Where a task of the shape finds its devices, given that the columns say that there are enough."""
        asked = self.asked(shape)
        rows = view.all_rows()
        passes = np.ones(view.size, dtype=np.bool_)
        if asked.needs.missing:
            return ~passes
        awkward = view.picked(self._awkward)
        doubtful = awkward if asked.simple else np.ones(view.size, dtype=np.bool_)
        for place, amount in asked.places:
            doubtful = doubtful & (view.idle[place] >= amount)
        for index in np.flatnonzero(doubtful):
            passes[index] = self.fits(asked, int(rows[index]))
        return passes

    def fits(self, asked: Asked, row: int) -> bool:
        """Whether what a shape needs is there on a row, all of it together."""
        key = (asked.number, self._mark(row, local=asked.local))
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._choose(asked.needs, row) is not None
        return found

    def limits(self, shape: Shape, view: NodeView) -> IntColumn | None:
        """How many like tasks the devices of a node serve one after the other; None where the columns tell."""
        asked = self.asked(shape)
        awkward = view.picked(self._awkward)
        if asked.simple and not awkward.any():
            return None
        rows = view.all_rows()
        limits = np.full(view.size, 1 << 40, dtype=np.int64)
        for index in np.flatnonzero(awkward) if asked.simple else range(view.size):
            most = min(int(view.idle[place, index]) // amount for place, amount in shape.vector)
            limits[index] = self._count(asked, int(rows[index]), max(0, most))
        return limits

    def _count(self, asked: Asked, row: int, most: int) -> int:
        key = (asked.number, self._mark(row, local=asked.local))
        known = self._limits.get(key)
        if known is not None and (known < most or known >= most):
            return min(known, most)
        node = self.book.nodes.get(row)
        if node is None:
            return 0
        room, count = self.room(row).copy(), 0
        while count < _MOST_COUNTED:
            taken = solve(room, asked.needs, node.candidates, self.chain, self._loss(node))
            if taken is None:
                break
            for choice in taken:
                room.take(choice.slot, choice.portion)
            count += 1
        self._limits[key] = count
        return min(count, most)

    def room(self, row: int) -> Room:
        return self._rooms.get(row) or self.book.nodes[row].room
