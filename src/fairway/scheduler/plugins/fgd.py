"""Place pods where they fragment the devices least: the fragmentation gradient of FGD (USENIX ATC 2023).

A node scores int(100 * sigmoid((F before - F after) / 1000)). A pod that asks for a part of a device is given the one
after which F is least, the first of those; that choice is made here unless the class or the pod names a strategy.
"""

from __future__ import annotations

from math import exp

import numpy as np

from fairway.api.arguments import FgdArguments
from fairway.devices.match.free_slots import FreeSlots, Portion
from fairway.devices.track.node import NodeDevices
from fairway.scheduler.devices.fragments import Fragments, Typical, typical_pods
from fairway.scheduler.devices.requests import PreparedRequest
from fairway.scheduler.framework.hooks import ChoosesDevices, FloatColumn, Opens, RestsOn, Scores
from fairway.scheduler.framework.view import SessionView
from fairway.scheduler.placement.node_view import NodeView
from fairway.state.cluster import ClusterState
from fairway.state.shapes import Shape
from fairway.state.tables import CPU, PODS

_MOST = 100.0
"""Where the sigmoid is flat for all that a score can tell."""


class Fgd(Opens, Scores, RestsOn, ChoosesDevices):
    """Place GPU pods where they fragment the GPUs least."""

    name = "fgd"
    Arguments = FgdArguments
    trend: int | None = None

    def __init__(self, arguments: FgdArguments) -> None:
        self._weight = arguments.weight
        self._session: SessionView | None = None
        self._typical: Typical = ()
        self._fragments = Fragments(())
        self._scores: dict[tuple[int, FreeSlots, int, int, int, NodeDevices | None], int] = {}
        self._slots: dict[tuple[int, FreeSlots, int, NodeDevices | None], int | None] = {}
        """Like nodes share free slots: what is true of one is worked out once, unless the node itself counts. The
        number of requests for nothing is -1.
        """

    def basis(self, state: ClusterState) -> Typical:
        """What scores rest on besides the node: columns are kept only while it stays the same."""
        self._typical = typical_pods(state.shapes())
        self._fragments = Fragments(self._typical)
        return self._typical

    def open(self, session: SessionView) -> None:
        self._session = session
        self._scores, self._slots = {}, {}

    def score(self, shape: Shape, nodes: NodeView) -> FloatColumn:
        session = self._session
        assert session is not None
        rows = [int(row) for row in nodes.all_rows()]
        prepared = session.devices.requests.of(shape) if session.devices.uses_devices(shape) else None
        free = nodes.free(CPU)
        own = next((amount for row, amount in shape.vector if row == CPU), 0)
        before, after = self._fragments.steps(free), self._fragments.steps(free - own)
        added = session.snapshot.idle[PODS].take(rows) - nodes.free(PODS)
        scores = np.full(len(rows), 50.0)
        number, local = (-1, False) if prepared is None else (prepared.number, prepared.local)
        nodes_with, room_at, known = session.devices.ledger.nodes, session.devices.capacity.at, self._scores
        given = zip(rows, added.tolist(), before.tolist(), after.tolist(), strict=True)
        for index, (row, more, step, then) in enumerate(given):
            node = nodes_with.get(row)
            if node is None:
                continue
            key = (number, room_at(row), more, step, then, node if local else None)
            score = known.get(key)
            if score is None:
                score = known[key] = self._score(prepared, node, row, more, step, then)
            scores[index] = score
        return scores * self._weight

    def _score(
        self, prepared: PreparedRequest | None, node: NodeDevices, row: int, added: int, before: int, after: int
    ) -> int:
        assert self._session is not None
        rooms = self._session.devices.capacity
        free = rooms.at(row)
        for _ in range(added if prepared else 0):
            step = rooms.step(prepared, row, free) if prepared else None
            if step is None:
                return 0
            free = step.after
        then: FreeSlots | None = free
        if prepared is not None:
            then = self._best(prepared, node, free, after)
            if then is None:
                step = rooms.step(prepared, row, free)
                then = None if step is None else step.after
        if then is None:
            return 0
        gained = int(self._fragments.table(node, free)[before]) - int(self._fragments.table(node, then)[after])
        return int(100 / (1 + exp(-max(-_MOST, min(_MOST, gained / self._fragments.pods / 1000)))))

    def _best(self, prepared: PreparedRequest, node: NodeDevices, free: FreeSlots, step: int) -> FreeSlots | None:
        slot = self._slot(prepared, node, free, step)
        assert self._session is not None
        return None if slot is None else self._session.devices.capacity.part(prepared, node, free, slot).after

    def choose_device(self, request: PreparedRequest, row: int, node: NodeDevices, free: FreeSlots) -> int | None:
        """The device of which to take a part; the capacity of the task is written already."""
        assert self._session is not None
        return self._slot(request, node, free, self._fragments.step(int(self._session.snapshot.idle[CPU, row])))

    def _slot(self, prepared: PreparedRequest, node: NodeDevices, free: FreeSlots, step: int) -> int | None:
        """None where it is not a part of one device that is asked for, or the choice is not ours."""
        assert self._session is not None
        key = (prepared.number, free, step, node if prepared.local else None)
        if key not in self._slots:
            self._slots[key] = self._best_slot(prepared, node, free, step)
        return self._slots[key]

    def _best_slot(self, prepared: PreparedRequest, node: NodeDevices, free: FreeSlots, step: int) -> int | None:
        assert self._session is not None
        milli = prepared.part
        if not milli:
            return None
        rooms, best = self._session.devices.capacity, None
        for slot in node.candidates(prepared.resolved.requests[0].options[0].selector):
            if free.fits(slot, Portion(milli=milli)):
                after = rooms.part(prepared, node, free, slot).after
                fragmented = int(self._fragments.table(node, after)[step])
                if best is None or fragmented < best[0]:
                    best = (fragmented, slot)
        return None if best is None else best[1]
