"""Devices in a session: who is given which, written and taken back together with the room.

For the columns a class is a resource like any other. What is decided here is which devices a task is given, and what
that means to all the other classes that could have taken them.

Rooms are what is physically there now. Promises (nominations, pods that are being evicted) are the columns' business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from fairway.devices.match.capacity import Room
from fairway.devices.match.strategies import DEFAULT_CHAIN, Chain
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import Holding, NodeDevices
from fairway.errors import InvariantError
from fairway.resources.columns import Vector
from fairway.scheduler.devices.capacity import CapacityStep, DeviceRooms, Moved
from fairway.scheduler.devices.loss import Losses
from fairway.scheduler.devices.requests import Asked, OpenDeviceRequests
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot
from fairway.state.tasks import Task

_FEW = 3
"""Fewer changes of columns than this are written one by one."""


class Given(NamedTuple):
    """What a task was given on a row. Without a step only in a trial of what would be if others were gone."""

    row: int
    step: CapacityStep | None
    claims: tuple[str, ...] = ()


class DeviceAssignments:
    """See the module."""

    def __init__(self, book: DeviceLedger, snapshot: Snapshot, chain: Chain = DEFAULT_CHAIN) -> None:
        self.book = book
        self.asks = OpenDeviceRequests(book)
        self.uses_devices = self.asks.uses_devices
        self.rooms = DeviceRooms(book, Losses(book, snapshot.state), chain)
        self._snapshot = snapshot
        self._given: dict[Task, Given] = {}
        self._let_go: dict[Task, Given] = {}

    # -- questions --------------------------------------------------------------------------------------------

    def of(self, task: Task) -> tuple[Holding, ...]:
        """What a task holds, by this session's doing or before."""
        given = self._given.get(task)
        if given is None:
            return self._held(task)
        return given.step.holdings if given.step else ()

    def kinds(self, task: Task) -> Vector:
        """What a task holds by kind, beyond what it asked for by name."""
        given = self._given.get(task)
        if given is not None:
            return given.step.kinds if given.step else ()
        node = self.book.nodes.get(task.node)
        return () if node is None else self.rooms.kinds(node, self._held(task))

    def shares_devices(self, shape: Shape) -> bool:
        """Whether it may be given devices that several nodes reach: one less here is one less everywhere."""
        far = self.book.far
        if not far or not self.uses_devices(shape):
            return False
        wishes = {option.wish for need in self.asks.of(shape).needs.needs for option in need.options}
        nodes = self.book.nodes
        return any(slot in nodes[row].candidates(wish) for row, slot in far.homes() for wish in wishes)

    def changed(self) -> list[tuple[NodeDevices, Room, Room]]:
        """Nodes of which devices were given or taken back, as they were and as they are."""
        return self.rooms.changed()

    def check_served(self, task: Task) -> None:
        """A task that is being bound has its devices; anything else is a fault of ours."""
        given = self._given.get(task)
        if given is not None and given.step is None and self.asks.of(task.shape).needs.needs:
            raise InvariantError(f"{task.key} is bound to a node whose devices do not serve it")

    # -- giving and taking back -------------------------------------------------------------------------------

    def write(self, shape: Shape, tasks: Sequence[Task], rows: Sequence[int], sign: int) -> None:
        """Give tasks their devices (sign 1), or take them back, in step with the room that was just written."""
        pairs = list(zip(tasks, rows, strict=True))
        if sign < 0:
            for task, _ in reversed(pairs):
                self._take_back(shape, task)
            return
        moves: list[tuple[int, Moved]] = []
        far, asked = bool(self.book.far), self.asks.of(shape)
        for task, row in pairs:
            if task in self._let_go:
                self._undo(shape, self._let_go.pop(task))
                continue
            if asked.needs.shared:
                asked = self.asks.of(shape)  # the one before may have been given what they share
            given = self._given[task] = self._give(asked, row)
            if given.step is not None:
                moves.append((row, given.step.moved))
                if far:
                    moves += self._echo(row, given.step.holdings, 1)
        self._move(moves)

    def _give(self, asked: Asked, row: int) -> Given:
        """Where the room of a row goes; the columns are brought in line for all tasks at once."""
        step = self.rooms.step(asked, row) if row in self.book.nodes else None
        if step is None:
            return Given(row, None)
        self.rooms.go(row, step.after)
        if not asked.needs.shared:
            return Given(row, step)
        claims = tuple(claim for claim in asked.needs.shared if claim not in self.asks.claimed)
        self.asks.claimed.update(dict.fromkeys(claims, row))
        return Given(row, step, claims)

    def _move(self, moves: list[tuple[int, Moved]]) -> None:
        idle = self._snapshot.idle
        if len(moves) < _FEW:
            for row, moved in moves:
                idle[moved.places, row] += moved.amounts
            return
        places = np.concatenate([moved.places for _, moved in moves])
        amounts = np.concatenate([moved.amounts for _, moved in moves])
        rows = np.repeat([row for row, _ in moves], [len(moved.places) for _, moved in moves])
        np.add.at(idle, (places, rows), amounts)

    def _take_back(self, shape: Shape, task: Task) -> None:
        given = self._given.pop(task, None)
        if given is not None:
            self._undo(shape, given)
        elif task.node in self.book.nodes:
            step = self.rooms.held(task.node, self._held(task), self.asks.named(shape), -1)
            self._go(task.node, step)
            self._move(self._echo(task.node, step.holdings, -1))
            self._let_go[task] = Given(task.node, step)

    def _undo(self, shape: Shape, given: Given) -> None:
        """Back to where a step began; by another way, if there were others on the same row in between."""
        for claim in given.claims:
            del self.asks.claimed[claim]
        row, step = given.row, given.step
        if step is None:
            return
        self._move(self._echo(row, step.holdings, -1 if step.taken else 1))
        if self.rooms.at(row) is step.after:
            self.rooms.go(row, step.before)
            self._snapshot.idle[step.moved.places, row] -= step.moved.amounts
        else:
            back = -1 if step.taken else 1
            self._go(row, self.rooms.held(row, step.holdings, self.asks.named(shape), back))

    def _go(self, row: int, step: CapacityStep) -> None:
        self.rooms.go(row, step.after)
        self._snapshot.idle[step.moved.places, row] += step.moved.amounts

    def _echo(self, row: int, holdings: tuple[Holding, ...], sign: int) -> list[tuple[int, Moved]]:
        """What is taken (or given back) on a row of devices that others reach too is so on all of them. Returns what
        that means to the columns.
        """
        moves = []
        for holding in holdings if self.book.far else ():
            if holding.slot in self.book.nodes[row].far:
                for other, slot in self.book.far.elsewhere(row, holding.slot):
                    step = self.rooms.held(other, (holding._replace(slot=slot),), (), sign)
                    self.rooms.go(other, step.after)
                    self._snapshot.scratch(other)
                    moves.append((other, step.moved))
        return moves

    def _held(self, task: Task) -> tuple[Holding, ...]:
        node = self.book.nodes.get(task.node)
        return tuple(holding for holding in node.holdings if holding.holder == task.key) if node else ()

    # -- promises ---------------------------------------------------------------------------------------------

    def settle(self, evicted: Iterable[Task], nominated: Iterable[Task]) -> None:
        """Evictions will happen, but not yet: the devices stay with the victims, and nominees have none so far.

        The columns are not touched: there nobody gains room, and what the nominees need is theirs. Only on other nodes
        that reach what is being freed they say again that it is taken.
        """
        for task in nominated:
            self._reverse(self._given.pop(task, None))
        for task in evicted:
            self._move(self._reverse(self._let_go.pop(task, None)))

    def _reverse(self, given: Given | None) -> list[tuple[int, Moved]]:
        if given is None or given.step is None:
            return []
        for claim in given.claims:
            del self.asks.claimed[claim]
        back = -1 if given.step.taken else 1
        self.rooms.go(given.row, self.rooms.held(given.row, given.step.holdings, (), back).after)
        return self._echo(given.row, given.step.holdings, back)
