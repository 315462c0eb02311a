"""A device, or a group of like units, on a node, and the three sources of devices: what a driver publishes in
ResourceSlices, a node's annotation, and extended resources.

Selectors read a device through `lookup` only, so a class selects the same devices whatever their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Annotated, Any, NamedTuple

import msgspec

from fairway.api.devices import CapacityRequestPolicy, DeviceAttribute, DeviceTaint, ResourceSliceSpec
from fairway.api.devices import Device as PublishedDevice
from fairway.devices.model.values import (
    Flag,
    Many,
    Raw,
    Text,
    Unreadable,
    Value,
    of_int,
    of_quantity,
    published_version,
)
from fairway.errors import InputError
from fairway.resources.quantity import Quantity, parse_quantity

IDENTITY = {
    "Kind": "kind",
    "Type": "kind",
    "driver": "driver",
    "pool": "pool",
    "device": "name",
    "node": "node",
}
"""Keys for what a device is, not what it publishes, and the field of each. `Type` is an alias."""

WHOLE = 1000
"""A unit, in thousandths."""

BLOCKING = ("NoSchedule", "NoExecute")
"""The effects of a taint that exclude pods without a toleration."""

NUMA_KEYS = ("numa", "numaNode", "resource.kubernetes.io/numaNode")
"""Attributes that hold the NUMA node of a device; the first that is present counts."""


class DeviceId(NamedTuple):
    """Where a device is, in the stable order of selection within a node."""

    node: str
    driver: str
    pool: str
    name: str


class CounterUse(msgspec.Struct, frozen=True):
    """What one use of a device takes from a counter that it shares with other devices of its pool."""

    counter_set: str
    counter: str
    amount: Quantity


class Device(msgspec.Struct, frozen=True):
    """`quantity` like units behind one name, and all that a class can ask about them.

    Attribute and capacity names are qualified (`domain/id`); a bare one belongs to the driver's own domain.
    `node` is empty where a device can be reached from several nodes. A *group* (an NVLink pair, a NUMA node) names
    its members, devices of the same driver and pool: it is whole or not to be had, and takes them along.
    """

    node: str
    driver: str
    pool: str
    name: str
    kind: str
    quantity: int = 1
    attributes: Mapping[str, Value] = msgspec.field(default_factory=dict)
    capacity: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    taints: tuple[DeviceTaint, ...] = ()
    shareable: bool = False
    consumes: tuple[CounterUse, ...] = ()
    members: tuple[str, ...] = ()
    healthy: bool = True
    policies: Mapping[str, CapacityRequestPolicy] = msgspec.field(default_factory=dict)
    """How the capacity of a shared device may be divided, by qualified name."""
    boards: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """Its compatibility groups, by counter set."""
    spans: bool = False
    """Whether devices of other nodes take from the same counter sets."""
    reachable: bool = True
    """False on nodes that have the device only because it takes from their counter sets."""
    binding_conditions: tuple[str, ...] = ()
    """Conditions that its driver sets once a pod that has it may be bound."""
    binding_failure_conditions: tuple[str, ...] = ()
    """Conditions that its driver sets if such a pod cannot be bound."""
    resource: str = ""
    """The extended resource of its node that counts it, if that is not its kind."""

    @property
    def usable(self) -> bool:
        """Whether a request without tolerations may use it."""
        return self.healthy and self.reachable and not any(taint.effect in BLOCKING for taint in self.taints)

    @property
    def unit_of(self) -> str:
        """The extended resource that counts it, if the node lists that. Groups are not counted: their members are."""
        return "" if self.members else self.resource or self.kind

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.node, self.driver, self.pool, self.name)

    def lookup(self, key: str) -> Value | None:
        """The value of `key`: first what the device is, then its attributes, then its capacity."""
        if field := IDENTITY.get(key):
            identity: str = getattr(self, field)
            return Text(identity) if identity else None
        name = qualified(key, self.driver)
        if (value := self.attributes.get(name)) is not None:
            return value
        quantity = self.capacity.get(name)
        return None if quantity is None else of_quantity(quantity)

    def numa(self) -> str | None:
        """Its NUMA node, if it publishes one."""
        for key in NUMA_KEYS:
            value = self.attributes.get(qualified(key, self.driver))
            if value is not None:
                return value.text
        return None


def qualified(name: str, driver: str) -> str:
    """The name with its domain, by default the driver's own."""
    return name if "/" in name or not driver else f"{driver}/{name}"


ANNOTATION = "fairway.dev/devices"
"""On a node without a driver: a JSON list of `{name, kind, quantity, attributes}`, and where it applies `members`
(names of devices of the list), `healthy: false`, `taints` as in a ResourceSlice, and `resource`, the extended resource
of the node that counts the device, where that is not its kind."""

MEMBERS, HEALTHY, SHAREABLE = "members", "healthy", "shareable"
"""Attributes of the driver's own domain by which a slice says what the annotation has fields for."""


class _Annotated(msgspec.Struct, frozen=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    kind: str = ""
    quantity: Annotated[int, msgspec.Meta(ge=0, le=2**31)] = 1
    attributes: dict[str, Any] = {}
    members: tuple[str, ...] = ()
    healthy: bool = True
    taints: tuple[DeviceTaint, ...] = ()
    resource: str = ""


_ANNOTATION = msgspec.json.Decoder(list[_Annotated], float_hook=Raw)


def from_slice(spec: ResourceSliceSpec) -> tuple[Device, ...]:
    """The devices of one ResourceSlice; `node` is empty where a node selector decides which nodes reach it."""
    return tuple(_published(spec, device) for device in spec.devices)


def from_annotation(node: str, text: str) -> tuple[Device, ...]:
    """The devices of the node annotation, in order. All attributes are raw text, numbers as written."""
    try:
        entries = _ANNOTATION.decode(text)
        devices = tuple(_annotated(node, entry) for entry in entries)
    except (msgspec.MsgspecError, InputError, RecursionError) as error:
        raise InputError(
            f"node {node}: annotation {ANNOTATION}: {error}, expected a list of "
            '{"name", "kind", "quantity", "attributes"}'
        ) from None
    names = [device.name for device in devices]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"node {node}: annotation {ANNOTATION}: device {twice!r} is listed twice")
    for device in devices:
        _check_members(node, device, names)
    return devices


def _check_members(node: str, device: Device, names: list[str]) -> None:
    where = f"node {node}: annotation {ANNOTATION}: device {device.name!r}"
    for member in device.members:
        if member not in names or member == device.name:
            raise InputError(f"{where} has the member {member!r}, expected another device of the list")
    if len(set(device.members)) < len(device.members):
        raise InputError(f"{where} has a member twice")
    if device.members and device.quantity != 1:
        raise InputError(f"{where} is a group of quantity {device.quantity}, expected 1")


def from_extended_resource(node: str, resource: str, count: int) -> Device:
    """`count` units of an extended or opaque integer resource: a device without attributes."""
    return Device(node=node, driver="", pool="", name=resource, kind=resource, quantity=count)


def _published(spec: ResourceSliceSpec, device: PublishedDevice) -> Device:
    attributes = {qualified(n, spec.driver): _attribute(a) for n, a in device.attributes.items()}
    return Device(
        node=spec.node_name or device.node_name,
        driver=spec.driver,
        pool=spec.pool.name,
        name=device.name,
        kind=_published_kind(attributes, spec.driver),
        attributes=attributes,
        capacity={qualified(n, spec.driver): parse_quantity(c.value) for n, c in device.capacity.items()},
        taints=device.taints,
        shareable=device.allow_multiple_allocations or _says(attributes, spec.driver, SHAREABLE, True),
        consumes=tuple(
            CounterUse(use.counter_set, name, parse_quantity(counter.value))
            for use in device.consumes_counters
            for name, counter in sorted(use.counters.items())
        ),
        boards={use.counter_set: frozenset(use.compatibility_groups) for use in device.consumes_counters},
        members=_published_members(attributes, spec.driver),
        healthy=not _says(attributes, spec.driver, HEALTHY, False),
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        policies={
            qualified(n, spec.driver): c.request_policy
            for n, c in device.capacity.items()
            if c.request_policy is not None
        },
    )


def _published_kind(attributes: Mapping[str, Value], driver: str) -> str:
    """The string attribute `kind`, else `type`, else the driver; an empty string is ignored."""
    for name in ("kind", "type"):
        value = attributes.get(qualified(name, driver))
        if isinstance(value, Text) and value.text:
            return value.text
    return driver


def _published_members(attributes: Mapping[str, Value], driver: str) -> tuple[str, ...]:
    """A list of names, or, for drivers that cannot publish lists, a text with commas; where that is too long for one
    attribute it continues in `members2`, `members3` and so on.
    """
    found: list[str] = []
    for number in count(1):
        match attributes.get(qualified(MEMBERS if number == 1 else f"{MEMBERS}{number}", driver)):
            case Many(items):
                found += [item.text for item in items]
            case Text(text):
                found += [name.strip() for name in text.split(",") if name.strip()]
            case _:
                break
    return tuple(found)


def _says(attributes: Mapping[str, Value], driver: str, name: str, flag: bool) -> bool:
    return attributes.get(qualified(name, driver)) in (Flag(flag), Raw("true" if flag else "false"))


def _attribute(attribute: DeviceAttribute) -> Value:
    if attribute.int_value is not None:
        return of_int(attribute.int_value)
    if attribute.bool_value is not None:
        return Flag(attribute.bool_value)
    if attribute.string_value is not None:
        return Text(attribute.string_value)
    if attribute.version_value is not None:
        return published_version(attribute.version_value)
    items = (
        *map(of_int, attribute.int_values),
        *map(Flag, attribute.bool_values),
        *map(Text, attribute.string_values),
        *map(published_version, attribute.version_values),
    )
    return Many(items) if items else Unreadable("")


def _annotated(node: str, entry: _Annotated) -> Device:
    attributes = {name: _raw(name, value) for name, value in entry.attributes.items()}
    return Device(
        node=node,
        driver="",
        pool="",
        name=entry.name,
        kind=entry.kind,
        quantity=entry.quantity,
        attributes=attributes,
        shareable=_says(attributes, "", SHAREABLE, True),
        members=entry.members,
        healthy=entry.healthy and not _says(attributes, "", HEALTHY, False),
        taints=entry.taints,
        resource=entry.resource,
    )


def _raw(name: str, value: Any) -> Value:
    if isinstance(value, list):
        return Many(tuple(_raw_scalar(name, item) for item in value))
    return _raw_scalar(name, value)


def _raw_scalar(name: str, value: Any) -> Raw:
    match value:
        case Raw():
            return value
        case bool():
            return Raw("true" if value else "false")
        case str() | int():
            return Raw(str(value))
    raise InputError(f"attribute {name!r} is neither a text, a number, true or false, nor a list of those")
