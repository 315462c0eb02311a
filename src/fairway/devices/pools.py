"""ResourceSlices as pools of devices: which slices count, and which nodes reach what.

A driver republishes a pool under a higher generation; slices of older generations are on their way out and do not
count. A pool of which not all slices are there yet is not used at all: half of it might contradict the other half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from fairway.api.affinity import NodeSelector
from fairway.api.devices import ResourceSlice
from fairway.devices.device import Device
from fairway.devices.inventory import CounterKey
from fairway.devices.sources import from_slice
from fairway.resources.quantity import parse_quantity
from fairway.state.labels import NAME_FIELD, term_holds

PoolKey = tuple[str, str]
"""Driver and pool."""


class Reach(NamedTuple):
    """Devices that the same nodes reach: one node by name, those a selector matches, or (neither) all."""

    node: str
    selector: NodeSelector | None
    devices: tuple[Device, ...]

    def includes(self, node: str, labels: Mapping[str, str]) -> bool:
        if self.node:
            return node == self.node
        return self.selector is None or any(
            term_holds(term, node, labels) for term in self.selector.node_selector_terms
        )


class Pool(NamedTuple):
    """A pool as it counts now. With a `fault` it is not used."""

    key: PoolKey
    generation: int
    fault: str
    reaches: tuple[Reach, ...]
    counters: Mapping[CounterKey, int]


class Pools:
    """All slices known, by name; a pool is put together when it is asked for after a change."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._names: dict[PoolKey, set[str]] = {}
        self._pools: dict[PoolKey, Pool] = {}

    def __iter__(self) -> Iterable[PoolKey]:
        return iter(sorted(self._names))

    def upsert(self, slice_: ResourceSlice) -> set[PoolKey]:
        """Take a slice in; returns the pools that may be others now."""
        changed = self.delete(slice_.metadata.name)
        name, key = slice_.metadata.name, pool_key(slice_)
        self._slices[name] = slice_
        self._names.setdefault(key, set()).add(name)
        self._pools.pop(key, None)
        return changed | {key}

    def delete(self, name: str) -> set[PoolKey]:
        slice_ = self._slices.pop(name, None)
        if slice_ is None:
            return set()
        key = pool_key(slice_)
        self._names[key].discard(name)
        self._pools.pop(key, None)
        if not self._names[key]:
            del self._names[key]
        return {key}

    def pool(self, key: PoolKey) -> Pool | None:
        names = self._names.get(key)
        if not names:
            return None
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _put_together(key, [self._slices[name] for name in sorted(names)])
        return pool

    def warnings(self) -> list[str]:
        """Pools that are not used, and why."""
        found = (self.pool(key) for key in sorted(self._names))
        return [
            f"pool {pool.key[1]} of driver {pool.key[0]}: {pool.fault}, its devices are not used"
            for pool in found
            if pool is not None and pool.fault
        ]


def pool_key(slice_: ResourceSlice) -> PoolKey:
    return slice_.spec.driver, slice_.spec.pool.name


def _put_together(key: PoolKey, slices: list[ResourceSlice]) -> Pool:
    generation = max(slice_.spec.pool.generation for slice_ in slices)
    current = [slice_ for slice_ in slices if slice_.spec.pool.generation == generation]
    wanted = max(slice_.spec.pool.resource_slice_count for slice_ in current)
    missing = max(0, wanted - len(current))
    if missing:
        return Pool(key, generation, f"{missing} slice(s) of generation {generation} are missing", (), {})
    counters = {
        (*key, counters.name, name): parse_quantity(counter.value).nanos
        for slice_ in current
        for counters in slice_.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    reaches = tuple(reach for slice_ in current for reach in _reaches(slice_))
    sharing = {(reach.node, reach.selector) for reach in reaches if any(device.consumes for device in reach.devices)}
    if len(sharing) > 1:
        return Pool(key, generation, "devices of different nodes share counters", (), {})
    return Pool(key, generation, "", reaches, counters)


def _reaches(slice_: ResourceSlice) -> Iterable[Reach]:
    spec = slice_.spec
    devices = from_slice(spec)
    if not spec.per_device_node_selection:
        yield _reach(spec.node_name, spec.node_selector, devices)
        return
    for published, device in zip(spec.devices, devices, strict=True):
        yield _reach(published.node_name, published.node_selector, (device,))


def _reach(node: str, selector: NodeSelector | None, devices: tuple[Device, ...]) -> Reach:
    """A selector that can only mean one node is as good as its name."""
    if node or selector is None or not (single := _single_node(selector)):
        return Reach(node, selector, devices)
    return Reach(single, None, tuple(msgspec.structs.replace(device, node=single) for device in devices))


def _single_node(selector: NodeSelector) -> str:
    if len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    for requirement in (*term.match_fields, *term.match_expressions):
        named = requirement.key == NAME_FIELD and requirement.operator == "In"
        if named and len(requirement.values) == 1:
            return requirement.values[0]
    return ""
