"""What the node has, ready to be published: pools of devices with names, attributes and health, by offers and mapping.

One pool for each resource, so that what one plugin does changes nothing of another's. A group is a device that consists
of others of its pool; it is healthy if all of them are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fairway.agent.limits import MAX_FACTS
from fairway.agent.mapping import MAX_TEXT, DeviceMapping, MappedGroup, fits_text, merged_facts, typed
from fairway.agent.names import device_names, pool_name
from fairway.agent.offers import ListedDevice
from fairway.api.devices import Device, DeviceAttribute, DeviceTaint

Offers = Mapping[str, Sequence[ListedDevice]]

UNHEALTHY = DeviceTaint(key="fairway.dev/unhealthy", effect="NoSchedule")
"""For schedulers that do not read the attribute `healthy`. Pods that use the device are left alone, as by a kubelet."""


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """One device of a pool, and the ids that its plugin knows it by: several for a group."""

    ids: tuple[str, ...]
    healthy: bool
    published: Device
    shareable: bool = False


@dataclass(frozen=True, slots=True)
class DevicePool:
    name: str
    resource: str
    devices: Mapping[str, PoolDevice] = field(default_factory=dict)
    """By the published name, in order."""
    left_out: tuple[str, ...] = ()
    """Groups that a slice cannot hold: the names of their members take too many attributes."""


def build_pools(node: str, offers: Offers, mapping: DeviceMapping, labels: Mapping[str, str]) -> dict[str, DevicePool]:
    """By the name of the pool."""
    pools = (_pool(node, resource, listed, mapping, labels) for resource, listed in sorted(offers.items()))
    return {pool.name: pool for pool in pools}


def _pool(
    node: str, resource: str, listed: Sequence[ListedDevice], mapping: DeviceMapping, labels: Mapping[str, str]
) -> DevicePool:
    groups = [group for group in mapping.groups(resource) if set(group.members) <= {one.id for one in listed}]
    names = device_names(one.id for one in listed)
    taken = set(names.values())
    kind = mapping.kind(resource)
    devices = {names[one.id]: _single(one, names[one.id], resource, kind, mapping, labels) for one in listed}
    known = {one.id: one for one in listed}
    left_out = []
    for group in groups:
        if group.name not in taken:
            made = _group(group, [known[one] for one in group.members], names, kind, labels)
            if len(made.published.attributes) + len(made.published.capacity) <= MAX_FACTS:
                devices[group.name] = made
            else:
                left_out.append(group.name)
    return DevicePool(pool_name(node, resource), resource, dict(sorted(devices.items())), tuple(left_out))


def _single(
    one: ListedDevice, name: str, resource: str, kind: str, mapping: DeviceMapping, labels: Mapping[str, str]
) -> PoolDevice:
    said, capacity = mapping.facts(resource, one.id, labels)
    attributes = {"kind": typed(kind), **one.attributes, **_place(one.numa), **said}
    if fits_text(one.id):
        attributes.setdefault("id", typed(one.id))
    capacities = {**one.capacity, **capacity}
    published = Device(name, _health(attributes, one.healthy), capacities, taints=_taints(one.healthy))
    return PoolDevice((one.id,), one.healthy, published, _is_shareable(attributes))


def _group(
    group: MappedGroup, members: Sequence[ListedDevice], names: Mapping[str, str], kind: str, labels: Mapping[str, str]
) -> PoolDevice:
    said, capacity = merged_facts([group], labels)
    healthy = all(member.healthy for member in members)
    numa = tuple(sorted({node for member in members for node in member.numa}))
    attributes = {"kind": typed(kind), **_place(numa), **said, **_members([names[member.id] for member in members])}
    published = Device(group.name, _health(attributes, healthy), capacity, taints=_taints(healthy))
    return PoolDevice(group.members, healthy, published, _is_shareable(attributes))


def _place(numa: tuple[int, ...]) -> dict[str, DeviceAttribute]:
    """A device on several NUMA nodes says them all, as text."""
    if len(numa) == 1:
        return {"numaNode": typed(numa[0])}
    text = ",".join(map(str, numa))
    return {"numaNodes": typed(text)} if fits_text(text) else {}


def _members(names: Sequence[str]) -> dict[str, DeviceAttribute]:
    """Texts of names with commas, as many as are needed: `members`, `members2`, ..."""
    texts = [""]
    for name in names:
        longer = f"{texts[-1]},{name}" if texts[-1] else name
        if len(longer) <= MAX_TEXT:
            texts[-1] = longer
        else:
            texts.append(name)
    return {f"members{index + 1 if index else ''}": typed(text) for index, text in enumerate(texts)}


def _health(attributes: dict[str, DeviceAttribute], healthy: bool) -> dict[str, DeviceAttribute]:
    return attributes if healthy else {**attributes, "healthy": typed(False)}


def _taints(healthy: bool) -> tuple[DeviceTaint, ...]:
    return () if healthy else (UNHEALTHY,)


def _is_shareable(attributes: Mapping[str, DeviceAttribute]) -> bool:
    found = attributes.get("shareable")
    return found is not None and found.bool_value is True
