"""`DeviceLedger`: all devices of the cluster, updated by what changed, never rebuilt.

It lives beside the state and reads only rows that changed since its last update. What a row's devices mean to the rest
of the scheduler is written back by `DeviceColumns`. `check_ledger` compares it with a new ledger of the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from fairway.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceClass,
    ResourceSlice,
)
from fairway.api.kinds import ObjectKey
from fairway.devices.model.device import Device
from fairway.devices.model.inventory import Inventory
from fairway.devices.model.pools import Locator, PoolKey, check_slice
from fairway.devices.select.cel_selectors import Purse, SelectorAnswers
from fairway.devices.select.classes import ClassTable, CompiledClass, ExtendedResources
from fairway.devices.select.requests import (
    ByClaim,
    ByClass,
    ClaimMatcher,
    DeviceSelector,
    RequestResolver,
    ResolvedRequests,
)
from fairway.devices.track.class_columns import DeviceColumns
from fairway.devices.track.node import NO_CLASSES, ClassUse, NodeDevices, portion_milli
from fairway.devices.track.occupancy import NetworkDevices, Occupancy, Plain
from fairway.errors import InvariantError
from fairway.resources.columns import Axis, Vector
from fairway.state.aside import SetAside
from fairway.state.cluster import ClusterState
from fairway.state.derived import DerivedValue, same
from fairway.state.device_requests import CLASS_PREFIX, Changed, DeviceRequests, fact_key
from fairway.state.jobs import Task
from fairway.state.shapes import Shape

_KEPT = 1024
"""Maximum cached answers that may not be needed again."""


_PARTS = ("aside", "classes", "_matcher", "_requests", "_locator", "_occupancy")


class DeviceLedger(
    DerivedValue,
    name="devices",
    holds="all devices, their users, and what each class could still take on each node",
    inputs=("nodes", "device objects", "selector-answers"),
    saves="reading all devices and claims, and matching them with classes",
):
    """All devices of the cluster. `nodes` has the rows with devices.

    Its parts are created on first use: a cluster without devices has none of them.
    """

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state.devices, state.nodes.changed, state.nodes.reshaped)
        self._state = state
        self.nodes: dict[int, NodeDevices] = {}
        self._structures: dict[Hashable, int] = {}
        self._layouts: dict[Hashable, int] = {}
        self.generation = 0
        """Increases when requests may mean something else: classes, claims or templates changed."""
        self.device_generation = 0
        """Increases when devices may have changed."""
        self._renamed = False
        self._forget()

    @cached_property
    def extended(self) -> ExtendedResources:
        return ExtendedResources(self._state.devices, self._state.axis)

    @property
    def axis(self) -> Axis:
        return self._state.axis

    @property
    def network(self) -> NetworkDevices:
        return self._occupancy.network

    @property
    def enabled(self) -> bool:
        """Whether a pod could request devices at all."""
        return self._read is not None

    @classmethod
    def make(cls, state: ClusterState) -> DeviceLedger:
        return cls(state)

    # -- keeping up -------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Updates everything to the state. The cost is proportional to the changes; zero if no object is about
        devices.
        """
        facts = self._state.devices
        can_be_asked_for = facts.classes or facts.claims or facts.templates
        if not (can_be_asked_for or facts.device_classes or self.enabled):
            return
        renamed = self.extended.refresh()
        if not (can_be_asked_for or self.extended.served):
            self.retire()
            return
        self._renamed = renamed
        changes = self.new_entries()
        if changes is None:
            self.rebuild()
        else:
            self.update(*changes)
        self._read = [log.end for log in self._logs]  # what it has written itself is read, too

    def rebuild(self) -> None:
        self.retire()
        self._learn_everything()
        self._take_in(set(range(len(self._state.nodes))), set(), set())

    def update(self, changes: list[Changed], changed: list[int], reshaped: list[int]) -> None:
        """Runs also without logged changes: an extended resource may mean devices now."""
        redrawn, reselected, asked_for = self._learn(changes)
        if self._renamed:
            asked_for |= self._reselect()
            self._renew_resolved()
        refilled = {*changed, *asked_for, *self._claimed_rows()}
        refilled |= {row for row in reselected if self._state.nodes.tasks[row]}
        self._take_in({*reshaped, *redrawn}, refilled, reselected)

    def _take_in(self, rebuilt: set[int], refilled: set[int], reselected: set[int]) -> None:
        rebuilt |= {row for row in refilled if self._is_bare(row)}
        refilled |= rebuilt | self._rebuild(rebuilt)
        refilled = self._occupancy.refill(refilled)
        self.columns.publish(refilled, self.nodes, reselected & set(self.nodes))
        self._prune()

    def check(self) -> None:
        self.sync()
        nodes, size = self._state.nodes, len(self._state.axis)
        before = [table.data[:size].copy() for table in (nodes.allocatable, nodes.drawn)]
        fresh = DeviceLedger(self._state)
        fresh.sync()
        same("rows with devices", sorted(self.nodes), sorted(fresh.nodes))
        for row, node in self.nodes.items():
            name, other = nodes.names[row], fresh.nodes[row]
            same(f"users of devices on {name}", sorted(node.allocations), sorted(other.allocations))
            same(f"classes of devices on {name}", node.selectable_by, other.selectable_by)
            same(f"what is taken of devices on {name}", node.free.key(), other.free.key())
        same("classes' sums", dict(self.columns.copy_of_sums()), dict(fresh.columns.copy_of_sums()))
        same("devices by owner", self.columns.accounts, fresh.columns.accounts)
        same("resources given as devices", self.columns.contested, fresh.columns.contested)
        for what, one, table in zip(("has", "gives by class"), before, (nodes.allocatable, nodes.drawn), strict=True):
            if not np.array_equal(one, table.data[:size]):
                raise InvariantError(f"what a node {what} of devices: kept amounts differ from recomputed ones")

    def _prune(self) -> None:
        """Drops structures and layouts that no node has any more; no session outlasts a change."""
        if len(self._structures) + len(self._layouts) <= _KEPT + 4 * len(self.nodes):
            return
        self._structures.clear()
        self._layouts.clear()
        for node in self.nodes.values():
            node.structure = self._structures.setdefault(node.inventory.structure(), len(self._structures))
            node.layout = -1

    def _forget(self) -> None:
        for part in _PARTS:
            self.__dict__.pop(part, None)
        self.stale()
        self._resolved: dict[tuple[DeviceRequests | None, Plain], ResolvedRequests] = {}
        self._selectors: dict[DeviceRequests, list[ByClaim]] = {}
        self._refusals = 0
        self._kinds: dict[ByClaim, int | None] = {}
        self._kinds_basis = (-1, -1, -1)

    @cached_property
    def columns(self) -> DeviceColumns:
        return DeviceColumns(self._state)

    @cached_property
    def aside(self) -> SetAside:
        """Slices, classes and claims that could not be read."""
        return SetAside()

    @cached_property
    def classes(self) -> ClassTable:
        return ClassTable()

    @cached_property
    def _matcher(self) -> ClaimMatcher:
        answers = self._state.derived.get(SelectorAnswers)
        waits = self._state.namespace_budgets.limit is not None
        return ClaimMatcher(self._state.devices.device_classes, self.classes, answers, waits=waits)

    @cached_property
    def _requests(self) -> RequestResolver:
        facts = self._state.devices
        return RequestResolver(self.classes, self._matcher, facts.claims, facts.templates)

    @cached_property
    def _locator(self) -> Locator:
        return Locator(self._state)

    @cached_property
    def _occupancy(self) -> Occupancy:
        return Occupancy(self._state, self.nodes, self.resolve)

    def retire(self) -> None:
        """Drops everything: no node has devices."""
        if self.enabled:
            rows = set(self.nodes)
            self.nodes.clear()
            self.columns.publish(rows, self.nodes)
            self._forget()
            self.generation += 1

    def _learn_everything(self) -> None:
        facts = self._state.devices
        for known in facts.classes.values():
            self.aside.take(known, self.classes.put, self.classes.drop)
        self.classes.settle()
        for rule in facts.taint_rules.values():
            self._locator.upsert_taint_rule(rule)
        for slice_ in facts.slices.values():
            self._take_slice(slice_)
        for claim in facts.claims.values():
            self._take_claim(claim)
        self._occupancy.claimed.take_changed()
        self._renew_resolved()

    def _learn(self, changes: Iterable[Changed]) -> tuple[set[int], set[int], set[int]]:
        """Reads changes; returns rows whose devices changed, and rows whose selecting classes changed: unrequested and
        requested ones.
        """
        facts, rows, reselected, asked_for = self._state.devices, set[int](), set[int](), set[int]()
        for kind, key in dict.fromkeys(changes):
            self.aside.forget(lambda kind=kind, key=key: _object_key(kind, key))  # type: ignore[misc]
            if kind is ResourceSlice:
                slice_ = facts.slices.get(key)
                rows |= self._locator.delete_slice(key) if slice_ is None else self._take_slice(slice_)
            elif kind is DeviceTaintRule:
                rule = facts.taint_rules.get(key)
                known_rules = self._locator
                rows |= known_rules.delete_taint_rule(key) if rule is None else known_rules.upsert_taint_rule(rule)
            elif kind is ResourceClaim:
                claim = facts.claims.get(key)
                if claim is None:
                    self._occupancy.learn_claim(key, None)
                else:
                    self._take_claim(claim)
            elif kind is ResourceClass:
                known = self.axis.find(CLASS_PREFIX + key) is not None
                (asked_for if known else reselected).update(self._reclass(key))
            elif kind is DeviceClass:
                asked_for |= self._reselect()
            if kind in (ResourceClass, ResourceClaim, DeviceClass, ResourceClaimTemplate):
                self._renew_resolved()
                asked_for |= self._occupancy.presumed
        return rows, reselected, asked_for

    def _take_slice(self, slice_: ResourceSlice) -> set[int]:
        drop = self._locator.delete_slice
        return self.aside.take(slice_, self._read_slice, lambda bad: drop(bad.metadata.name))

    def _read_slice(self, slice_: ResourceSlice) -> set[int]:
        check_slice(slice_)
        return self._locator.upsert_slice(slice_)

    def _take_claim(self, claim: ResourceClaim) -> None:
        learn = self._occupancy.learn_claim
        self.aside.take(claim, lambda good: learn(fact_key(good), good), lambda bad: learn(fact_key(bad), None))

    def _renew_resolved(self) -> None:
        self.generation += 1
        self._resolved.clear()
        self._selectors.clear()

    def _reclass(self, name: str) -> set[int]:
        """A class was added or removed: every device is matched against it once. Returns rows where that made a
        difference.
        """
        known = self._state.devices.classes.get(name)
        if known is None:
            self.classes.remove(name)
        else:
            self.aside.take(known, self.classes.add, lambda bad: self.classes.remove(bad.metadata.name))
        return self._reselect()

    def _reselect(self) -> set[int]:
        """The classes that select devices may have changed. Returns rows where that made a difference."""
        touched = set[int]()
        for row, node in self.nodes.items():
            selected, extended = self._selections(node.inventory, node.listed)
            if selected != node.selected or extended != node.extended:
                touched.add(row)
            node.select(selected, extended)
        return touched

    def _selections(self, inventory: Inventory, listed: frozenset[str]) -> tuple[list[frozenset[str]], dict[str, str]]:
        """For each slot the classes that select it and the extended resources that it can serve; and the resources that
        devices serve on this node, with their DeviceClasses, because the node does not list them itself.
        """
        found = self.classes.selections(inventory)
        extended = {name: serving for name, serving in self.extended.served.items() if name not in listed}
        for name, serving in extended.items():
            selector = ByClaim(serving)
            for index, slot in enumerate(inventory.slots):
                if self._matcher.selects(selector, slot.device, NO_CLASSES):
                    found[index] = found[index] | {name}
        return found, extended

    def _claimed_rows(self) -> set[int]:
        """Rows where claims have other devices than before, or where they count for a class that was not counted."""
        rows = self._locator.rows_of({device[:2] for device in self._occupancy.claimed.take_changed()})
        if self.columns.has_new_classes():
            rows |= {
                row for row, node in self.nodes.items() if any(allocation.claim for allocation in node.allocations)
            }
        return rows

    # -- rows -------------------------------------------------------------------------------------------------

    def _rebuild(self, rows: set[int]) -> set[int]:
        """The devices of these rows may have changed. Returns the rows that share devices with them."""
        touched = set[int]()
        for row in sorted(rows):
            self._find_devices(row)
            touched |= self.network.place(row, self.nodes.get(row))
        if touched:
            self.generation += 1
        for row in sorted(rows | touched if self.network else touched):
            if (node := self.nodes.get(row)) is not None:
                node.counted_elsewhere, node.layout = self.network.counted_elsewhere(row), -1
        return touched

    def _find_devices(self, row: int) -> None:
        devices, counters, complete = self._locator.devices(row)
        old = self.nodes.pop(row, None)
        self.device_generation += 1
        if not devices and not self._occupancy.has_records(row):
            return
        listed = self._locator.plain_names(row)
        if old is not None and old.is_of(devices, counters, listed, complete):
            self.nodes[row] = old
            self.device_generation -= 1
        else:
            inventory = Inventory(devices, counters, complete=complete)
            selected, extended = self._selections(inventory, listed)
            self.nodes[row] = NodeDevices(inventory, selected, self._matcher, listed, extended)
            self.nodes[row].source = (devices, counters, listed, complete)
            self.nodes[row].structure = self._structures.setdefault(inventory.structure(), len(self._structures))

    def _is_bare(self, row: int) -> bool:
        """Whether a row without devices has to be examined: its pods have, or had, records of devices."""
        node = self.nodes.get(row)
        return self._occupancy.has_records(row) if node is None else not len(node.inventory)

    # -- questions --------------------------------------------------------------------------------------------

    def plain(self, shape: Shape) -> Plain:
        """The units of plain resources that a shape requests."""
        return self._occupancy.plain(shape)

    def resolve(self, asks: DeviceRequests | None, plain: Plain = ()) -> ResolvedRequests:
        """The current meaning of requests."""
        key = (asks, plain)
        if self._refusals != self.refusals:
            self._refusals = self.refusals
            self._resolved.clear()
        found = self._resolved.get(key)
        if found is None:
            if len(self._resolved) >= _KEPT:
                self._resolved.clear()
            found = self._resolved[key] = self._requests.resolve(asks, plain)
        return found

    @property
    def refusals(self) -> int:
        """Increases when an expression turns out to be unusable: requests that use it change their meaning."""
        return self._matcher.answers.refusals

    def prepare(self, asks: DeviceRequests, purse: Purse) -> bool:
        """Evaluates the expressions of claims on all devices; False if that has to continue in a later cycle."""
        selectors = self._selectors.get(asks)
        if selectors is None:
            if len(self._selectors) >= _KEPT:
                self._selectors.clear()
            selectors = self._selectors[asks] = self._requests.selectors(asks)
        before = self._matcher.early_answers
        known = all(
            self._matcher.prepare(selector, self._published(), self.device_generation, purse) for selector in selectors
        )
        if self._matcher.early_answers != before:
            self.generation += 1  # columns that were made of what was not known yet are dropped
        return known

    def kind_of(self, selector: ByClaim, find: Callable[[], int | None]) -> int | None:
        """The result of `find`, computed once per selector while it selects the same devices."""
        basis = self.generation, self.device_generation, len(self.nodes)
        if self._kinds_basis != basis or len(self._kinds) >= _KEPT:
            self._kinds, self._kinds_basis = {}, basis
        if selector not in self._kinds:
            if not self._matcher.is_prepared(selector):
                return None
            self._kinds[selector] = find()
        return self._kinds[selector]

    def _published(self) -> Iterator[Device]:
        for node in self.nodes.values():
            for slot in node.inventory.slots:
                device = slot.device
                if device.driver and device.healthy and device.reachable:
                    yield device

    def freed(self, task: Task) -> Vector:
        """What the end of a task would free for classes and resources beyond what it requested by name."""
        node = self.nodes.get(task.node)
        if node is None or not any(allocation.holder == task.key for allocation in node.allocations):
            return ()
        places, gives = self.class_places(node), dict[int, int]()
        for allocation in node.allocations:
            if allocation.holder == task.key:
                facts = node.inventory.slots[allocation.slot]
                milli = portion_milli(facts, allocation.portion)
                for slot in {allocation.slot, *facts.leaves, *node.inventory.groups_of[allocation.slot]}:
                    for place in places[slot]:
                        gives[place] = gives.get(place, 0) + milli
                for place in self._beside(node, allocation.slot, places):
                    gives[place] = gives.get(place, 0) + milli
                if node.is_plain(allocation.slot) and not allocation.plain:
                    place = self.axis.row(facts.device.unit_of)
                    gives[place] = gives.get(place, 0) + milli
        named = dict(task.shape.vector)
        known = {place for slot in places for place in slot}
        return tuple(
            (place, amount - (named.get(place, 0) if place in known else 0)) for place, amount in sorted(gives.items())
        )

    def _beside(self, node: NodeDevices, slot: int, places: list[tuple[int, ...]]) -> set[int]:
        """Classes of devices that become free only together with this one: they share its counters or its board.
        Without those that it frees anyway.
        """
        facts = node.inventory.slots[slot]
        if not facts.counters and not facts.boards:
            return set()
        counters, boards = {index for index, _ in facts.counters}, {board for board, _ in facts.boards}
        found = {
            place
            for other, beside in enumerate(node.inventory.slots)
            if not counters.isdisjoint(index for index, _ in beside.counters)
            or not boards.isdisjoint(board for board, _ in beside.boards)
            for place in places[other]
        }
        return found - set(places[slot])

    def class_of(self, selector: DeviceSelector) -> CompiledClass | None:
        """The ResourceClass that a selector names, in a claim too."""
        match selector:
            case ByClass(name):
                return self.classes.get(name)
            case ByClaim(name):
                return None if name in self._state.devices.device_classes else self.classes.get(name)
        return None

    def nodes_by_name(self) -> dict[str, NodeDevices]:
        """The nodes with devices, in order of name."""
        names = self._state.nodes.names
        return {names[row]: self.nodes[row] for row in sorted(self.nodes, key=lambda row: names[row])}

    def rows_with(self, pools: set[PoolKey]) -> set[int]:
        """The rows that may have devices of these pools."""
        return self._locator.rows_of(pools)

    def standing(self, name: str) -> ClassUse:
        return self.columns.standing(name)

    def layout(self, node: NodeDevices) -> int:
        """A number for all nodes on which the same requests can take the same slots, in the same order."""
        if node.layout < 0:
            layout = (node.structure, node.plain, node.network_slots, node.counted_elsewhere, tuple(node.selectable_by))
            node.layout = self._layouts.setdefault(layout, len(self._layouts))
        return node.layout

    def class_places(self, node: NodeDevices) -> list[tuple[int, ...]]:
        """For each slot the dimensions of the requested classes that could take it."""
        return [self.columns.places.of(names) for names in node.selectable_by]

    def warnings(self) -> list[str]:
        unserved = [
            f"deviceclass {name}: pods that request its extendedResourceName {known.spec.extended_resource_name} "
            "do not get its devices on a server older than 1.36, request them by claim"
            for name, known in sorted(self._state.devices.device_classes.items())
            if known.spec.extended_resource_name and not self._state.devices.serves_extended
        ]
        return [
            *self.aside.warnings(),
            *self.classes.problems(),
            *self.classes.warnings(),
            *self._locator.warnings(),
            *unserved,
        ]


def _object_key(kind: type[Any], key: str) -> ObjectKey:
    namespace, _, name = key.rpartition("/")
    return kind.__name__, namespace, name


def device_ledger(state: ClusterState) -> DeviceLedger:
    """The state's own ledger, updated."""
    ledger = state.derived.get(DeviceLedger)
    ledger.sync()
    return ledger


def check_ledger(state: ClusterState) -> None:
    """Raises InvariantError at the first difference between the kept ledger and a new one."""
    kept = state.derived.kept(DeviceLedger)
    if kept is not None:
        kept.check()
