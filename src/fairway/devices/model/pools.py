"""ResourceSlices as pools of devices: which slices count, and which nodes reach what.

A driver republishes a pool under a higher generation; slices of older generations are on their way out and do not
count. A pool of which not all slices are there yet is not used at all: half of it might contradict the other half. Nor
is one that contradicts itself: a device name or a counter set twice, or a counter that is not published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from fairway.api.devices import DeviceTaintRule, ResourceSlice
from fairway.api.pods import NodeSelector
from fairway.devices.model.device import Device
from fairway.devices.model.inventory import CounterKey
from fairway.devices.model.sources import from_slice
from fairway.devices.model.tainting import TaintRules, means_pool
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
    """A pool as it counts now. With a `problem` it is not used: it still has the places it reaches, without devices."""

    key: PoolKey
    generation: int
    problem: str
    reaches: tuple[Reach, ...]
    counters: Mapping[CounterKey, int]
    spans: bool = False
    """Whether devices of different nodes share counters."""


class Pools:
    """All slices known, by name; a pool is put together when it is asked for after a change."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._names: dict[PoolKey, set[str]] = {}
        self._pools: dict[PoolKey, Pool] = {}
        self._rules = TaintRules()

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

    def upsert_rule(self, rule: DeviceTaintRule) -> set[PoolKey]:
        return self._rule_changed(rule.metadata.name, rule)

    def delete_rule(self, name: str) -> set[PoolKey]:
        return self._rule_changed(name, None)

    def _rule_changed(self, name: str, rule: DeviceTaintRule | None) -> set[PoolKey]:
        selectors = self._rules.put(name, rule)
        changed = {key for key in self._names if any(means_pool(selector, *key) for selector in selectors)}
        for key in changed:
            self._pools.pop(key, None)
        return changed

    def pool(self, key: PoolKey) -> Pool | None:
        names = self._names.get(key)
        if not names:
            return None
        pool = self._pools.get(key)
        if pool is None:
            pool = _put_together(key, [self._slices[name] for name in sorted(names)])
            reaches = (reach._replace(devices=self._rules.tainted(reach.devices, *key)) for reach in pool.reaches)
            pool = self._pools[key] = pool._replace(reaches=tuple(reaches))
        return pool

    def warnings(self) -> list[str]:
        """Pools that are not used, and why."""
        found = (self.pool(key) for key in sorted(self._names))
        return [
            f"pool {pool.key[1]} of driver {pool.key[0]}: {pool.problem}, its devices are not used"
            for pool in found
            if pool is not None and pool.problem
        ]


def pool_key(slice_: ResourceSlice) -> PoolKey:
    return slice_.spec.driver, slice_.spec.pool.name


def check_slice(slice_: ResourceSlice) -> None:
    """Raises what reading the slice raises: a pool is only put together from slices that can be read."""
    for counters in slice_.spec.shared_counters:
        for counter in counters.counters.values():
            parse_quantity(counter.value)
    for device in slice_.spec.devices:
        for capacity in device.capacity.values():
            for text in capacity.request_policy.texts().values() if capacity.request_policy else ():
                parse_quantity(text)
    for _ in _reaches(slice_):
        pass


def _put_together(key: PoolKey, slices: list[ResourceSlice]) -> Pool:
    generation = max(slice_.spec.pool.generation for slice_ in slices)
    current = [slice_ for slice_ in slices if slice_.spec.pool.generation == generation]
    reaches = [reach for slice_ in current for reach in _reaches(slice_)]
    if problem := _incomplete(generation, current) or _contradiction(current):
        return Pool(key, generation, problem, tuple(reach._replace(devices=()) for reach in reaches), {})
    counters = {
        (*key, counters.name, name): parse_quantity(counter.value).nanos
        for slice_ in current
        for counters in slice_.spec.shared_counters
        for name, counter in counters.counters.items()
    }
    spanning = _spanning(reaches)
    if spanning:
        reaches = [reach._replace(devices=tuple(_marked(reach.devices, spanning))) for reach in reaches]
    return Pool(key, generation, "", tuple(reaches), counters, bool(spanning))


def _incomplete(generation: int, current: list[ResourceSlice]) -> str:
    missing = max(slice_.spec.pool.resource_slice_count for slice_ in current) - len(current)
    return f"{missing} slice(s) of generation {generation} are missing" if missing > 0 else ""


def _contradiction(current: list[ResourceSlice]) -> str:
    """What makes a pool invalid as Kubernetes has it; "" if nothing does."""
    names = Counter(device.name for slice_ in current for device in slice_.spec.devices)
    if twice := [name for name, count in names.items() if count > 1]:
        return f"the device name {min(twice)!r} occurs more than once"
    published = [counters for slice_ in current for counters in slice_.spec.shared_counters]
    sets = Counter(counters.name for counters in published)
    if twice := [name for name, count in sets.items() if count > 1]:
        return f"the counter set {min(twice)!r} occurs more than once"
    known = {counters.name: counters.counters for counters in published}
    for device in (device for slice_ in current for device in slice_.spec.devices):
        for use in device.consumes_counters:
            if use.counter_set not in known:
                return f"device {device.name!r} uses the counter set {use.counter_set!r}, which is not published"
            if unknown := sorted(use.counters.keys() - known[use.counter_set].keys()):
                return (
                    f"device {device.name!r} uses the counter {unknown[0]!r}, which {use.counter_set!r} does not have"
                )
    return ""


def _spanning(reaches: Iterable[Reach]) -> frozenset[str]:
    """The counter sets that devices of different places take from."""
    places: dict[str, set[tuple[str, NodeSelector | None]]] = {}
    for reach in reaches:
        for name in {name for device in reach.devices for name in device.boards}:
            places.setdefault(name, set()).add((reach.node, reach.selector))
    return frozenset(name for name, found in places.items() if len(found) > 1)


def _marked(devices: Iterable[Device], spanning: frozenset[str]) -> Iterator[Device]:
    for device in devices:
        yield device if spanning.isdisjoint(device.boards) else msgspec.structs.replace(device, spans=True)


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
