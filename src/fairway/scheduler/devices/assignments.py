"""Devices in a session: which pod gets which, written and taken back together with the capacity.

For the columns a class is a resource like any other. What is decided here is which devices a task is given, and what
that means to all the other classes that could have taken them.

Free slots are what is physically there now. Claims (nominations, pods that are being evicted) are the columns'
business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from fairway.devices.match.free_slots import FreeSlots
from fairway.devices.match.solving import DEFAULT_CHAIN, Chain
from fairway.devices.select.cel_selectors import Purse
from fairway.devices.track.ledger import DeviceLedger
from fairway.devices.track.node import NodeDevices, SlotAllocation
from fairway.errors import InvariantError
from fairway.resources.columns import Vector
from fairway.scheduler.devices.free_devices import CapacityStep, FreeDevices, Losses, Moved
from fairway.scheduler.devices.requests import OpenDeviceRequests, PreparedRequest
from fairway.state.jobs import Task
from fairway.state.shapes import Shape
from fairway.state.snapshot import WorkingCopy


class Given(NamedTuple):
    """What a task was given on a row. Without a step only in a trial of what would be if others were gone."""

    row: int
    step: CapacityStep | None
    claims: tuple[str, ...] = ()


class DeviceAssignments:
    """The devices assigned in one session, with an undo entry for each."""

    def __init__(self, ledger: DeviceLedger, snapshot: WorkingCopy, chain: Chain = DEFAULT_CHAIN) -> None:
        self.ledger = ledger
        self._snapshot = snapshot
        self._chain = chain
        self._contested = ledger.columns.contested if ledger.enabled else frozenset[int]()
        self._given: dict[Task, Given] = {}
        self._let_go: dict[Task, Given] = {}

    def uses_devices(self, shape: Shape) -> bool:
        """Whether placing the shape has anything to do with devices."""
        if shape.devices is not None:
            return self.ledger.enabled
        contested = self._contested
        return bool(contested) and any(place in contested for place, _ in shape.vector)

    @cached_property
    def requests(self) -> OpenDeviceRequests:
        """Made when the first pod requests devices."""
        return OpenDeviceRequests(self.ledger)

    @cached_property
    def capacity(self) -> FreeDevices:
        """Made when the first pod is to have devices, or had some."""
        return FreeDevices(self.ledger, Losses(self.ledger, self._snapshot.state), self._chain)

    # -- questions --------------------------------------------------------------------------------------------

    def prepare(self, shape: Shape, purse: Purse) -> bool:
        """Whether all is known that placing a shape needs to know of expressions; what is not is evaluated, as far as
        there are means for it.
        """
        if shape.devices is None or not shape.devices.claims or not self.ledger.enabled:
            return True
        return self.ledger.prepare(shape.devices, purse)

    def look_cost(self, shape: Shape) -> int:
        """What it costs to look for the devices of a shape, in units of `state.budgets`."""
        if shape.devices is None or not self.ledger.enabled:
            return 0
        requests = self.requests.of(shape).resolved.requests
        ways = sum(len(request.options) for request in requests)
        return ways * (20 + 15 * len(self.ledger.nodes))

    def of(self, task: Task) -> tuple[SlotAllocation, ...]:
        """What a task has, by this session's doing or before."""
        given = self._given.get(task)
        if given is None:
            return self._reserved(task)
        return given.step.allocations if given.step else ()

    def kinds(self, task: Task) -> Vector:
        """What a task has by kind, beyond what it requests by name."""
        given = self._given.get(task)
        if given is not None:
            return given.step.kinds if given.step else ()
        node = self.ledger.nodes.get(task.node)
        return () if node is None else self.capacity.kinds(node, self._reserved(task))

    def shares_devices(self, shape: Shape) -> bool:
        """Whether it may be given devices that several nodes reach: one less here is one less everywhere."""
        network = self.ledger.network
        if not network or not self.uses_devices(shape):
            return False
        wishes = {
            option.selector for request in self.requests.of(shape).resolved.requests for option in request.options
        }
        nodes = self.ledger.nodes
        return any(slot in nodes[row].candidates(selector) for row, slot in network.homes() for selector in wishes)

    def changed(self) -> list[tuple[NodeDevices, FreeSlots, FreeSlots]]:
        """Nodes of which devices were given or taken back, as they were and as they are."""
        return self.capacity.changed() if self.ledger.enabled else []

    def is_served(self, task: Task) -> bool:
        """Whether a task that was placed in this session was given the devices that it needs."""
        given = self._given.get(task)
        return given is None or given.step is not None or not self.requests.of(task.shape).resolved.requests

    def check_served(self, task: Task) -> None:
        """A task that is being bound has its devices; anything else is an error of Fairway."""
        if not self.is_served(task):
            raise InvariantError(f"{task.key} is bound to a node whose devices do not serve it")

    # -- giving and taking back -------------------------------------------------------------------------------

    def write(self, shape: Shape, tasks: Sequence[Task], rows: Sequence[int], sign: int) -> None:
        """Give tasks their devices (sign 1), or take them back, in step with the capacity that was just written."""
        pairs = list(zip(tasks, rows, strict=True))
        if sign < 0:
            for task, _ in reversed(pairs):
                self._take_back(shape, task)
            return
        moves: list[tuple[int, Moved]] = []
        far, prepared = bool(self.ledger.network), self.requests.of(shape)
        for task, row in pairs:
            if task in self._let_go:
                self._undo(shape, self._let_go.pop(task))
                continue
            if prepared.resolved.shared:
                prepared = self.requests.of(shape)  # the one before may have been given what they share
            given = self._given[task] = self._give(prepared, row)
            if given.step is not None:
                moves.append((row, given.step.moved))
                if far:
                    moves += self._mirror(row, given.step.allocations, 1)
        self._move(moves)

    def give(self, shape: Shape, task: Task, row: int) -> Vector:
        """What `write` does for one task that waited; returns what it was given, by kind."""
        given = self._given[task] = self._give(self.requests.of(shape), row)
        if given.step is None:
            return ()
        self._snapshot.idle[:, row] += given.step.moved
        if self.ledger.network:
            self._move(self._mirror(row, given.step.allocations, 1))
        return given.step.kinds

    def _give(self, prepared: PreparedRequest, row: int) -> Given:
        """Where the devices of a row go; the columns are brought up to date for all tasks at once."""
        step = self.capacity.step(prepared, row) if row in self.ledger.nodes else None
        if step is None:
            return Given(row, None)
        self.capacity.go(row, step.after)
        if not prepared.resolved.shared:
            return Given(row, step)
        claims = tuple(claim for claim in prepared.resolved.shared if claim not in self.requests.claimed)
        self.requests.claimed.update(dict.fromkeys(claims, row))
        return Given(row, step, claims)

    def _move(self, moves: list[tuple[int, Moved]]) -> None:
        idle = self._snapshot.idle
        for row, moved in moves:
            idle[:, row] += moved

    def _take_back(self, shape: Shape, task: Task) -> None:
        given = self._given.pop(task, None)
        if given is not None:
            self._undo(shape, given)
        elif task.node in self.ledger.nodes:
            step = self.capacity.allocated(task.node, self._reserved(task), self.requests.named(shape), -1)
            self._go(task.node, step)
            self._move(self._mirror(task.node, step.allocations, -1))
            self._let_go[task] = Given(task.node, step)

    def _undo(self, shape: Shape, given: Given) -> None:
        """Back to where a step began; by another way, if there were others on the same row in between."""
        for claim in given.claims:
            del self.requests.claimed[claim]
        row, step = given.row, given.step
        if step is None:
            return
        self._move(self._mirror(row, step.allocations, -1 if step.taken else 1))
        if self.capacity.at(row) is step.after:
            self.capacity.go(row, step.before)
            self._snapshot.idle[:, row] -= step.moved
        else:
            back = -1 if step.taken else 1
            self._go(row, self.capacity.allocated(row, step.allocations, self.requests.named(shape), back))

    def _go(self, row: int, step: CapacityStep) -> None:
        self.capacity.go(row, step.after)
        self._snapshot.idle[:, row] += step.moved

    def _mirror(self, row: int, allocations: tuple[SlotAllocation, ...], sign: int) -> list[tuple[int, Moved]]:
        """What is taken (or given back) on a row of devices that others reach too is so on all of them. Returns what
        that means to the columns.
        """
        moves = []
        for allocation in allocations if self.ledger.network else ():
            if allocation.slot in self.ledger.nodes[row].network_slots:
                for other, slot in self.ledger.network.elsewhere(row, allocation.slot):
                    step = self.capacity.allocated(other, (allocation._replace(slot=slot),), (), sign)
                    self.capacity.go(other, step.after)
                    self._snapshot.write(other)
                    moves.append((other, step.moved))
        return moves

    def _reserved(self, task: Task) -> tuple[SlotAllocation, ...]:
        node = self.ledger.nodes.get(task.node)
        return tuple(allocation for allocation in node.allocations if allocation.holder == task.key) if node else ()

    # -- nominations --------------------------------------------------------------------------------------------

    def settle(self, evicted: Iterable[Task], nominated: Iterable[Task]) -> None:
        """Evictions will happen, but not yet: the devices stay with the victims, and nominees have none so far.

        The columns are not touched: there no pod gains capacity, and what the nominees need is theirs. Only on other
        nodes that reach what is being freed they say again that it is taken.
        """
        for task in nominated:
            self._reverse(self._given.pop(task, None))
        for task in evicted:
            self._move(self._reverse(self._let_go.pop(task, None)))

    def _reverse(self, given: Given | None) -> list[tuple[int, Moved]]:
        if given is None or given.step is None:
            return []
        for claim in given.claims:
            del self.requests.claimed[claim]
        back = -1 if given.step.taken else 1
        self.capacity.go(given.row, self.capacity.allocated(given.row, given.step.allocations, (), back).after)
        return self._mirror(given.row, given.step.allocations, back)
