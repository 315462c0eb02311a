"""Devices in a session: who is given which, written and taken back together with the room.

For the columns a class is a resource like any other. What is decided here is which devices a task is given, and what
that means to all the other classes that could have taken them.

`Room`s are what is physically there now. Promises (nominations, pods that are being evicted) are the columns' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fairway.devices.book import DeviceBook, is_plain
from fairway.devices.columns import NONE, kind_held, moved
from fairway.devices.node import Holding, NodeDevices, Standing, portion_milli
from fairway.devices.requests import DeviceNeeds, Need
from fairway.devices.room import WHOLE, Room
from fairway.devices.solving import Taken, solve
from fairway.devices.strategies import DEFAULT_CHAIN, Chain
from fairway.errors import InvariantError
from fairway.resources.columns import BoolColumn, Vector
from fairway.scheduler.books import AccountBook, QueueBook
from fairway.scheduler.deviceloss import Losses
from fairway.scheduler.view import NodeView
from fairway.state.asks import CLASS_PREFIX
from fairway.state.queues import add
from fairway.state.shapes import Shape
from fairway.state.snapshot import Snapshot
from fairway.state.tasks import Task
from fairway.state.waiting import Signature

AccountOf = Callable[[QueueBook, str], AccountBook]


class Given(NamedTuple):
    """What a task was given on a row. `served` is False only in a trial of what would be if others were gone."""

    row: int
    holdings: tuple[Holding, ...]
    claims: tuple[str, ...]
    served: bool


def _holding(task: Task, need: Need, taken: Taken) -> Holding:
    request = need.request + (f"/{name}" if (name := need.options[taken.option].name) else "")
    return Holding(task.key, taken.slot, taken.portion, need.label, is_plain(need), need.claim, request)


class Allotments:
    """See the module."""

    def __init__(self, book: DeviceBook, snapshot: Snapshot, chain: Chain = DEFAULT_CHAIN) -> None:
        self.book = book
        self._snapshot = snapshot
        self._chain = chain
        self._losses = Losses(book, snapshot.state)
        self._contested = book.columns.contested
        self._asked_by: dict[Shape, Vector] = {}
        self._rooms: dict[int, Room] = {}
        self._given: dict[Task, Given] = {}
        self._let_go: dict[Task, Given] = {}
        self.claimed: dict[str, int] = {}
        """Claims that were allocated in this session, and on which row."""

    # -- questions --------------------------------------------------------------------------------------------

    def minds(self, shape: Shape) -> bool:
        """Whether placing the shape has anything to do with devices."""
        if not self.book.awake:
            return False
        if shape.devices is not None:
            return True
        contested = self._contested
        return bool(contested) and any(place in contested for place, _ in shape.vector)

    def needs(self, shape: Shape) -> DeviceNeeds:
        """What a task of the shape needs now; a claim that was allocated in this session needs nothing more."""
        axis = self.book.axis
        plain = tuple((name, n) for name, n in self.book.plain(shape) if axis.find(name) in self._contested)
        needs = self.book.resolve(shape.devices, plain)
        if not self.claimed or not any(claim in self.claimed for claim in needs.shared):
            return needs
        left = tuple(need for need in needs.needs if need.claim not in self.claimed)
        return needs._replace(needs=left, rules=needs.rules if len(left) == len(needs.needs) else ())

    def room(self, row: int) -> Room:
        """What is free on a row that has devices; not to be written to."""
        return self._rooms.get(row) or self.book.nodes[row].room

    def choose(self, needs: DeviceNeeds, row: int, room: Room | None = None) -> tuple[Taken, ...] | None:
        """What a task would be given on a row; None if it cannot be served there."""
        node = self.book.nodes.get(row)
        if node is None:
            return None if needs.needs else ()
        where = self.room(row) if room is None else room
        return solve(where, needs, node.candidates, self._chain, self._losses.on(node))

    def of(self, task: Task) -> tuple[Holding, ...]:
        """What a task holds, by this session's doing or before."""
        given = self._given.get(task)
        return self._held(task).holdings if given is None else given.holdings

    def kinds(self, task: Task) -> Vector:
        """What a task holds by kind, beyond what it asked for by name."""
        given = self._given.get(task) or self._held(task)
        node = self.book.nodes.get(given.row)
        if node is None:
            return ()
        found: dict[int, int] = {}
        for holding in given.holdings:
            if not holding.plain:
                place, milli = kind_held(self.book.axis, node, holding.slot, holding.portion)
                found[place] = found.get(place, 0) + milli
        return tuple(sorted(found.items()))

    def unrecordable_rows(self, name: str, view: NodeView) -> BoolColumn:
        """Where a class selects devices whose choice could not be recorded."""
        found = np.zeros(view.size, dtype=np.bool_)
        if self.book.columns.is_too_long(name):
            for index, row in enumerate(view.all_rows()):
                node = self.book.nodes.get(int(row))
                found[index] = node is not None and any(name in names for names in node.too_long)
        return found

    def standings(self) -> dict[str, Standing]:
        """The classes' statuses as they stand now."""
        more: dict[frozenset[str], Standing] = {}
        for row, room in self._rooms.items():
            node = self.book.nodes[row]
            for sign, tally in ((-1, node.tally(node.room)), (1, node.tally(room))):
                for names, standing in tally.items():
                    more[names] = moved(more.get(names, NONE), standing, sign)
        return self.book.columns.standings(more)

    # -- queues and shares --------------------------------------------------------------------------------------

    def asked(self, shape: Shape) -> Vector:
        """What a shape counts for in its queue while it waits: what it names, and a class's kind where there is one."""
        if shape.devices is None or not shape.devices.classes:
            return shape.vector
        found = self._asked_by.get(shape)
        if found is None:
            amounts = dict(shape.vector)
            for ask in shape.devices.classes:
                place = self.book.columns.kind_of(ask.class_name)
                if place is not None:
                    amounts[place] = amounts.get(place, 0) + ask.units * WHOLE + sum(ask.fractions)
            found = self._asked_by[shape] = tuple(sorted(amounts.items()))
        return found

    def open_books(self, books: Mapping[str, QueueBook], account: AccountOf) -> None:
        """Devices that are held, and those that are asked for, count by kind; classes do not count in shares."""
        for (queue, namespace, _), amounts in self.book.columns.accounts.items():
            books[queue].charge(tuple(amounts.items()), 1)
            add(account(books[queue], namespace).held, tuple(amounts.items()))
        names = self.book.axis.names
        uncounted = frozenset(row for row, name in enumerate(names) if name.startswith(CLASS_PREFIX))
        for book in books.values():
            book.uncounted = uncounted
        waiting = self._snapshot.state.waiting
        for signature in waiting.signatures():
            more = self._by_kind(signature)
            for key, line in signature.lines.items() if more else ():
                if key.valid:
                    for book in books[key.queue].line:
                        add(book.requested, more, len(line.entries))
        for job, (signature, _) in waiting.started.items():
            for book in books[job.queue].line:
                add(book.requested, self._by_kind(signature))

    def _by_kind(self, signature: Signature) -> Vector:
        amounts: dict[int, int] = {}
        for run in signature.runs:
            named = dict(run.shape.vector)
            for place, amount in self.asked(run.shape):
                if amount > named.get(place, 0):
                    amounts[place] = amounts.get(place, 0) + (amount - named.get(place, 0)) * run.size
        return tuple(sorted(amounts.items()))

    # -- giving and taking back -------------------------------------------------------------------------------

    def write(self, shape: Shape, tasks: Sequence[Task], rows: Sequence[int], sign: int) -> None:
        """Give tasks their devices (sign 1), or take them back, in step with the room that was just written."""
        pairs = list(zip(tasks, rows, strict=True))
        for task, row in pairs if sign > 0 else reversed(pairs):
            if sign > 0:
                self._give(shape, task, row)
            else:
                self._take_back(shape, task)

    def _give(self, shape: Shape, task: Task, row: int) -> None:
        back = self._let_go.pop(task, None)
        if back is not None:
            self._move(shape, back, 1)
            return
        needs = self.needs(shape)
        taken = self.choose(needs, row)
        holdings = tuple(_holding(task, needs.needs[t.need], t) for t in taken or ())
        claims = tuple(claim for claim in needs.shared if claim not in self.claimed) if taken is not None else ()
        given = self._given[task] = Given(row, holdings, claims, taken is not None)
        self.claimed.update(dict.fromkeys(claims, row))
        self._move(shape, given, 1)

    def _take_back(self, shape: Shape, task: Task) -> None:
        given = self._given.pop(task, None)
        if given is None:
            given = self._let_go[task] = self._held(task)
        for claim in given.claims:
            del self.claimed[claim]
        self._move(shape, given, -1)

    def _held(self, task: Task) -> Given:
        node = self.book.nodes.get(task.node)
        mine = (holding for holding in node.holdings if holding.holder == task.key) if node else ()
        return Given(task.node, tuple(mine), (), True)

    def _move(self, shape: Shape, given: Given, sign: int) -> None:
        """Take or give back holdings, and bring the columns in line: `shape.vector` was written there already."""
        node = self.book.nodes.get(given.row)
        if node is None:
            return
        room = self._own(given.row)
        places = self.book.class_places(node)
        changed = range(len(places)) if node.awkward else sorted({h.slot for h in given.holdings})
        moved = self._asked(shape, places)
        before = [room.left(slot) for slot in changed]
        for holding in given.holdings:
            (room.take if sign > 0 else room.give)(holding.slot, holding.portion)
        moved = {place: sign * amount for place, amount in moved.items()}
        for slot, left in zip(changed, before, strict=True):
            gained = room.left(slot) - left
            for place in places[slot] if gained else ():
                moved[place] = moved.get(place, 0) + gained
        for holding in given.holdings:
            self._draw(node, holding, sign, moved)
        idle, row = self._snapshot.idle, given.row
        for place, amount in moved.items():
            if amount:
                idle[place, row] += amount

    def _asked(self, shape: Shape, places: list[tuple[int, ...]]) -> dict[int, int]:
        """What the shape's own vector takes of the classes that there are on the node."""
        here = {place for slot in places for place in slot}
        return {place: amount for place, amount in shape.vector if place in here}

    def _draw(self, node: NodeDevices, holding: Holding, sign: int, moved: dict[int, int]) -> None:
        """Units of a plain resource that somebody has who did not ask for it by name."""
        facts = node.inventory.slots[holding.slot]
        if facts.device.kind in node.plain and not holding.plain:
            place = self.book.axis.row(facts.device.kind)
            moved[place] = moved.get(place, 0) - sign * portion_milli(facts, holding.portion)

    def _own(self, row: int) -> Room:
        room = self._rooms.get(row)
        if room is None:
            room = self._rooms[row] = self.book.nodes[row].room.copy()
        return room

    # -- promises ---------------------------------------------------------------------------------------------

    def settle(self, evicted: Iterable[Task], nominated: Iterable[Task]) -> None:
        """Evictions will happen, but not yet: the devices stay with the victims, and nominees have none so far.

        The columns are not touched: there nobody gains room, and what the nominees need is theirs.
        """
        for task in nominated:
            given = self._given.pop(task, None)
            if given is not None:
                self._physically(given, -1)
                for claim in given.claims:
                    del self.claimed[claim]
        for task in evicted:
            given = self._let_go.pop(task, None)
            if given is not None:
                self._physically(given, 1)

    def _physically(self, given: Given, sign: int) -> None:
        if given.row in self.book.nodes:
            room = self._own(given.row)
            for holding in given.holdings:
                (room.take if sign > 0 else room.give)(holding.slot, holding.portion)

    def check_served(self, task: Task) -> None:
        """A task that is being bound has its devices; anything else is a fault of ours."""
        given = self._given.get(task)
        if given is not None and not given.served:
            raise InvariantError(f"{task.key} is bound to a node whose devices do not serve it")
