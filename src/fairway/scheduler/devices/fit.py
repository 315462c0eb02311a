"""Where the devices of a node serve a shape: the part that the capacity columns cannot tell.

The columns know how much of each class a node has left. That is all there is to it for one request of whole units on a
node whose devices are independent of each other. Otherwise the node is asked, and the answer remembered for as long as
the same things are taken there, also for other nodes that are like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

import numpy as np

from fairway.api.pods import NodeSelector
from fairway.devices.match.free_slots import FreeSlots
from fairway.devices.select.requests import ByClaim, ResolvedRequests
from fairway.devices.track.class_columns import serves
from fairway.resources.columns import BoolColumn, IntColumn
from fairway.scheduler.devices.assignments import DeviceAssignments
from fairway.scheduler.devices.requests import PreparedRequest
from fairway.scheduler.placement.node_view import NodeView
from fairway.scheduler.verdict import no_device_selected
from fairway.state.labels import term_holds
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy

_MANY = 1 << 40


class DeviceFit:
    """Answers for one session."""

    def __init__(self, assignments: DeviceAssignments, snapshot: WorkingCopy) -> None:
        self._assignments = assignments
        self._snapshot = snapshot
        self._fits: dict[tuple[int, FreeSlots, int], bool] = {}
        self._needs_matching = np.zeros(snapshot.size, dtype=np.bool_)
        for row, node in assignments.ledger.nodes.items():
            self._needs_matching[row] = node.needs_matching
        self._any_matching = bool(self._needs_matching.any())

    def serves(self, shape: Shape, view: NodeView) -> BoolColumn | None:
        """Where the devices serve one task, given that the columns say there is enough; None if that is all."""
        prepared = self._assignments.requests.of(shape)
        requests = prepared.resolved
        if requests.missing:
            return np.zeros(view.size, dtype=np.bool_)
        passes = self._reachable(requests, view)
        rows, unknown = view.all_rows(), None
        if prepared.classes:
            bits = self._assignments.ledger.columns.bits
            unknown = ~bits.here.take(rows)
            served = serves(bits, self._assignments.capacity.free.take(rows), rows, prepared.classes) | unknown
            if served.all() and not unknown.any():
                return passes  # before all that is free is looked at once more
        doubtful = self._doubtful(prepared, shape, view)
        if doubtful is None:
            return passes
        passes = np.ones(view.size, dtype=np.bool_) if passes is None else passes
        if unknown is not None:
            passes &= ~doubtful | served
            doubtful &= unknown
        for index in np.flatnonzero(doubtful & passes):
            passes[index] = self.fits(prepared, int(rows[index]))
        return passes

    def failures(self, shape: Shape, view: NodeView) -> list[tuple[str, BoolColumn]]:
        """Where a claim's expression could not be run to its end, by what went wrong: no device is selected there."""
        if not self._assignments.uses_devices(shape) or shape.devices is None or not shape.devices.claims:
            return []
        requests = self._assignments.requests.of(shape).resolved.requests
        wishes = [option.selector for request in requests for option in request.options]
        found: dict[str, BoolColumn] = {}
        for index, row in enumerate(view.all_rows().tolist()):
            node = self._assignments.ledger.nodes.get(row)
            text = next(filter(None, (node.failure(selector) for selector in wishes)), "") if node is not None else ""
            if text:
                found.setdefault(text, np.zeros(view.size, dtype=np.bool_))[index] = True
        return sorted(found.items(), key=itemgetter(0))

    def unmatched(self, shape: Shape, view: NodeView) -> list[tuple[str, BoolColumn]]:
        """Where no device is what a request of a claim selects, by request, free or not."""
        if not self._assignments.uses_devices(shape) or shape.devices is None or not shape.devices.claims:
            return []
        found: dict[str, BoolColumn] = {}
        nodes = self._assignments.ledger.nodes
        for request in self._assignments.requests.of(shape).resolved.requests:
            wishes = [option.selector for option in request.options if isinstance(option.selector, ByClaim)]
            if len(wishes) < len(request.options):
                continue
            for index, row in enumerate(view.all_rows().tolist()):
                node = nodes.get(row)
                if node is not None and any(map(node.candidates, wishes)):
                    continue
                error = "" if node is None else next(filter(None, map(node.error, wishes)), "")
                text = no_device_selected(request.request, error)
                found.setdefault(text, np.zeros(view.size, dtype=np.bool_))[index] = True
        return sorted(found.items(), key=itemgetter(0))

    def is_decided_by_columns(self, shape: Shape) -> bool:
        """Whether how much is left says everywhere what can be had."""
        if not self._assignments.uses_devices(shape):
            return True
        simple = self._assignments.requests.of(shape).simple and not self._any_matching
        return simple and not self._assignments.shares_devices(shape)

    def fits(self, prepared: PreparedRequest, row: int) -> bool:
        if row not in self._assignments.ledger.nodes:
            return not prepared.resolved.requests
        key = (prepared.number, self._assignments.capacity.at(row), row if prepared.local else -1)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._assignments.capacity.serves(prepared, row)
        return found

    def serves_when_empty(self, shape: Shape, row: int, beside: Sequence[Shape] = ()) -> bool:
        """Whether the devices of a node would serve one task and those `beside` it, were nothing else there."""
        if row not in self._assignments.ledger.nodes:
            return not self._assignments.requests.of(shape).resolved.requests
        rooms = self._assignments.capacity
        free = rooms.empty(row)
        for other in (*beside, shape):
            if self._assignments.uses_devices(other):
                step = rooms.step(self._assignments.requests.of(other), row, free)
                if step is None:
                    return False
                free = step.after
        return True

    def limits(self, shape: Shape, view: NodeView) -> IntColumn | None:
        """How many like tasks the devices of a node serve one after the other; None where the columns tell."""
        prepared = self._assignments.requests.of(shape)
        counted = self._needs_matching_in(view) if prepared.simple else np.ones(view.size, dtype=np.bool_)
        if not counted.any():
            return None
        rows = view.all_rows()
        limits = np.full(view.size, _MANY, dtype=np.int64)
        for index in np.flatnonzero(counted):
            most = min(int(view.idle[place, index]) // amount for place, amount in shape.vector)
            limits[index] = self._count(prepared, int(rows[index]), most)
        return limits

    # -- how much is left to find out -------------------------------------------------------------------------

    def _doubtful(self, prepared: PreparedRequest, shape: Shape, view: NodeView) -> BoolColumn | None:
        """Rows that have to be asked; None if there are none."""
        if prepared.simple and not self._any_matching:
            return None
        doubtful = self._needs_matching_in(view) if prepared.simple else np.ones(view.size, dtype=np.bool_)
        if not doubtful.any():
            return None
        for place, amount in shape.vector:
            doubtful = doubtful & (view.free(place) >= amount)
        return doubtful if doubtful.any() else None

    def _needs_matching_in(self, view: NodeView) -> BoolColumn:
        return view.picked(self._needs_matching)

    def _reachable(self, requests: ResolvedRequests, view: NodeView) -> BoolColumn | None:
        """Where claims that are allocated already can be used; None is anywhere."""
        if not requests.pins and not requests.shared:
            return None
        claimed = self._assignments.requests.claimed
        followed = {claimed[claim] for claim in requests.shared if claim in claimed}
        if not requests.pins and not followed:
            return None
        nodes, rows = self._snapshot.state.nodes, [int(row) for row in view.all_rows()]
        reached = [
            all(row == where for where in followed)
            and all(_selects(pin, nodes.names[row], nodes.labels.at(row)) for pin in requests.pins)
            for row in rows
        ]
        return np.array(reached, dtype=np.bool_)

    def _count(self, prepared: PreparedRequest, row: int, most: int) -> int:
        """How often the devices serve one after the other, as far as `most`."""
        if most <= 0:
            return 0
        if row not in self._assignments.ledger.nodes:
            return most if not prepared.resolved.requests else 0
        rooms = self._assignments.capacity
        free, count = rooms.at(row), 0
        while count < most:
            step = rooms.step(prepared, row, free)
            if step is None:
                break
            free = step.after
            count += 1
        return count


def _selects(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    return any(term_holds(term, name, labels) for term in selector.node_selector_terms)
