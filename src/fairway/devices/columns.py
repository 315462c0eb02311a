"""What devices mean to the rest of the scheduler, as amounts of the node table and as sums over the cluster.

A class that somebody asks for is a dimension: a node *has* what the class could take there, and whatever is gone of
that beyond what pods asked for by its name is *drawn*. One device counts for every class that could take it, so one pod
may lower several of them. Kinds are dimensions too, for shares are counted by kind; a kind that the node lists as an
extended resource is counted under that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from fairway.devices.locating import KIND_PREFIX
from fairway.devices.node import NodeDevices, Standing, in_use, portion_milli
from fairway.devices.room import WHOLE, Portion, Room
from fairway.resources.columns import Axis
from fairway.state.asks import CLASS_PREFIX
from fairway.state.cluster import ClusterState

Owner = tuple[str, str, str]
"""Queue, namespace and job."""


class _Row(NamedTuple):
    """What was last published for a row."""

    standings: Mapping[str, Standing]
    contested: frozenset[int]
    accounts: Mapping[Owner, Mapping[int, int]]
    written: frozenset[int]
    kinds: frozenset[tuple[str, int]]
    too_long: frozenset[str]


_NOTHING = _Row({}, frozenset(), {}, frozenset(), frozenset(), frozenset())


class DeviceColumns:
    """See the module. `standings` are the classes' statuses, `accounts` what owners hold by kind."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.standings: dict[str, Standing] = {}
        self.accounts: dict[Owner, Counter[int]] = {}
        self._contests: Counter[int] = Counter()
        self._kinds: dict[str, Counter[int]] = {}
        self._too_long: Counter[str] = Counter()
        self._rows: dict[int, _Row] = {}
        self._known_names = 0

    @property
    def contested(self) -> frozenset[int]:
        """Places of plain resources whose units may also be given to those who ask by class."""
        return frozenset(self._contests)

    def kind_of(self, name: str) -> int | None:
        """The dimension that counts the kind of a class's devices, if they are all of one."""
        kinds = self._kinds.get(name, Counter())
        return next(iter(kinds)) if len(kinds) == 1 else None

    def is_too_long(self, name: str) -> bool:
        """Whether somewhere a class selects a device whose choice could not be recorded."""
        return name in self._too_long

    def publish(self, rows: set[int], nodes: Mapping[int, NodeDevices]) -> None:
        """These rows, and all of them if the axis has gained a class, are counted and written anew."""
        names = self._state.axis.names
        if any(name.startswith(CLASS_PREFIX) for name in names[self._known_names :]):
            rows = rows | set(nodes)
        for row in sorted(rows):
            self._publish(row, nodes.get(row))
        self._known_names = len(names)

    def _publish(self, row: int, node: NodeDevices | None) -> None:
        old = self._rows.pop(row, _NOTHING)
        if node is None:
            new = _NOTHING
            self._write(row, {}, {}, old.written)
        else:
            has, drawn = self._amounts(row, node)
            self._write(row, has, drawn, old.written)
            new = self._rows[row] = _Row(
                node.standings(),
                self._contested(node),
                node.accounts,
                frozenset(has) | frozenset(drawn),
                self._kinds_taken(node),
                frozenset(name for names in node.too_long for name in names),
            )
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, row: _Row, sign: int) -> None:
        for name, standing in row.standings.items():
            self.standings[name] = moved(self.standings.get(name, NONE), standing, sign)
            if self.standings[name] == NONE:
                del self.standings[name]
        self._contests.update(dict.fromkeys(row.contested, sign))
        self._contests = +self._contests
        for name, place in row.kinds:
            kinds = self._kinds.setdefault(name, Counter())
            kinds[place] += sign
            self._kinds[name] = +kinds
        self._too_long.update(dict.fromkeys(row.too_long, sign))
        self._too_long = +self._too_long
        for owner, amounts in row.accounts.items():
            account = self.accounts.setdefault(owner, Counter())
            account.update({place: sign * amount for place, amount in amounts.items()})
            self.accounts[owner] = +account
            if not self.accounts[owner]:
                del self.accounts[owner]

    # -- the node table ---------------------------------------------------------------------------------------

    def _amounts(self, row: int, node: NodeDevices) -> tuple[dict[int, int], dict[int, int]]:
        """What the row has, by place, and what is drawn of it."""
        axis, used = self._state.axis, self._state.nodes.used.data
        has, drawn = Counter[int](), Counter[int]()
        places = node.class_places(axis)
        for slot, facts in enumerate(node.inventory.slots):
            for place in places[slot]:
                has[place] += facts.quantity * WHOLE
            if facts.device.kind not in node.plain:
                place = kind_place(axis, node, slot)
                has[place] += facts.quantity * WHOLE if facts.device.usable else 0
                drawn[place] += in_use(node.room, slot)
        for place, free in free_by_place(node, node.room, places).items():
            drawn[place] = has[place] - free - (int(used[place, row]) if place < len(used) else 0)
        for holding in node.holdings:
            kind = node.inventory.slots[holding.slot].device.kind
            if kind in node.plain and not holding.plain:
                drawn[axis.row(kind)] += portion_milli(node.inventory.slots[holding.slot], holding.portion)
        return dict(has), dict(drawn)

    def _write(self, row: int, has: dict[int, int], drawn: dict[int, int], written: frozenset[int]) -> None:
        nodes = self._state.nodes
        nodes.reach()
        resized = moved_ = False
        for place in sorted(written | has.keys() | drawn.keys()):
            if _is_ours(nodes.axis.names[place]) and nodes.alive[row]:
                resized |= bool(nodes.allocatable.data[place, row] != has.get(place, 0))
                nodes.allocatable.data[place, row] = has.get(place, 0)
            moved_ |= bool(nodes.drawn.data[place, row] != drawn.get(place, 0))
            nodes.drawn.data[place, row] = drawn.get(place, 0)
        if resized:
            nodes.size_generation += 1
            nodes.reshaped.add(row)
        if resized or moved_:
            nodes.changed.add(row)

    def _contested(self, node: NodeDevices) -> frozenset[int]:
        axis = self._state.axis
        return frozenset(
            axis.row(facts.device.kind)
            for facts, takes in zip(node.inventory.slots, node.takes, strict=True)
            if facts.device.kind in node.plain and (takes or facts.device.name != facts.device.kind)
        )

    def _kinds_taken(self, node: NodeDevices) -> frozenset[tuple[str, int]]:
        axis = self._state.axis
        return frozenset(
            (name, kind_place(axis, node, slot)) for slot, names in enumerate(node.takes) for name in names
        )


NONE = Standing(0, 0)


def moved(standing: Standing, by: Standing, sign: int = 1) -> Standing:
    return Standing(standing.allocatable + sign * by.allocatable, standing.requested + sign * by.requested)


def _is_ours(name: str) -> bool:
    return name.startswith((CLASS_PREFIX, KIND_PREFIX))


def free_by_place(node: NodeDevices, room: Room, places: list[tuple[int, ...]]) -> dict[int, int]:
    """What each class could still take; an upper bound where devices hang together."""
    free: dict[int, int] = {}
    for slot, here in enumerate(places):
        left = room.left(slot) if here else 0
        for place in here:
            free[place] = free.get(place, 0) + left
    return free


def kind_place(axis: Axis, node: NodeDevices, slot: int) -> int:
    """The dimension under which a slot counts in shares."""
    kind = node.inventory.slots[slot].device.kind
    return axis.row(kind if kind in node.plain else KIND_PREFIX + kind)


def kind_held(axis: Axis, node: NodeDevices, slot: int, portion: Portion) -> tuple[int, int]:
    """What a holding counts for in shares. A group counts as one of its own kind, as those who wait for it do."""
    return kind_place(axis, node, slot), portion_milli(node.inventory.slots[slot], portion)
