"""Where the devices of a node serve a shape: the part that the room columns cannot tell.

The columns know how much of each class a node has left. That is all there is to it for one line of whole units on a
node whose devices are independent of each other. Otherwise the node is asked, and the answer remembered for as long as
the same things are taken there, also for other nodes that are like it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from fairway.api.affinity import NodeSelector
from fairway.devices.requests import DeviceNeeds, Need
from fairway.devices.room import WHOLE
from fairway.devices.wishes import ByClass, ByKind
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.allotments import Allotments
from fairway.scheduler.view import NodeView
from fairway.state.asks import CLASS_PREFIX
from fairway.state.labels import term_holds
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot

_MANY = 1 << 40


class Asked(NamedTuple):
    """What a shape needs. `lines` are (place, amount) where all it needs are whole units that the columns know."""

    number: int
    needs: DeviceNeeds
    lines: tuple[tuple[int, int], ...] | None

    @property
    def simple(self) -> bool:
        """Whether the columns tell everything, where devices are independent of each other."""
        return self.lines is not None and len(self.lines) <= 1


class DeviceFit:
    """Answers for one session."""

    def __init__(self, allotments: Allotments, snapshot: Snapshot) -> None:
        self._allotments = allotments
        self._snapshot = snapshot
        self._asked: dict[Shape, tuple[int, Asked]] = {}
        self._numbers: dict[DeviceNeeds, int] = {}
        self._layouts: dict[Hashable, int] = {}
        self._layout_of: dict[int, int] = {}
        self._fits: dict[tuple[int, Hashable], bool] = {}
        self._counts: dict[tuple[int, Hashable], int] = {}
        self._awkward = np.zeros(snapshot.size, dtype=np.bool_)
        for row, node in allotments.book.nodes.items():
            self._awkward[row] = node.awkward

    def asked(self, shape: Shape) -> Asked:
        """Resolved once, and again when a claim was allocated in the session."""
        claims = len(self._allotments.claimed)
        known = self._asked.get(shape)
        if known is None or known[0] != claims:
            needs = self._allotments.needs(shape)
            number = self._numbers.setdefault(needs, len(self._numbers))
            known = self._asked[shape] = (claims, Asked(number, needs, self._lines(needs)))
        return known[1]

    def serves(self, shape: Shape, view: NodeView) -> BoolColumn | None:
        """Where the devices serve one task, given that the columns say there is enough; None if that is all."""
        asked = self.asked(shape)
        needs = asked.needs
        if needs.missing:
            return np.zeros(view.size, dtype=np.bool_)
        passes = self._reachable(needs, view)
        doubtful = self._doubtful(asked, shape, view)
        if doubtful is None:
            return passes
        passes = np.ones(view.size, dtype=np.bool_) if passes is None else passes
        rows = view.all_rows()
        for index in np.flatnonzero(doubtful & passes):
            passes[index] = self.fits(asked, int(rows[index]))
        return passes

    def fits(self, asked: Asked, row: int) -> bool:
        key = (asked.number, self._mark(asked, row))
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._allotments.choose(asked.needs, row) is not None
        return found

    def limits(self, shape: Shape, view: NodeView) -> IntColumn | None:
        """How many like tasks the devices of a node serve one after the other; None where the columns tell."""
        asked = self.asked(shape)
        counted = self._awkward_in(view) if asked.simple else np.ones(view.size, dtype=np.bool_)
        if not counted.any():
            return None
        rows = view.all_rows()
        limits = np.full(view.size, _MANY, dtype=np.int64)
        for index in np.flatnonzero(counted):
            most = min(int(view.idle[place, index]) // amount for place, amount in shape.vector)
            limits[index] = self._count(asked, int(rows[index]), most)
        return limits

    # -- how much is left to find out -------------------------------------------------------------------------

    def _doubtful(self, asked: Asked, shape: Shape, view: NodeView) -> BoolColumn | None:
        """Rows that have to be asked; None if there are none."""
        awkward = self._awkward_in(view)
        if asked.simple:
            doubtful = awkward
        elif asked.lines is None:
            doubtful = np.ones(view.size, dtype=np.bool_)
        else:
            doubtful = awkward | ~_enough_in_any_case(asked.lines, view)
        if not doubtful.any():
            return None
        for place, amount in shape.vector:
            doubtful = doubtful & (view.idle[place] >= amount)
        return doubtful if doubtful.any() else None

    def _awkward_in(self, view: NodeView) -> BoolColumn:
        return view.picked(self._awkward)

    def _lines(self, needs: DeviceNeeds) -> tuple[tuple[int, int], ...] | None:
        axis = self._snapshot.state.axis
        found = []
        for need in needs.needs:
            place = axis.find(_name(need))
            option = need.options[0]
            if place is None or option.milli or not isinstance(option.wish, ByClass | ByKind):
                return None
            found.append((place, option.units * WHOLE))
        return tuple(found)

    def _reachable(self, needs: DeviceNeeds, view: NodeView) -> BoolColumn | None:
        """Where claims that are allocated already can be used; None is anywhere."""
        followed = {self._allotments.claimed[c] for c in needs.shared if c in self._allotments.claimed}
        if not needs.pins and not followed:
            return None
        nodes, rows = self._snapshot.state.nodes, [int(row) for row in view.all_rows()]
        reached = [
            all(row == where for where in followed)
            and all(_selects(pin, nodes.names[row], nodes.labels.at(row)) for pin in needs.pins)
            for row in rows
        ]
        return np.array(reached, dtype=np.bool_)

    def _count(self, asked: Asked, row: int, most: int) -> int:
        """How often the devices serve in a row; counted on until `most` is reached or they do not."""
        if most <= 0:
            return 0
        key = (asked.number, self._mark(asked, row))
        known = self._counts.get(key)
        if known is not None and (known >= 0 or most <= -known):
            return min(abs(known), most)
        if row not in self._allotments.book.nodes:
            return most if not asked.needs.needs else 0
        room, count = self._allotments.room(row).copy(), 0
        while count < most:
            taken = self._allotments.choose(asked.needs, row, room)
            if taken is None:
                self._counts[key] = count
                return count
            for choice in taken:
                room.take(choice.slot, choice.portion)
            count += 1
        self._counts[key] = -count  # at least so often
        return count

    def _mark(self, asked: Asked, row: int) -> Hashable:
        """Equal for rows on which the same needs get the same answer."""
        node = self._allotments.book.nodes.get(row)
        if node is None:
            return None
        taken = self._allotments.room(row).key()
        if asked.lines is None and any(need.claim for need in asked.needs.needs):
            return row, taken
        layout = self._layout_of.get(row)
        if layout is None:
            layout = self._layout_of[row] = self._layouts.setdefault(node.layout(), len(self._layouts))
        return -1 - layout, taken


def _selects(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    return any(term_holds(term, name, labels) for term in selector.node_selector_terms)


def _name(need: Need) -> str:
    return CLASS_PREFIX + need.label if isinstance(need.options[0].wish, ByClass) else need.label


def _enough_in_any_case(lines: tuple[tuple[int, int], ...], view: NodeView) -> BoolColumn:
    """Lines in order of what there is for them: if each has enough even when all before it took from the same."""
    there = view.idle[[place for place, _ in lines]]
    order = there.argsort(axis=0, kind="stable")
    asked = np.array([amount for _, amount in lines])[order].cumsum(axis=0)
    short: BoolColumn = np.take_along_axis(there, order, axis=0) < asked
    enough: BoolColumn = np.logical_not(np.logical_or.reduce(short, axis=0))
    return enough
