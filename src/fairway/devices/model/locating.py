"""Which devices a node has: from slices, from its annotation, and as plain extended resources.

A device is counted once. Where a node also lists the kind of its described devices as an extended resource, these are
units of that resource, and only what is left of it is a device without attributes.

Devices that several nodes reach are devices of each of them (see `far`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from fairway.api.devices import DeviceTaintRule, ResourceSlice
from fairway.devices.model.device import WHOLE, Device
from fairway.devices.model.inventory import CounterKey
from fairway.devices.model.pools import PoolKey, Pools
from fairway.devices.model.sources import ANNOTATION, from_annotation, from_extended_resource
from fairway.devices.model.tainting import with_members
from fairway.errors import InputError
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX

KIND_PREFIX = "devices.fairway.dev/"
"""Dimensions that count devices by kind, where no plain resource does."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})
_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-", CLASS_PREFIX, KIND_PREFIX)


def is_plain_resource(name: str) -> bool:
    """Whether a node's units of this resource are devices without attributes."""
    return name not in _NATIVE and not name.startswith(_NATIVE_PREFIXES)


def _beyond(here: Iterable[Device], away: Iterable[Device]) -> Iterator[Device]:
    """Devices that a node does not reach, but that take from the counter sets of those it does."""
    boards = {board for device in here for board in device.boards}
    for device in away:
        if not boards.isdisjoint(device.boards):
            yield replace(device, reachable=False)


class Locator:
    """The slices known, by the node they are on."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._pools = Pools()
        self._on_node: dict[str, set[PoolKey]] = {}
        self._nodes_of: dict[PoolKey, set[str]] = {}
        self._bad_annotations: dict[int, str] = {}
        self._network: set[PoolKey] = set()
        """Pools with devices that several nodes may reach."""

    # -- slices -----------------------------------------------------------------------------------------------

    def upsert_slice(self, slice_: ResourceSlice) -> set[int]:
        """Returns the rows whose devices may be others now."""
        return self._repool(self._pools.upsert(slice_))

    def delete_slice(self, name: str) -> set[int]:
        return self._repool(self._pools.delete(name))

    def upsert_taint_rule(self, rule: DeviceTaintRule) -> set[int]:
        """Returns the rows whose devices may be tainted in another way now."""
        return self._repool(self._pools.upsert_rule(rule))

    def delete_taint_rule(self, name: str) -> set[int]:
        return self._repool(self._pools.delete_rule(name))

    def rows_of(self, pools: set[PoolKey]) -> set[int]:
        """The rows on which there may be devices of these pools."""
        if not self._network.isdisjoint(pools):
            return set(range(len(self._state.nodes)))
        return self._rows({name for pool in pools for name in self._nodes_of.get(pool, ())})

    def _repool(self, keys: set[PoolKey]) -> set[int]:
        names: set[str] = set()
        everywhere = False
        for key in keys:
            before = self._nodes_of.pop(key, set())
            for name in before:
                self._on_node.get(name, set()).discard(key)
            everywhere |= key in self._network
            self._network.discard(key)
            pool = self._pools.pool(key)
            reaches = pool.reaches if pool else ()
            if pool is not None and (pool.spans or any(not reach.node for reach in reaches)):
                self._network.add(key)
                everywhere = True
            reached = self._nodes_of[key] = {reach.node for reach in reaches if reach.node}
            for name in reached:
                self._on_node.setdefault(name, set()).add(key)
            names |= before | reached
        return set(range(len(self._state.nodes))) if everywhere else self._rows(names)

    def _rows(self, names: set[str]) -> set[int]:
        rows = self._state.nodes.rows
        return {rows[name] for name in names if name in rows}

    # -- nodes ------------------------------------------------------------------------------------------------

    def devices(self, row: int) -> tuple[list[Device], dict[CounterKey, int], bool]:
        """The devices of a row, the counters that they share, and whether all pools of the row are used."""
        nodes = self._state.nodes
        self._bad_annotations.pop(row, None)
        if not nodes.alive[row]:
            return [], {}, True
        name = nodes.names[row]
        devices, counters = list(self._annotated(row)), dict[CounterKey, int]()
        labels, complete = nodes.labels.at(row), True
        for key in sorted({*self._on_node.get(name, ()), *self._network}):
            pool = self._pools.pool(key)
            assert pool is not None  # it is on a node only while it is there
            here = [reach for reach in pool.reaches if reach.includes(name, labels)]
            complete &= not (pool.problem and here)
            found = [device for reach in here for device in reach.devices]
            if found:
                counters.update(pool.counters)
            devices += found
            if pool.spans:
                away = (device for reach in pool.reaches if reach not in here for device in reach.devices)
                devices += _beyond(found, away)
        devices = list(with_members(devices))
        devices += self._plain(row, devices)
        return devices, counters, complete

    def _annotated(self, row: int) -> tuple[Device, ...]:
        nodes = self._state.nodes
        text = nodes.annotations[row].get(ANNOTATION)
        if text is None:
            return ()
        try:
            return from_annotation(nodes.names[row], text)
        except InputError as error:
            self._bad_annotations[row] = str(error)
            return ()

    def _plain(self, row: int, described: list[Device]) -> Iterator[Device]:
        nodes = self._state.nodes
        for place, amount in nodes.listed(row):
            if is_plain_resource(name := nodes.axis.names[place]):
                known = sum(d.quantity for d in described if d.unit_of == name and d.node)
                if (left := amount // WHOLE - known) > 0:
                    yield from_extended_resource(nodes.names[row], name, left)

    def plain_names(self, row: int) -> frozenset[str]:
        """The extended resources that a node lists."""
        nodes = self._state.nodes
        names = (nodes.axis.names[place] for place, _ in nodes.listed(row))
        return frozenset(name for name in names if is_plain_resource(name))

    def warnings(self) -> list[str]:
        return [*(self._bad_annotations[row] for row in sorted(self._bad_annotations)), *self._pools.warnings()]
