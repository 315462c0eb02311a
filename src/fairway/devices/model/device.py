"""A device, or a group of like units, on a node, from any source (see `sources`).

Selectors see it through `lookup` only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fairway.api.devices import CapacityRequestPolicy, DeviceTaint
from fairway.devices.model.units import of_quantity
from fairway.devices.model.values import Text, Value
from fairway.resources.quantity import Quantity

IDENTITY = {
    "Kind": "kind",
    "Type": "kind",
    "driver": "driver",
    "pool": "pool",
    "device": "name",
    "node": "node",
}
"""Keys that ask what a device is, not what it publishes, and the field that answers. `Type` is an alias."""

WHOLE = 1000
"""A unit, in thousandths."""

BLOCKING = ("NoSchedule", "NoExecute")
"""The effects of a taint that keep pods away which do not tolerate it."""

NUMA_KEYS = ("numa", "numaNode", "resource.kubernetes.io/numaNode")
"""Attributes that say on which NUMA node a device is; the first that is there counts."""


class DeviceId(NamedTuple):
    """Where a device is, in the stable order of selection within a node."""

    node: str
    driver: str
    pool: str
    name: str


class CounterUse(msgspec.Struct, frozen=True):
    """What one use of a device takes from a counter that it shares with others of its pool."""

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
    """How the capacity of a shared device may be cut, by qualified name."""
    boards: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """For each counter set that it takes from, its compatibility groups there."""
    spans: bool = False
    """Whether devices of other nodes take from the same counter sets."""
    reachable: bool = True
    """False on nodes that know the device only because it takes from the counter sets of theirs."""
    binding_conditions: tuple[str, ...] = ()
    """What its driver sets once a pod to which it is allocated may be bound;"""
    binding_failure_conditions: tuple[str, ...] = ()
    """or where it cannot be."""
    resource: str = ""
    """The extended resource of its node that it is a unit of, where that is not its kind."""

    @property
    def usable(self) -> bool:
        """Whether a request without tolerations may be given it."""
        return self.healthy and self.reachable and not any(taint.effect in BLOCKING for taint in self.taints)

    @property
    def unit_of(self) -> str:
        """The extended resource that counts it, if the node lists that. A group is none of the units: its members
        are.
        """
        return "" if self.members else self.resource or self.kind

    @property
    def id(self) -> DeviceId:
        return DeviceId(self.node, self.driver, self.pool, self.name)

    def lookup(self, key: str) -> Value | None:
        """What a class means by `key`: first what the device is, then its attributes, then its capacity."""
        if field := IDENTITY.get(key):
            identity: str = getattr(self, field)
            return Text(identity) if identity else None
        name = qualified(key, self.driver)
        if (value := self.attributes.get(name)) is not None:
            return value
        quantity = self.capacity.get(name)
        return None if quantity is None else of_quantity(quantity)

    def numa(self) -> str | None:
        """The NUMA node it is on, if it says so."""
        for key in NUMA_KEYS:
            value = self.attributes.get(qualified(key, self.driver))
            if value is not None:
                return value.text
        return None


def qualified(name: str, driver: str) -> str:
    """The name with its domain, which is the driver's own if it has none."""
    return name if "/" in name or not driver else f"{driver}/{name}"
