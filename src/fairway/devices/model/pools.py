"""Which devices a node has: from pools of ResourceSlices, from its annotation, and as plain extended resources.

A driver republishes a pool under a higher generation; slices of older generations are on their way out and do not
count. A pool is not used at all while some of its slices are missing: half of it might contradict the other half. Nor
is a pool that contradicts itself: a device name or a counter set twice, or a counter that is not published.

A device is counted once. Where a node also lists the kind of its described devices as an extended resource, these are
units of that resource, and only the rest of it is a device without attributes. Devices that several nodes reach are
devices of each of them (`track.occupancy`).

Taints come from drivers, and from an administrator's rules (`DeviceTaintRule`), which name devices by driver, pool and
name; what a rule leaves out matches any. A group has the taints of its members: a pair of which one device is tainted
is not available without tolerating that taint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fairway.api.devices import DeviceTaint, DeviceTaintRule, DeviceTaintSelector, ResourceSlice
from fairway.api.pods import NodeSelector
from fairway.devices.model.device import ANNOTATION, WHOLE, Device, from_annotation, from_extended_resource, from_slice
from fairway.devices.model.inventory import CounterKey
from fairway.errors import InputError
from fairway.resources.quantity import parse_quantity
from fairway.state.cluster import ClusterState
from fairway.state.device_requests import CLASS_PREFIX
from fairway.state.labels import NAME_FIELD, term_holds


class TaintRules:
    """The rules by name; they apply in the order of their names."""

    def __init__(self) -> None:
        self._rules: dict[str, DeviceTaintRule] = {}

    def put(self, name: str, rule: DeviceTaintRule | None) -> list[DeviceTaintSelector]:
        """Adds or removes a rule; returns the selectors of the devices that it may affect."""
        before = self._rules.pop(name, None)
        if rule is not None:
            self._rules[name] = rule
        selectors = (one.spec.device_selector for one in (before, rule) if one is not None)
        return [selector for selector in selectors if selector is not None]

    def tainted(self, devices: tuple[Device, ...], driver: str, pool: str) -> tuple[Device, ...]:
        """The devices of a pool with the taints of all rules that match them."""
        by_name: dict[str | None, list[DeviceTaint]] = {}
        for name in sorted(self._rules):
            spec = self._rules[name].spec
            if spec.device_selector is not None and means_pool(spec.device_selector, driver, pool):
                by_name.setdefault(spec.device_selector.device, []).append(spec.taint)
        if not by_name:
            return devices
        for_all = by_name.get(None, [])
        return tuple(_with(device, (*for_all, *by_name.get(device.name, ()))) for device in devices)


def means_pool(selector: DeviceTaintSelector, driver: str, pool: str) -> bool:
    """Whether a rule may match devices of a pool."""
    return selector.driver in (None, driver) and selector.pool in (None, pool)


def with_members(devices: Iterable[Device]) -> Iterator[Device]:
    """The devices of a node, groups with the taints and the health of their members."""
    known = list(devices)
    if not any(device.members for device in known) or not any(_is_sick(device) for device in known):
        yield from known
        return
    by_name: dict[tuple[str, str, str], Device] = {(one.driver, one.pool, one.name): one for one in known}
    for device in known:
        parts = [part for part in _parts(device, by_name) if _is_sick(part)]
        taints = dict.fromkeys(taint for part in parts for taint in part.taints if taint not in device.taints)
        yield replace(_with(device, taints), healthy=all(one.healthy for one in (device, *parts))) if parts else device


def _is_sick(device: Device) -> bool:
    return bool(device.taints) or not device.healthy


def _parts(group: Device, by_name: Mapping[tuple[str, str, str], Device]) -> list[Device]:
    """All devices below a group, through nested groups; a group that contains itself ends here."""
    found: dict[str, Device] = {}
    ahead = list(group.members)
    while ahead:
        name = ahead.pop()
        part = by_name.get((group.driver, group.pool, name))
        if part is not None and name not in found:
            found[name] = part
            ahead += part.members
    return [found[name] for name in sorted(found)]


def _with(device: Device, taints: Iterable[DeviceTaint]) -> Device:
    more = tuple(taints)
    return replace(device, taints=(*device.taints, *more)) if more else device


PoolKey = tuple[str, str]
"""Driver and pool."""


class Reach(NamedTuple):
    """Devices that the same nodes reach: one node by name, those that a selector matches, or (neither) all."""

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
    """The current state of a pool. With a `problem` it is not used: it keeps the places it reaches, without devices."""

    key: PoolKey
    generation: int
    problem: str
    reaches: tuple[Reach, ...]
    counters: Mapping[CounterKey, int]
    spans: bool = False
    """Whether devices of different nodes share counters."""


class Pools:
    """All known slices, by name; a pool is assembled on first use after a change."""

    def __init__(self) -> None:
        self._slices: dict[str, ResourceSlice] = {}
        self._names: dict[PoolKey, set[str]] = {}
        self._pools: dict[PoolKey, Pool] = {}
        self._rules = TaintRules()

    def __iter__(self) -> Iterable[PoolKey]:
        return iter(sorted(self._names))

    def upsert(self, slice_: ResourceSlice) -> set[PoolKey]:
        """Adds a slice; returns the pools that may have changed."""
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
    """Raises what reading the slice raises: a pool is assembled only from readable slices."""
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
    """Why a pool is invalid by the rules of Kubernetes; "" if it is not."""
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
    """A selector that matches a single node by name is treated as that name."""
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


KIND_PREFIX = "devices.fairway.dev/"
"""Prefix of dimensions that count devices by kind, where no plain resource does."""

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage", "storage"})
_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-", CLASS_PREFIX, KIND_PREFIX)


def is_plain_resource(name: str) -> bool:
    """Whether a node's units of this resource are devices without attributes."""
    return name not in _NATIVE and not name.startswith(_NATIVE_PREFIXES)


def _beyond(here: Iterable[Device], away: Iterable[Device]) -> Iterator[Device]:
    """Devices that a node does not reach, but that take from the counter sets of devices that it does."""
    boards = {board for device in here for board in device.boards}
    for device in away:
        if not boards.isdisjoint(device.boards):
            yield replace(device, reachable=False)


class Locator:
    """The known slices, by the node they are on."""

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
        """Returns the rows whose devices may have changed."""
        return self._repool(self._pools.upsert(slice_))

    def delete_slice(self, name: str) -> set[int]:
        return self._repool(self._pools.delete(name))

    def upsert_taint_rule(self, rule: DeviceTaintRule) -> set[int]:
        """Returns the rows whose taints may have changed."""
        return self._repool(self._pools.upsert_rule(rule))

    def delete_taint_rule(self, name: str) -> set[int]:
        return self._repool(self._pools.delete_rule(name))

    def rows_of(self, pools: set[PoolKey]) -> set[int]:
        """The rows that may have devices of these pools."""
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
        """The devices of a row, their shared counters, and whether all pools of the row are used."""
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
