"""Which class and which device the options of `fairway classes` mean."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from fairway.api.shape import did_you_mean
from fairway.devices.track.report import devices, unusable_because
from fairway.errors import InputError

if TYPE_CHECKING:
    from fairway.devices.model.device import Device
    from fairway.devices.select.classes import CompiledClass
    from fairway.devices.track.ledger import DeviceLedger

_MANY = 20
"""Names that are all listed where none is near the one that was given."""


class FoundDevice(NamedTuple):
    """A device, whether the class selects it, and what keeps it from being given all the same."""

    device: Device
    selected: bool
    unusable: str


def find_class(ledger: DeviceLedger, name: str) -> CompiledClass:
    known = ledger.classes.get(name)
    if known is None:
        raise InputError(f"--class: {name} does not exist{_instead(name, [found.name for found in ledger.classes])}")
    return known


def find_device(ledger: DeviceLedger, class_name: str, name: str, node: str | None) -> FoundDevice:
    """The one device that is meant; `name` may be NODE/DEVICE or NODE/POOL/DEVICE too."""
    nodes = ledger.nodes_by_name()
    if node is not None and node not in nodes:
        raise InputError(f"--node: {node} does not exist or has no devices{_instead(node, nodes)}")
    here = [
        FoundDevice(device, class_name in there.selected[slot], unusable_because(there, slot, class_name))
        for there, slot, device in devices(ledger, node)
    ]
    named = [found for found in here if name in names_of(found.device)]
    if not named:
        where = f" on node {node}" if node is not None else ""
        near = {known for found in here for known in names_of(found.device)[: 2 if "/" in name else 1]}
        raise InputError(f"--device: {name} does not exist{where}{_instead(name, near)}")
    if len(named) > 1:
        raise InputError(_which([found.device for found in named], name))
    return named[0]


def names_of(device: Device) -> tuple[str, ...]:
    """The names by which a device may be meant, the shortest first. One that several nodes reach has no node."""
    if not device.node:
        return device.name, f"{device.pool}/{device.name}", f"{device.pool}/{device.name}"
    return device.name, f"{device.node}/{device.name}", f"{device.node}/{device.pool}/{device.name}"


def _which(devices: list[Device], name: str) -> str:
    _, on_node, in_pool = names_of(devices[0])
    unique = [names_of(device)[1] for device in devices].count(on_node) == 1
    ways = f"--node {devices[0].node} or {on_node}" if unique and devices[0].node else in_pool
    return f"--device: {len(devices)} devices are named {name}, expected one of them, for example {ways}"


def _instead(name: str, known: Collection[str]) -> str:
    hint = did_you_mean(name, known)
    return hint if "did you mean" in hint or len(known) <= _MANY else f", expected one of {len(known)} others"
